-- An engine that has just started compiles kernels of experts the first time that a step's tokens need another tile.
local tperf = require "tperf"

local COMPILE <const> = 2 -- seconds, more than anything else here

local PROFILE <const> = { name = "plain", compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 0,
  engine = { release = "0", scheduler = "vllm", compile = COMPILE } }

-- The number of compilations of prompts that come one after another, and how long that takes.
local function compiled(prompts, more)
  local requests = {}
  for i, prompt in ipairs(prompts) do requests[i] = { arrival = 100 * (i - 1), prompt = prompt, output = 4 } end
  local q = { model = "mixtral-8x7b", system = "h100-sxm", tp = 2, software = PROFILE, host = {}, sampling = "none",
    requests = requests, cold = true, keep = "steps", engine = { max_num_seqs = 128, max_num_batched_tokens = 4096,
      prefix_caching = false } }
  for name, value in pairs(more or {}) do q[name] = value end
  local count = 0
  for _, step in ipairs(tperf.serve(q).steps) do
    if step.duration > COMPILE then count = count + 1 end
  end
  return count
end

describe("an engine that has just started", function()
  it("compiles once for each tile, and once for multiples of 16 rows", function()
    assert.equal(0, compiled { 100, 256 }) -- in graphs: twice max_num_seqs
    assert.equal(1, compiled { 601, 603, 599 }) -- the tile of 512, without a multiple of 8 tokens of 2 rows each
    assert.equal(2, compiled { 601, 600, 608 })
    assert.equal(3, compiled { 601, 1001, 1501, 703, 1103 }) -- 512, 1024, 1536
    assert.equal(0, compiled({ 601, 1001 }, { cold = false }))
  end)

  it("compiles for small steps, too, if no graphs cover them", function()
    local eager = { engine = { max_num_seqs = 128, max_num_batched_tokens = 4096, prefix_caching = false,
      max_cudagraph_capture_size = 0 } }
    assert.equal(1, compiled({ 101, 203 }, eager)) -- the tile of 256, and decodes of one token
    assert.equal(3, compiled({ 101, 104, 601 }, eager)) -- a multiple of 8; the tile of 512
  end)

  it("compiles nothing for dense models or experts in other kernels", function()
    assert.equal(0, compiled({ 601, 1001 }, { model = "llama-3.1-8b", tp = 1 }))
    assert.equal(0, compiled({ 601, 1001 }, { weight_dtype = "fp8", compute_dtype = "fp8" }))
    assert.equal(2, compiled({ 601, 1001 }, { weight_dtype = "fp8", compute_dtype = "fp8", experts = "portable" }))
  end)
end)
