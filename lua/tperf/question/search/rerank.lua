--- Ranks the candidates of a search whose time no closed form tells. The core lists them by a lower bound of their
-- simulated time (tperf_iteration_least, include/tperf/plan.h); they are simulated until no bound that is left is below
-- the worst time that still counts, which is at most that of the best with closed forms.
local choice = require "tperf.question.choice"
local lazy = require "tperf.base.lazy"
local configuration = require "tperf.question.configuration"
local core = require "tperf.core".search
local described = require "tperf.question.search.described"
local refusal = require "tperf.base.refusal"
local simulate = lazy.module "tperf.question.train.simulate"

local rerank = {}

-- The worst time that still counts, in seconds.
local function worst(r)
  local last = r.best[r.o.top]
  return last and last.time or math.huge
end

-- The timeline of a candidate; nil if its schedule cannot run it.
local function timeline_of(r, item, candidate)
  local question, pipeline = r.question, r.p.pipeline_list[item.pipeline]
  local own = {
    pp = pipeline.pp, virtual_stages = pipeline.virtual_stages, schedule = pipeline.schedule,
    microbatches = choice.microbatches(question, r.p.strategies[item.strategy], item),
    breakdown = candidate:time().breakdown, stages = candidate:stages(),
  }
  return (refusal.attempt(simulate.run, own, question, candidate, {}))
end

-- One candidate, simulated; nil if its schedule cannot run it, it does not fit after all, or it is not among the best.
local function simulated(r, item)
  local p, o, question = r.p, r.o, r.question
  local candidate = described.candidate(p, question, item)
  local t = timeline_of(r, item, candidate)
  if not t or t.iteration_time > worst(r) then return nil end
  if not o.infeasible and not configuration.fits(t.peak, question) then return nil end
  local c = described.one(p, o, question, item)
  configuration.retime(c, question, t, p.pipeline_list[item.pipeline].closed)
  c.feasible = c.feasible and configuration.fits(t.peak, question)
  if not c.feasible and not o.infeasible or o.where and not o.where(c) then return nil end
  return c, candidate
end

local function before(a, b)
  if a.time ~= b.time then return a.time < b.time end
  if a.c.memory.total ~= b.c.memory.total then return a.c.memory.total < b.c.memory.total end
  return a.place < b.place
end

-- Places a candidate among the best.
local function place(r, entry)
  r.places = r.places + 1
  entry.place = r.places
  local list = r.best
  list[#list + 1] = entry
  table.sort(list, before)
  list[r.o.top + 1] = nil
end

local function try(r, item, least)
  local c, candidate = simulated(r, item)
  r.simulated = r.simulated + 1
  if not c then return end
  c.least_time = least
  place(r, { c = c, time = c.simulated.time, item = item, candidate = candidate })
end

-- What spreads the first simulations: the fastest bounds of all may belong to one schedule, or to what does not fit.
local function kind_of(r, item)
  local pipeline = r.p.pipeline_list[item.pipeline]
  return ("%s %d %d"):format(pipeline.schedule, item.strategy, item.variant)
end

-- Simulates the first of each schedule, strategy and variant. Returns the items tried: place -> true.
local function spread(r, list)
  local seen, tried = {}, {}
  for i = 1, #list do
    local item = list[i]
    local kind, least = kind_of(r, item), r.question.global_batch / item.throughput
    if core.pending() or least >= worst(r) then break end
    if not seen[kind] then
      seen[kind], tried[i] = true, true
      try(r, item, least)
    end
  end
  return tried
end

-- The number of a list's items, from one on, that bounds leave and that were not tried.
local function left(r, list, from, tried)
  local count = 0
  for i = from, #list do
    if r.question.global_batch / list[i].throughput >= worst(r) then break end
    count = count + (tried[i] and 0 or 1)
  end
  return count
end

--- The ranking of a question's candidates.
---@param p table         the search's problem
---@param o table         its checked arguments
---@param question table
function rerank.new(p, o, question)
  return { p = p, o = o, question = question, best = {}, places = 0, simulated = 0, left = 0, walks = 0 }
end

--- Ranks what a walk has found. Afterwards r.proven says whether nothing that was not simulated could be among the
--- best; if not, r.left is how many of those listed could, and r.more whether all were simulated and others may follow.
---@param r table      of rerank.new
---@param found table  the core's answer
---@param most integer how many candidates the core lists
function rerank.add(r, found, most)
  local list = found.open
  r.walks = r.walks + 1
  for i = 1, r.walks == 1 and #found.found or 0 do
    local c, candidate = described.one(r.p, r.o, r.question, found.found[i])
    place(r, { c = c, time = c.time, item = found.found[i], candidate = candidate, closed = true })
  end
  local tried = r.walks == 1 and spread(r, list) or {}
  for i = 1, #list do
    local item = list[i]
    local least = r.question.global_batch / item.throughput
    if least >= worst(r) then
      r.proven, r.more, r.left = true, false, 0
      return
    elseif core.pending() or r.o.most_simulated and r.simulated >= r.o.most_simulated then
      r.proven, r.more, r.left, r.cut = false, false, left(r, list, i, tried), #list == most
      return
    end
    if not tried[i] then try(r, item, least) end
    r.after = item
  end
  r.proven, r.more, r.left = #list < most, #list == most, 0
end

--- Where another walk goes on: { after, throughput }.
function rerank.reached(r)
  if r.proven then return { throughput = math.huge } end
  local after = {}
  for name, value in pairs(r.after or {}) do after[name] = value end
  after.workload = nil -- of this process
  return { after = r.after and after, throughput = r.question.global_batch / worst(r) }
end

--- Says how many candidates were simulated of those that bounds leave.
---@param complete boolean  all shapes were walked
function rerank.unproven(r, complete)
  local least = (r.cut or r.more or not complete) and "at least " or ""
  return ("%d of %s%d simulated"):format(r.simulated, least, r.simulated + r.left)
end

--- Says why there is nothing among the best.
function rerank.why_none(r, complete)
  if not complete then
    return ("interrupted: %s, none of which runs in its schedule and fits"):format(rerank.unproven(r, complete))
  end
  return ("simulated, none of %d candidates runs in its schedule and fits%s"):format(r.simulated,
    r.o.where and ", or 'where' takes none" or "")
end

--- The best.
---@return table[] configurations  at most o.top, best first
function rerank.best(r)
  local configurations = {}
  for i, entry in ipairs(r.best) do
    local c = entry.c
    if not r.p.pipeline_list[entry.item.pipeline].closed then
      c.time_without_waste = simulate.time_without_waste(c, r.question, entry.candidate, {})
    end
    configurations[i] = c
  end
  return configurations
end

return rerank
