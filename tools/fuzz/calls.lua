--- Valid calls of the library for the fuzzers to corrupt: each function returns a list of arguments.
local tperf = require "tperf"
local values = require "values"

local tiny = { name = "tiny", layers = 4, hidden = 512, heads = 8, ffn = 2048, seq = 512, vocab = 1000 }

local served = { name = "served", layers = 4, hidden = 512, heads = 8, ffn = 1024, seq = 512, vocab = 1000,
  causal = true }

local function system() return tperf.system "h100-sxm" end

local function block(name, change)
  return tperf.block(name, function(model, share)
    local ops = {
      tperf.op.norm { name = "n", tokens = share.tokens, width = model.hidden },
      tperf.op.linear { name = "l", tokens = share.tokens, n_in = model.hidden, n_out = model.hidden },
    }
    return change and change(ops) or ops
  end)
end

local calls = {}

function calls.search()
  return { { model = tiny, system = system(), gpus = { 4, 8 }, global_batch = 8, top = 3, threads = 2,
    pp = { 1, 2 }, fast = {}, zero = { 0, 1 }, recompute = { "none" } } }, tperf.search
end

function calls.search_where()
  local arguments = { { model = tiny, system = system(), gpus = 8, global_batch = 8, top = 3, keep = "all" } }
  return arguments, tperf.search, { "where", "progress" }
end

function calls.search_all()
  return { { model = tiny, system = { system(), "a100-sxm-80gb" }, gpus = 8, global_batch = 8, strategy = "all",
    schedule = { "1f1b", "interleaved_1f1b" }, virtual_stages = { 2 } } }, tperf.search
end

function calls.train()
  return { { model = tiny, system = system(), global_batch = 16, tp = 2, pp = 2, dp = 2, micro_batch = 2,
    fast = { tp = 2, dp = 2, pp = 2 }, simulate = { schedule = "1f1b" } } }, tperf.train
end

function calls.infer()
  return { { model = served, system = system(), prompt = 100, generate = 20, batch = 4, tp = 2, pp = 2, ops = true } },
    tperf.infer
end

function calls.search_inference()
  return { { model = served, system = system(), prompt = 100, generate = 20, gpus = 4, ttft = 10, tpot = 1 } },
    tperf.search_inference
end

function calls.collective()
  return { { kind = "all_reduce", bytes = 1e6, gpus = 8, system = system(), fast = 8 } }, tperf.collective
end

function calls.layer()
  return { { model = tiny, tp = 2, micro_batch = 2, system = system() } }, tperf.layer
end

function calls.schedule()
  return { { schedule = "1f1b", devices = 4, microbatches = 8, times = { forward = 1, backward = 2 },
    p2p = 0.1 } }, tperf.schedule
end

local defined = 0 -- schedules, each under a name of its own

function calls.schedule_own()
  local function order(s)
    for m = 1, s.microbatches do s:forward(1, 1, m) end
    for m = 1, s.microbatches do s:backward(1, 1, m) end
  end
  return { { devices = 1, stages = 1, microbatches = 3, times = { forward = 1, backward = 2 } }, order },
    function(given, fill)
      defined = defined + 1
      given.schedule = "own-" .. defined
      tperf.schedule.define(given.schedule, fill)
      return tperf.schedule(given)
    end
end

function calls.architecture()
  return { { name = "own", first = { block "a" }, layer = { block "b", block "c" }, last = {} } }, tperf.architecture
end

function calls.block()
  return { { name = "m", layers = 2, hidden = 256, heads = 4, ffn = 512, seq = 256 }, { dp = 2 } }, function(model, how)
    model.architecture = tperf.architecture {
      name = "own", first = { block("f", values.spoil) }, layer = { block("b", values.spoil), block "c" },
    }
    how.model, how.system, how.global_batch = model, "h100-sxm", 8
    return tperf.train(how)
  end
end

function calls.op()
  return { { name = "l", tokens = 10, n_in = 20, n_out = 30, gather = "tp", dtype = "bf16" } }, tperf.op.linear
end

function calls.op_custom()
  return { { name = "c", forward = { tensor_flops = 1e9, bytes = 1e6,
    comms = { { kind = "all_reduce", axis = "tp", bytes = 100 } } }, backward = { vector_flops = 1 } } },
    tperf.op.custom
end

