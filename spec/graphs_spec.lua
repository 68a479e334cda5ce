-- CUDA graphs in training: what is captured costs the host one call in each pass.
local tperf = require "tperf"

-- A host so slow that a step is its launches: a second each.
local HOST <const> = {
  compute = 1, attention = 1, memory = 1, comm = 1, host = 1, overlap = 1, optimizer = 0, kernel = "flash",
  step_calls = 0, name = "spec",
}
local LAYERS <const>, MICROBATCHES <const> = 3, 4
local PYTORCH <const> = 23e-6 -- of such a launch: a call of PyTorch alone takes 23 us

local function model_of(o, block)
  o.name, o.layers, o.hidden, o.heads, o.ffn, o.gated, o.seq = "spec", LAYERS, 1024, 8, 4096, true, 1024
  local blocks = tperf.architecture.of(tperf.model(o)).groups[1].blocks
  if block then blocks = { blocks[block] } end
  o.architecture = tperf.architecture { name = "spec", layer = blocks, first = {}, last = {} }
  return tperf.model(o)
end

local MLP <const> = 2 -- a layer's second block
local EXPERTS <const> = { count = 8, top_k = 2, ffn = 512, dense_layers = 0 }

local function with_shared()
  local e = { shared = 1 }
  for name, value in pairs(EXPERTS) do e[name] = value end
  return e
end

local function trained(change)
  local q = { system = "h100-sxm", gpus = 1, global_batch = MICROBATCHES, software = HOST }
  for name, value in pairs(change) do q[name] = value end
  return tperf.train(q)
end

-- Calls of the host for one layer and micro-batch.
local function calls(change)
  return trained(change).time / LAYERS / MICROBATCHES
end

describe("CUDA graphs", function()
  it("take one call in each pass for the whole of what they capture", function()
    local mlp = model_of({}, MLP) -- norm, fc1, silu, fc2, residual sum: 5 calls forward and 10 backward
    assert.near(15, calls { model = mlp }, 1e-9)
    assert.near(2, calls { model = mlp, cuda_graphs = "mlp" }, 1e-9)
    assert.near(15, calls { model = mlp, cuda_graphs = "attn" }, 1e-9)
    local both = model_of {}
    local attention = calls { model = both } - 15
    assert.near(2 + 15, calls { model = both, cuda_graphs = "attn" }, 1e-9)
    assert.near(attention + 2, calls { model = both, cuda_graphs = "mlp" }, 1e-9)
    assert.near(2 + 2, calls { model = both, cuda_graphs = { "attn", "mlp" } }, 1e-9)
    assert.near(2 + 2, calls { model = both, cuda_graphs = "layer" }, 1e-9)
  end)

  it("of a router leave out the routed experts", function()
    -- outside: dispatch, fc1, silu, fc2, bias, combine, residual sum; fc1 and fc2 call PyTorch for all experts but one
    local plain, outside = model_of({ experts = EXPERTS }, MLP), 7 + 2 * (EXPERTS.count - 1) * PYTORCH
    assert.near(1 + outside + 1 + 2 * outside, calls { model = plain, cuda_graphs = "moe_router" }, 1e-9)
    local shared = model_of({ experts = with_shared() }, MLP)
    assert.near(1 + outside + 1 + 2 * outside, calls { model = shared, cuda_graphs = "moe_router" }, 1e-9)
    local beside = { model = shared, cuda_graphs = "moe_router", overlap_shared_experts = true }
    assert.near(1 + outside + 3 + 1 + 2 * (outside + 3), calls(beside), 1e-9)
    assert.near(2, calls { model = shared, cuda_graphs = "moe" }, 1e-9)
  end)

  it("hold what runs again and what quantises", function()
    local mlp = model_of({}, MLP)
    assert.near(3, calls { model = mlp, cuda_graphs = "mlp", recompute = "full" }, 1e-9)
    assert.near(2, calls { model = mlp, cuda_graphs = "mlp", precision = "fp8-current" }, 1e-9)
  end)

  it("of an iteration leave the host nothing to do", function()
    local free = {}
    for name, value in pairs(HOST) do free[name] = value end
    free.host = 0
    local model = model_of {}
    local c = trained { model = model, cuda_graphs = "full_iteration" }
    assert.near(trained({ model = model, software = free }).time, c.time, 1e-12)
    assert.same({ "full_iteration" }, c.cuda_graphs)
    assert.near(c.time, trained({ model = model, configuration = c }).time, 1e-12)
  end)

  it("are searched and simulated alike", function()
    local q = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 32, cuda_graphs = { "attn" },
      software = HOST }
    local found = tperf.search(q)[1]
    assert.same({ "attn" }, found.cuda_graphs)
    q.configuration, q.simulate, q.gpus, q.global_batch, q.cuda_graphs = found, true, nil, nil, nil
    local c = tperf.train(q)
    assert.near(found.time, c.time, 1e-9 * c.time)
    assert.near(c.time, c.simulated.time, 1e-2 * c.time)
  end)

  it("are refused for modules that a model lacks", function()
    local ok, message = pcall(trained, { model = model_of {}, cuda_graphs = "moe_router" })
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find "has no experts")
  end)
