--- Open loops: stages of a Poisson load, one row each, with the runs' configurations (runs.json beside the table) and
--- other simulators' predictions for the same stages (other_simulators.csv).
local cases = require "tperf.measured.serving.cases"
local csv = require "tperf.input.csv"
local engines = require "tperf.measured.serving.engines"
local fit = require "tperf.measured.calibrate.fit"
local read = require "tperf.measured.read"
local roots = require "tperf.base.roots"

local open = {
  name = "open loop",
  columns = { "run_id", "stage", "rate", "ttft_mean_s", "e2e_mean_s", "e2e_p99_s", "tpot_mean_s",
    "prompt_tokens_mean" },
}

local RUN <const> = { run_id = "string", quality = "string", model = "string", gpu = "string", stages = "table",
  output_tokens = "integer", system_prompt_tokens = "integer", question_tokens = "integer", prompt_pool = "table" }
local POOL <const> = { system_prompts = "integer", questions_per_system_prompt = "integer" }
local STAGE <const> = { rate = "number", duration_s = "number", requests = "integer" }

-- The runs of runs.json, checked.
local function runs_of(path)
  local file = cases.beside(path, "runs.json")
  local runs = cases.json(file)
  for i, run in ipairs(runs) do
    local where = ("%s: run %d"):format(file, i)
    cases.need(where, run, RUN)
    cases.need(where .. ", prompt_pool", run.prompt_pool, POOL)
    for k, stage in ipairs(run.stages) do cases.need(("%s, stage %d"):format(where, k), stage, STAGE) end
  end
  return runs
end

-- Prompts cycle through a pool of questions, several per system prompt.
local function requests_of(run, prompt_tokens)
  local list, n, pool = {}, 0, run.prompt_pool
  local rest = math.max(math.tointeger(math.floor(prompt_tokens + 0.5)) - run.system_prompt_tokens, 1)
  for _, stage in ipairs(run.stages) do n = n + stage.requests end
  for i = 0, n - 1 do
    local question = i % (pool.system_prompts * pool.questions_per_system_prompt)
    list[i + 1] = { prompt = run.system_prompt_tokens + rest, output = run.output_tokens,
      segments = { { question % pool.system_prompts, run.system_prompt_tokens }, { 1000 + question, rest } } }
  end
  return list
end

-- Default sampling in vLLM: these models' generation_config.json has top_p.
local TOP_P <const> = { ["Llama-3.1-8B-Instruct"] = true, ["Llama-3.1-70B-Instruct"] = true, ["Llama-2-7b-hf"] = true,
  ["Yi-34B"] = true }

local function question_of(run, rows, options)
  if run.quality ~= "clean" then return nil, "conditions are not clear: " .. tostring(run.quality) end
  local about, reason = cases.subject(run.gpu, run.model, options)
  if not about then return nil, reason end
  local whole, load = rows[-1] or rows[0] or {}, {}
  local prompt = read.positive(whole.prompt_tokens_mean) or run.system_prompt_tokens + run.question_tokens
  for i, stage in ipairs(run.stages) do load[i] = { rate = stage.rate, duration = stage.duration_s } end
  return { model = about.model, system = about.system, tp = run.tp, pp = run.pp, requests = requests_of(run, prompt),
    sampling = TOP_P[run.model:match "([^/]*)$"] and "top_p" or "random", load = { stages = load },
    keep = "requests", cold = true, memory_utilization = run.gpu_memory_utilization,
    engine = { max_num_seqs = run.max_num_seqs, max_num_batched_tokens = run.max_num_batched_tokens,
      max_model_len = run.max_model_len }, rules = options.rules,
    software = options.software or engines.profile(run) }
end

