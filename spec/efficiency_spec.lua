local core = require "tperf.core"
local tperf = require "tperf"

local h100 = tperf.system "h100-sxm"
local peak_of_bf16 = 989.4e12

-- A machine without losses.
local function ideal_system(changes)
  local curve = {
    efficiency = 1, tile_loss = 0, depth = 0, quantisation = 0, sustained = 1, sustained_after = 1e-3,
  }
  for name, value in pairs(changes or {}) do curve[name] = value end
  return h100:with {
    accelerator = {
      compute_efficiency = { other = 0.8, gemm = { bf16 = curve } }, launch = 0, hbm = { efficiency = 1 },
    },
  }
end

local function ideal(changes) return core.machine(ideal_system(changes)) end

local function time(machine, m, n, k)
  local compute, memory = machine:kernel("gemm", "bf16", 1, m, n, k)
  return compute + memory, compute
end

describe("efficiency curves of products", function()
  local peak, bandwidth = peak_of_bf16, 3.35e12

  it("reach the peak without losses, and the HBM's bandwidth if memory-bound", function()
    local _, compute = time(ideal(), 8192, 8192, 8192)
    assert.near(2 * 8192 ^ 3 / peak, compute, 1e-9 * compute)
    local skinny = time(ideal(), 64, 65536, 65536) -- the weights dominate
    local bytes = 2 * (64 * 65536 * 2 + 65536 * 65536)
    assert.is_true(skinny >= bytes / bandwidth and skinny < 1.3 * bytes / bandwidth)
  end)

  it("split k as kernels do", function()
    local _, cut = time(ideal(), 64, 64, 65536)
    local _, whole = time(ideal { split = 1 }, 64, 64, 65536)
    assert.near(2 * 64 * 64 * 65536 / (peak / 132), whole, 1e-9 * whole)
    assert.is_true(cut < whole / 10)
  end)

  it("take longer for memory while the bandwidth ramps up", function()
    local plain, ramped = time(ideal(), 16, 65536, 8192), time(ideal { ramp = 1e-5 }, 16, 65536, 8192)
    local seconds = 2 * (16 * 65536 + 16 * 8192 + 65536 * 8192) / bandwidth
    assert.near(math.sqrt(1e-5 * seconds), ramped - plain, 0.1 * (ramped - plain))
  end)

  it("have separate curves for experts with 4-bit weights", function()
    local curve = { efficiency = 1, tile_loss = 0, depth = 0, quantisation = 0, sustained = 1, sustained_after = 1e-3,
      split = 1, rows = 16, setup = 5e-6 }
    local machine = core.machine(h100:with {
      accelerator = { compute_efficiency = { experts4 = { bf16 = curve } }, launch = 0, hbm = { efficiency = 1 } },
    })
    local function seconds(second, grouped)
      local compute, memory = machine:kernel("gemm", "bf16", 32, 1, 2880, 2880, nil, nil, second, nil, grouped)
      return compute + memory
    end
    -- 32 experts of 2880 x 2880 4-bit numbers, with one byte of scale for 16 of them
    local bytes = 32 * (2880 * 2880 * (0.5 + 1 / 16) + 2 * 2 * 2880)
    local work = 32 * 16 * 2 * 2880 * 2880 / peak
    assert.near(5e-6 + bytes / bandwidth, seconds(0.5, true), work / 2 + work ^ 2 / bytes * bandwidth)
    assert.is_true(math.abs(seconds(0.5, true) - seconds(0.5)) > 1e-6) -- plain products have another curve
    assert.equal(seconds(2), seconds(2, true))
  end)

  it("of experts have an engine's own curve, which plain products and weights of fewer bits do not take", function()
    local curve = { efficiency = 0.5, tile_loss = 0, depth = 0, quantisation = 0, sustained = 1, sustained_after = 1e-3,
      split = 1, rows = 16 }
    local function machine_with(experts)
      return core.machine(h100:with {
        accelerator = { compute_efficiency = { experts = experts }, launch = 0, hbm = { efficiency = 1 } },
      })
    end
    local own, shared = machine_with { bf16 = curve }, machine_with()
    local function seconds(second, grouped, machine)
      local compute, memory = (machine or own):kernel("gemm", "bf16", 32, 1, 2880, 2880, nil, nil, second, nil, grouped)
      return compute + memory
    end
    local bytes, work = 32 * (2880 * 2880 * 2 + 2 * 2 * 2880), 32 * 16 * 2 * 2880 * 2880 / (0.5 * peak)
    assert.near(bytes / bandwidth + work ^ 2 / (4 * bytes / bandwidth), seconds(nil, true), 1e-9)
    assert.is_true(math.abs(seconds(nil, true) - seconds()) > 1e-6)
    assert.equal(seconds(nil, nil, shared), seconds())
    assert.equal(seconds(0.5, true, shared), seconds(0.5, true))
  end)

  it("round up to whole waves of whole tiles", function()
    local machine = ideal { quantisation = 1 }
    local _, full = time(machine, 256 * 12, 128 * 11, 8192) -- 132 tiles: one wave
    local _, more = time(machine, 256 * 12, 128 * 11 + 1, 8192)
    assert.near(2 * 256 * 128 * 8192 / (peak / 132), full, 1e-9 * full)
    assert.is_true(more > full * 1.1)
  end)

  it("include losses from tile edges, start-up and a dropping clock", function()
    local _, base = time(ideal(), 8192, 8192, 8192)
    local _, edges = time(ideal { tile_loss = 10 }, 8192, 8192, 8192)
    assert.near(base * (1 + 10 * (1 / 256 + 1 / 128)), edges, 1e-9 * base)
    local _, starts = time(ideal { depth = 819.2 }, 8192, 8192, 8192)
    assert.near(1.1 * base, starts, 1e-9 * base)
    local _, hot = time(ideal { sustained = 0.5, sustained_after = base }, 8192, 8192, 8192)
    assert.near(1.5 * base, hot, 1e-9 * base)
  end)

  it("never take less time for more work, except for what another tile saves", function()
    local machine = core.machine(h100)
    for _, size in ipairs { 64, 256, 1024, 4096 } do
      local small, large = time(machine, size, size, size), time(machine, 2 * size, 2 * size, 2 * size)
      assert.is_true(large > small)
    end
    for _, sizes in ipairs { { 1, 0, 64, 64 }, { 1, 64, 0, 64 }, { 1, 64, 64, 0 }, { 0, 64, 64, 64 } } do
      for _, kind in ipairs { "gemm", "attention", "causal_attention" } do
        local compute, memory = machine:kernel(kind, "bf16", table.unpack(sizes))
        assert.same({ h100.accelerator.launch, 0.0 }, { compute, memory }, kind)
      end
    end
  end)

  it("are not used with a constant efficiency", function()
    local constant = h100:with { accelerator = { compute_efficiency = 0.5 } }
    assert.is_nil(core.machine(constant):kernel("gemm", "bf16", 1, 64, 64, 64))
    local checked = 0
    for _, op in ipairs(tperf.layer { model = "gpt3-175b", system = constant, tp = 8 }) do
      local pass = op.forward
      if pass.tensor_flops > 0 then
        local expected = h100.accelerator.launch + (pass.tensor_flops / 989.4e12 + pass.vector_flops / 133.8e12) / 0.5
        assert.near(expected, pass.compute_time, 1e-6 * expected)
        checked = checked + 1
      end
    end
    assert.is_true(checked >= 4)
  end)

  it("are refused if invalid", function()
    local function refusal(change)
      local ok, message = pcall(function()
        return core.machine(h100:with { accelerator = { compute_efficiency = { gemm = { bf16 = change } } } })
      end)
      assert.is_false(ok)
      return message
    end
    assert.truthy(refusal { efficiency = 0 }:find("gemm.bf16.efficiency' must be a number", 1, true))
    assert.truthy(refusal { depth = 0 / 0 }:find("gemm.bf16.depth", 1, true))
    assert.truthy(refusal { waves = 1 }:find("unknown field 'accelerator.compute_efficiency.gemm.bf16.waves'", 1, true))
    local units = pcall(function()
      return core.machine(tperf.system "subramanian2024/A100":with {
        accelerator = { compute_efficiency = h100.accelerator.compute_efficiency },
      })
    end)
    assert.is_false(units)
  end)
end)

