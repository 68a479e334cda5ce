--- Ranks the candidates of a search by simulation. The core has ranked them by a lower bound of their simulated time
-- (tperf_iteration_least, include/tperf/plan.h); they are simulated in that order until no bound is below the worst
-- simulated time that still counts.
local lazy = require "tperf.base.lazy"
local configuration = require "tperf.question.configuration"
local refusal = require "tperf.base.refusal"
local simulate = lazy.module "tperf.question.train.simulate"

local rerank = {}

--- How many candidates a search keeps for this, at first and at most; each takes about a millisecond.
rerank.FIRST, rerank.MOST = 64, 4096

-- One candidate, simulated, and its workload; nil if its schedule cannot run it or it does not fit after all.
local function simulated(p, o, question, item, describe)
  local c, workload = describe(p, o, question, item)
  c.stages = configuration.stages(question, workload, item)
  local t = refusal.attempt(simulate.run, c, question, workload, item, {})
  c.stages = nil
  if not t then return nil end
  configuration.retime(c, question, t, p.pipeline_list[item.pipeline].closed)
  c.feasible = c.feasible and configuration.fits(t.peak, question)
  if not c.feasible and not o.infeasible then return nil end
  return c, workload
end

local function before(a, b)
  if a.c.simulated.time ~= b.c.simulated.time then return a.c.simulated.time < b.c.simulated.time end
  if a.c.memory.total ~= b.c.memory.total then return a.c.memory.total < b.c.memory.total end
  return a.place < b.place
end

local function configurations_of(p, question, list)
  local configurations = {}
  for i, entry in ipairs(list) do
    local c = entry.c
    if not p.pipeline_list[entry.item.pipeline].closed then
      c.time_without_waste = simulate.time_without_waste(c, question, entry.workload, entry.item, {})
    end
    configurations[i] = c
  end
  return configurations
end

--- The best candidates by simulation.
---@param p table         the search's problem
---@param o table         its checked arguments
---@param question table
---@param found userdata  what the core found, ranked by the bound
---@param describe fun(p: table, o: table, question: table, item: table): table, userdata  an item's configuration
---  and workload
---@return table[] configurations  at most o.top, best first
---@return boolean proven  no candidate that the core left out could be among them
function rerank.best(p, o, question, found, describe)
  local list = {}
  for place = 1, #found do
    local item = found[place]
    local least = question.global_batch / item.throughput
    if #list == o.top and least >= list[#list].c.simulated.time then
      return configurations_of(p, question, list), true
    end
    local c, workload = simulated(p, o, question, item, describe)
    if c then
      c.least_time = least
      list[#list + 1] = { c = c, place = place, item = item, workload = workload }
      table.sort(list, before)
      list[o.top + 1] = nil
    end
  end
  return configurations_of(p, question, list), #found < o.kept
end

return rerank
