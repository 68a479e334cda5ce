--- Valid calls of the functions that tools/fuzz/calls.lua leaves, in the same form.
local tperf = require "tperf"

local tiny = { name = "tiny", layers = 4, hidden = 512, heads = 8, ffn = 2048, seq = 512, vocab = 1000, causal = true }
local STEP <const> = { fixed = 1e-3, per_token = 1e-5, per_context_token = 1e-8, per_prefill_pair = 1e-9 }

local calls = {}

-- --- serving ---

function calls.serve()
  return { { step_time = STEP, load = { rate = 5, cv = 2, process = "gamma" }, count = 20,
    prompt = { uniform = { 10, 50 } }, output = { lognormal = { mean = 20, cv = 1 }, min = 1, max = 100 },
    engine = { num_blocks = 50, max_num_seqs = 4, speculation = { method = "eagle", tokens = 2, acceptance = 0.5 } },
    prefix = { tokens = 32, groups = 2 }, slo = { ttft = 1, quantile = 0.9 }, replicas = 2, router = "prefix",
    keep = "steps", threads = 2, seed = 3 } }, tperf.serve
end

function calls.serve_listed()
  return { { step_time = STEP, keep = "requests",
    requests = { { arrival = 0, prompt = 5, output = 2, priority = 1 },
      { arrival = 1, prompt = 9, output = 3, segments = { { 1, 4 }, { 2, 5 } } }, { arrival = 2, prompt = 5,
        output = 2 } },
    engine = { policy = "priority" } } }, tperf.serve
end

function calls.serve_stages()
  return { { step_time = STEP, load = { stages = { { rate = 5, duration = 1 }, { rate = 2, duration = 2 },
    { rate = 1, duration = 1 } } }, prompt = { values = { 5, 6, 7 } }, output = { exponential = 4 } } }, tperf.serve
end

function calls.serve_model()
  return { { model = tiny, system = "h100-sxm", load = { concurrency = 2, think = 0.1 }, count = 5, prompt = 16,
    output = 4, prefill = { tp = 1, replicas = 1 }, decode = { tp = 2, replicas = 1 },
    transfer = { latency = 1e-3, per_token = 1e-6 } } }, tperf.serve
end

function calls.saturation()
  return { { step_time = STEP, count = 100, prompt = 16, output = 4, slo = { ttft = 1, tpot = 0.1 },
    tolerance = 0.3 } },
    tperf.saturation
end

function calls.load_curve()
  return { { step_time = STEP, count = 100, prompt = 16, output = 4, rates = { 1, 2, 3 } } }, function(...)
    local rows = tperf.load_curve(...)
    return tperf.plot.load { rows = rows, slo = { ttft = 1 } }:svg()
  end
end

function calls.search_serving()
  return { { model = tiny, system = "h100-sxm", rate = 50, gpus = 1, prompt = 16, output = 1, count = 100, tp = { 1 },
    max_num_seqs = { 16 }, max_num_batched_tokens = 256, slo = { ttft = 1, tpot = 1 } } }, tperf.search_serving
end

function calls.search_rl()
  return { { model = tiny, system = "h100-sxm", gpus = 2, prompts = 2, samples = 2, prompt = 16, response = { mean = 4,
    max = 8 }, mode = { "colocated", "async" }, staleness = 1, train = { tp = 1, pp = 1, recompute = "none" },
    rollout = { tp = { 1 } }, minimize = "time", top = 2 } }, tperf.search_rl
end

-- --- measurements ---

function calls.calibrate()
  return { { system = "h100-sxm", files = { "spec/data/measured/memory.csv" }, keep = true, salt = 1, name = "mine",
    source = "here" } }, tperf.calibrate
end

function calls.calibrate_cases()
  return { { system = "h100-sxm", keep = true, files = { { kind = "direct", cases = { { bytes = 1e6, gpus = 8,
    measured = 1e-5 },
    { bytes = 1e7, gpus = 8, measured = 2e-5 } } } } } }, tperf.calibrate
end

function calls.validate()
  return { { file = "spec/data/measured/memory.csv", system = "h100-sxm", brief = true } }, tperf.validate
end

-- --- launches ---

local SCRIPT <const> = [[
torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 \
  --seq-length 512 --micro-batch-size 1 --global-batch-size 16 --tensor-model-parallel-size 2 --bf16
]]

function calls.import_launch()
  return { { files = { { name = "run.sh", text = SCRIPT }, { name = "more.yaml", text = "a: 1\n" } }, gpus = 16,
    given = { NNODES = 2 } } }, tperf.import.launch
end

function calls.import_deepspeed()
  return { { files = { { name = "run.sh", text = "deepspeed --num_gpus 8 train.py --deepspeed ds.json" },
    { name = "ds.json", text = '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, '
      .. '"gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}}' } } } }, tperf.import.launch
end

function calls.import_arguments()
  local launch = tperf.import.launch { files = { { name = "run.sh", text = SCRIPT } } }
  return { launch, { model = tiny, vocab = 1000, micro_batch = 1, global_batch = 16, seq = 512 } },
    tperf.import.arguments
