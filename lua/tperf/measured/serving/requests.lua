--- Runs with every request timed, one row per request; NAME.config.json beside NAME.requests.csv has the configuration.
local cases = require "tperf.measured.serving.cases"
local check = require "tperf.base.check"
local engines = require "tperf.measured.serving.engines"
local read = require "tperf.measured.read"

local requests = {
  name = "requests",
  columns = { "input_tokens", "output_tokens", "queued_s", "scheduled_s", "first_token_s", "last_token_s" },
}

-- The run's configuration, checked.
local function configuration_of(path)
  local file = path:gsub("%.requests%.csv$", "") .. ".config.json"
  local c = cases.json(file)
  cases.need(file, c, { model = "string", gpu = "string", engine = "string", tp = "integer" })
  return c
end

local function list_of(rows, path)
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = { arrival = tonumber(row.queued_s), prompt = read.count(row.input_tokens),
      output = read.count(row.output_tokens) }
    if not (list[i].arrival and list[i].prompt and list[i].output) then
      check.fail("%s:%d: a request needs queued_s, input_tokens and output_tokens", path, row.line)
    end
  end
  return list
end

-- Times start when the engine receives a request, behind the front end.
local function question_of(c, rows, path, options)
  local about, reason = cases.subject(c.gpu, c.model, options)
  if not about then return nil, reason end
  local software = options.software or engines.profile(c)
  return { model = about.model, system = about.system, tp = c.tp, requests = list_of(rows, path), software = software,
    host = engines.behind_front_end(software, c.tp > 1),
    memory_utilization = c.gpu_memory_utilization, rules = options.rules,
    engine = { max_num_seqs = c.max_num_seqs, max_num_batched_tokens = c.max_num_batched_tokens,
      max_model_len = c.max_model_len, num_blocks = c.num_gpu_blocks } }
end

local function measured(rows, from, to, per_token)
  return cases.mean(rows, function(row)
    local a, b, n = tonumber(row[from]), tonumber(row[to]), tonumber(row.output_tokens)
    if not (a and b and n) or per_token and n < 2 then return nil end
    return (b - a) / (per_token and n - 1 or 1)
  end)
end

--- The table is one run: a case for the mean of each time.
function requests.cases(rows, path, options)
  local collect = cases.collector()
  local c = configuration_of(path)
  local question, reason = question_of(c, rows, path, options)
  local r
  if question then r, reason = cases.answer(question) end
  if not r then
    collect.leave_out(reason, #rows)
    return collect.result()
  end
  local about = { engine = c.engine, gpu = question.system, model = question.model, source = "requests",
    label = read.text(c.run_id, path), row = rows[1] }
  collect.add(about, "E2E", r.e2e and r.e2e.mean, measured(rows, "queued_s", "last_token_s"))
  collect.add(about, "TPOT", r.tpot and r.tpot.mean, measured(rows, "first_token_s", "last_token_s", true))
  collect.add(about, "TTFT", r.ttft and r.ttft.mean, measured(rows, "queued_s", "first_token_s"))
  return collect.result()
end

local SUMMARY <const> = { E2E = "latency_mean", TPOT = "tpot_mean", TTFT = "ttft_mean" }

--- LLMServingSim's predictions for the run, if its configuration has them.
function requests.others(list, path)
  local c = configuration_of(path)
  local summary, result = c.llmservingsim_2_0_summary, {}
  if type(summary) ~= "table" then return nil end
  for _, metric in ipairs(cases.METRICS) do
    local s = summary[SUMMARY[metric]]
    local told = type(s) == "table" and math.type(s.vllm_s) and math.type(s.llmservingsim_s)
    for _, case in ipairs(told and list or {}) do
      if case.metric == metric then
        local off, ours = s.llmservingsim_s / s.vllm_s - 1, case.predicted / case.measured - 1
        result[#result + 1] = { simulator = "LLMServingSim 2.0", metric = metric, rows = 1, median = math.abs(off),
          p90 = math.abs(off), bias = off, ours = { rows = 1, median = math.abs(ours), p90 = math.abs(ours),
            bias = ours } }
      end
    end
  end
  return result
end

return requests
