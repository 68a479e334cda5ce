--- Static batches: requests of equal length that start at once, one metric per row. Only rows of quality A, whose
--- configuration is fully stated.
local cases = require "tperf.measured.serving.cases"
local engines = require "tperf.measured.serving.engines"
local lists = require "tperf.base.lists"
local read = require "tperf.measured.read"

local static = {
  name = "static batch",
  columns = { "source", "gpu", "gpus", "engine", "model", "weight_dtype", "kv_dtype", "tp", "pp", "ep", "dp", "batch",
    "mode", "input_len", "output_len", "metric", "value", "quality" },
}

-- The time when the whole batch has its first token.
local function last_first_token(r)
  local last = 0
  for _, q in ipairs(r.requests) do last = math.max(last, cases.ttft(q) or 0) end
  return last
end

-- A source's name for a metric -> the metric's name here, and its value in an answer.
local VALUES <const> = {
  e2e_latency_s = { "E2E", function(r) return r.duration end },
  ttft_s = { "TTFT", last_first_token },
  tpot_s = { "TPOT", function(r) return r.tpot and r.tpot.mean end },
  itl_s = { "TPOT", function(r) return r.tpot and r.tpot.mean end },
  output_tokens_per_s = { "throughput", function(r) return r.tokens_per_second end },
  tokens_per_s_per_gpu = { "throughput", function(r, gpus) return r.tokens_per_second / gpus end },
}

local COUNTS <const> = { "gpus", "tp", "pp", "ep", "dp" }

local function refusal(row)
  for _, name in ipairs(COUNTS) do
    if row[name] ~= "" and not read.count(row[name]) then return read.unknown(row[name], name) end
  end
  if not read.positive(row.value) then return "value is not a positive number" end
  if row.quality ~= "A" then return "quality " .. read.text(row.quality, "unknown") end
  if row.mode ~= "static batch" and row.mode ~= "fixed concurrency" then return "no batch: " .. row.mode end
  if not VALUES[row.metric] then return "nothing predicts " .. row.metric end
  if (read.count(row.dp) or 1) > 1 then return "several replicas" end
  if (read.count(row.ep) or 1) > 1 then return "experts shared over the GPUs of an engine" end
end

local function question_of(row, options)
  local reason = refusal(row)
  if reason then return nil, reason end
  local about
  about, reason = cases.subject(row.gpu, row.model, options, row.weight_dtype)
  if not about then return nil, reason end
  local kv = cases.dtypes(row.kv_dtype ~= "" and row.kv_dtype or "bf16", about.system)
  local batch, prompt, output = read.count(row.batch), read.count(row.input_len), read.count(row.output_len)
  if not kv then return nil, read.unknown(row.kv_dtype, "kv_dtype") end
  if not (batch and prompt and output) then return nil, "batch or lengths are missing" end
  local software, tp = options.software or engines.profile(row), read.count(row.tp) or read.count(row.gpus) or 1
  return { model = about.model, system = about.system, tp = tp, pp = read.count(row.pp), software = software,
    weight_dtype = about.stored, compute_dtype = about.products, kv_dtype = kv,
    load = { concurrency = batch }, count = batch, prompt = prompt, output = output, engine = engines.unknown(),
    host = engines.behind_front_end(software, tp > 1), keep = "requests",
    rules = options.rules }
end

--- The rows that are not left out for what they state.
function static.kept(rows) return lists.where(rows, function(row) return not refusal(row) end) end

--- Consecutive rows of one configuration are metrics of one simulation, which is kept.
function static.cases(rows, _, options, tell)
  local collect, last, answer, why = cases.collector(), nil, nil, nil
  for i, row in ipairs(rows) do
    tell(i, #rows)
    local question, reason = question_of(row, options)
    if question then
      local q = question
      local key = table.concat({ q.model, tostring(q.system), q.tp, q.pp or 1, tostring(q.weight_dtype), q.kv_dtype,
        q.count, q.prompt, q.output, tostring(q.software) }, " ")
      if key ~= last then
        last = key
        answer, why = cases.answer(question)
      end
      reason = why
    end
    if question and answer then
      local value = VALUES[row.metric]
      collect.add({ engine = row.engine, gpu = question.system, model = question.model, source = row.source, row = row,
        label = row.id }, value[1], value[2](answer, read.count(row.gpus) or question.tp),
        read.positive(row.value))
    else
      collect.leave_out(reason)
    end
  end
  return collect.result()
end

return static