end

function calls.import_arguments_alone()
  return { { tp = 2, pp = 1, cp = 1, gpus = 16, micro_batch = 1, global_batch = 16 }, { model = "gpt2",
    vocab = 1000, drafts = "x" } }, tperf.import.arguments
end

-- --- reports and pictures ---

local function configuration()
  return tperf.train { model = tiny, system = "h100-sxm", global_batch = 16, dp = 8 }
end

function calls.report_launch()
  return { configuration(), "megatron", { model = "gpt2", seq = 512, question = { recompute = "none" } } },
    tperf.report.launch
end

for _, name in ipairs { "layout", "placement", "software", "short" } do
  calls["report_" .. name] = function()
    local c = configuration()
    return { name == "software" and { c, c } or name == "short" and "a/b.yaml" or c }, tperf.report[name]
  end
end

function calls.report_configurations()
  return { { configuration(), configuration(), configuration() }, { "time", { key = "tp", title = "TP" } } },
    tperf.report.configurations
end

local rows = { { x = 1, y = 2, z = 1, name = "a", flops = 1e9, bytes = 1e6 },
  { x = 2, y = 4, z = 2, name = "b", flops = 1e9, bytes = 1e6 },
  { x = 3, y = 9, z = 3, name = "c", flops = 1e9, bytes = 1e6 } }

function calls.report_groups() return { rows, "name", "x" }, tperf.report.groups end

function calls.report_present() return { rows, { "x", "y", "none" } }, tperf.report.present end

function calls.report_text()
  return { rows, { "x", { key = "y", title = "Y", unit = "s", digits = 3, align = "left" }, { key = "z",
    format = "%.2f" } }, { title = "t", color = true, ascii = true, empty = "none" } }, tperf.report.text
end

function calls.report_markdown() return { rows, { "x", "y", { key = "name" } } }, tperf.report.markdown end

function calls.report_objects()
  return { { title = "t" }, "section", "some text", rows, { "x", "y" } },
    function(given, section, text, ...)
      local report = tperf.report.new(given)
      report:section(section)
      report:text(text)
      report:table(...)
      return report:render "html", report:render "json", report:render "text", report:render "markdown"
    end
end

function calls.plot_many()
  return { { rows = rows, x = "x", y = { "y", "z", { key = "z", title = "Z" } }, guides = { { y = 3, label = "g" },
    { x = 2, label = "h" }, { y = 5, label = "i" } }, logx = 2, xmin = 1, xmax = 3 } }, function(...)
    local plot = tperf.plot.lines(...)
    return plot:svg(), plot:text { width = 60 }
  end
end

function calls.plot_bars_many()
  return { { rows = rows, x = "name", y = { "x", "y", "z" }, y2 = { "x", "y", "z" }, mode = "stacked", share = true } },
    function(...)
      local plot = tperf.plot.bars(...)
      return plot:svg(), plot:text()
    end
end

function calls.plot_scatter_many()
  return { { rows = rows, x = "x", y = "y", label = "name", pareto = { x = "min", y = "max" }, series = "name" } },
    function(...)
      local plot = tperf.plot.scatter(...)
      return plot:svg(), plot:text()
    end
end

