--- The cases for fault injection (tools/faults.lua): calls of the library and, in this process, commands.
local check = require "tperf.base.check"
local core = require "tperf.core"
local descent = require "tperf.measured.calibrate.descent"
local program = require "program" -- spec/program.lua
local roots = require "tperf.base.roots"
local tperf = require "tperf"

local cases = {}

local MODEL <const> = { name = "small", layers = 4, hidden = 256, heads = 8, kv_heads = 4, ffn = 512, vocab = 1000,
  seq = 128 }

local SYSTEM <const> = tperf.system "h100-sxm" -- read once: reading is a separate case

-- Small files, quick to read, for questions that read them each time.
local SMALL <const> = { model = "spec/data/small/model.yaml", system = "spec/data/small/system.yaml" }

-- small: few enough allocations for specs to try all; "every": Lua's, too
local function add(name, f, small) table.insert(cases, { name = name, f = f, small = small }) end

add("tperf.model", function() return tperf.model "spec/data/hf/mixtral-8x7b.json":parameters() end)
add("tperf.system", function() return tperf.system("systems/h100-sxm.yaml"):with({ name = "mine" }).network end)
add("tperf.search", function()
  local found = tperf.search { model = MODEL, system = SYSTEM, gpus = 4, global_batch = 4, threads = 1,
    keep = "all", strategy = { "tensor", "summa" }, pp = { 1, 2 } }
  return { found.candidates, table.unpack(found) }
end, true)
add("tperf.search with two threads and a function", function()
  local both = tperf.search { model = MODEL, system = SYSTEM, gpus = { 4, 8 }, global_batch = 16, threads = 2,
    top = 2, where = function(c) return c.pp < 4 end }
  return { both[1][1], both[1][2], both[2][1], both[2][2] }
end, true)
add("a search that finds nothing that fits", function()
  local found = tperf.search { model = tperf.model "llama-3-8b", system = SYSTEM, gpus = 1, global_batch = 1,
    threads = 1 }
  return { found.candidates, found.reason }
end)
add("tperf.train", function()
  return tperf.train { model = MODEL, system = SYSTEM, global_batch = 16, tp = 2, pp = 2, dp = 2,
    simulate = "1f1b" }
end, true)
add("a layout of layers, and the tasks of a step", function()
  local c, timeline = tperf.train { model = MODEL, system = SYSTEM, global_batch = 2, pp = 2,
    pipeline_layout = { 3, 1 }, simulate = true }
  local list = {}
  for task in timeline:tasks(1) do list[#list + 1] = task.stop end
  return { c, list }
end, true)
add("tperf.infer", function()
  return tperf.infer { model = MODEL, system = SYSTEM, tp = 2, batch = 4, prompt = 64, generate = 16 }
end, true)
add("tperf.search_inference", function()
  return tperf.search_inference { model = MODEL, system = SYSTEM, gpus = 4, tp = { 1, 2 }, batch = { 1, 4 },
    prompt = 64, generate = 16, tpot = "20 ms" }
end, true)
add("placements in a domain", function()
  local own = { { name = "a", cuts = 2, folds = 0, apart = 0 }, { name = "b", cuts = 1, folds = 0, apart = 0 } }
  return core.grid(own):placements({ 4, 3 }, 4, 2, { 0, 0, 0, 0 }, 12)
end, "every")
add("rules of a script's own", function()
  local own = tperf.rules { gradients_in_fp32 = false }
  return { tperf.rules(own).name, own.columns_gather }
end, "every")
add("tperf.collective", function()
  return tperf.collective { system = SYSTEM, kind = "all_reduce", bytes = "1 GB", gpus = 16 }
end)
add("tperf.schedule", function()
  local s = tperf.schedule { schedule = "zbv", devices = 2, microbatches = 4,
    times = { forward = 1, backward_input = 1, backward_weight = 1 } }
  return { s.makespan, s.bubble_rate }
end, true)
add("planned schedules", function()
  local list = {}
  for i, name in ipairs { "zb_auto", "v_half" } do
    list[i] = tperf.schedule { schedule = name, devices = 3, microbatches = 4 }.makespan
  end
  return list
end, true)
add("a schedule of pairs", function()
  return tperf.schedule { schedule = "dualpipe", devices = 2, microbatches = 4 }.makespan
end, true)
add("a deadlock", function()
  local _, message = check.attempt(tperf.schedule, { schedule = "interleaved_1f1b", devices = 4, stages = 16,
    microbatches = 16, group_size = 3 })
  return message
end, true)
add("tperf.sweep", function()
  return tperf.sweep { model = MODEL, system = SYSTEM, gpus = tperf.vary { 4, 8 }, global_batch = 16, tp = 2 }
end, true)
add("tperf.validate", function()
  return #tperf.validate { file = "spec/data/small/collectives.csv", system = SMALL.system }.cases
end)
add("JSON", function()
  return (assert(core.yaml('{"\\ud83d\\ude00": [1, {"a": "b"}], "c": 1e5, "d": {"e": 1, "f": 2}}', "f")))
end, true)

-- --- serving ---

local ENGINE <const> = { max_num_seqs = 4, max_num_batched_tokens = 32, block_size = 4, num_blocks = 14 }
local STEP_TIME <const> = { fixed = 1e-3, per_token = 1e-5, per_context_token = 1e-7, per_prefill_pair = 1e-9 }

local function engine(more)
  local e = {}
  for _, fields in ipairs { ENGINE, more or {} } do
    for name, value in pairs(fields) do e[name] = value end
  end
  return e
end

-- Six requests with a common prefix that do not fit together, the last one first.
local function requests()
  local list = {}
  for i = 1, 6 do
    list[i] = { arrival = 0.01 * (7 - i), prompt = 20, output = 12, priority = i % 2,
      segments = { { 1, 9 }, { 10 + i, 11 } } }
  end
  return list
end

local function serving(name, question)
  add(name, function()
    question.threads = question.threads or 1
    return tperf.serve(question)
  end, true)
end

serving("tperf.serve of requests", { step_time = STEP_TIME, engine = engine { prefix_caching = true },
  requests = requests(), keep = "steps" })
serving("tperf.serve by priority with drafts", { step_time = STEP_TIME, requests = requests(), keep = "requests",
  engine = engine { policy = "priority", prefix_caching = false,
    speculation = { method = "eagle", tokens = 2, accepted = { 1, 0, 2 } } } })
for _, scheduler in ipairs { "sglang", "tensorrt-llm" } do
  serving("tperf.serve by " .. scheduler, { step_time = STEP_TIME, requests = requests(), keep = "requests",
    engine = engine { scheduler = scheduler, num_blocks = 40,
      speculation = { method = "eagle", tokens = 2, accepted = { 1, 0, 2 } } } })
end
serving("tperf.serve of apart prefills", { step_time = STEP_TIME, requests = requests(),
  engine = engine { num_blocks = 40 }, prefill = { replicas = 1 }, decode = { replicas = 1 },
  transfer = { latency = 1e-3 } })
serving("tperf.serve of a closed loop", { step_time = STEP_TIME, engine = engine(), count = 6, prompt = 10, output = 3,
  load = { concurrency = 3, think = 0.01 } })
serving("tperf.serve behind a router", { step_time = STEP_TIME, engine = engine { num_blocks = 400 }, replicas = 3,
  router = "prefix", count = 90, prompt = { uniform = { 4, 12 } }, output = { values = { 2, 5 } },
  prefix = { tokens = 8, groups = 2 }, load = { rate = 5000 } })
serving("tperf.serve on two threads", { step_time = STEP_TIME, replicas = 2, threads = 2, prompt = 10,
  output = 3, load = { stages = { { rate = 5, duration = 1 }, { rate = 9, duration = 9 } } } })
-- Lists that grow while requests run: their blocks, those waiting, those of a step.
local DRAFTS <const> = { method = "eagle", tokens = 2, accepted = { 1, 0, 2 } }
local function alike(n, first, prompt, output)
  local list = {}
  for i = 1, n do list[i] = { arrival = math.max(i - first, 0) * 2e-4, prompt = prompt, output = output } end
  return list
end
for _, scheduler in ipairs { "vllm", "sglang", "tensorrt-llm" } do
  serving("tperf.serve of long answers by " .. scheduler, { step_time = STEP_TIME, requests = alike(3, 3, 20, 70),
    engine = engine { scheduler = scheduler, num_blocks = 400, speculation = scheduler ~= "vllm" and DRAFTS or nil } })
end
serving("tperf.serve of long prompts by sglang", { step_time = STEP_TIME, requests = alike(2, 2, 120, 3),
  engine = engine { scheduler = "sglang", num_blocks = 400 } })
serving("tperf.serve of more than its blocks hold", { step_time = STEP_TIME, requests = alike(74, 64, 8, 20),
  engine = engine { max_num_seqs = 12, max_num_batched_tokens = 64, num_blocks = 41 } })
add("tperf.serve of priced steps", function()
  return tperf.serve { model = MODEL, system = SYSTEM, threads = 1, requests = requests() }
end, true)

-- --- launches ---

local LAUNCH <const> = { name = "run.sh", text = [[
N=${N:-2}
ARGS=(--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128)
torchrun --nproc_per_node $((N * 4)) pretrain_gpt.py "${ARGS[@]}" --micro-batch-size 1 --global-batch-size 16 \
  --tensor-model-parallel-size $N --vocab-size 1000
]] }

add("tperf.import.launch", function()
  local launch = tperf.import.launch { files = { LAUNCH }, given = {} }
  return { launch.tp, launch.dp, launch.global_batch }
end)
add("tperf.report.launch", function()
  return tperf.report.launch({ tp = 2, pp = 2, dp = 2, micro_batch = 1, global_batch = 16 }, "megatron",
    { model = MODEL })
end)

-- --- commands ---

-- Stand-in for the program's host, for commands run within this process.
local host = { program = "tperf", exit = error, limits = {} }
function host.verbose() end
host.close_nothing = host.verbose

host.limits.memory, host.limits.instructions = host.verbose, host.verbose

local function command(line)
  local arguments = { [0] = "tperf" }
  for word in line:gmatch "%S+" do arguments[#arguments + 1] = word end
  return require "tperf.cli"(host, arguments)
end

-- Puts f in place of a function of the library while a case runs.
local function in_place(library, name, f, case)
  return function()
    local own = library[name]
    library[name] = function(...) return f(own, ...) end
    local ok, value = pcall(case)
    library[name] = own
    if not ok then error(value, 0) end
    return value
  end
end

-- Data of two files a kind in place of all that are shipped: every further one would be read just like them.
do
  local few = program.temporary()
  program.shell(("mkdir -p %s/systems %s/models %s/software"):format(few, few, few))
  for _, name in ipairs { "small", "same" } do
    for kind, from in pairs { systems = SMALL.system, models = SMALL.model, software = "software/vllm-0.2.yaml" } do
      program.write(("%s/%s/%s.yaml"):format(few, kind, name), program.slurp(from))
    end
  end
  for _, kind in ipairs { "systems", "models", "software" } do
    add("tperf list " .. kind .. " (two)", in_place(roots, "list", function() return { few } end,
      function() return command("list " .. kind) end))
  end
end

-- A fit of two steps in place of 80: every further one does the same.
do
  local table_of, bytes = { "op,dtype,elements,bytes_min,time_s" }, 1024
  for i = 1, 6 do
    table_of[i + 1] = ("scale_matrix,bf16,%d,%d,%g"):format(bytes // 4, bytes, 5e-6 + bytes / 0.7e12)
    bytes = 16 * bytes
  end
  local path = program.temporary ".csv"
  program.write(path, table.concat(table_of, "\n") .. "\n")
  add("tperf calibrate (two steps)", in_place(descent, "minimise",
    function(own, parameters, residuals, weights) return own(parameters, residuals, weights, nil, 2) end,
    function() return command(("calibrate %s %s --keep"):format(SMALL.system, path)) end))
end

-- Two commands in place of all: every further one is completed just like them.
add("tperf completion bash (two)", in_place(require "tperf.cli.commands", "names",
  function() return { "collective", "params" } end, function() return command "completion bash" end))

for _, line in ipairs {
  "search MODEL -s SYSTEM -g 2 -b 2 -j 1", "train MODEL -s SYSTEM -b 2 --tp 2 --json",
  "memory MODEL -s SYSTEM -b 16 --tp 2", "infer MODEL -s SYSTEM -p 64 -n 16 --tp 2",
  "collective all_reduce -s SYSTEM -n 1MiB -g 8", "schedule 1f1b zbv -d 2 -m 4 --text", "params MODEL --csv",
  "validate spec/data/small/collectives.csv -s SYSTEM",
  "compat llm-analysis train --model_name facebook_opt-1.3b --json",
  "serve --step-time fixed=1ms,per_token=10us --rate 20 --process gamma --cv 2 --count 9 --prompt 4..12 --output 3",
  "list rules", "show MODEL", "help search", "version",
} do
  line = line:gsub("MODEL", SMALL.model):gsub("SYSTEM", SMALL.system)
  add("tperf " .. line, function() return command(line) end)
end

return cases
