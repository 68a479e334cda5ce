--- The arguments of tperf.rl, one row each, as in tperf.question.arguments. Rows `within` "train" and
--- "rollout" are arguments of tperf.train and tperf.serve, whose checks and words they keep.
local check = require "tperf.base.check"
local has = require "tperf.base.lists".has
local served = require "tperf.question.serving_arguments"
local trained = require "tperf.question.arguments"

local arguments = {}

local any, optional = check.any(), check.any { optional = true }
local MOST <const> = 1 << 24
local count = check.integer { min = 1, max = MOST }
local tokens = check.integer { min = 1, max = 1 << 28, optional = true }
local mean = check.number { min = 1, max = 1 << 28, optional = true }
local part = check.number { above = 0, max = 1, optional = true }
local seconds = check.number { min = 0, max = 1e9, unit = "s", default = 0 }

-- Lengths of responses: what is known of them.
local response = check.one_of(tokens, check.record_of {
  mean = mean, cv = check.number { min = 0, max = 100, optional = true }, max = tokens,
  clip = check.number { min = 0, max = 0.999, optional = true },
  values = check.list(check.integer { min = 1, max = 1 << 28 }, { min = 1, max = 1e6, optional = true }),
})

local OWN <const> = {
  { name = "model", group = "model and machine", check = any, doc = "a name, a file or a table", option = false },
  { name = "system", group = "model and machine", check = any, doc = "the system (`tperf list systems`, or a file)",
    option = { short = "s", value = "NAME", from = "systems files" } },
  { name = "rules", group = "model and machine", check = optional, doc = "modelling rules (`tperf list rules`)",
    option = { value = "NAME", from = "rules" } },
  { name = "gpus", group = "model and machine", check = count, doc = "GPUs in all",
    option = { short = "g" } },
  { name = "gpu_hour", group = "model and machine",
    check = check.number { above = 0, max = 1e6, optional = true }, doc = "dollars per GPU-hour (the system's)",
    option = { value = "DOLLARS" } },
  { name = "algorithm", group = "step", check = check.choice { { "grpo", "dapo", "rloo", "ppo", "opd" },
    default = "grpo" }, doc = "grpo (default), dapo, rloo, ppo (with a critic) or opd",
    more = "opd: on-policy distillation, whose teacher is a reference as large as the model." },
  { name = "mode", group = "step", check = check.choice { { "colocated", "split", "async" }, optional = true },
    doc = "colocated (default), split, or async",
    more = "By default what `staleness` (async) and `train_gpus` (split) ask for." },
  { name = "train_gpus", group = "step", check = check.integer { min = 1, max = MOST, optional = true },
    doc = "GPUs of them that train, if the pools are apart (default: half)" },
  { name = "staleness", group = "step", check = check.integer { min = 0, max = 1024, optional = true },
    doc = "steps by which a rollout's weights may be old (async: 1)" },
  { name = "prompts", group = "step", check = count, doc = "prompts of a step" },
  { name = "samples", group = "step", check = check.integer { min = 1, max = MOST, default = 1 },
    doc = "responses to each prompt (default 1)" },
  { name = "epochs", group = "step", check = check.integer { min = 1, max = 1024, default = 1 },
    doc = "times that a step's responses are trained on (default 1)" },
  { name = "mini", group = "step", check = check.integer { min = 1, max = MOST, optional = true },
    doc = "responses of an optimizer step (default: all of the step)" },
  { name = "steps", group = "step", check = check.integer { min = 1, max = 1e9, optional = true },
    doc = "steps of the run: adds hours and dollars" },
  { name = "prompt", group = "lengths", check = check.integer { min = 1, max = 1 << 28 },
    doc = "tokens of a prompt, on average" },
  { name = "response", group = "lengths", check = response,
    doc = "mean=,cv=,max=,clip= of responses, or one length",
    more = "{ mean =, cv =, max = longest, clip = part of them that is cut there, values = { … } of a trace }. With "
      .. "only max the answer is a range.", option = { value = "LENGTHS", kind = "string" } },
  { name = "pass_rate", group = "lengths", check = part, doc = "dynamic sampling: part of the prompts that is kept",
    option = { value = "PART" } },
  { name = "turns", group = "lengths", check = check.integer { min = 1, max = 1 << 20, default = 1 },
    doc = "turns of a trajectory, with tool_time between (default 1)" },
  { name = "tool_time", group = "lengths", check = seconds, doc = "time of the tools in each turn",
    option = { value = "TIME", kind = "s" } },
  { name = "sandboxes", group = "lengths", check = check.integer { min = 1, max = MOST, optional = true },
    doc = "tools that run at once (default: as many as needed)" },
  { name = "reward_time", group = "passes", check = seconds, doc = "time of the rewards of a step",
    option = { value = "TIME", kind = "s" } },
  { name = "old", group = "passes", check = check.choice { { "recompute", "none" }, default = "recompute" },
    doc = "log-probabilities of the old policy: recompute or none",
    more = "none: the engine's own are taken, or training is strictly on policy." },
  { name = "ref", group = "passes", check = check.boolean { optional = true },
    doc = "whether a reference's log-probabilities are computed",
    more = "By default of grpo, ppo and opd: dapo and rloo have no KL term." },
  { name = "tokens_per_gpu", group = "passes", check = tokens,
    doc = "token budget of a packed micro-batch (default: the longest)" },
  { name = "packing", group = "passes", check = check.boolean { default = true },
    doc = "one response in each micro-batch" },
  { name = "refit", group = "switching", check = check.choice {
    { "auto", "ipc", "nccl", "broadcast", "reshard", "disk" }, default = "auto" },
    doc = "how weights reach the engine (default: ipc or nccl)",
    more = "auto: ipc if colocated, else nccl. nccl: in buckets through all GPUs, as verl does; broadcast: as fast as "
      .. "one GPU's network sends, as NeMo-RL does; reshard: each GPU its own part." },
  { name = "park", group = "switching", check = check.boolean { default = true },
    doc = "keep the trainer's weights and states on the GPU" },
  { name = "seed", group = "lengths", check = check.integer { default = 1 }, doc = "random seed (default 1)" },
}

