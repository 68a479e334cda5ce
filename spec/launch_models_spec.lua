-- A model written into a launch file and read back is the same model: its time and its memory are the same, for every
-- built-in model that the stack can be told of. Stacks that call models by name are given it again.
local cases = require "cases"
local catalogue = require "tperf.base.catalogue"
local stack_states = require "stack_states"
local tperf = require "tperf"

local FILE <const> = { megatron = "run.sh", ["megatron-bridge"] = "recipe.py", nanotron = "config.yaml",
  torchtitan = "train.toml", deepspeed = "run.sh" }
local NAMED <const> = { torchtitan = true, deepspeed = true }

-- Each stack's least number of models; the others are refused by name.
local LEAST <const> = { megatron = 50, ["megatron-bridge"] = 50, nanotron = 25, torchtitan = 80, deepspeed = 80 }

local function question_of(m, seq, zero)
  local context = not m.unbounded and math.max(m.context or seq, seq) or nil
  return { model = m:with { seq = seq, context = context }, system = "h100-sxm", software = "typical", gpus = 8, dp = 8,
    tp = 1, pp = 1, global_batch = 16, micro_batch = 1, zero = zero }
end

local function read_back(stack, text, model)
  local launch = tperf.import.launch { files = { { name = FILE[stack], text = text } }, given = { gpus = 8 } }
  local a = tperf.import.arguments(launch, { model = NAMED[stack] and model or nil })
  a.system, a.software = "h100-sxm", "typical"
  return tperf.train(a)
end

describe("a model's launch file", function()
  for stack, least in pairs(LEAST) do
    it("is read back as the same model, under " .. stack, function()
      local written = {}
      for i, name in ipairs(catalogue.list "models") do
        local m = not name:find "/" and tperf.model(name)
        local told = m and not (m.vision or m.architecture) -- of layers of a script's only the layout is written
        local lengths = cases(i % 4 == 0 and { 4096, 32768 } or { 4096 }, { 4096, 32768, 131072 })
        for _, seq in ipairs(told and lengths or {}) do
          local asked = question_of(m, seq, stack == "torchtitan" and 3 or 1)
          local c = tperf.train(asked)
          local ok, text = pcall(tperf.report.launch, c, stack, { model = asked.model, seq = seq, question = asked })
          if ok then
            written[name] = true
            local back = read_back(stack, text, asked.model)
            c = stack_states(stack, c)
            assert.equal(c.time, back.time, name)
            assert.equal(c.memory.total, back.memory.total, name)
          else
            assert.matches(("model = %s: %s cannot be told of "):format(name, stack), text, 1, true)
          end
        end
      end
      local count = 0
      for _ in pairs(written) do count = count + 1 end
      assert.is_true(count >= least, count)
    end)
  end

  it("has the iterations of a run of so many tokens", function()
    local asked = question_of(tperf.model "llama-3.1-8b", 8192, 1)
    local function text(stack)
      asked.zero = stack == "torchtitan" and 3 or 1
      return tperf.report.launch(tperf.train(asked), stack, { model = asked.model, seq = 8192, tokens = 1e9 })
    end
    -- 16 sequences of 8,192 tokens: 131,072 a step, 7,629.4 steps
    assert.matches("--train-iters 7630 ", text "megatron", 1, true)
    assert.matches("cfg.train.train_iters = 7630\n", text "megatron-bridge", 1, true)
    assert.matches("steps = 7630\n", text "torchtitan", 1, true)
    assert.matches("train_steps: 7630\n", text "nanotron", 1, true)
  end)

  it("keeps experts' parallelism if the MODEL is named instead of described", function()
    local launch = tperf.import.launch { files = { { name = "run.sh", text = "torchrun --nproc_per_node 8 --nnodes 8 "
      .. "pretrain_gpt.py --use-checkpoint-args --bf16 --expert-model-parallel-size 8 --micro-batch-size 1 "
      .. "--tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1 --seq-length 4096 "
      .. "--global-batch-size 128 --moe-token-dispatcher-type alltoall\n" } } }
    local a = tperf.import.arguments(launch, { model = "mixtral-8x7b" })
    assert.same({ 8, 1, "alltoall" }, { a.ep, a.etp, a.moe_dispatcher })
    assert.error_matches(function() tperf.import.arguments(launch) end, "name the MODEL")
    assert.error_matches(function() tperf.import.arguments(launch, { model = "llama-3.1-8b" }) end,
      "shares experts over 8 GPUs, but the model has none")
  end)
end)