describe("efficiency curves of attention", function()
  local machine = core.machine(h100)
  local function attention(kind, batch, tokens, backward)
    local compute, memory = machine:kernel(kind, "bf16", batch, tokens, tokens, 128, 1, backward)
    return compute + memory
  end

  it("count half the pairs under a causal mask, and more FLOPs backward", function()
    local full, causal = attention("attention", 512, 16384), attention("causal_attention", 512, 16384)
    assert.is_true(causal > 0.5 * full and causal < 0.56 * full)
    local ratio = attention("causal_attention", 512, 16384, true) / causal
    local curve = h100.accelerator.compute_efficiency.attention.bf16
    local seen, part = 8192.5, curve.backward[3] -- of heads of 128
    local expected = 2.5 / part * (seen + curve.backward_keys) / (seen + curve.keys)
    assert.near(expected, ratio, 0.05)
  end)

  it("have a backward pass for each head size, and what its blocks cost to start and end", function()
    local curve = { head_dim = { 64, 256 }, efficiency = { 0.5, 0.5 }, backward = { 1, 0.5 }, backward_keys = 1000,
      keys = 200, setup = 0, longest = 0, sustained = 1 }
    local fixed = core.machine(h100:with {
      accelerator = { launch = 0, compute_efficiency = { attention = { bf16 = curve } } },
    })
    local function ratio(size)
      local function work(backward)
        return (fixed:kernel("attention", "bf16", 4096, 1024, 1024, size, 1, backward))
      end
      return work(true) / work(false)
    end
    local ends = 2.5 * (1024 + 1000) / (1024 + 200)
    assert.near(ends, ratio(64), 1e-9)
    assert.near(ends / 0.5 ^ 0.5, ratio(128), 1e-9) -- halfway between the sizes' logarithms
    assert.near(ends / 0.5, ratio(256), 1e-9)
    local ok, message = pcall(h100.with, h100, { accelerator = { compute_efficiency = { flash2 = { bf16 = {
      backward = { 1 } } } } } })
    assert.is_false(ok)
    local expected = "'accelerator.compute_efficiency.flash2.bf16' needs as many efficiencies"
    assert.truthy(message:find(expected, 1, true), message)
  end)

  it("work in whole tiles: queries, keys of full attention, head size", function()
    local tiles = core.machine(h100:with {
      accelerator = { launch = 0, compute_efficiency = { attention = { bf16 = { setup = 0, longest = 0 } } } },
    })
    local function work(kind, queries, keys, size) return (tiles:kernel(kind, "bf16", 4096, queries, keys, size)) end
    assert.near(work("attention", 448, 512, 128), work("attention", 400, 400, 128), 1e-12)
    assert.is_true(work("attention", 449, 512, 128) > 1.1 * work("attention", 448, 512, 128))
    assert.near(work("attention", 512, 512, 80), work("attention", 512, 512, 72), 1e-12)
    assert.near(work("causal_attention", 64, 64, 128), work("causal_attention", 33, 64 - 15.5, 128), 1e-12)
  end)

  it("wait for the longest block if there are few", function()
    local one, many = attention("causal_attention", 1, 4096), attention("causal_attention", 8, 4096)
    assert.is_true(many < 4 * one)
  end)
end)

