--- Points of a sweep that other processes build themselves: they get the fixed arguments once, and of each point only
-- the varied values. If rows keep only some fields, they also make the rows, which leaves little to the first process.
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local own_code = require "tperf.question.sweep.own_code"
local point = require "tperf.question.sweep.point"
local refusal = require "tperf.base.refusal"
local row = require "tperf.question.sweep.row"
local profile = require "tperf.describe.profile"
local train = require "tperf.question.train"
local vary = require "tperf.question.sweep.vary"

local jobs = {}

local LONGEST <const> = 10000 -- values that are sent to every process; of more, each gets those of its own points
local OF_FILES <const> = { "system", "model", "software" } -- these name files, which only the first process reads

local function read(kind, name)
  return name ~= profile.NONE and require("tperf.describe." .. kind)(name) or name
end

-- The objects that an argument names at some points, by name.
local function read_names(kind, lists)
  local objects = {}
  for _, points in ipairs(lists) do
    for _, values in ipairs(points) do
      local name = values[kind]
      if type(name) == "string" and objects[name] == nil then objects[name] = read(kind, name) end
    end
  end
  return objects
end

local function describe(job, question)
  local fixed, objects, lists, length = {}, {}, vary.lists_of(job.points), 0
  for _, points in ipairs(lists) do length = length + #points end
  for name, value in pairs(job.fixed) do fixed[name] = value end
  for _, kind in ipairs(OF_FILES) do
    if type(fixed[kind]) == "string" then fixed[kind] = read(kind, fixed[kind]) end
    objects[kind] = job.names[kind] and read_names(kind, lists) or nil
  end
  return { question = question, fixed = fixed, objects = objects, paths = job.paths, names = job.names,
    fields = job.fields, lists = length <= LONGEST and lists or nil }
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

-- --- the receiving side ---

local known = setmetatable({}, { __mode = "k" }) -- job -> the builder of its arguments, and all its points

local function prepare(job)
  known[job] = known[job] or {
    build = point.builder(job.fixed, job.paths), points = job.lists and vary.combinations(job.lists),
  }
  return known[job]
end

-- The arguments of a point.
local function lay_out(job, values)
  local args = known[job].build(values)
  for kind, objects in pairs(job.objects) do args[kind] = objects[args[kind]] or args[kind] end
  return args
end

local function ask(job, run, values)
  return (train.brief(run(lay_out(job, values))))
end

local function answer(job, values, result, reason)
  if job.fields then return row.of(job, values, reason and row.refusal(reason) or result, false) end
  return reason and { reason = reason } or { bytes = core.codec.encode(lazy.settle(result)) }
end

--- Answers points.
---@param unit table      { job: of jobs.of, first, last, points: unless the job has them }
---@param run function    its question
---@param answers table   receives, for each point, its row or, if rows keep all fields, { bytes } or { reason }; and
---  `refused`, the number of refused points, and `reason`, the first point's if it is refused
---@return boolean complete  false when interrupted
function jobs.answer(unit, run, answers)
  local job, points = unit.job, prepare(unit.job).points
  answers.refused = 0
  for i = 1, unit.last - unit.first + 1 do
    local values = points and points[unit.first + i - 1] or unit.points[i]
    local result, reason = refusal.attempt(ask, job, run, values)
    if core.search.interrupted() then return false end
    if reason then answers.refused = answers.refused + 1 end
    if i == 1 then answers.reason = reason end
    answers[i] = answer(job, values, result, reason)
  end
  return true
end

return jobs
