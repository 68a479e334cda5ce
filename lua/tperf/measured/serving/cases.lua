--- Shared by the tables of measured serving: models and systems by the tables' names, and a case for each metric of an
--- answer. A reader of such a table has cases(rows, path, options, tell) instead of case and predict: one simulation
--- answers several rows, or gives several metrics.
local check = require "tperf.base.check"
local core = require "tperf.core"
local fit = require "tperf.measured.calibrate.fit"
local gpus = require "tperf.measured.gpus"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local names = require "tperf.measured.run.names"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local text_file = require "tperf.input.text"

local cases = {}

-- Models that differ from one in models/ only in ways that do not affect time.
local SIBLINGS = { ["llama-3.3-70b"] = "llama-3.1-70b", ["deepseek-r1-0528"] = "deepseek-v3",
  ["minimax-m2.5"] = "minimax-m2", ["glm-5.1"] = "glm-5",
  ["qwen2-7b"] = "qwen2.5-7b", ["qwen2-72b"] = "qwen2.5-72b", ["llama 7b"] = "llama-2-7b", ["llama-7b"] = "llama-2-7b",
  ["llama 70b"] = "llama-2-70b", ["llama-70b"] = "llama-2-70b" }

--- The model in models/ that a Hugging Face name refers to, or nil and a reason.
---@param name string  "meta-llama/Llama-3.1-8B-Instruct"
---@return string?
---@return string? reason
function cases.model(name)
  local base = name:match "([^/]*)$":gsub("^Meta%-", ""):gsub("%-Instruct.*", ""):gsub("%-v0.1$", "")
  local known = SIBLINGS[base:lower()] or names.model(base)
  return known, not known and "no model describes " .. (name ~= "" and name or "a row without a name") or nil
end

--- The system of a GPU's name, or the one that the user gave for all rows; nil and a reason.
function cases.system(gpu, options)
  if options.system then return options.system end
  return gpus.system(gpu)
end

local STORED = { fp16 = "bf16", bf16 = "bf16", ["16-bit"] = "bf16", bfloat16 = "bf16", float16 = "bf16", fp8 = "fp8",
  fp4 = "fp4", nvfp4 = "fp4", int8 = "int8", int4 = "int4" }

--- Dtypes of weights and of products: products are in the weights' precision, or in 16 bits if the GPU has no peak for
--- it. nil and a reason if the precision is not known.
function cases.dtypes(precision, machine)
  local stored = STORED[precision]
  if not stored then return nil, nil, ("weights of %s"):format(precision ~= "" and precision or "unknown precision") end
  local peaks = system(machine).accelerator.tensor
  return stored, peaks[stored] and stored or "bf16"
end

-- Whether a checkpoint has 4-bit weights only in its experts, as gpt-oss was published.
local function is_published(about)
  local stored = model(about.model).stored
  return stored and about.stored == "fp4" and stored.experts == "mxfp4" and not stored.layers
end

-- Checkpoints whose 4 bits are only of experts: nvidia/MiniMax-M2.5-NVFP4 (its config.json).
local FOUR_BIT_EXPERTS <const> = { ["minimax-m2"] = { recipe = "nvfp4", products = "experts" } }

--- The subject of a row: its system and model and, if a precision is given, the dtypes of weights and products. nil and
--- a reason if one of them is not known.
---@return table? about  { system, model, stored, products, recipe }; stored: nil: as in the model's checkpoint, or by
---   the recipe
---@return string? reason
function cases.subject(gpu, called, options, precision)
  local machine, no_machine = cases.system(gpu, options)
  if not machine then return nil, no_machine end
  local known, no_model = cases.model(called)
  if not known then return nil, no_model end
  local about = { system = machine, model = known }
  if not precision then return about end
  local no_dtype
  about.stored, about.products, no_dtype = cases.dtypes(precision, machine)
  if not about.stored then return nil, no_dtype end
  about.recipe = about.stored == "fp4" and FOUR_BIT_EXPERTS[known] or nil
  if about.recipe or is_published(about) then about.stored, about.products = nil, nil end -- the checkpoint says
  return about
end

--- A JSON file beside a table.
function cases.json(path)
  local content = core.yaml(text_file.read(path, true), path) -- JSON is YAML
  if type(content) ~= "table" then check.fail("%s: JSON is needed", path) end
  return content
end

--- Raises if an object in a JSON file lacks a field or has another type: fields by name, "number", "string", "table" or
--- "integer" (at least 1).
function cases.need(where, item, fields)
  if type(item) ~= "table" then check.fail("%s: an object is needed, got %s", where, check.show(item)) end
  for _, name in ipairs(check.names(fields)) do
    local value, kind = item[name], fields[name]
    local right = type(value) == kind or kind == "integer" and math.type(value) == "integer" and value >= 1
    if not right then
      check.fail("%s: '%s' must be %s %s, got %s", where, name, kind == "integer" and "an" or "a", kind,
        check.show(value))
    end
  end