end)

describe("a product in 8 bits", function()
  it("makes the calls of one in 16: its own launches what quantises", function()
    local wide = calls { model = model_of({}, MLP) }
    assert.near(5 + 10, wide, 1e-9)
    for _, precision in ipairs { "fp8-current", "fp8-delayed", "fp8-tensorwise" } do
      assert.near(wide, calls { model = model_of({}, MLP), precision = precision }, 1e-9)
    end
  end)
end)

describe("a host", function()
  it("takes as many times as long as its slowness", function()
    local slow = tperf.system "h100-sxm":with { host = { slowness = 2 } }
    local once = calls { model = model_of {} }
    assert.near(2 * once, calls { model = model_of {}, system = slow }, 1e-9 * once)
    local c = trained { model = model_of {}, system = slow, simulate = true }
    assert.near(c.time, c.simulated.time, 1e-9 * c.time)
  end)

  it("calls once for a collective, and not for one that a chunked product sends", function()
    local function cut(change)
      local q = { model = model_of({}, MLP), gpus = 2, tp = 2 }
      for name, value in pairs(change) do q[name] = value end
      return calls(q)
    end
    -- Megatron-LM's: an all-reduce in each pass; or gather and reduce-scatter, and the input gathered once more.
    assert.near(15 + 2, cut { sequence_parallel = false }, 1e-2)
    assert.near(15 + 2 + 3, cut { sequence_parallel = true }, 1e-2)
    assert.near(15 + 2, cut { sequence_parallel = true, overlap_tp = "ring" }, 1e-2) -- those of fc1's backward pass
  end)

  it("makes thirty calls between a message and the pass that waits for it", function()
    local function staged(software)
      return trained { model = model_of({}, MLP), gpus = LAYERS, pp = LAYERS, simulate = true, software = software }
    end
    local c, without = staged(HOST), staged(tperf.software(HOST):with { message_calls = 0 })
    assert.near((MICROBATCHES + LAYERS - 1) * (5 + 10), without.time, 1e-3)
    assert.near((MICROBATCHES + LAYERS - 1) * 2 * 30 * PYTORCH, c.time - without.time, 1e-9)
    assert.near(c.time, c.simulated.time, 1e-9 * c.time)
  end)

  it("makes 25 calls for each matrix of Muon's step", function()
    local q = { model = model_of({}, MLP), optimizer = "muon" }
    local c = trained(q)
    -- fc1 and fc2: three products of five iterations, and ten more
    assert.near(LAYERS * 2 * (3 * 5 + 10) * PYTORCH, c.breakdown.optimizer, 1e-9)
  end)

  it("explains Muon's step with what a call of PyTorch takes", function()
    local c = trained { model = model_of({}, MLP), optimizer = "muon", explain = true }
    local calls_of = "the host's (%d+) calls of PyTorch, of ([%d.]+) us each"
    local found
    for _, term in ipairs(c.sum) do
      local n, each = term.formula:match(calls_of)
      if n then found = { n * each * 1e-6, term.seconds } end
    end
    assert.near(found[1], found[2], 1e-9)
  end)
end)

describe("ring attention", function()
  it("calls its kernel once for each part of the keys, that of gathered keys once for all", function()
    local function both(kind, cp)
      return calls { model = model_of {}, gpus = cp, cp = cp, cp_kind = kind }
    end
    local gathered = both("all_gather", 4)
    assert.near(gathered, both("all_gather", 2), 1e-3)
    for _, cp in ipairs { 2, 4 } do
      assert.near(gathered + (cp - 1) * (1 + 2), both("ring", cp), 1e-3, cp)
    end
  end)
end)
