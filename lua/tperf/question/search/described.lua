--- What a search has found as configurations.
local choice = require "tperf.question.choice"
local configuration = require "tperf.question.configuration"

local described = {}

--- A candidate that the core found, with its workload.
function described.candidate(p, question, found)
  local layout, s = p.layouts[found.strategy], p.strategies[found.strategy]
  local workload = found.workload
    or layout.workload(choice.own(s, found, p.model), found.micro_batch, p.variants[found.variant])
  return configuration.candidate(question, workload, found)
end

--- The configuration of a candidate that the core found, and the candidate.
---@param p table         of problem.of
---@param o table         checked arguments
---@param question table  one of the problem's
---@param found table     of the core
---@return table configuration, userdata candidate
function described.one(p, o, question, found)
  local s, variant = p.strategies[found.strategy], p.variants[found.variant]
  local candidate = described.candidate(p, question, found)
  local c = configuration.of(question, s, found, candidate)
  configuration.describe(c, question, o, s, variant)
  local layout = p.layouts[found.strategy]
  if layout.warnings then configuration.warn(c, layout, choice.own(s, found, p.model), variant) end
  return c, candidate
end

--- Appends the configurations of all that was found to a result.
---@param found table  the core's answer
function described.all(result, p, o, question, found)
  local list = found.found
  if #list > 0 then configuration.prepare(question) end
  for i = 1, #list do result[i] = described.one(p, o, question, list[i]) end
end

return described
