-- Model states (weights, gradients, optimizer) of one GPU beside functions of the stacks themselves, run unmodified at
-- the commit of each row. Rows in which the function is coarser than the model (averaged stages, no biases) are left
-- out.
local csv = require "csv"
local tperf = require "tperf"

local TOLERANCE <const> = 0.01
local WHAT <const> = { ds1 = "instantiation", ds2 = "zero2", ds3 = "zero3" }

local function states(o)
  local m = tperf.train(o).memory
  return m.weights + m.gradients + m.optimizer
end

-- The question of a row of Megatron-LM's theoretical_memory_usage.py: { dp: 2, pp: 4 … }.
local function megatron(row)
  local o = { micro_batch = 1, software = "none" }
  for name, value in row.settings:gmatch "([%a_]+): ([%w_]+)" do o[name] = tonumber(value) or value end
  o.global_batch = o.dp * (o.pp or 1)
  return o
end

-- The question of a DeepSpeed file with this ZeRO stage, perhaps with the optimizer on the host.
local function deepspeed(row)
  local gpus, stage, offloads = row.settings:match "N=(%d+) GPUs, ds(%d)(%a*)%.json"
  assert(row.file:find(WHAT["ds" .. stage], 1, true), row.file)
  local offload = offloads == "off" and [[, "offload_optimizer": {"device": "cpu"}]] or ""
  local text = ([[{ "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "bf16": { "enabled": true },
    "zero_optimization": { "stage": %s%s } }]]):format(stage, offload)
  local launch = tperf.import.launch { files = { { name = "ds.json", text = text } }, gpus = tonumber(gpus) }
  local o = tperf.import.arguments(launch, { model = row.model, seq = 2048 })
  o.software = "none"
  return o
end

describe("model states of one GPU", function()
  for _, row in ipairs(csv.rows "spec/data/oracles/model_states.csv") do
    it(("of %s with %s are %s's: %s"):format(row.model, row.settings, row["source repository"], row.file), function()
      local o = (row["source repository"]:find "Megatron" and megatron or deepspeed)(row)
      o.model, o.system = row.model, "h100-sxm"
      assert.near(1, states(o) / tonumber(row["oracle value"]), TOLERANCE)
    end)
  end

  it("of DeepSpeed with gradients accumulated in fp32 have no second copy of them", function()
    -- engine.py: BF16_Optimizer keeps fp32 gradients whole: 2 + 4 + 12 / N.
    local parameters = tperf.model("llama-3.1-8b"):parameters().total
    local got = states { model = "llama-3.1-8b", system = "h100-sxm", dp = 8, global_batch = 8, zero = 1,
      software = "none", sharding = "deepspeed", gradients = "fp32" }
    assert.near(1, got / parameters / (2 + 4 + 12 / 8), 1e-3)
  end)

  it("of FSDP are 16 bytes of a parameter, sharded", function()
    -- fully_shard keeps fp32 shards of weights and gradients, and AdamW's moments like them.
    local parameters = tperf.model("llama-3.1-8b"):parameters().total
    local got = states { model = "llama-3.1-8b", system = "h100-sxm", dp = 8, global_batch = 8, zero = 3,
      software = "none", sharding = "fsdp" }
    assert.near(1, got / parameters / (16 / 8), 1e-3)
  end)

  it("of a torchtitan file are FSDP's", function()
    local text = [==[
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
seq_len = 8192
]==]
    local launch = tperf.import.launch { files = { { name = "run.toml", text = text } }, gpus = 8 }
    local o = tperf.import.arguments(launch)
    o.system, o.software = "h100-sxm", "none"
    local parameters = tperf.model("llama-3.1-8b"):parameters().total
    assert.near(1, states(o) / parameters / (16 / 8), 1e-3)
  end)
end)