describe("curves of decoding", function()
  local decode = { efficiency = 0.5, setup = 7e-6, block = 3e-6, ramp = 0 }
  local function step_time(changes, batch, keys, shared, element)
    local curve = {}
    for name, value in pairs(decode) do curve[name] = changes[name] or value end
    local machine = core.machine(h100:with {
      accelerator = { launch = 2e-6, compute_efficiency = { decode = { bf16 = curve, fp8 = curve } } },
    })
    local compute, memory = machine:kernel("attention", "bf16", batch, 1, keys, 128, shared or 1, false, element or 2)
    return compute + memory
  end
  local bytes = 4 * 128 * 64 * 1e6 -- of keys and values, 64 heads

  it("read the cache at their efficiency, after a start-up time", function()
    local quick = { block = 0 } -- a query has few FLOPs, so compute adds almost nothing
    local stream = bytes / (0.5 * 3.35e12)
    assert.near(9e-6 + stream, step_time(quick, 64, 1e6), 0.02 * stream)
    assert.near(9e-6 + stream / 8, step_time(quick, 64, 1e6, 8), 0.02 * stream)
    assert.near(9e-6, step_time({ block = 0 }, 1, 1), 1e-8)
    local slower = step_time({ ramp = 4e-4, block = 0 }, 64, 1e6) - step_time(quick, 64, 1e6)
    assert.near(math.sqrt(4e-4 * stream), slower, 0.01 * slower)
  end)

  it("spend a fixed time on each key-value head, divided among the multiprocessors", function()
    local many = step_time({}, 132 * 100, 1) - 9e-6
    assert.near(100 * 3e-6, many, 0.01 * many)
    local grouped = step_time({}, 132 * 100, 1, 4) - 9e-6
    assert.near(25 * 3e-6, grouped, 0.01 * grouped + 1e-6)
  end)

  it("depend on the cache's dtype, and do not apply to attention with several queries", function()
    local system = h100:with { accelerator = { compute_efficiency = { decode = { fp8 = { efficiency = 0.25 } } } } }
    local slow, fast = core.machine(system), core.machine(h100)
    local function kernel(machine, queries, element)
      local compute, memory = machine:kernel("attention", "bf16", 64, queries, 1e6, 128, 2 / element, false, element)
      return compute + memory
    end
    assert.equal(kernel(fast, 1, 2), kernel(slow, 1, 2))
    assert.is_true(kernel(slow, 1, 1) > 1.5 * kernel(fast, 1, 1))
    assert.equal(kernel(fast, 2, 1), kernel(slow, 2, 1))
  end)

  it("price the quantisation of activations before 8-bit products as a stream", function()
    local function time_of(dtype, setup)
      local curve = { efficiency = 0.5, setup = setup }
      local machine = core.machine(h100:with { accelerator = { hbm = { stream = curve } } })
      local compute, memory = machine:kernel("gemm", dtype, 1, 4096, 4096, 4096)
      return compute + memory, (machine:stream(3 * 4096 * 4096))
    end
    local fast, stream = time_of("fp8", 1e-6)
    assert.near(1e-6 + 3 * 4096 ^ 2 / (0.5 * 3.35e12), stream, 1e-12)
    assert.near(fast + 1e-4, (time_of("fp8", 1.01e-4)), 1e-12)
    assert.equal((time_of("bf16", 1e-6)), (time_of("bf16", 1e-4)))
  end)

  it("read warm data at the cache's bandwidth", function()
    local system = h100:with { accelerator = { cache = { bandwidth = "33.5 TB/s", capacity = "50 MB" } } }
    local machine, stream = core.machine(system), h100.accelerator.hbm.stream
    local cold, warm = machine:stream(3e7), machine:stream(3e7, true)
    assert.near(stream.setup + 3e7 / (stream.efficiency * 3.35e12), cold, 1e-12)
    assert.near((cold - stream.setup) / 10, warm - stream.setup, 1e-12)
  end)
end)

