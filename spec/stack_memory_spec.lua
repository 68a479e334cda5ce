-- Differences between stacks: weights that ZeRO 3 keeps gathered, Muon's iterations, memory of losses and activations.
local near = require "near"
local program = require "program"
local tperf = require "tperf"

local L <const>, H <const>, F <const>, V <const>, S <const> = 4, 1024, 4096, 32000, 1024
local plain = {
  name = "plain", layers = L, hidden = H, heads = 16, ffn = F, seq = S, vocab = V, norm = "rmsnorm", gated = true,
  positions = "rotary",
}
local bare = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 1, optimizer = 0.5 }

local function train(o)
  local given = {
    model = plain, system = "h100-sxm", global_batch = 64, micro_batch = 1, schedule = "1f1b", software = "none",
  }
  for name, value in pairs(o) do given[name] = value end
  return tperf.train(given)
end

describe("weights that ZeRO 3 gathered", function()
  local parameters = tperf.model(plain):parameters().total

  it("stay beside their shard, and are gathered once for both passes", function()
    local usual, kept = train { dp = 8, zero = 3 }, train { dp = 8, zero = 3, reshard_after_forward = false }
    near(2 * parameters / 8, usual.memory.weights, "shards")
    near(2 * parameters / 8 + 2 * parameters, kept.memory.weights, "and whole")
    assert.equal(usual.memory.gradients, kept.memory.gradients)
    assert.is_true(kept.memory.passing < usual.memory.passing, "no layer is fetched ahead")
    assert.is_true(kept.time <= usual.time)
    local slow = { dp = 8, zero = 3, data_overlap = false }
    local all = train(slow)
    local gathers = 0
    for _, exchange in ipairs(all.exchanges) do
      for _, comm in ipairs(exchange.comms) do
        local layers = exchange.section:find "layers" and 1 or L
        if comm.what == "gather weights" then gathers = gathers + layers * comm.time end
      end
    end
    slow.reshard_after_forward = false
    near(8 * gathers, all.time - train(slow).time, "one gather of each of 8 micro-batches")
  end)

  it("stay in a pipeline until its last backward pass, as do whole gradients", function()
    local c = train { dp = 4, pp = 2, zero = 3, reshard_after_forward = false, simulate = true }
    local once = train { dp = 4, pp = 2, zero = 1 }
    near(once.time, c.time, "exchanged as often as with ZeRO 1")
    near(once.memory.gradients, c.memory.gradients, "gradients")
    near(once.memory.weights * (1 + 1 / 4), c.memory.weights, "weights")
    assert.is_true(c.simulated.time > 0)
  end)

  it("are an option, and appear in JSON", function()
    local json = program.ask("tperf train llama-3.1-8b -s h100-sxm -b 64 --dp 8 --zero 3 --no-reshard --json").out
    assert.truthy(json:find '"reshard_after_forward":%s*false', json)
  end)
end)