-- The 99th percentile of end-to-end times.
local function p99(requests)
  local all = {}
  for i, q in ipairs(requests) do all[i] = cases.e2e(q) end
  table.sort(all)
  return all[math.ceil(0.99 * #all)]
end

local DRAWS <const> = 4 -- of arrivals: the run's own are not known, and the slowest requests depend on them

-- Answers for several draws of the arrivals, as { num_blocks =, { requests } … }; nil and a reason.
local function drawn(question)
  local answers = {}
  for seed = 1, DRAWS do
    question.seed = seed
    local r, reason = cases.answer(question)
    if not r then return nil, reason end
    answers.num_blocks, answers[seed] = r.num_blocks, r.requests
  end
  return answers
end

local function compare(collect, about, run, answers, rows)
  local whole = rows[0] or rows[-1]
  if whole then collect.add(about(whole), "KV cache", answers.num_blocks, run.num_gpu_blocks) end
  local first = 1
  for i, stage in ipairs(run.stages) do
    local m, last = rows[i - 1], first + stage.requests - 1
    local function mean(value) -- over the draws, of a value of the stage's requests
      return cases.mean(answers, function(requests) return value(table.move(requests, first, last, 1, {})) end)
    end
    local function of(time) return mean(function(list) return cases.mean(list, time) end) end
    if m then
      local one = about(m)
      collect.add(one, "E2E", of(cases.e2e), read.positive(m.e2e_mean_s))
      collect.add(one, "E2E p99", mean(p99), read.positive(m.e2e_p99_s))
      collect.add(one, "TPOT", of(cases.tpot), read.positive(m.tpot_mean_s))
      collect.add(one, "TTFT", of(cases.ttft), read.positive(m.ttft_mean_s))
    end
    first = last + 1
  end
end

-- Rows by run and stage; -1 is the whole run, which is predicted only through its stages.
local function by_run(rows)
  local runs = {}
  for _, row in ipairs(rows) do
    local stage = math.tointeger(tonumber(row.stage))
    runs[row.run_id] = runs[row.run_id] or {}
    if stage then runs[row.run_id][stage] = row end
  end
  return runs
end

local function stages_of(rows)
  local n = 0
  for stage in pairs(rows) do n = n + (stage >= 0 and 1 or 0) end
  return n
end

--- Each run is simulated as a whole; its stages are compared one by one.
function open.cases(rows, path, options, tell)
  local collect, measured = cases.collector(), by_run(rows)
  local runs = runs_of(path)
  for i, run in ipairs(runs) do
    tell(i, #runs)
    local of_run, question, reason, r = measured[run.run_id], nil, nil, nil
    if of_run then question, reason = question_of(run, of_run, options) end
    if question then r, reason = drawn(question) end
    if r then
      compare(collect, function(row)
        return { engine = run.engine, gpu = question.system, model = question.model, source = "open loop", row = row,
          label = ("%s, stage %s"):format(run.run_id, row.stage),
          run = run.run_id, stage = row.stage }
      end, run, r, of_run)
    elseif of_run then
      collect.leave_out(reason, stages_of(of_run))
    end
  end
  return collect.result()
end

local TIMES <const> = { E2E = "e2e_mean_s", ["E2E p99"] = "e2e_p99_s", TTFT = "ttft_mean_s", TPOT = "itl_mean_s" }

--- Other simulators' errors on the same stages, as their authors scored them (their TPOT is the client's gap between
--- tokens), beside tperf's errors on those stages.
---@return table[]? rows  { simulator, metric, rows, median, p90, bias, ours = { rows, median, p90, bias } }
function open.others(list, path)
  local ours, result, other = {}, {}, cases.beside(path, "other_simulators.csv")
  for _, case in ipairs(list) do
    local key = case.stage and table.concat({ case.run, case.stage, case.metric }, " ")
    if key then ours[key] = case.predicted / case.measured end
  end
  if not roots.exists(other) then return nil end
  local groups, names = fit.groups(csv.read(other, true), "simulator")
  table.sort(names)
  for _, metric in ipairs(cases.METRICS) do
    for _, name in ipairs(TIMES[metric] and names or {}) do
      local theirs, same = {}, {}
      for _, row in ipairs(groups[name]) do
        local one = ours[table.concat({ row.run_id, row.stage, metric }, " ")]
        local predicted = read.positive(row["pred_" .. TIMES[metric]])
        local measured = read.positive(row["meas_" .. TIMES[metric]])
        if one and predicted and measured then theirs[#theirs + 1], same[#same + 1] = predicted / measured, one end
      end
      if theirs[1] then
        local row = fit.errors(theirs)
        row.simulator, row.metric, row.ours = name, metric, fit.errors(same)
        result[#result + 1] = row
      end
    end
  end
  return result
end

return open
