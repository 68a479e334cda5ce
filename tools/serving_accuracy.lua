--- How far tperf.serve is from measured serving: FOLDER/requests (request by request), FOLDER/vllm_runs (open loop, by
--- stage) and FOLDER/endtoend/closed_loop.csv. Prints medians of the absolute error, 90th percentiles and biases.
---   tperf run --trust tools/serving_accuracy.lua FOLDER [requests|open|closed …]
local core = require "tperf.core"
local csv = require "tperf.import.csv"
local fit = require "tperf.calibrate.fit"
local gpus = require "tperf.measured.gpus"
local names = require "tperf.measured.names"
local tperf = require "tperf"

local folder = arg[1] or error("a folder of measurements is needed", 0)
local wanted = {}
for i = 2, #arg do wanted[arg[i]] = true end

-- Models of the tables that models/ does not have, by their config.json on Hugging Face.
local MODELS = {
  ["codellama/CodeLlama-34b-Instruct-hf"] = { name = "codellama-34b", layers = 48, hidden = 8192, heads = 64,
    kv_heads = 8, ffn = 22016, seq = 16384, vocab = 32000 },
  ["01-ai/Yi-34B"] = { name = "yi-34b", layers = 60, hidden = 7168, heads = 56, kv_heads = 8, ffn = 20480, seq = 4096,
    vocab = 64000 },
}
for _, m in pairs(MODELS) do
  m.gated, m.activation, m.norm, m.positions, m.tied_embeddings = true, "silu", "rmsnorm", "rotary", false
end
local SIBLINGS = { ["Llama-3.3-70B-Instruct"] = "llama-3.1-70b", ["DeepSeek-R1-0528"] = "deepseek-v3" }

local function model_of(name)
  local base = name:match "([^/]*)$"
  return MODELS[name] or SIBLINGS[base] or names.model((base:gsub("%-Instruct.*", ""):gsub("%-v0.1", "")))
end

-- What vLLM draws by where a client does not say: the model's generation_config.json on Hugging Face has top_p.
local TOP_P = { ["Llama-3.1-8B-Instruct"] = true, ["Llama-3.1-70B-Instruct"] = true, ["Llama-2-7b-hf"] = true,
  ["Yi-34B"] = true }
local function sampling_of(name) return TOP_P[name:match "([^/]*)$"] and "top_p" or "random" end

