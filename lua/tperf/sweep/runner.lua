--- Runs the points of a sweep: searches many at a time, other questions one by one; keeps results in the cache.
local check = require "tperf.check"
local codec = require "tperf.sweep.codec"
local collective = require "tperf.collective"
local core = require "tperf.core"
local layer = require "tperf.layer"
local progress = require "tperf.progress"
local refusal = require "tperf.refusal"
local search = require "tperf.search"
local train = require "tperf.train"

local WHAT <const> = "tperf.sweep"
local QUESTIONS_AT_ONCE <const> = 208 -- of a search: a fraction of a second, so that progress and the cache keep up

local runner = {}

-- Of a search: facts about the run rather than its answer, and what the row has anyway.
local left_out = { seconds = true, evaluated = true, complete = true, system = true, model = true }

local function answer_of(result)
  if type(result) ~= "table" then return result end
  local copy = {}
  for key, value in pairs(result) do
    if not left_out[key] then copy[key] = value end
  end
  return copy
end

-- A value as a row shows it: a system or a model by its name.
local function shown(value)
  if type(value) == "table" and type(value.name) == "string" then return value.name end
  return value
end

local refused = {} -- metatable of { reason }, which stands for the answer where a point is refused

local function row_of(job, values, result, searched)
  local row = {}
  if getmetatable(result) == refused then
    row.feasible, row.reason = false, result.reason
    if searched then row.candidates, row.fitting = 0, 0 end
    result, searched = nil, false
  end
  local fields = searched and result[1] or result
  if type(fields) == "number" then fields = { time = fields } end
  for name, value in pairs(type(fields) == "table" and fields or {}) do
    if type(name) == "string" then row[name] = value end
  end
  if searched then
    row.candidates, row.fitting, row.reason = result.candidates, result.feasible, result.reason
    row.feasible = result.feasible > 0
  end
  for path, value in pairs(values) do row[job.names[path]] = shown(value) end
  row.result = result
  return row
end

-- --- searches, many points in one ---

