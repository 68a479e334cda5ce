-- Combinations of a kind of model, sharding, axes, recomputation, precision and schedule that a stack can be told of:
-- its launch file, read back, has the same arguments, and the same time and memory. Others are refused by the name of
-- the axis. Of the 3,494,400 combinations a fixed sample is tried, evenly spread, with TPERF_THOROUGH=1 a larger one.
local cases = require "cases"
local stack_states = require "stack_states"
local tperf = require "tperf"

local FILE <const> = { megatron = "run.sh", ["megatron-bridge"] = "recipe.py", nanotron = "config.yaml",
  torchtitan = "train.toml", deepspeed = "run.sh" }

-- Stacks whose files do not describe the model: whether they have it by another name decides the model that is given.
local NAMED <const> = { torchtitan = true, deepspeed = true }

local MODELS <const> = {}
for i, name in ipairs { "llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite", "qwen3-next-80b-a3b", "mistral-7b" } do
  MODELS[i] = tperf.model(name):with { seq = 4096 }
end

local function full(method, layers)
  return { recompute = "full", recompute_method = method, recompute_num_layers = layers }
end

-- Axis -> its values; tables are several arguments. false: the argument is absent.
local AXES <const> = {
  { "model", MODELS },
  { "zero", { 0, 1, 2, 3, { zero = 3, reshard_after_forward = false } } },
  { "tp", { 1, 2 } }, { "etp", { 1, 2 } }, { "ep", { 1, 2 } }, { "dp", { 1, 4 } },
  { "cp", { 1, { cp = 2, strategy = "context" }, { cp = 2, strategy = "context", cp_kind = "ring" },
    { cp = 2, strategy = "context", cp_kind = "all_to_all" } } },
  { "sequence_parallel", { true, false } },
  { "schedule", { { pp = 1, schedule = "1f1b" }, { pp = 2, schedule = "1f1b" },
    { pp = 2, schedule = "interleaved_1f1b", virtual_stages = 2 }, { pp = 2, schedule = "gpipe" },
    { pp = 2, schedule = "zbv" }, { pp = 2, schedule = "dualpipe_v" } } },
  { "recompute", { "none", "full", { recompute = "selective", recompute_modules = { "core_attn", "mlp" } },
    { recompute = "selective", recompute_modules = { "op" } }, full("block", 2), full("uniform", 2),
    full("every", 2) } },
  { "precision", { false, "fp8-delayed", "fp8-current", "fp8-block", "fp8-tensorwise", "fp8-rowwise",
    { precision = { recipe = "fp8-current", first_layers = 1, last_layers = 2, parameters = "narrow" } },
    { precision = { recipe = "fp8-rowwise", weight_grad = "bf16" } },
    { precision = { recipe = "fp8-tensorwise", gather = "narrow" } },
    { precision = { recipe = "fp8-delayed", attention = "fp8" } },
    { precision = "mxfp8", system = "b200-sxm" }, { precision = "nvfp4", system = "b200-sxm" },
    { precision = { recipe = "nvfp4", parameters = "narrow" }, system = "b200-sxm" } } },
  { "compile", { true, false } },
}

local ALL = 1
for _, axis in ipairs(AXES) do ALL = ALL * #axis[2] end

-- The i-th combination, as arguments of tperf.train.
local function combination(i)
  local q = { system = "h100-sxm", software = "typical", micro_batch = 1, cp = 1 }
  for _, axis in ipairs(AXES) do
    local value = axis[2][i % #axis[2] + 1]
    i = i // #axis[2]
    if type(value) == "table" and axis[1] ~= "model" then
      for name, one in pairs(value) do q[name] = one end
    elseif value then
      q[axis[1]] = value
    end
  end
  if not q.model.experts then q.ep, q.etp = nil, nil end
  if q.tp == 1 then q.sequence_parallel = nil end
  q.gpus = q.tp * q.cp * q.dp * q.pp
  if q.cp == 1 then q.cp = nil end
  q.global_batch = q.dp * 4
  return q
end

-- Arguments that a configuration's time and memory follow from.
local SAME <const> = { "tp", "pp", "cp", "dp", "ep", "etp", "micro_batch", "global_batch", "recompute",
  "recompute_method", "recompute_num_layers", "schedule", "virtual_stages", "precision", "sequence_parallel", "zero",
  "reshard_after_forward", "compile", "cp_kind", "strategy" }

-- Switches that are on by default: a configuration has them only where its question had.
local ON <const> = { compile = true, reshard_after_forward = true }

local function arguments_of(c, names)
  local list = {}
  for _, name in ipairs(names) do
    if not (ON[name] and c[name]) then list[name] = c[name] end
  end
  return list
end

-- Whether nothing is there to be sharded, so that all of FSDP's stages are one.
local function alone(c, model)
  return c.dp * (c.cp or 1) == 1 and not (model.experts and c.ep * c.etp < c.tp)
end

local function compare(stack, c, question)
  local ok, text = pcall(tperf.report.launch, c, stack, { model = question.model, seq = 4096, question = question })
  if not ok then
    assert.matches("tperf.report.launch: [%w_]+ = [^:]+: " .. stack:gsub("%-", "%%-") .. " ", text)
    return false
  end
  local launch = tperf.import.launch { files = { { name = FILE[stack], text = text } },
    given = { gpus = question.gpus, layers = question.model.layers } }
  local a = tperf.import.arguments(launch, { model = NAMED[stack] and question.model or nil })
  a.system, a.software = question.system, question.software
  local back = tperf.train(a)
  c = stack_states(stack, c)
  local expected, got = arguments_of(c, SAME), arguments_of(back, SAME)
  if alone(c, question.model) then
    for _, name in ipairs { "zero", "reshard_after_forward" } do expected[name], got[name] = nil, nil end
  end
  assert.same(expected, got, text)
  assert.equal(c.time, back.time, text)
  assert.equal(c.memory.total, back.memory.total, text)
  return true
end

-- A step through all combinations that shares no factor with the numbers of values (2, 3, 5, 7, 13).
local STRIDE <const> = cases(4441, 389)

-- The combinations that run: { question, configuration }.
local function runs()
  local list = {}
  for i = 0, ALL - 1, STRIDE do
    local question = combination(i)
    local ok, c = pcall(tperf.train, question)
    if ok then list[#list + 1] = { question, c } end
  end
  return list
end

-- The least number of combinations that each stack is told of in the sample.
local LEAST <const> = { megatron = 14, ["megatron-bridge"] = 14, torchtitan = 8, nanotron = 1, deepspeed = 1 }

describe("a launch of any combination", function()
  local list
  for stack, least in pairs(LEAST) do
    it("is read back as it was, under " .. stack, function()
      list = list or runs()
      local written = 0
      for _, one in ipairs(list) do
        if compare(stack, one[2], one[1]) then written = written + 1 end
      end
      assert.is_true(written >= least, written)
    end)
  end
end)
