-- Forward and backward passes of Llama's layers on one H200, timed for tperf with a training loop in PyTorch (weights
-- and gradients in bf16, FlashAttention 2, cross-entropy of logits in fp32): predictions without a fitted number.
local csv = require "tperf.input.csv"
local tperf = require "tperf"

local HOST <const> = 20e-6 -- a call of PyTorch on such a machine

local function predicted(row)
  local function number(name) return math.tointeger(tonumber(row[name])) end
  local rank = number "lora_rank"
  local c = tperf.train {
    model = { name = "timed", layers = number "layers", hidden = number "hidden", heads = number "heads",
      kv_heads = number "kv_heads", ffn = number "ffn", vocab = number "vocab", seq = number "seq", gated = true,
      activation = "silu", norm = "rmsnorm", positions = "rotary", tied_embeddings = false },
    system = row.gpu .. "-sxm", gpus = 1, global_batch = number "micro_batch", micro_batch = number "micro_batch",
    recompute = "none", gradients = "bf16", loss = "pytorch", compile = row.compile == "1",
    peft = rank > 0 and { rank = rank, dropout = 0.1, targets = { "q_proj", "k_proj", "v_proj", "o_proj" } } or nil,
    software = { name = "alone", compute = 1, attention = 1, memory = 1, comm = 1, host = HOST, overlap = 1,
      kernel = "flash2", step_calls = 0 },
  }
  return c.time - c.breakdown.optimizer
end

describe("a training step on one GPU", function()
  local long, short = {}, {}
  for _, row in ipairs(csv.read "spec/data/measured/steps_torch.csv") do
    local list = tonumber(row.micro_batch) * tonumber(row.seq) > 1024 and long or short
    list[#list + 1] = predicted(row) / tonumber(row.seconds) - 1
  end

  it("takes as long as its kernels timed alone, with and without a compiler and adapters", function()
    assert.equal(11, #long)
    table.sort(long, function(a, b) return math.abs(a) < math.abs(b) end)
    assert.is_true(math.abs(long[6]) < 0.03, long[6])
    assert.is_true(math.abs(long[11]) < 0.09, long[11])
  end)

  it("waits for the host where passes are short", function()
    assert.equal(2, #short)
    for _, error in ipairs(short) do assert.is_true(error < -0.4, error) end
  end)
end)
