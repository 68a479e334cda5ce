--- Spreads the points of a sweep over all processes of a run under MPI.
local batches = require "tperf.question.sweep.batches"
local core = require "tperf.core"
local jobs = require "tperf.question.ranks.jobs"
local pool = require "tperf.question.ranks.pool"
local questions = require "tperf.question.ranks.questions"
local record = require "tperf.question.sweep.record"
local refusal = require "tperf.base.refusal"
local rows = require "tperf.question.sweep.row"

local spread = {}

local MOST_SEARCHES <const>, MOST_POINTS <const> = 208, 16 -- in one message
local ROUNDS <const> = 8 -- messages to each process, at least, if there are enough points

-- Like pool.run. Ctrl-C ends a sweep, and the sweep itself reports it.
local function run(units, idle) return pool.run(units, idle) or core.search.interrupted() and false end

-- The number of points in a unit.
local function size_of(count, most) return math.max(1, math.min(most, count // (ROUNDS * pool.size()))) end

-- Passes another process's result to the runner.
local function take_answer(sweep, p, answer)
  if answer.reason then return sweep.done(p, rows.refusal(answer.reason)) end
  sweep.done(p, record.decode(answer.bytes, sweep:asks_again(p.index)), answer.bytes, answer.checksum)
end

local function weight_of(args) return math.type(args.gpus) and args.gpus or 1 end

-- --- searches ---

local function points_of(batch)
  local list = {}
  for _, machine in ipairs(batch.machines) do table.move(machine.points, 1, #machine.points, #list + 1, list) end
  return list
end

local function search_unit(sweep, batch, index, one)
  local points, weight = points_of(batch), 0
  for _, p in ipairs(points) do weight = weight + weight_of(p.args) end
  return {
    index = index, weight = weight,
    describe = function()
      local systems, gpus = {}, {}
      for i, machine in ipairs(batch.machines) do systems[i] = machine.system end
      for i, p in ipairs(batch.machines[1].points) do gpus[i] = p.args.gpus end
      return { question = "search", rest = batch.rest, systems = systems, gpus = gpus }
    end,
    ask = function() return batches.ask(batch, sweep.done, one) end,
    take = function(_, answers)
      for i, p in ipairs(points) do take_answer(sweep, p, answers[i]) end
    end,
    place = function(_, i) return sweep:place(points[math.min(i, #points)].index) end,
  }
end

-- Splits a batch of one system and many numbers of GPUs.
local function cut(batch, most)
  local points = batch.machines[1].points
  if #batch.machines > 1 or #points <= most then return { batch } end
  local list = {}
  for first = 1, #points, most do
    local some = table.move(points, first, math.min(first + most - 1, #points), 1, {})
    list[#list + 1] = { rest = batch.rest, machines = { { system = batch.machines[1].system, points = some } } }
  end
  return list
end

--- Asks tperf.search for points whose arguments are built. Returns false if interrupted.
---@param sweep table     of the runner
---@param points table[]  { index, args, known }
---@param one fun(p: table): boolean  asks for one point in this process
---@return boolean
function spread.searches(sweep, points, one)
  local units, most = {}, size_of(#points, MOST_SEARCHES)
  for _, batch in ipairs(batches.of(points, most)) do
    for _, part in ipairs(cut(batch, most)) do units[#units + 1] = search_unit(sweep, part, #units + 1, one) end
  end
  return run(units)
end

-- --- other questions, for points that the other processes build themselves ---

local MOST_AT_ONCE <const> = 512 -- points in one message that has no arguments

-- Consecutive points. Of: { sweep, job, one, again }; one(p) asks for a point in this process; again(i): the whole
-- answer at a point, for fields that were not sent.
local JobUnit = {}
JobUnit.__index = JobUnit

local function job_unit(of, first, size) return setmetatable({ of = of, index = first, size = size }, JobUnit) end

function JobUnit:describe()
  return jobs.unit(self.of.job, self.of.sweep.job.points, self.index, self.index + self.size - 1)
end

function JobUnit:ask()
  local of = self.of
  for i = self.index, self.index + self.size - 1 do
    local p = of.sweep:point(i)
    if not p.known and not of.one(p) or core.search.interrupted() then return false end
  end
  return true
end

function JobUnit:take(answers) self.of.sweep.take(self.index, answers, self.of.again) end

function JobUnit:place(i) return self.of.sweep:place(self.index + math.min(i, self.size) - 1) end

function JobUnit:cut(size)
  local part = job_unit(self.of, self.index, size)
  self.index, self.size = self.index + size, self.size - size
  return part
end

local function each_of_job(sweep, job, one)
  local units, all = {}, sweep.job.points
  local of = { sweep = sweep, job = job, one = one, again = not job.fields and jobs.again(job, all, sweep.run) or nil }
  for first = 1, sweep.total, MOST_AT_ONCE do
    local unit = job_unit(of, first, math.min(MOST_AT_ONCE, sweep.total - first + 1))
    unit.weight, units[#units + 1] = unit.size * weight_of(all[first]), unit
  end
  return run(units, sweep.unpack_some)
end

-- --- other questions ---

local function point_unit(sweep, points, index, one)
  local function laid_out(p)
    p.args = p.args or refusal.attempt(sweep.job.build, sweep.job.points[p.index])
    return p.args
  end
  return {
    index = index, weight = points[1].weight,
    describe = function()
      local list, keys = {}, sweep.cache and {}
      for i, p in ipairs(points) do
        list[i] = laid_out(p)
        if keys then keys[i] = p.key end
      end
      return { question = questions.name(sweep.run), points = list, keys = keys, again = sweep.again ~= nil }
    end,
    ask = function()
      for _, p in ipairs(points) do
        laid_out(p)
        if not one(p) or core.search.interrupted() then return false end
      end
      return true
    end,
    take = function(_, answers)
      for i, p in ipairs(points) do
        take_answer(sweep, p, answers[i])
        p.args = nil
      end
    end,
    place = function(_, i) return sweep:place(points[math.min(i, #points)].index) end,
  }
end

--- Asks another question at all points. Returns false if interrupted.
---@param sweep table
---@param one fun(p: table): boolean
---@return boolean
function spread.each(sweep, one)
  local job = not sweep.cache and jobs.of(sweep.job, questions.name(sweep.run))
  if job then return each_of_job(sweep, job, one) end
  local points, units = {}, {}
  for i = 1, sweep.total do
    if core.search.interrupted() then return false end
    local p = sweep:point(i)
    if not p.known then
      p.weight, p.args = weight_of(p.args), nil -- built again when it is sent
      points[#points + 1] = p
    end
  end
  table.sort(points, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return a.index < b.index
  end)
  local size = size_of(#points, MOST_POINTS)
  for first = 1, #points, size do
    local some = table.move(points, first, math.min(first + size - 1, #points), 1, {})
    units[#units + 1] = point_unit(sweep, some, some[1].index, one)
  end
  return run(units)
end

return spread
