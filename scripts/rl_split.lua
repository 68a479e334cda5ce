-- A step of reinforcement learning against how many of the GPUs train: taking turns, side by side, and all together.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "step of reinforcement learning against the GPUs that train",
  model = "llama-3.1-8b", system = "h100-sxm",
  { long = "gpus", short = "g", value = "N", kind = "integer", min = 2, default = 16, help = "GPUs in all" },
  { long = "prompts", value = "N", kind = "integer", min = 1, default = 64, help = "prompts of a step" },
  { long = "samples", value = "N", kind = "integer", min = 1, default = 16, help = "responses to each" },
  { long = "prompt", value = "N", kind = "integer", min = 1, default = 150, help = "tokens of a prompt" },
  { long = "mean", value = "N", kind = "integer", min = 1, default = 1000, help = "tokens of a response, on average" },
  { long = "longest", value = "N", kind = "integer", min = 1, default = 4096, help = "tokens of the longest" },
}

local found = tperf.search_rl {
  model = o.model, system = o.system, gpus = o.gpus, prompts = o.prompts, samples = o.samples, prompt = o.prompt,
  response = { mean = o.mean, max = o.longest }, staleness = 1, top = 10000,
}

-- The best layouts of each mode and split.
local best, rows = {}, {}
for _, d in ipairs(found.deployments) do
  local key = d.mode .. " " .. d.train_gpus
  if not best[key] then
    best[key] = true
    rows[#rows + 1] = { mode = d.mode, train_gpus = d.train_gpus, rollout_gpus = d.rollout_gpus, step = d.step,
      bound = d.bound, training = d.busy.training, rollout = d.busy.rollout, gpu_hours = d.gpu_hours }
  end
end
table.sort(rows, function(a, b)
  if a.mode ~= b.mode then return a.mode < b.mode end
  return a.train_gpus < b.train_gpus
end)

report.print(rows, {
  { key = "mode" }, { key = "train_gpus", title = "train" }, { key = "rollout_gpus", title = "roll out" },
  { key = "step", unit = "s" }, { key = "bound" }, { key = "training", title = "training busy", unit = "%" },
  { key = "rollout", title = "rollout busy", unit = "%" },
}, { title = ("A step of %s on %d %s"):format(report.short(o.model), o.gpus, report.short(o.system)) })
report.save("rl_split.csv", rows, { "mode", "train_gpus", "rollout_gpus", "step", "bound", "training", "rollout",
  "gpu_hours" })
tperf.plot.lines({
  rows = rows, x = { key = "train_gpus", title = "GPUs that train" }, series = "mode",
  y = { key = "step", title = "step (s)" }, ymin = 0,
  title = ("Split of %d GPUs, %s on %s"):format(o.gpus, report.short(o.model), report.short(o.system)),
  subtitle = "the best layouts of each split; colocated: all GPUs do both",
}):save "rl_split.svg"