function calls.plot_contour_many()
  local grid = {}
  for x = 1, 3 do
    for y = 1, 3 do grid[#grid + 1] = { x = x, y = y, z = x * y, w = 2 * x } end
  end
  return { { rows = grid, x = "x", y = "y", z = "z", x2 = "w", levels = { 1, 2, 4 }, marks = { { x = 1, y = 1,
    label = "m" }, { x = 2, y = 2, label = "n" }, { x = 3, y = 2, label = "o" } } } },
    function(...)
      local plot = tperf.plot.contour(...)
      return plot:svg(), plot:text()
    end
end

function calls.plot_configurations()
  local two = tperf.train { model = tiny, system = "h100-sxm", global_batch = 16, dp = 4, tp = 2 }
  return { { rows = { configuration(), two }, x = "tp", title = "t" } },
    function(...) return tperf.plot.configurations(...):svg() end
end

function calls.plot_panels()
  local plot = tperf.plot.lines { rows = rows, x = "x", y = "y" }
  return { { title = "t", plot, plot, plot } }, function(...) return tperf.plot.panels(...):svg() end
end

function calls.plot_roofline()
  return { { rows = rows, name = "name", flops = "flops", bytes = "bytes", peaks = { { title = "tensor",
    flops = 312e12 }, { title = "vector", flops = 19e12 }, { title = "other", flops = 1e12 } },
    bandwidths = { { title = "HBM", bytes = 2e12 }, { title = "L2", bytes = "4 TB/s" }, { title = "L1",
      bytes = 8e12 } } } },
    function(...) return tperf.plot.roofline(...):svg() end
end

function calls.plot_spans()
  return { { rows = rows, start = "x", stop = "y", lane = "z", series = "name" } },
    function(...) return tperf.plot.spans(...):svg() end
end

for _, kind in ipairs { "occupancy", "requests" } do
  calls["plot_" .. kind] = function()
    local served = tperf.serve { step_time = STEP, keep = "steps", load = { rate = 5 }, count = 5, prompt = 16,
      output = 4 }
    return { { result = served, title = "t", first = kind == "requests" and 1 or nil } },
      function(...) return tperf.plot[kind](...):svg() end
  end
end

-- --- descriptions ---

function calls.schedule_closed_form()
  return { { schedule = "1f1b", devices = 4, microbatches = 8 } }, tperf.schedule.closed_form
end

function calls.schedule_in_flight()
  return { { schedule = "1f1b", devices = 4, microbatches = 8, device = 1 } }, tperf.schedule.in_flight
end

function calls.schedule_default_stages()
  return { tperf.schedule.get "1f1b", 4 }, tperf.schedule.default_stages
end

function calls.schedule_define()
  return { "fuzzed", { order = function(s) s:forward(1, 1, 1) s:backward(1, 1, 1) end, summary = "s",
    stages_per_device = 1, placement = "block" } }, tperf.schedule.define
end

function calls.schedule_limits()
  return { { schedule = "1f1b", devices = 3, microbatches = 4, times = { forward = { 1, 1, 1 }, backward = { 2, 2,
    2 } },
    memory_limit = { 9, 9, 9 }, ready = { 0, 1, 2 }, memory = { forward = 1 } } }, tperf.schedule
end

for _, name in ipairs { "list", "of" } do
  calls["strategy_" .. name] = function() return { "tensor" }, tperf.strategy[name] end
end

function calls.strategy_list_of() return { { "tensor", "context", "summa" } }, tperf.strategy.list end

function calls.strategy_share()
  return { tperf.strategy.of "tensor", tperf.model(tiny), 1, { 1, 2 }, tperf.rules "default", { mode = "train" } },
    tperf.strategy.share
end

function calls.architecture_of() return { tperf.model(tiny), tperf.rules "default", false }, tperf.architecture.of end

function calls.architecture_groups()
  local block = tperf.block("b", function(model, share)
    return { tperf.op.norm { tokens = share.tokens, width = model.hidden } }
  end)
  return { { name = "own", layer = { block, block, block }, groups = { { count = 1, key = "a", blocks = { block } },
    { count = 2, key = "b" }, { count = 1, key = "a", blocks = { block } } }, parameters = 1e6,
    flops_per_token = 1e6 } }, function(given)
    return tperf.train { model = { name = "m", layers = 4, hidden = 256, heads = 4, ffn = 512, seq = 256,
      architecture = tperf.architecture(given) }, system = "h100-sxm", global_batch = 8, dp = 2 }
  end
end

function calls.model_methods()
  return { { layers = 2, seq = 1024 }, { seq = 512 } }, function(changes, options)
    local m = tperf.model(tiny)
    return m:with(changes), m:groups(), m:parameters(), m:flops_per_token(options)
  end
end

function calls.model_windows()
  return { { name = "w", layers = 4, hidden = 512, heads = 8, ffn = 1024, vocab = 1000, seq = 512,
    window = { size = 128 }, experts = { count = 8, top_k = 2, ffn = 128 } } }, tperf.model
end

function calls.software()
  return { { name = "own", compute = 1.1, attention = 1.1, memory = 1, comm = 1.2, host = "5 us",
    overlap = 0.5, spread = { 0.8, 1.2 }, gpus = { 8, 64 }, systems = { "a", "b", "c" } } }, tperf.software
end

function calls.args_set() return { { "--batch", "8", "3" } }, tperf.args.set end

function calls.logspace() return { 1, 8, 4 }, tperf.logspace end

function calls.schema() return { "train" }, tperf.schema end

function calls.zip() return { { a = { 1, 2, 3 }, b = { 3, 4, 5 } } }, tperf.zip end

function calls.sweep_points()
  return { { tperf.grid { gpus = { 2, 4, 8 } }, model = tiny, system = "h100-sxm", global_batch = 8,
    fields = { "time", "memory.total", "gpus" }, progress = false } }, tperf.sweep
end

function calls.sweep_given()
  return { { x = tperf.vary { 1, 2, 3 }, y = tperf.vary { 1, 2, as = "why" }, run = function(p) return p.x end,
    fields = { "x" }, key = "k", progress = false } }, tperf.sweep
end

function calls.rules_used() return {}, tperf.rules.used end

function calls.units_read() return { "40 GB" }, tperf.units.read end

function calls.op_elementwise()
  return { { name = "e", elements = 80, forward_flops = 3, forward_bytes = 4, backward_flops = 1 } },
    tperf.op.elementwise
end

function calls.op_collective()
  return { { name = "c", kind = "all_reduce", axis = "tp", bytes = 100 } }, tperf.op.collective
end

function calls.block_constructor() return { "b", function() return {} end }, tperf.block end

return calls