-- Points whose arguments differ only in gpus and system, in the order of their first points; in each group, the points
-- of each system. Those that are known already count for the order, which must not depend on what a cache holds.
local function batches_of(points)
  local groups, by_key = {}, {}
  for _, p in ipairs(points) do
    local rest = {}
    for name, value in pairs(p.args) do
      if name ~= "gpus" and name ~= "system" then rest[name] = value end
    end
    local key = codec.identity(rest)
    local group = by_key[key]
    if not group then
      group = { rest = rest, systems = {}, by_system = {} }
      by_key[key], groups[#groups + 1] = group, group
    end
    local of_system = codec.identity { p.args.system }
    local machine = group.by_system[of_system]
    if not machine then
      machine = { system = p.args.system, points = {} }
      group.by_system[of_system], group.systems[#group.systems + 1] = machine, machine
    end
    if not p.known then table.insert(machine.points, p) end
  end
  return groups
end

local function gpus_key(machine)
  local counts = {}
  for i, p in ipairs(machine.points) do counts[i] = tostring(p.args.gpus) end
  return table.concat(counts, " ")
end

-- Asks one point's question on its own; false when interrupted.
local function run_one(run, p, done)
  local result, reason = refusal.attempt(run, p.args)
  if reason then
    result = setmetatable({ reason = reason }, refused)
  elseif run == search.run then
    if result.candidates == nil then check.fail("%s: gpus and system are one each, at every point", WHAT) end
    if not result.complete then return false end
  elseif result ~= nil and type(result) ~= "table" and type(result) ~= "number" then
    check.fail("%s: 'run' returned %s, where a table, a number or nil must be", WHAT, check.show(result))
  end
  done(p, result)
  return true
end

-- Asks for the points of some systems at once; where that is refused, one by one.
local function flush(rest, machines, done)
  local args, systems, gpus = {}, {}, {}
  for name, value in pairs(rest) do args[name] = value end
  for i, machine in ipairs(machines) do systems[i] = machine.system end
  for i, p in ipairs(machines[1].points) do gpus[i] = p.args.gpus end
  args.system, args.gpus = systems, gpus
  local results = refusal.attempt(search.run, args)
  for i, machine in ipairs(machines) do
    for j, p in ipairs(machine.points) do
      if results then
        local result = results[(i - 1) * #gpus + j]
        if not result.complete then return false end
        done(p, result)
      elseif not run_one(search.run, p, done) then
        return false
      end
      if core.search.interrupted() then return false end
    end
  end
  return true
end

-- Points that name no single system and number of GPUs ask tperf.search themselves: it knows what to say.
local function is_plain(args)
  return math.type(args.gpus) == "integer" and args.system ~= nil
    and (type(args.system) ~= "table" or args.system.network ~= nil)
end

local function run_searches(points, done)
  local plain = {}
  for _, p in ipairs(points) do
    if p.args and is_plain(p.args) then
      plain[#plain + 1] = p
    elseif not p.known and not run_one(search.run, p, done) then
      return false
    end
  end
  for _, group in ipairs(batches_of(plain)) do
    local machines, key, questions = {}, nil, 0
    for _, machine in ipairs(group.systems) do
      local own = gpus_key(machine)
      if #machines > 0 and (own ~= key or questions + #machine.points > QUESTIONS_AT_ONCE) then
        if not flush(group.rest, machines, done) then return false end
        machines, questions = {}, 0
      end
      if #machine.points > 0 then
        machines[#machines + 1], key, questions = machine, own, questions + #machine.points
      end
    end
    if #machines > 0 and not flush(group.rest, machines, done) then return false end
  end
  return true
end

local function run_each(run, points, done)
  for _, p in ipairs(points) do
    if core.search.interrupted() then return false end
    if not p.known then run_one(run, p, done) end
  end
  return not core.search.interrupted()
end

-- --- the whole ---

local cacheable = {
  [search.run] = "search", [train.run] = "train", [collective.time] = "collective", [layer.ops] = "layer",
}

local function open_cache(job, run)
  if job.cache == nil then return nil end
  return require "tperf.sweep.cache".open(job.cache, cacheable[run], job.key)
end

local function all_refused(results)
  for _, result in ipairs(results) do
    if getmetatable(result) ~= refused then return false end
  end
  return #results > 0
end

--- Says that no point of a job is possible.
function runner.refuse(job)
  refusal.raise("%s: none of %d points is possible; the first: %s", WHAT, job.total, job.first_reason)
end

--- Runs a job: { run, points, paths, names, build, cache, key, quiet, before, total }: its points are those behind the
--- first `before` of `total`.
---@return table[] rows, string? reason  why the first point is refused, where all are and others belong to the job
function runner.run(job)
  local run = job.run or search.run
  if type(run) ~= "function" then check.fail("%s: 'run' must be a function, got %s", WHAT, check.show(run)) end
  if job.key ~= nil and type(job.key) ~= "string" then check.fail("%s: 'key' must be a string", WHAT) end
  local searched = run == search.run
  local cache <close> = open_cache(job, run)
  local show = job.quiet and function() end or progress.start(WHAT)
  local results, points, finished = {}, {}, 0
  local complete = true
  for i, values in ipairs(job.points) do
    if core.search.interrupted() then
      complete = false
      break
    end
    local p, found = { index = i }, nil
    local args, reason = refusal.attempt(job.build, values)
    p.args = args
    if reason then
      found = setmetatable({ reason = reason }, refused)
    elseif cache then
      p.key, found = cache:find(p.args)
    end
    if found ~= nil then results[i], finished, p.known = found, finished + 1, true end
    points[i] = p
  end
  local start = finished
  local function done(p, result)
    local is_refused = getmetatable(result) == refused
    if searched and not is_refused then result = answer_of(result) end
    if cache and not is_refused then cache:add(p.key, result) end
    results[p.index] = result == nil and false or result
    finished = finished + 1
    show(job.before + finished - start, job.total - start)
  end
  complete = complete and (searched and run_searches(points, done) or not searched and run_each(run, points, done))
  show()
  if not complete then
    check.fail("%s: interrupted after %d of %d points%s", WHAT, job.before + finished, job.total,
      cache and ("; '%s' keeps them"):format(job.cache) or "")
  end
  local reason = all_refused(results) and results[1].reason or nil
  if reason and #job.points == job.total then
    job.first_reason = reason
    runner.refuse(job)
  end
  local rows = {}
  for i, values in ipairs(job.points) do rows[i] = row_of(job, values, results[i] or nil, searched) end
  return rows, reason
end

return runner
