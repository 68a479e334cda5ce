--- Converts the options of `tperf serve` to arguments of tperf.serve and of the functions built on it.
local ask = require "tperf.cli.ask.arguments"
local check = require "tperf.base.check"
local numbers = require "tperf.input.numbers"
local options = require "tperf.input.options"
local rows = require "tperf.question.serving_arguments"
local serving_axes = require "tperf.cli.ask.serving_axes"

local question = {}

-- Parses "fixed=5ms,per_token=20us" to { fixed = 0.005, per_token = 2e-5 }, or returns nil and a message.
local function times(option, text)
  local found = {}
  for item in (text .. ","):gmatch "([^,]*)," do
    local name, value = item:match "^([%w_]+)=(.+)$"
    if not name then return nil, ("--%s: NAME=TIME is needed, got '%s'"):format(option, item) end
    local seconds, message = check.quantity(value, "s")
    if not seconds then return nil, ("--%s: %s: %s"):format(option, name, message) end
    found[name] = seconds
  end
  return found
end

-- Parses a length, "512", "100..2000" or "mean=500,cv=1", or returns nil and a message.
local function length(option, text)
  local first, last = text:match "^(.-)%.%.(.+)$"
  local low, high = numbers.one("integer", first or text, 0), numbers.one("integer", last or text, 0)
  if low and high then return last and { uniform = { low, high } } or low end
  local mean, cv = text:match "^mean=([%d.]+),cv=([%d.]+)$"
  if mean then return { lognormal = { mean = tonumber(mean), cv = tonumber(cv) } } end
  local only = text:match "^mean=([%d.]+)$"
  if only then return { exponential = tonumber(only) } end
  return nil, ("--%s: tokens such as 512, 100..2000, mean=500 (exponential) or mean=500,cv=1 (lognormal), got '%s'")
    :format(option, text)
end

-- Parses limits, "ttft=500ms,tpot=30ms"; quantile=0.95 is a plain number.
local function limits(option, text)
  local list, part = {}, nil
  for item in text:gmatch "[^,]+" do
    local value = item:match "^quantile=(.*)$"
    if value then part = value else list[#list + 1] = item end
  end
  local found, message = times(option, table.concat(list, ","))
  if not found then return nil, message end
  found.quantile = part and (tonumber(part) or -1)
  return found
end

-- Ways to draft, also as SGLang (nextn, standalone) and TensorRT-LLM (drafttarget) name them. MTP's modules draft as
-- EAGLE's heads do.
local METHODS <const> = { ngram = "ngram", draft_model = "draft_model", standalone = "draft_model",
  drafttarget = "draft_model", eagle = "eagle", eagle3 = "eagle", mtp = "eagle", nextn = "eagle" }

-- Parses "eagle:3" to what tperf.serve takes, or returns nil and a message.
local function speculation(text, acceptance)
  local method, tokens = text:match "^([%w_]+):(%d+)$"
  if not METHODS[method] then
    return nil, ("--speculation: METHOD:N is needed, such as eagle:3 (or ngram, draft_model, mtp), got '%s'")
      :format(text)
  end
  if not acceptance then return nil, "--speculation needs --acceptance, the probability that a draft is accepted" end
  return { method = METHODS[method], tokens = math.tointeger(tonumber(tokens)), acceptance = acceptance }
end

--- The options of tperf.serve's arguments.
question.options = ask.options(rows.rows "serve", false)

--- How messages name fields, as options of other names.
question.fields = { ["load.*"] = "*", ["engine.*"] = "*", ["host.*"] = "host *", ["slo.*"] = "slo *",
  ["step_time.*"] = "step-time *", ["prompt.*"] = "prompt", ["output.*"] = "output",
  ["engine.speculation.acceptance"] = "acceptance", load = "rate or --concurrency" }
for path, option in pairs(ask.renamed(rows.rows "serve")) do
  question.fields[path], question.fields[path:match "[^.]*$"] = option, option
end

local PARSERS <const> = { step_time = times, host = times, slo = limits, prompt = length, output = length }

--- The arguments of tperf.serve, or nil and a message.
---@param values table
---@param model string?
function question.of(values, model)
  local asked, message = ask.asked(rows.rows "serve", values, PARSERS)
  if not asked then return nil, message end
  asked.model, asked.engine = model, asked.engine or {}
  asked.software = asked.software or values.launch -- what is to be launched
  if values.speculation then
    local found, wrong = speculation(values.speculation, values.acceptance)
    if not found then return nil, wrong end
    asked.engine.speculation = found
  elseif values.acceptance then
    return nil, "--acceptance goes with --speculation"
  end
  asked.keep = values.steps and "steps" or values.requests and "requests" or nil
  return asked
end

local CLOSED <const> = options.join(serving_axes.names(), { "pp", "attention_dp", "replicas", "num_gpu_blocks", "trace",
  "requests", "steps" })

--- Whether the question is which deployment to use: limits and a rate are given, but no deployment.
function question.is_open(values, model)
  local wanted = model and (values.slo and values.rate or values.pareto)
  if not wanted or values.saturation or values.figure then return false end
  for _, name in ipairs(CLOSED) do
    if values[name] then return false end
  end
  return true
end

--- The arguments of tperf.search_serving: those of tperf.serve without the ones to be searched.
---@param asked table  from question.of
function question.search(values, asked)
  local q = {}
  for name, value in pairs(asked) do q[name] = value end
  q.rate, q.gpus, q.top, q.pareto = values.rate, values.gpus, values.top, values.pareto
  q.max_num_seqs, q.max_num_batched_tokens = values.max_num_seqs, values.max_num_batched_tokens
  q.engine.max_num_seqs, q.engine.max_num_batched_tokens = nil, nil
  q.load = q.load or {}
  q.load.rate = nil
  return q
end

--- The arguments of tperf.saturation and tperf.load_curve: those of tperf.serve without a rate.
function question.without_rate(asked)
  asked.load = asked.load or {}
  asked.load.rate = nil
  return asked
end

return question