describe("Muon", function()
  -- arXiv 2502.16982, section 2.1: X X^T, its square, and their sum times X, for m x n: 2 m^2 n + 2 m^3 + 2 m^2 n
  local function iteration(m, n) return 4 * m * m * n + 2 * m ^ 3 end
  local flops = 5 * L * (iteration(H, 3 * H) + iteration(H, H) + iteration(H, 2 * F) + iteration(H, F))

  it("orthogonalises each matrix in five iterations, sharded like its state", function()
    local peak = 0.8 * tperf.system("h100-sxm").accelerator.tensor.bf16
    for dp = 1, 8, 7 do
      local c = train { dp = dp, zero = dp > 1 and 1 or 0, optimizer = "muon" }
      near(flops / dp / peak, c.breakdown.optimizer, "dp " .. dp)
    end
    near(flops / peak, train { dp = 8, zero = 0, optimizer = "muon" }.breakdown.optimizer, "all of it on each replica")
    assert.equal(0, train { dp = 8, optimizer = "adam" }.breakdown.optimizer)
  end)

  it("gathers whole updates in bf16 if replicas share them", function()
    local adam, muon = train { dp = 8 }, train { dp = 8, optimizer = "muon" }
    local matrices = 4 * H * H + 3 * H * F + 2 * H -- of a layer, its norms with them
    local gather = tperf.collective {
      system = "h100-sxm", kind = "all_gather", bytes = 2 * matrices, gpus = 8, fast = 8,
    }
    near(adam.breakdown.data_comm + L * gather, muon.breakdown.data_comm, "seconds")
    assert.equal(train { dp = 8, zero = 0 }.breakdown.data_comm,
      train { dp = 8, zero = 0, optimizer = "muon" }.breakdown.data_comm)
  end)

  it("appears in the sum and in the simulation", function()
    local c = train { dp = 8, pp = 2, optimizer = "muon", simulate = true, explain = true, software = bare }
    near(c.time, c.sum[#c.sum].seconds, "sum")
    local found = {}
    for _, term in ipairs(c.sum) do found[term.term:match "^[%w%- ]+"] = true end
    assert.is_true(found["Newton-Schulz iterations"] and found["gather updates"])
  end)
end)

describe("the last stage", function()
  local logits = S * V
  local function of(loss) return train { loss = loss, optimizer = "sgd_without_momentum" } end

  it("keeps the buffers of its loss kernel", function()
    local own = of "in-place"
    assert.equal(own.memory.total, of().memory.total)
    for loss, bytes in pairs { pytorch = { 4, 8 }, copied = { 4, 6 }, compiled = { 2, 2 }, native = { 4, 2 },
      fused = { 2, 4 }, ["pytorch-16bit"] = { 2, 4 } } do
      local c = of(loss)
      near(own.memory.activations + (bytes[1] - 4) * logits, c.memory.activations, loss)
      -- beside 2 bytes a logit of Megatron-LM's; other kernels pass less
      near(own.memory.passing + (bytes[2] - 2) * logits, c.memory.passing, loss .. " passing")
    end
  end)

  it("holds one chunk of logits at a time in stacks that take the loss in chunks", function()
    -- torchtune's CEWithChunkedOutputLoss, eight chunks: 16-bit logits and their gradient whole, and of one chunk
    -- log_softmax's output and both gradients in fp32.
    local own, chunked = of "pytorch".memory, of "chunked-logits".memory
    local less = own.activations + own.passing - chunked.activations - chunked.passing
    near(2 + 2 + 12 / 8, 12 - less / logits, "chunks")
    -- Liger: no logits but a chunk's, at most twice as many bytes as the head's input has.
    local liger, width = of "fused-linear".memory, 2 * S * H
    near(own.activations - 4 * logits, liger.activations, "nothing of the logits is kept")
    assert.is_true(liger.passing <= math.max(2 * width, 2 * 2 * S * F))
  end)

  -- Cross-entropies timed on an H100 for tperf (spec/data/measured/loss_torch.csv), each alone.
  it("takes as long for its loss as PyTorch does", function()
    local rows = require "tperf.input.csv".read "spec/data/measured/loss_torch.csv"
    local errors = {}
    for _, row in ipairs(rows) do
      local tokens, vocab = tonumber(row.tokens), tonumber(row.vocab)
      local c = tperf.train { model = { name = "head", layers = 1, hidden = 256, heads = 2, ffn = 256, vocab = vocab,
        seq = tokens }, system = "h100-sxm", gpus = 1, global_batch = 1, loss = row.loss, explain = true,
        software = { name = "alone", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 1 } }
      for _, term in ipairs(c.sum) do
        -- Of the smallest, the host's calls are a part.
        if term.term:find "head loss" and vocab > 1e5 then
          errors[#errors + 1] = math.abs(term.seconds / (row.forward_s + row.backward_s) - 1)
        end
      end
    end
    table.sort(errors)
    assert.equal(10, #errors)
    assert.is_true(errors[5] < 0.05 and errors[10] < 0.15, errors[5] .. ", at most " .. errors[10])
  end)

  it("has only a master copy if SGD has no momentum", function()
    near(4 * tperf.model(plain):parameters().total, of().memory.optimizer, "bytes")
  end)

  it("follows the software, unless set", function()
    local titan = train { software = "torchtitan-2024" }
    assert.equal(train { software = "torchtitan-2024", loss = "pytorch", weights = "fp32" }.memory.total,
      titan.memory.total)
    assert.is_true(train { software = "torchtitan-2024", loss = "compiled" }.memory.total < titan.memory.total)
  end)

  it("keeps the first output of a gated activation in two kernels, too", function()
    local software = {}
    for name, value in pairs(bare) do software[name] = value end
    software.fused_activation = false
    near(train { software = bare }.memory.activations + L * 2 * S * F, train { software = software }.memory.activations,
      "bytes")
  end)
end)