function calls.strategy()
  return { { name = "own" .. #tperf.strategy.names(), extends = "tensor", axes = {
    { name = "tp", admits = function() return true end } }, gradient_axes = { "tp" },
    sequence_shards = function() return 1 end } }, function(given)
    local s = tperf.strategy.define(given)
    return tperf.search { model = tiny, system = "h100-sxm", gpus = 4, global_batch = 8, strategy = s.name }
  end
end

function calls.sweep()
  return { { model = tiny, system = system(), gpus = tperf.vary { 2, 4 }, global_batch = 8 } }, tperf.sweep
end

function calls.sweep_run()
  return { { x = tperf.vary { 1, 2 }, y = { 1, 2 } } }, tperf.sweep, { "run" }
end

function calls.model()
  return { { name = "m", layers = 4, hidden = 512, heads = 8, ffn = 2048, seq = 512 } }, tperf.model
end

function calls.system()
  return { { network = { fast = { domain = 16 } } } }, function(changes) return system():with(changes) end
end

function calls.schedule_interleaved()
  return { { schedule = "interleaved_1f1b", devices = 4, stages = 8, microbatches = 8, p2p = 1,
    times = { forward = { 1, 1, 1, 1, 2, 2, 2, 2 }, backward = 2 } } }, function(given)
    local t = tperf.schedule(given)
    return t:svg(), t:text(), t:html()
  end
end

function calls.rules() return { { base = "default", memory_counts_passing = false } }, tperf.rules end

function calls.units() return { 80e9, "bytes", 3 }, tperf.units.format end

function calls.units_parse() return { "80 GB", "bytes" }, tperf.units.parse end

function calls.cost()
  return { tperf.train { model = tiny, system = "h100-sxm", global_batch = 16, dp = 8 }, { tokens = 1e9 } }, tperf.cost
end

function calls.cost_of_failures()
  return { tperf.train { model = tiny, system = "h100-sxm", global_batch = 16, dp = 8 }, {
    tokens = 1e15, price = 2, carbon = 400, power = 700, mtbf = { gpu = 1e8, gpus_per_node = 8 }, restart = 60,
    checkpoint = { bandwidth = 1e9, async = true, copy = 1e10 }, straggling = { deviation = 0.02, screened = 0.1 },
    spares = { nodes = 1, repair = 1e4, gpus_per_node = 8 },
  } }, tperf.cost
end

function calls.fewest()
  return { { model = tiny, system = system(), strategy = "tensor" } }, tperf.fewest
end

function calls.encoder_decoder()
  return { {
    name = "t", layers = 4, hidden = 512, heads = 8, ffn = 1024, seq = 128, vocab = 1000, positions = "relative",
    position_buckets = 32, encoder_stack = { layers = 2, seq = 256 },
  } }, function(given)
    return tperf.train { model = tperf.model(given), system = "h100-sxm", global_batch = 8, dp = 2, pp = 2 }
  end
end

function calls.vary() return { { 1, 2, as = "x" } }, tperf.vary end

function calls.linspace() return { 0, 1, 5 }, tperf.linspace end

function calls.grid() return { { a = { 1, 2 }, b = { 3 } } }, tperf.grid end

local rows = { { x = 1, y = 2, name = "a" }, { x = 2, y = 4, name = "b" }, { x = 3, y = 9, name = "c" } }

for _, writer in ipairs { "text", "csv", "json", "markdown", "html" } do
  calls["report_" .. writer] = function() return { rows, { "x", "y" }, {} }, tperf.report[writer] end
end

function calls.report_pivot() return { rows, "name", "x", "y" }, tperf.report.pivot end

for _, kind in ipairs { "lines", "scatter", "bars" } do
  calls["plot_" .. kind] = function()
    return { { rows = rows, x = "x", y = "y", title = "t", width = 400 } }, function(...)
      local plot = tperf.plot[kind](...)
      return plot:svg(), plot:text()
    end
  end
end

for _, kind in ipairs { "heatmap", "contour" } do
  calls["plot_" .. kind] = function()
    local grid = {}
    for x = 1, 3 do
      for y = 1, 3 do grid[#grid + 1] = { x = x, y = y, z = x * y } end
    end
    return { { rows = grid, x = "x", y = "y", z = "z", width = 400 } }, function(...)
      local plot = tperf.plot[kind](...)
      return plot:svg(), plot:text()
    end
  end
end

return calls