describe("efficiency curves of collectives", function()
  local function all_reduce(gpus, bytes, system)
    return tperf.collective { system = system or h100, kind = "all_reduce", bytes = bytes, gpus = gpus }
  end

  it("reduce in the switch, except among few GPUs", function()
    local without = h100:with { network = { fast = { efficiency = { all_reduce = { in_network = 0 } } } } }
    assert.is_true(all_reduce(8, 8e9) < 0.9 * all_reduce(8, 8e9, without))
    assert.equal(all_reduce(4, 8e9), all_reduce(4, 8e9, without)) -- rings for few
  end)

  it("grow with the message, from a latency, and over more domains", function()
    local before = 0
    for exponent = 10, 33 do
      local now = all_reduce(8, 2 ^ exponent)
      assert.is_true(now > before * 0.9)
      before = now
    end
    assert.is_true(all_reduce(16, 2 ^ 26) > all_reduce(8, 2 ^ 26))
    assert.is_true(all_reduce(128, 2 ^ 26) > all_reduce(16, 2 ^ 26))
  end)
end)

-- Half of a model on a machine of 100 TFLOP/s in 16 bits, 200 in 8, that reaches 0.8 of either; 5 us a launch.
describe("a machine with an efficiency and no curves", function()
  local system = tperf.system "spec/data/small/system.yaml":with { accelerator = { tensor = { fp8 = "200 TFLOP/s" } } }
  local function ops_of(more)
    local question = { system = system, global_batch = 2, software = "none", model = { name = "m", layers = 4,
      hidden = 4096, heads = 32, ffn = 16384, vocab = 32000, seq = 2048, gated = true, norm = "rmsnorm" } }
    for name, value in pairs(more) do question[name] = value end
    local ops = {}
    for _, op in ipairs(tperf.train(question).kinds[1].ops) do ops[op.name] = op end
    return ops
  end

  it("launches a product once for each of its chunks", function()
    local whole, ring = ops_of { tp = 2 }, ops_of { tp = 2, overlap_tp = "ring" }
    -- a ring of two GPUs, and a pipeline of four chunks
    for name, launches in pairs { fc1 = 1, fc2 = 3 } do
      assert.near(whole[name].forward.compute_time + launches * 5e-6, ring[name].forward.compute_time, 1e-12)
    end
  end)

  it("streams at the HBM's efficiency, after a launch", function()
    assert.near(5e-6 + 1e9 / 0.9e12, core.machine(system):stream(1e9), 1e-12)
  end)

  it("runs half of a backward pass at the peak of 16 bits where the weights' gradient has them", function()
    for recipe, peaks in pairs { bf16 = { 100e12, 100e12 }, fp8 = { 200e12, 200e12 }, [""] = { 200e12, 100e12 } } do
      local narrow = { recipe = "fp8-block", weight_grad = recipe == "" and "bf16" or nil }
      local op = ops_of { precision = recipe ~= "bf16" and narrow or nil }.fc2
      local half = 0.5 * op.backward.tensor_flops / 0.8
      assert.near(5e-6 + half / peaks[1] + half / peaks[2], op.backward.compute_time, 1e-7)
    end
  end)
end)