-- Arguments of the other questions that have options: those of a layout and of what decides the passes.
local TRAIN <const> = { "software", "pp", "zero", "recompute", "precision", "offload_optimizer" }
local ROLLOUT <const> = { "software", "pp", "attention_dp", "precision", "weight_dtype", "kv_dtype",
  "memory_utilization", "max_num_seqs", "max_cudagraph_capture_size" }

-- A row of another question, under an option such as --train-zero.
local function copy_row(list, row, within)
  local copy, option = {}, {}
  for field, value in pairs(row) do copy[field] = value end
  for field, value in pairs(row.option or {}) do option[field] = value end
  option.short, option.also = nil, nil
  option.help = (option.help or row.doc):gsub(" %b()$", "") -- the longer names leave room for no more
  option.long = within .. "-" .. (option.long or row.name:gsub("_", "-"))
  copy.within, copy.group, copy.option, copy.many, copy.strategies = within, within, option, nil, nil
  if copy.default ~= nil then copy.check, copy.default = check.with_default(copy.check, nil), nil end
  list[#list + 1] = copy
end

-- The axes and options of strategies, and what is named.
local function borrowed(list, rows, names, within)
  for _, row in ipairs(rows) do
    if row.strategies or has(names, row.name) then copy_row(list, row, within) end
  end
end

--- All rows, in the order of the command's help.
---@return table[]
function arguments.rows()
  local list = table.move(OWN, 1, #OWN, 1, {})
  borrowed(list, trained.rows(), TRAIN, "train")
  borrowed(list, served.rows "serve", ROLLOUT, "rollout")
  return list
end

--- The schema of tperf.rl. `train` and `rollout` are tables of arguments of tperf.train and tperf.serve, which check
--- them.
---@return table<string, function>
function arguments.schema()
  local schema = { train = optional, rollout = optional }
  for _, row in ipairs(OWN) do schema[row.name] = row.check end
  return schema
end

--- A copy of the arguments that a step passes on to another question. Raises for those that the step decides.
---@param given any       `train` or `rollout` of the question
---@param within string   "train" or "rollout"
---@param question string "tperf.train" or "tperf.serve"
---@param decided table<string, true>
---@return table
function arguments.passed_on(given, within, question, decided)
  if given ~= nil and type(given) ~= "table" then
    check.fail("tperf.rl: '%s' must be a table of arguments of %s, got %s", within, question, check.show(given))
  end
  local copy = {}
  for name, value in pairs(given or {}) do
    if decided[name] then check.fail("tperf.rl: '%s.%s' follows from the step; leave it out", within, name) end
    copy[name] = value
  end
  return copy
end

return arguments