local function read_json(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return core.yaml(text, path)
end

-- Errors of predicted / measured by group: { [metric] = { [group] = ratios } }.
local ratios = {}
local function note(metric, group, predicted, measured)
  if not (predicted and measured and measured > 0) then return end
  for _, name in ipairs { group, "all" } do
    ratios[metric] = ratios[metric] or {}
    ratios[metric][name] = ratios[metric][name] or {}
    table.insert(ratios[metric][name], predicted / measured)
  end
end

local function print_errors(title)
  local rows = {}
  for metric, groups in pairs(ratios) do
    for group, list in pairs(groups) do
      local s = fit.errors(list)
      rows[#rows + 1] = { group = group, metric = metric, n = #list, median = 100 * s.median, p90 = 100 * s.p90,
        bias = 100 * s.bias }
    end
  end
  table.sort(rows, function(a, b) return a.group == b.group and a.metric < b.metric or a.group < b.group end)
  print("\n== " .. title .. " (errors in %)")
  for _, row in ipairs(rows) do
    print(("%-52s %-11s %4d   median %6.1f   p90 %6.1f   bias %+6.1f"):format(row.group, row.metric, row.n, row.median,
      row.p90, row.bias))
  end
  ratios = {}
end

local function attempt(label, question)
  local ok, r = pcall(tperf.serve, question)
  if ok then return r end
  print(label .. ": left out: " .. tostring(r):gsub("^[^:]*:%d+: ", ""))
end

local function mean(list, from, to, value)
  local sum, n = 0, 0
  for i = from, to do
    local v = value(list[i])
    if v then sum, n = sum + v, n + 1 end
  end
  return n > 0 and sum / n or nil
end

local function ttft(q) return q.first_token and q.first_token - q.arrival end
local function e2e(q) return q.last_token and q.last_token - q.arrival end
local function tpot(q) return q.tokens > 1 and (q.last_token - q.first_token) / (q.tokens - 1) or nil end

-- --- requests, one by one ---

local REQUESTS = { "llmss-rtx4090-llama31-8b-tp1-s128", "llmss-rtx4090-llama31-8b-tp1-s256",
  "llmss-rtxpro6000-llama31-8b-tp1" }

local function compare_requests()
  for _, name in ipairs(REQUESTS) do
    local path = folder .. "/requests/" .. name
    local c, rows, list = read_json(path .. ".config.json"), csv.read(path .. ".requests.csv"), {}
    local machine = gpus.system(c.gpu)
    for i, row in ipairs(rows) do
      list[i] = { arrival = tonumber(row.queued_s), prompt = math.tointeger(row.input_tokens),
        output = math.tointeger(row.output_tokens) }
    end
    if not machine then print(name .. ": left out: no system describes " .. c.gpu) end
    -- Times begin when the engine has a request, behind the front end.
    local r = machine and attempt(name, { model = model_of(c.model), system = machine, tp = c.tp, requests = list,
      host = { front_end = 0 }, memory_utilization = c.gpu_memory_utilization, keep = "requests",
      engine = { max_num_seqs = c.max_num_seqs, max_num_batched_tokens = c.max_num_batched_tokens,
        max_model_len = c.max_model_len, num_blocks = c.num_gpu_blocks } })
    if r then
      local function measured(value) return mean(rows, 1, #rows, value) end
      note("ttft mean", name, r.ttft.mean, measured(function(q) return q.first_token_s - q.queued_s end))
      note("e2e mean", name, r.e2e.mean, measured(function(q) return q.last_token_s - q.queued_s end))
      note("tpot mean", name, r.tpot.mean, measured(function(q)
        return (q.last_token_s - q.first_token_s) / (q.output_tokens - 1)
      end))
    end
  end
  print_errors "requests"
end

-- --- open loops ---

-- Prompts go round and round a pool of ten questions for each of ten system prompts.
local function pool_of(run, prompt_tokens)
  local list, n = {}, 0
  local pool = run.prompt_pool
  local rest = math.max(math.tointeger(math.floor(prompt_tokens + 0.5)) - run.system_prompt_tokens, 1)
  for _, stage in ipairs(run.stages) do n = n + stage.requests end
  for i = 0, n - 1 do
    local question = i % (pool.system_prompts * pool.questions_per_system_prompt)
    list[i + 1] = { prompt = run.system_prompt_tokens + rest, output = run.output_tokens,
      segments = { { question % pool.system_prompts, run.system_prompt_tokens }, { 1000 + question, rest } } }
  end
  return list
end

local function compare_stages(run, r, stages)
  local group = ("%s %s tp%d"):format(run.model:match "([^/]*)$", run.gpu, run.tp)
  local first = 1
  for i, stage in ipairs(run.stages) do
    local last, m = first + stage.requests - 1, stages[i - 1]
    if m then
      note("ttft mean", group, mean(r.requests, first, last, ttft), tonumber(m.ttft_mean_s))
      note("e2e mean", group, mean(r.requests, first, last, e2e), tonumber(m.e2e_mean_s))
      note("tpot mean", group, mean(r.requests, first, last, tpot), tonumber(m.tpot_mean_s))
      local all = {}
      for k = first, last do all[#all + 1] = e2e(r.requests[k]) end
      table.sort(all)
      note("e2e p99", group, all[math.ceil(0.99 * #all)], tonumber(m.e2e_p99_s))
    end
    first = last + 1
  end
end

local function compare_open()
  local stages = {}
  for _, row in ipairs(csv.read(folder .. "/vllm_runs/measured.csv")) do
    stages[row.run_id] = stages[row.run_id] or {}
    stages[row.run_id][math.tointeger(row.stage)] = row
  end
  for _, run in ipairs(read_json(folder .. "/vllm_runs/runs.json")) do
    local machine = gpus.system(run.gpu)
    local whole = (stages[run.run_id] or {})[-1] or (stages[run.run_id] or {})[0] or {}
    local prompt = tonumber(whole.prompt_tokens_mean) or run.system_prompt_tokens + run.question_tokens
    if run.quality == "clean" and machine and stages[run.run_id] then
      local load = {}
      for i, stage in ipairs(run.stages) do load[i] = { rate = stage.rate, duration = stage.duration_s } end
      local question = { model = model_of(run.model), system = machine, tp = run.tp, requests = pool_of(run, prompt),
        sampling = sampling_of(run.model), load = { stages = load }, keep = "requests",
        memory_utilization = run.gpu_memory_utilization,
        engine = { max_num_seqs = run.max_num_seqs, max_num_batched_tokens = run.max_num_batched_tokens,
          max_model_len = run.max_model_len } }
      local r = attempt(run.run_id, question)
      if r then
        if run.num_gpu_blocks then note("num_blocks", run.model .. " " .. run.gpu, r.num_blocks, run.num_gpu_blocks) end
        compare_stages(run, r, stages[run.run_id])
      end
    end
  end
  print_errors "vllm_runs, by stage"
end

-- --- closed loops ---

-- Products in the weights' precision, or in 16 bits where the GPU has no peak for it.
local function dtypes_of(precision, machine)
  local peaks = tperf.system(machine).accelerator.tensor
  if precision ~= "bf16" and precision ~= "fp8" and precision ~= "fp4" then return nil end
  return { precision, peaks[precision] and precision or "bf16" }
end

-- The profile of a row's engine, by its release or, where the row has none, by its date.
local ENGINES = {
  sglang = function() return "sglang-0.5" end,
  trtllm = function(row) return row.engine_version:find "^1%.0" and "tensorrt-llm-1.0" or "tensorrt-llm-1.2" end,
  vllm = function(row)
    local minor = tonumber(row.engine_version:match "^0%.(%d+)")
    local old = minor and minor < 13 or row.engine_version == "" and row.date < "2025-12"
    return old and "vllm-0.11" or "vllm-0.15"
  end,
}

-- The settings of InferenceX's launch scripts (github.com/SemiAnalysisAI/InferenceX, benchmarks/*.sh), for each engine.
local SCRIPTS = {}

function SCRIPTS.vllm(row, c, model)
  return { max_num_seqs = row.gpu:find "B200" and math.max(c, 512) or c, max_num_batched_tokens = 8192,
    prefix_caching = false, async_scheduling = true }, model:find "Llama" and "fp8"
end

function SCRIPTS.trtllm(row, c, model)
  local isl, osl = tonumber(row.isl), tonumber(row.osl)
  local oss, llama = model:find "gpt%-oss", model:find "Llama"
  local tokens = oss and 20000 or llama and isl + osl + 200 or math.max(8192, c + isl + 128)
  return { max_num_seqs = oss and c or 1024, max_num_batched_tokens = math.tointeger(tokens), prefix_caching = false },
    not (oss and row.gpu:find "H[12]00") and "fp8", llama and 0.9 or 0.8
end

function SCRIPTS.sglang(row, c)
  local blackwell = row.gpu:find "B200"
  return { max_num_seqs = blackwell and 256 or 512, max_num_batched_tokens = blackwell and 16384 or 32768,
    prefix_caching = false, receive_interval = blackwell and (c >= 16 and 30 or 10) or 1 },
    blackwell and "fp8", 0.82
end

local function closed_question(row)
  local machine = gpus.system(row.gpu)
  local dtypes = machine and dtypes_of(row.precision, machine)
  local model, c = model_of(row.model), math.tointeger(row.concurrency)
  local inference_x = row.origin == "InferenceX"
  if not (machine and dtypes and model and c) or row.attention_dp ~= "1" or row.pp ~= "1" then return nil end
  local function length(tokens)
    local n = math.tointeger(tokens)
    return inference_x and { uniform = { math.ceil(0.8 * n), n } } or n
  end
  local engine, kv, part = { max_num_seqs = 1024 }, nil, nil
  if inference_x then engine, kv, part = SCRIPTS[row.engine](row, c, row.model) end
  return { model = model, system = machine, tp = math.tointeger(row.tp), weight_dtype = dtypes[1],
    compute_dtype = dtypes[2], kv_dtype = kv or "bf16", load = { concurrency = c }, count = 10 * c,
    software = ENGINES[row.engine](row), prompt = length(row.isl), output = length(row.osl), engine = engine,
    memory_utilization = part }
end

local function compare_closed()
  for _, row in ipairs(csv.read(folder .. "/endtoend/closed_loop.csv")) do
    local usable = row.duplicate_of == "" and row.quality == "clean" and row.mode == "agg" and row.mtp:find "^no"
    local question = usable and closed_question(row)
    local r = question and attempt(row.id, question)
    if r then
      local groups = { row.engine, row.gpu, row.model:match "([^/]*)$" .. " " .. row.precision }
      for i, group in ipairs(groups) do
        local function add(metric, predicted, measured) -- "all" once
          if i == 1 then return note(metric, group, predicted, measured) end
          ratios[metric][group] = ratios[metric][group] or {}
          table.insert(ratios[metric][group], predicted / measured)
        end
        local t, p, n = tonumber(row.ttft_s), tonumber(row.tpot_s), tonumber(row.osl_mean)
        add("ttft", r.ttft.mean, t)
        add("tpot", r.tpot.mean, p)
        add("e2e", r.e2e.mean, t + (n - 1) * p)
        add("throughput", tonumber(row.concurrency) * n / r.e2e.mean, tonumber(row.concurrency) * n / (t + (n - 1) * p))
      end
    end
  end
  print_errors "closed_loop.csv"
end

local PARTS = { { "requests", compare_requests }, { "open", compare_open }, { "closed", compare_closed } }
for _, part in ipairs(PARTS) do
  if #arg == 1 or wanted[part[1]] then part[2]() end
end
