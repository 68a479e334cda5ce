-- Measured steps compared with predicted ones: traces of PyTorch's profiler, timers of Megatron-LM.
local json = require "tperf.input.json"
local kineto = require "tperf.import.kineto"
local program = require "program"
local timers = require "tperf.import.megatron_timers"
local tperf = require "tperf"
local yaml = require "tperf.core".yaml

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

local function written(name, content)
  local path = folder .. "/" .. name
  program.write(path, content)
  return path
end

local function refusal(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

-- An event in microseconds, as the profiler writes them.
local function event(name, ts, dur, more)
  return ('{"ph":"X","cat":"kernel","name":"%s","ts":%s,"dur":%s,"pid":0,"tid":7%s}'):format(name, ts, dur, more or "")
end
local function step(number, ts, dur)
  return ('{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","ts":%d,"dur":%d,"pid":1,"tid":1}'):format(number,
    ts, dur)
end
local function trace(events, more)
  return '{"schemaVersion":1,' .. (more or "") .. '"traceEvents":[\n' .. table.concat(events, ",\n") .. "]}"
end

describe("JSON of any size", function()
  it("is decoded as the YAML reader decodes it", function()
    local text = '{"a": [1, -2.5e3, true, false, {"b\\u00e9\\n\\"": "\\ud83d"}], "c": {}, "d": "x\\\\y"}'
    local ours, theirs = json.decode(text, "t"), yaml((text:gsub("\\ud83d", "?")), "t")
    assert.same(theirs, ours)
    assert.is_nil(json.decode('{"a": null}', "t").a)
  end)

  it("is refused with the position of the error", function()
    for text, expected in pairs {
      ['{"a": 1'] = "an end too early", ['{"a" 1}'] = "a colon is missing", ['[1 2]'] = "a comma is missing",
      ['{a: 1}'] = "a key is missing", ['["abc]'] = "a string without end", ["[\n\n+]"] = "t:3: no value",
      [("["):rep(100)] = "nesting of more than 64 levels", [""] = "an end too early", ['["\\x"]'] = "a wrong escape",
    } do
      assert.matches(expected, refusal(json.decode, text, "t"), 1, true)
    end
  end)
end)

describe("a trace of PyTorch's profiler", function()
  it("is split into kernels and collectives by kind, for the marked steps", function()
    local named = ',"args":{"Collective name":"%s","Process Group Description":"EXPERT_MODEL_PARALLEL_GROUP"}'
    local measured = kineto.read(written("kinds.json", trace({
      event("before the first step", 0, 50), step(1, 100, 1000), step(2, 1100, 1000),
      event("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", 100, 300),
      event("void flash::flash_bwd_kernel<{lambda(int)#1}>", 400, 200), event("rms_norm_kernel", 600, 10),
      event("void at::native::elementwise_kernel", 610, 5),
      event("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 620, 40),
      event("ncclDevKernel_SendRecv", 700, 60, named:format "all_to_allv"),
      event("ncclDevKernel_SendRecv", 800, 30, named:format "send"),
      event("void multi_tensor_apply_kernel<AdamFunctor>", 1200, 100),
      '{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","ts":1400,"dur":7,"pid":0,"tid":7,"args":{}}',
      '{"ph":"X","cat":"cpu_op","name":"aten::mm","ts":100,"dur":900,"pid":1,"tid":1}',
    }, '"distributedInfo":{"backend":"nccl","rank":3,"world_size":8},')))
    assert.same({ 2, 1e-3, 3, 9 }, { measured.steps, measured.step_time, measured.rank, #measured.events })
    local kinds = {}
    for i, e in ipairs(measured.events) do kinds[i] = e.kind end
    assert.same({ "matrix products", "attention", "norms", "passes over elements", "all_gather", "all_to_all",
      "messages", "optimizer", "copies" }, kinds)
    assert.near(300e-6, measured.events[2].start, 1e-12)
  end)

  it("counts as one step if no step is marked", function()
    local measured = kineto.read(written("bare.json", trace { event("gemm", 1000, 100), event("gemm", 1300, 200) }))
    assert.equal(1, measured.steps)
    assert.near(500e-6, measured.step_time, 1e-12)
    assert.is_nil(measured.rank)
  end)

  it("is refused if it is not a trace, or not of a GPU", function()
    assert.matches("has no \"traceEvents\"", refusal(kineto.read, written("a.json", '{"x": 1}')), 1, true)
    assert.matches("has no kernels; was the GPU profiled",
      refusal(kineto.read, written("b.json", trace { step(1, 0, 9) })))
    assert.matches("compressed; unpack it first: gunzip", refusal(kineto.read, written("c.json", "\31\139\8\0")))
    assert.matches("traceEvents%[1%] has no name, or no number as ts or dur",
      refusal(kineto.read, written("d.json", trace { event("gemm", '"soon"', 1) })))
    assert.matches("cannot open", refusal(kineto.read, folder .. "/none.json"))
  end)
end)

describe("Megatron-LM's timers", function()
  local MINMAX <const> = [[
 iteration        1/     100 | elapsed time per iteration (ms): 9000.0 | learning rate: 1.0E-05 |
(min, max) time across ranks (ms):
    forward-compute ................................: (2500.00, 2700.00)
    optimizer ......................................: (30.00, 31.00)
 iteration        2/     100 | elapsed time per iteration (ms): 1800.0 | learning rate: 1.0E-05 |
(min, max) time across ranks (ms):
    forward-compute ................................: (500.00, 520.00)
    optimizer ......................................: (30.00, 31.00)
]]

  it("are read in all three forms, without the first iteration", function()
    local found = timers.parse(MINMAX)
    assert.same({ 1.8, 1.8 }, found.iteration)
    assert.same({ 0.5, 0.52 }, found["forward-compute"])
    assert.same({ ["forward-compute"] = { 0.1, 0.1 } },
      timers.parse "max time across ranks (ms):\n    forward-compute ....: 100.0\n")
    assert.same({ ["backward-compute"] = { 0.2, 0.25 } }, timers.parse(
      "times across ranks (ms):\n  backward-compute:\n     rank  0: 200.00\n     rank  1: 250.00\n"))
    assert.is_true(timers.recognise(MINMAX))
  end)

  it("are compared with their predictions", function()
    local c, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 2, dp = 2, global_batch = 8,
      simulate = true, software = "megatron-bridge-26.06" }
    local b = t:beside(written("run.log", MINMAX))
    assert.equal("timers", b.kind)
    local rows = {}
    for _, row in ipairs(b.rows) do rows[row.kind] = row end
    assert.near(c.simulated.time, rows.iteration.predicted, 1e-9)
    assert.near(1.8 - c.simulated.time, rows.iteration.difference, 1e-9)
    assert.near(c.breakdown.optimizer, rows.optimizer.predicted, 1e-9)
    local forwards = 0
    for _, op in t:queue(2) do forwards = forwards + (op.type == "forward" and op.stop - op.start or 0) end
    assert.is_true(rows["forward-compute"].predicted >= forwards - 1e-9)
    assert.matches("is neither a trace of PyTorch's profiler",
      refusal(t.beside, t, written("x.txt", "hello\n")), 1, true)
  end)

  it("say where the run lies among those of its software", function()
    local c = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, dp = 4, global_batch = 8 }
    local places <const> = { [0.9 * c.interval.low / c.time] = "; this one is faster than nineteen in twenty of them",
      [1.01] = ", as this one does", [1.1 * c.interval.high / c.time] = "; this one is slower than nineteen in twenty" }
    for part, place in pairs(places) do
      local log = (" iteration 2/ 9 | elapsed time per iteration (ms): %.3f |\n"):format(1e3 * part * c.time)
      local asked = "tperf train llama-3.1-8b -s h100-sxm -b 8 --tp 2 --dp 4 --measured " .. written("place.log", log)
      local out = program.shell(asked, folder).out
      local mfu, predicted = out:match "The measured step has an MFU of (%S+) %%, the predicted one (%S+) %%"
      assert.near(100 * c.mfu, tonumber(predicted), 0.01)
      assert.near(100 * c.mfu / part, tonumber(mfu), 0.01)
      assert.truthy(out:find(place, 1, true), out)
      assert.is_nil(program.shell(asked .. " --software none", folder).out:find "Nine tenths")
    end
  end)
end)

describe("a measured step beside the predicted one", function()
  it("matches if the trace is the prediction's own", function()
    local model = tperf.model "llama-3.1-8b":with { layers = 8 }
    local _, t = tperf.train { model = model, system = "h100-sxm", tp = 2, dp = 4, global_batch = 8, zero = 0,
      simulate = true, software = "none" }
    local names = { ["matrix products"] = "gemm", attention = "flash_fwd", norms = "rms_norm" }
    local work, events = require "tperf.timeline.work", { step(1, 0, 1e6 * t.iteration_time // 1) }
    local counts = work.counts(t.configuration)
    for task in require "tperf.timeline.tasks".each(t, 1) do
      local kind = work.kind(task, counts, t.configuration)
      if kind then
        events[#events + 1] = event(names[kind] or "nccl " .. kind, ("%.6f"):format(1e6 * task.start),
          ("%.6f"):format(1e6 * task.seconds))
      end
    end
    local text = trace(events, '"distributedInfo":{"rank":1},'):gsub("nccl passes over elements", "add")
    local b = t:beside(written("same.json", text))
    assert.same({ "trace", 1, 1 }, { b.kind, b.device, b.rank })
    local last = b.rows[#b.rows]
    assert.equal("the step", last.kind)
    assert.near(t.iteration_time, last.measured, 1e-6)
    for _, row in ipairs(b.rows) do
      if row.kind ~= "nothing runs" then assert.near(row.predicted, row.measured, 1e-5, row.kind) end
    end
  end)

  it("lists the largest difference first, and is drawn", function()
    local path = written("slow.json", trace { step(1, 0, 900000), event("gemm", 0, 800000),
      event("flash_fwd", 800000, 5), event("ncclDevKernel_AllReduce", 800005, 5) })
    local asked = "tperf train llama-3.1-8b -s h100-sxm -b 8 --tp 2 --dp 4 --software none --measured " .. path
    local result = program.shell(asked .. " --beside both.svg", folder)
    assert.equal(0, result.code, result.err)
    assert.matches("^seconds of a step +predicted +measured +difference", result.out)
    assert.matches("\nmatrix products [^\n]*\n", result.out:match "^[^\n]*\n[^\n]*(\n[^\n]*\n)")
    assert.matches("\nMeasured: 1 step of a rank that the trace does not name; predicted: device 1\n", result.out, 1,
      true)
    local svg = program.slurp(folder .. "/both.svg")
    assert.matches("^<svg .*measured, communication.*</svg>\n$", svg)
    assert.equal(2, program.shell("tperf train llama-3.1-8b -s h100-sxm -b 8 --beside x.svg", folder).code)
    result = program.shell(asked .. " --json", folder)
    assert.equal("matrix products", yaml(result.out, "out")[1].kind)
  end)
end)

-- The traces in spec/data/traces have durations written by hand; the sums below add those.
describe("a trace op by op", function()
  local TRACES <const> = program.shell("pwd").out:match "[^\n]+" .. "/spec/data/traces/"

  local function rows_of(b)
    local found = {}
    for _, row in ipairs(b.ops) do found[row.op .. (row.pass ~= "" and ", " .. row.pass or "")] = row end
    return found
  end

  local function measured(rows, name)
    local row = rows[name] or error("no row " .. name)
    return { row.kernels, math.floor(row.measured * 1e6 + 0.5) }
  end

  local function two_layers(file)
    local _, t = tperf.train { model = tperf.model("llama-3.1-8b"):with { layers = 2 }, system = "h100-sxm", seq = 8192,
      global_batch = 1, simulate = true, software = "none" }
    return t:beside(TRACES .. file)
  end

  local TWO_LAYERS <const> = {
    ["attention qkv, forward"] = { 6, 2 * (601 + 151 + 152) },
    ["attention qkv, backward"] = { 12, 2 * (153 + 154 + 155 + 156 + 605 + 606) },
    ["attention attention, forward"] = { 2, 2 * 2001 },
    ["attention attention, backward"] = { 6, 2 * (91 + 5001 + 92) },
    ["attention proj, forward"] = { 2, 2 * 602 }, ["attention proj, backward"] = { 4, 2 * (603 + 604) },
    ["attention rotary, forward"] = { 2, 2 * 83 }, ["attention rotary, backward"] = { 2, 2 * 84 },
    ["attention norm, forward"] = { 2, 2 * 41 }, ["attention norm, backward"] = { 2, 2 * 103 },
    ["attention residual, forward"] = { 2, 2 * 71 }, ["mlp norm, forward"] = { 2, 2 * 42 },
    ["mlp fc1, forward"] = { 4, 2 * (2101 + 2102) }, ["mlp fc1, backward"] = { 8, 2 * (2106 + 2107 + 2108 + 2109) },
    ["mlp silu, forward"] = { 2, 2 * 301 }, ["mlp silu, backward"] = { 2, 2 * 501 },
    ["mlp fc2, forward"] = { 2, 2 * 2103 }, ["mlp fc2, backward"] = { 4, 2 * (2104 + 2105) },
    ["head head, forward"] = { 1, 15001 }, ["head head, backward"] = { 2, 15002 + 15003 },
    ["head loss, forward"] = { 1, 3001 }, ["head loss, backward"] = { 1, 3002 },
    ["embedding table, forward"] = { 1, 61 }, ["embedding table, backward"] = { 1, 401 },
  }

  for _, file in ipairs { "two_layers.json", "two_layers_kernels.json" } do
    it("finds each op's kernels in " .. file, function()
      local b = two_layers(file)
      local rows = rows_of(b)
      for name, expected in pairs(TWO_LAYERS) do assert.same(expected, measured(rows, name), name) end
      assert.is_true(b.whole)
      assert.same({}, b.missing)
      local alone = {}
      for i, one in ipairs(b.unmatched) do alone[i] = { one.kernel:match "multi_tensor" or one.kernel, one.kernels } end
      assert.same({ { "multi_tensor", 1 }, { "my_metrics_kernel", 1 } }, alone)
    end)
  end

  it("lists the largest difference first, and accounts for all measured time", function()
    local b = two_layers "two_layers.json"
    local sum, last = 0.0, math.huge
    for _, row in ipairs(b.ops) do
      assert.near(row.measured - row.predicted, row.difference, 1e-12)
      assert.is_true(math.abs(row.difference) <= last)
      sum, last = sum + row.measured, math.abs(row.difference)
    end
    for _, one in ipairs(b.unmatched) do sum = sum + one.measured end
    local all = 0.0
    for _, e in ipairs(b.measured) do all = all + e.stop - e.start end
    assert.near(all, sum, 1e-9)
  end)

  it("lists predicted ops without a kernel in the trace", function()
    local text = program.slurp(TRACES .. "two_layers.json"):gsub("[^\n]*cross_entropy_fwd[^\n]*\n", "")
    local _, t = tperf.train { model = tperf.model("llama-3.1-8b"):with { layers = 2 }, system = "h100-sxm", seq = 8192,
      global_batch = 1, simulate = true, software = "none" }
    local b = t:beside(written("no_loss.json", text))
    assert.same({ { "head loss", "forward" } }, { { b.missing[1].op, b.missing[1].pass } })
    assert.equal(1, #b.missing)
    assert.same({ 2, 2 * 2103 }, measured(rows_of(b), "mlp fc2, forward"))
  end)

  it("matches a step of thousands of kernels, layer by layer", function()
    local _, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 4, simulate = true,
      software = "none" }
    local work, events = require "tperf.timeline.work", {}
    local counts, slow, extra, all = work.counts(t.configuration), 0.0, 0, 0
    local function add(name, at, seconds)
      events[#events + 1] = event(name, ("%.6f"):format(1e6 * at), ("%.6f"):format(1e6 * seconds))
      all = all + 1
    end
    local at = 0.0
    for task in require "tperf.timeline.tasks".each(t, 1) do
      local kind, back = work.kind(task, counts, t.configuration), task.pass == "backward"
      local factor = task.op == "fc2" and 2 or 1
      local long = factor * task.seconds
      if task.op == "fc2" then slow = slow + task.seconds end
      if kind == "attention" then
        if back then add("flash_bwd_dot_do_o_kernel", at, 1e-6) end
        add(back and "flash_bwd_kernel" or "flash_fwd_kernel", at + 1e-6, long)
      elseif kind == "matrix products" and back then
        add("nvjet_a", at, long / 2)
        add("nvjet_b", at + long / 2, long / 2)
      elseif kind == "norms" or kind == "matrix products" or kind == "passes over elements" then
        add(kind == "norms" and "rms_norm" or kind == "matrix products" and "nvjet" or "triton_poi", at, long)
      end
      if task.op == "fc2" and not back and extra < 5 then
        extra = extra + 1
        add("rms_norm_of_another", at + long, 1e-3)
      end
      at = at + long + 2e-3
    end
    assert.is_true(all > 2500, all)
    local b = t:beside(written("long.json", trace(events)))
    assert.is_true(b.whole)
    local rows = rows_of(b)
    assert.near(slow, rows["mlp fc2, forward"].difference + rows["mlp fc2, backward"].difference, 1e-5)
    assert.near(0, rows["attention qkv, backward"].difference, 1e-5)
    assert.near(128e-6, rows["attention attention, backward"].difference, 1e-6)
    assert.equal(4 * 32 * 2, rows["attention attention, backward"].kernels)
  end)

  it("matches an overlapped pair of DualPipe's chunks by annotations", function()
    local _, t = tperf.train { model = "deepseek-v3", system = "h100-sxm", pp = 16, dp = 64, ep = 64, seq = 4096,
      global_batch = 2048, micro_batch = 1, simulate = "dualpipe", software = "none", precision = "fp8-block" }
    local b = t:beside(TRACES .. "dualpipe_pair.json", { part = "pair", device = 8 })
    local rows = rows_of(b)
    for name, expected in pairs {
      ["all_to_all over ep for moe dispatch, forward"] = { 12, 4 * (45 + 301 + 3321) },
      ["all_to_all over ep for moe dispatch, backward"] = { 8, 4 * (1009 + 6549) },
      ["all_to_all over ep for moe combine, forward"] = { 8, 4 * (1010 + 6550) },
      ["all_to_all over ep for moe combine, backward"] = { 8, 4 * (1008 + 3320) },
      ["moe fc1, forward"] = { 4, 4 * 2401 }, ["moe fc2, forward"] = { 4, 4 * 1201 },
      ["moe fc1, backward"] = { 8, 4 * (5401 + 1301) }, ["moe fc2, backward"] = { 8, 4 * (2701 + 2025) },
      ["attention proj, forward"] = { 4, 4 * 1101 }, ["attention proj, backward"] = { 8, 4 * (1102 + 1103) },
      ["attention q-up, forward"] = { 4, 4 * 701 }, ["attention q-up, backward"] = { 8, 4 * (702 + 703) },
      ["attention kv-up, backward"] = { 8, 4 * (302 + 303) }, ["attention q-down, backward"] = { 8, 4 * (202 + 203) },
      ["attention attention, forward"] = { 4, 4 * 1601 }, ["attention attention, backward"] = { 4, 4 * 3809 },
    } do
      assert.same(expected, measured(rows, name), name)
    end
    assert.same({}, b.unmatched)
    assert.matches("'part' is \"pair\", but device 1 has none under the schedule 1f1b", refusal(function()
      local _, other = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 1, simulate = true }
      other:beside(TRACES .. "dualpipe_pair.json", { part = "pair" })
    end), 1, true)
  end)

  it("is printed as a table, and with --json --by op", function()
    local asked = "tperf train llama-3.1-8b -s h100-sxm -b 1 --seq 8192 --set model.layers=2 --software none "
      .. "--measured " .. TRACES .. "two_layers.json"
    local result = program.shell(asked, folder)
    assert.equal(0, result.code, result.err)
    assert.matches("\nop by op +pass +kernels +predicted +measured", result.out)
    assert.matches("\nmlp fc1 +backward +8 ", result.out)
    assert.matches("\nKernels that no predicted op has, 9.778 ms of a step\n", result.out, 1, true)
    result = program.shell(asked .. " --by op --json", folder)
    assert.equal("mlp fc1", yaml(result.out, "out")[1].op)
    assert.equal(2, program.shell(asked .. " --by hand", folder).code)
    assert.equal(2, program.shell("tperf train llama-3.1-8b -s h100-sxm -b 8 --part pair", folder).code)
  end)
end)
