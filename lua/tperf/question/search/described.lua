--- What a search has found as configurations.
local axes = require "tperf.describe.strategy.axes"
local choice = require "tperf.question.choice"
local configuration = require "tperf.question.configuration"
local graphs = require "tperf.describe.arch.graphs"
local lazy = require "tperf.base.lazy"
local offload = require "tperf.describe.arch.offload"
local recomputation = require "tperf.describe.arch.recompute"

local described = {}

--- The workload of a candidate that the core found.
function described.workload(p, found)
  local layout, s = p.layouts[found.strategy], p.strategies[found.strategy]
  return found.workload or layout.workload(choice.own(s, found), found.micro_batch, p.variants[found.variant])
end

--- The configuration of a candidate that the core found, and its workload.
---@param p table         of problem.of
---@param o table         checked arguments
---@param question table  one of the problem's
---@param found table     of the core
---@return table configuration, userdata workload
function described.one(p, o, question, found)
  local s, variant = p.strategies[found.strategy], p.variants[found.variant]
  local workload = described.workload(p, found)
  local c = configuration.of(question, s, workload, found)
  recomputation.describe(c, variant, o)
  offload.describe(c, variant, o)
  graphs.describe(c, o)
  if c.zero == 3 and not o.reshard_after_forward then c.reshard_after_forward = false end
  if not o.compile then c.compile = false end
  c.sequence_parallel = variant.sequence_parallel
  axes.tell_options(c, s, variant)
  return c, workload
end

--- Appends the configurations of all that was found to a result. Most scripts read few of them: each is made when
--- somebody reads it.
---@param found table  the core's answer
function described.all(result, p, o, question, found)
  local list = found.found
  if #list > 0 then configuration.prepare(question) end
  for i = 1, #list do
    local function how() return (described.one(p, o, question, list[i])) end
    result[i] = found.kept and lazy.record(how) or how() -- to lay out a workload again takes the model as it was
  end
end

return described
