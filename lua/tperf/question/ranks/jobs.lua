--- Points of a sweep that other processes build themselves: they get the fixed arguments once, and of each point only
-- the varied values. If rows keep only some fields, they also make the rows, which leaves little to the first process.
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local lists = require "tperf.question.sweep.lists"
local own_code = require "tperf.question.sweep.own_code"
local point = require "tperf.question.sweep.point"
local refusal = require "tperf.base.refusal"
local row = require "tperf.question.sweep.row"
local profile = require "tperf.describe.profile"
local questions = require "tperf.question.ranks.questions"
local train = require "tperf.question.train"

local jobs = {}

local LONGEST <const> = 1000 -- list that is sent to every process; of a longer one, each gets what its own points need
local OF_FILES <const> = { "system", "model", "software" } -- these name files, which only the first process reads

local function read(kind, name)
  return name ~= profile.NONE and require("tperf.describe." .. kind)(name) or name
end

-- The objects that an argument names at some points, by name.
local function read_names(kind, all)
  local objects = {}
  for _, list in ipairs(all) do
    local values, count = lists.column(list, kind)
    for i = 1, count do
      local name = values[i]
      if type(name) == "string" and objects[name] == nil then objects[name] = read(kind, name) end
    end
  end
  return objects
end

-- The lists that are sent whole, false in place of others; and whether there are others.
local function short_ones(all)
  local short, some_long = {}, false
  for k, list in ipairs(all) do
    short[k] = (list.n or #list) <= LONGEST and list
    some_long = some_long or not short[k]
  end
  return short, some_long
end

local function describe(job, question)
  local fixed, objects, all = {}, {}, lists.of(job.points)
  for name, value in pairs(job.fixed) do fixed[name] = value end
  for _, kind in ipairs(OF_FILES) do
    if type(fixed[kind]) == "string" then fixed[kind] = read(kind, fixed[kind]) end
    objects[kind] = job.names[kind] and read_names(kind, all) or nil
  end
  local short, some_long = short_ones(all)
  return { question = question, fixed = fixed, objects = objects, paths = job.paths, names = job.names,
    fields = job.fields, lists = short, some_long = some_long }
end

--- What other processes need to build the points of a sweep; nil if they cannot, because the script's own code or a
--- file that only the first process reads may be involved.
---@param job table  of tperf.sweep
---@param question string
---@return table?
function jobs.of(job, question)
  if own_code { strategy = "all", schedule = "any" } or question == "serve" then return nil end
  local ok, made = pcall(describe, job, question)
  return ok and made or nil
end

--- Consecutive points of a job, as questions.encode takes them.
---@param job table     of jobs.of
---@param points table  of the sweep
---@param first integer
---@param last integer
---@return table unit
function jobs.unit(job, points, first, last)
  local parts = job.some_long and lists.parts(points, first, last, LONGEST) or nil
  return { job = job, first = first, last = last, parts = parts }
end

-- --- the receiving side ---

local builders = setmetatable({}, { __mode = "k" }) -- job -> the builder of its arguments

-- The points of the sweep; those of the unit can be indexed.
local function points_of(unit)
  local all = {}
  for k, list in ipairs(unit.job.lists) do all[k] = list or unit.parts[k] end
  return lists.combinations(all)
end

-- Checks the objects of a job once; otherwise every point would, as they were not made here.
local function adopt(job)
  for _, kind in ipairs(OF_FILES) do
    local function own(object) return debug.getmetatable(object) and read(kind, object) or object end
    if type(job.fixed[kind]) == "table" then job.fixed[kind] = own(job.fixed[kind]) end
    for name, object in pairs(job.objects[kind] or {}) do
      if type(object) == "table" then job.objects[kind][name] = own(object) end
    end
  end
  return point.builder(job.fixed, job.paths)
end

-- The arguments of a point.
local function lay_out(job, values)
  builders[job] = builders[job] or adopt(job)
  local args = builders[job](values)
  for kind, objects in pairs(job.objects) do args[kind] = objects[args[kind]] or args[kind] end
  return args
end

local function ask(job, run, values)
  return (train.brief(run(lay_out(job, values))))
end

local prepared = setmetatable({}, { __mode = "k" }) -- job -> its question, which keeps what the next point needs

-- What is known of a point: its row if rows keep few fields, or the answer without the fields that nobody has read yet.
local function answer(job, values, result, reason, waiting)
  if job.fields then return row.of(job, values, reason and row.refusal(reason) or result, false) end
  lazy.waiting(result, waiting)
  return not reason and core.codec.encode(result)
end

--- Answers points.
---@param unit table       of jobs.unit
---@param run function     its question
---@param answers table    receives an answer for each point: its row or, if rows keep all fields, the result as bytes
---@return table? summary  each field only if there is something: { refused = number of refused points, reasons = of
---  refused points, by their number in the unit (of the first point only, unless rows keep all fields), waiting = names
---  of fields that jobs.again finds }; nil when interrupted
function jobs.answer(unit, run, answers)
  local job, points = unit.job, points_of(unit)
  local summary = { refused = 0, reasons = {}, waiting = {} }
  prepared[job] = prepared[job] or questions.prepared(run)
  for i = 1, unit.last - unit.first + 1 do
    local values = points[unit.first + i - 1]
    local result, reason = refusal.attempt(ask, job, prepared[job], values)
    if core.search.interrupted() then return nil end
    if reason then summary.refused = summary.refused + 1 end
    if i == 1 or not job.fields then summary.reasons[i] = reason end
    answers[i] = answer(job, values, result, reason, summary.waiting)
  end
  if summary.refused == 0 then summary.refused = nil end
  for _, name in ipairs { "reasons", "waiting" } do
    if next(summary[name]) == nil then summary[name] = nil end
  end
  return summary
end

--- Asks a job's question again: for fields of an answer that nobody has read so far. What the script has changed in the
--- meantime does not count.
---@param job table     of jobs.of
---@param points table  of the sweep
---@param run function  its question
---@return (fun(i: integer): table)?  the answer at a point, with all fields; nil if other processes cannot ask, either
function jobs.again(job, points, run)
  local ok, bytes = pcall(questions.freeze, { job = job, lists = lists.of(points) })
  if not ok then return nil end
  local frozen, all
  return function(i)
    if not frozen then
      local thawed = questions.thaw(bytes)
      frozen, all = thawed.job, lists.combinations(thawed.lists)
    end
    return lazy.settle(ask(frozen, run, all[i]))
  end
end

return jobs