describe("products with rows that do not begin on whole 16 bytes", function()
  -- Seconds of the head's forward product, whose rows are 50,257 // tp 16-bit numbers.
  local function head(tp, padded)
    local stack = { name = "ideal", padded_vocabulary = padded, compute = 1, attention = 1, memory = 1, comm = 1,
      host = 0, overlap = 0 }
    local model = { name = "m", layers = 1, hidden = 2048, heads = 16, seq = 1024, vocab = 50257 - 50257 % tp }
    local r = tperf.train { model = model, system = ideal_system(), gpus = tp, tp = tp, global_batch = 16,
      micro_batch = 16, software = stack }
    for _, op in ipairs(r.last) do
      if op.name == "head" then return op.forward.compute_time, op.forward.tensor_flops end
    end
  end

  it("are slow in a stack that does not pad its vocabulary", function()
    local part = { [1] = 0.4, [2] = 1, [4] = 0.8, [8] = 0.4 } -- 50257 is odd, 25128 = 8 x 3141
    for tp, rate in pairs(part) do
      local seconds, flops = head(tp, false)
      assert.near(1, seconds * rate * peak_of_bf16 / flops, 0.02, tp)
      seconds, flops = head(tp, true)
      assert.near(1, seconds * peak_of_bf16 / flops, 0.02, tp)
    end
  end)
end)
