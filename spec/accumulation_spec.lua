-- Gradients of a micro-batch that are added to those kept, and the host's launches once an iteration.
local tperf = require "tperf"

local MODEL <const> = { name = "m", layers = 4, hidden = 4096, heads = 32, ffn = 16384, vocab = 32000, seq = 2048,
  gated = false }
-- Parameters that products of a layer, and of the head, multiply with, and their biases.
local PRODUCTS <const> = 4 * 4096 ^ 2 + 2 * 4096 * 16384 + 5 * 4096 + 16384
local HEAD <const> = 32000 * 4096

local function profile(changes)
  local o = { name = "own", compute = 1, attention = 1, memory = 1.5, comm = 1, host = 0, overlap = 1, optimizer = 0 }
  for name, value in pairs(changes or {}) do o[name] = value end
  return tperf.software(o)
end

local function time(changes, software)
  local o = { model = MODEL, system = "h100-sxm", global_batch = 16, micro_batch = 1, dp = 2, gradients = "fp32",
    recompute = "none", data_overlap = false, software = profile(software) }
  for name, value in pairs(changes or {}) do o[name] = value end
  return tperf.train(o).time
end

-- Seconds of 8 micro-batches' traffic of so many bytes for each parameter that a product multiplies with.
local function traffic(bytes)
  local hbm = tperf.system "h100-sxm".accelerator.hbm
  return 8 * 1.5 * bytes * (4 * PRODUCTS + HEAD) / (hbm.bandwidth * hbm.efficiency)
end

local function near(expected, value, part)
  assert.truthy(math.abs(value / expected - 1) < (part or 1e-9), ("%.9g instead of %.9g"):format(value, expected))
end

describe("gradients that are added up", function()
  it("by a kernel of its own pass the memory: 2 bytes read, the kept ones read and written", function()
    for dtype, bytes in pairs { fp32 = 2 + 8, bf16 = 2 + 4 } do
      local o = { gradients = dtype }
      near(traffic(bytes), time(o, { accumulation = "separate" }) - time(o), 1e-6)
    end
  end)

  it("by the product that makes them take at most the traffic beyond what it writes, beside its work", function()
    for dtype, bytes in pairs { fp32 = 8 - 2, bf16 = 4 - 2 } do
      local o = { gradients = dtype }
      local more = time(o, { accumulation = "fused" }) - time(o)
      assert.truthy(more > 0 and more < traffic(bytes), more)
    end
    -- A product of few tokens is bound by its memory, and all of the traffic shows but for what the work beside it hid.
    local o = { seq = 16 }
    local more = time(o, { accumulation = "fused" }) - time(o)
    assert.truthy(more > 0.8 * traffic(6) and more < traffic(6), more / traffic(6))
  end)

  it("are none of frozen weights, nor in the formulas alone", function()
    local lora = { peft = { rank = 8, targets = { "linear_qkv" } } }
    assert.truthy(time(lora, { accumulation = "separate" }) - time(lora) < 0.02 * traffic(10))
    local function bare(software)
      return tperf.train { model = MODEL, system = "h100-sxm", global_batch = 16, dp = 2, gradients = "fp32",
        software = profile(software) }.time_without_waste
    end
    assert.equal(bare(), bare { accumulation = "separate" })
  end)

  it("belong to the part of a backward pass that a schedule may delay", function()
    local function step(schedule, software)
      return time({ pp = 4, dp = 1, global_batch = 8, schedule = schedule, simulate = true }, software)
    end
    local function added(schedule) return step(schedule, { accumulation = "separate" }) - step(schedule) end
    assert.truthy(added "zb1p" < added "1f1b")
  end)

  it("cost a search what they cost the same configuration", function()
    for _, how in ipairs { "fused", "separate" } do
      local o = { model = MODEL, system = "h100-sxm", global_batch = 64, gradients = "fp32",
        software = profile { accumulation = how, host = 5e-5, optimizer = 0.7 } }
      o.gpus = 16
      local best = tperf.search(o)[1]
      o.gpus, o.configuration = nil, best
      near(best.time, tperf.train(o).time)
    end
  end)
end)

describe("launches once an iteration", function()
  it("take the host's time for each, at most that of a call of PyTorch alone", function()
    local function at(calls, changes) return time(changes, { host = 5e-5, step_calls = calls }) end
    near(300 * 23e-6, at(300) - at(0), 1e-6)
    near(300 * 23e-6, at(300, { pp = 2, dp = 1 }) - at(0, { pp = 2, dp = 1 }), 1e-6)
    local graphs = { cuda_graphs = { "full_iteration" } }
    assert.equal(at(0, graphs), at(300, graphs))
    near(1200 * 23e-6, time(nil, { host = 5e-5 }) - at(0), 1e-6)
    near(300 * 1e-5, time(nil, { host = 1e-5, step_calls = 300 }) - time(nil, { host = 1e-5, step_calls = 0 }), 1e-6)
  end)

  it("are a task of the host, and a term of the sum", function()
    local c, t = tperf.train { model = MODEL, system = "h100-sxm", global_batch = 16, dp = 2, simulate = true,
      software = profile { host = 5e-5, step_calls = 300, optimizer = 0.7 } }
    local seconds = 0.0
    for task in t:tasks(1) do
      if task.kind == "launches" and task.start >= t.last_stop[1] then seconds = seconds + task.seconds end
    end
    near(300 * 23e-6, seconds)
    near(c.time, t.iteration_time)
  end)
end)
