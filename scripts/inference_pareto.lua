-- Serving is fast for each user or cheap per token: for every system, the Pareto front of time per token against
-- throughput per GPU over all splits of the GPUs and all batches, and the best configuration within a limit.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "time per token against throughput per GPU, for several systems",
  model = "llama-3.1-70b", systems = "a100-sxm-80gb,h100-sxm,h200-sxm,b200-sxm", gpus = 8,
  { long = "prompt", value = "N", kind = "integer", default = 2048, help = "tokens per prompt" },
  { long = "generate", value = "N", kind = "integer", default = 512, help = "tokens per answer" },
  { long = "tpot", value = "TIME", kind = "s", default = "25ms", help = "limit for the table of the best" },
  { long = "weight-dtype", value = "NAME", default = "bf16", help = "dtype of the weights" },
  { long = "kv-dtype", value = "NAME", default = "bf16", help = "dtype of the KV cache" },
}

local function search(system, tpot)
  return tperf.search_inference {
    model = o.model, system = system, gpus = o.gpus, prompt = o.prompt, generate = o.generate, tpot = tpot, top = 1,
    weight_dtype = o.weight_dtype, kv_dtype = o.kv_dtype,
  }
end

local fronts, best = {}, {}
for _, system in ipairs(o.systems) do
  for _, r in ipairs(search(system).pareto) do
    r.system, r.speed = system, 1 / r.tpot
    fronts[#fronts + 1] = r
  end
  local found = search(system, o.tpot)
  best[#best + 1] = found[1] or { reason = found.reason }
  best[#best].system = system
end

report.print(best, report.present(best, {
  { key = "system" }, { key = "tp" }, { key = "pp" }, { key = "dp" }, { key = "batch" },
  { key = "ttft", unit = "s" }, { key = "tpot", unit = "s" },
  { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" }, { key = "reason" },
}), { title = ("%s on %d GPUs, prompts of %d and answers of %d tokens: the best within %s per token"):format(o.model,
  o.gpus, o.prompt, o.generate, tperf.units.format(o.tpot, "s")) })
report.save("inference_pareto.csv", fronts, report.present(fronts, {
  "system", "tp", "pp", "ep", "dp", "batch", "ttft", "tpot", "tokens_per_second", "tokens_per_second_per_gpu",
  "memory.total",
}))
if #fronts > 0 then
  tperf.plot.lines({
    rows = fronts, series = "system", logx = 10, logy = 10,
    x = { key = "speed", title = "tokens/s of each user (1 / time per token)" },
    y = { key = "tokens_per_second_per_gpu", title = "tokens/s per GPU" },
    title = ("Serving %s on %d GPUs"):format(report.short(o.model), o.gpus),
    subtitle = ("the best splits and batches; prompts of %d, answers of %d tokens"):format(o.prompt, o.generate),
    guides = { { x = 1 / o.tpot, label = ("%g ms per token"):format(1e3 * o.tpot) } },
  }):save "inference_pareto.svg"
end
