--- Answers as the public llm-analysis tool does, from its own arguments: train{...} and infer{...} return its summaries
-- under its keys, with its warnings as the list `warnings`. `fixed = true` replaces the formulas known to be wrong.
-- docs/compat_llm_analysis.md is the manual. This is another tool's arithmetic, kept separate from tperf's own.
local check = require "tperf.base.check"
local core = require "tperf.core"
local analysis = require "tperf.compat.llm_analysis.analysis"
local arguments = require "tperf.compat.llm_analysis.arguments"
local configs = require "tperf.compat.llm_analysis.configs"
local train = require "tperf.compat.llm_analysis.train"
local infer = require "tperf.compat.llm_analysis.infer"
local helpers = require "tperf.compat.llm_analysis.helpers"
local summary = require "tperf.compat.llm_analysis.summary"
local revisions = require "tperf.compat.llm_analysis.revisions"

local llm_analysis = { text = summary.text, json = summary.json, keys = summary.keys,
  LLMAnalysis = analysis.new }
for name, helper in pairs(helpers) do llm_analysis[name] = helper end

local questions = { train = train.summary, infer = infer.summary }

-- Sizes and rates are bounded individually; their products may still overflow doubles.
local function refuse_overflow(what, result)
  local wrong = core.resource.infinite(result)
  if wrong then check.fail("%s: %s is out of range: some size is too large, or some rate too small", what, wrong) end
end

local function answer(question, request)
  local what = "llm_analysis." .. question
  local args = arguments.check(what, question, request)
  local result, m = questions[question](what, args, revisions.rules_of(args))
  summary.finish(result, args.revision)
  refuse_overflow(what, result)
  if args.output_dir then summary.write(m, result) end
  return result
end

--- Training: memory per GPU, batch sizes, latencies.
---@param request table  upstream's arguments; model, gpu and dtype may be names or upstream's configuration tables
---@return table summary 69 keys (50 of revision 0571436), `warnings` and `revision`
function llm_analysis.train(request) return answer("train", request) end

--- Inference: memory per GPU, prefill and decode latencies, tokens per second, cost.
---@param request table  upstream's arguments
---@return table summary 47 keys (40 of revision 0571436; 3 more with a cost), `warnings` and `revision`
function llm_analysis.infer(request) return answer("infer", request) end

--- The names of the shipped configurations.
---@param kind "models"|"gpus"|"dtypes"
---@return string[]
function llm_analysis.names(kind)
  if not configs[kind] then
    check.fail("llm_analysis.names needs models, gpus or dtypes, got %s", check.show(kind))
  end
  return check.names(configs[kind])
end

return llm_analysis