end

--- A file in the table's folder.
function cases.beside(path, name) return (path:match "^(.*/)[^/]*$" or "") .. name end

local function plain(message) return (tostring(message):gsub("^[^:]*:%d+: ", ""):gsub(";.*$", ""):gsub("%d+", "N")) end

--- The answer of tperf.serve, or of another question, or nil and a reason without figures, so that similar reasons are
--- counted together.
---@param question table
---@param ask (fun(question: table): table)?
function cases.answer(question, ask)
  local done, result = check.attempt(ask or require "tperf.question.serve".run, question)
  if done then return result end
  return nil, plain(result)
end

--- Collects cases and the rows left out. Fields of `about`: engine, model and gpu (names in models/ and systems/),
--- source, label, row.
function cases.collector()
  local self = { list = {}, reasons = {}, names = {} }
  function self.add(about, metric, predicted, measured)
    if not (predicted and measured and measured > 0 and predicted > 0) then return end
    local case = { metric = metric, predicted = predicted, measured = measured }
    for name, value in pairs(about) do case[name] = value end
    case.gpu = tostring(about.gpu)
    case.system = case.gpu
    self.list[#self.list + 1] = case
  end
  function self.leave_out(reason, rows)
    if not self.reasons[reason] then self.names[#self.names + 1] = reason end
    self.reasons[reason] = (self.reasons[reason] or 0) + (rows or 1)
  end
  function self.result()
    local left = {}
    for i, reason in ipairs(self.names) do left[i] = { reason = reason, rows = self.reasons[reason] } end
    return self.list, left
  end
  return self
end

--- Cases of a table whose rows are runs of their own.
---@param question_of fun(row: table): table?, string?, any  the question; or nil and why the row is left out; and what
---   compare needs of it besides
---@param compare fun(collect: table, row: table, question: table, answer: table, more: any): boolean  adds the cases of
---   a row; false: the answer has no figures
function cases.one_by_one(rows, tell, question_of, compare)
  local collect = cases.collector()
  for i, row in ipairs(rows) do
    tell(i, #rows)
    local question, reason, more = question_of(row)
    local answer
    if question then answer, reason = cases.answer(question) end
    if not (answer and compare(collect, row, question, answer, more)) then
      collect.leave_out(reason or "no request of it finishes")
    end
  end
  return collect.result()
end

--- Lengths drawn uniformly from 0.8 to 1 of a nominal one, as InferenceX and what came before it draw them.
function cases.below(tokens) return { uniform = { math.ceil(0.8 * tokens), tokens } } end

--- The mean of value(item) over a list; nil if there are no values.
function cases.mean(list, value)
  local sum, n = 0, 0
  for _, item in ipairs(list) do
    local v = value(item)
    if v then sum, n = sum + v, n + 1 end
  end
  return n > 0 and sum / n or nil
end

--- Times of a request kept by tperf.serve; nil if it has none.
function cases.ttft(q) return q.first_token and q.first_token - q.arrival end
function cases.e2e(q) return q.last_token and q.last_token - q.arrival end
function cases.tpot(q) return q.tokens > 1 and (q.last_token - q.first_token) / (q.tokens - 1) or nil end

--- Statistics of cases by metric and one of their fields, metrics in the order of METRICS.
---@param list table[]
---@param field string?  "engine", "model" or "gpu"; nil: all cases of a metric
---@return table[] rows  { metric, group, rows, median, mean, p90, max, bias }
function cases.statistics(list, field)
  local rows = {}
  for _, metric in ipairs(cases.METRICS) do
    local of_metric = {}
    for _, case in ipairs(list) do
      if case.metric == metric then of_metric[#of_metric + 1] = case end
    end
    local groups, found = fit.groups(of_metric, function(case) return field and case[field] or "all" end)
    table.sort(found)
    for _, name in ipairs(found) do
      local ratios = {}
      for i, case in ipairs(groups[name]) do ratios[i] = case.predicted / case.measured end
      local row = fit.errors(ratios)
      row.metric, row.group = metric, name
      rows[#rows + 1] = row
    end
  end
  return rows
end

--- The metrics of serving and of steps of reinforcement learning, in display order.
cases.METRICS = { "E2E", "E2E p99", "TPOT", "TTFT", "throughput", "prefill", "KV cache", "step_s", "gen_s", "logprob_s",
  "ref_s", "update_s", "critic_s", "refit_s" }

return cases
