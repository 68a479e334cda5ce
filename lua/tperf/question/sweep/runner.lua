--- Runs the points of a sweep: searches many at a time, other questions one by one; stores results in the cache.
local debug, io = debug, io
local batches = require "tperf.question.sweep.batches"
local check = require "tperf.base.check"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local lists = require "tperf.question.sweep.lists"
local own = require "tperf.question.sweep.own"
local jobs = require "tperf.question.ranks.jobs"
local pool = require "tperf.question.ranks.pool"
local progress = require "tperf.base.progress"
local questions = require "tperf.question.ranks.questions"
local refusal = require "tperf.base.refusal"
local rows = require "tperf.question.sweep.row"
local search = require "tperf.question.search"
local spread = require "tperf.question.sweep.spread"
local train = require "tperf.question.train"
local units = require "tperf.base.units"

local WHAT <const> = "tperf.sweep"
local QUESTIONS_AT_ONCE <const> = 208 -- in one search: a fraction of a second, so that progress and cache keep up

local MOST_WORDS <const> = 8 -- values of a point in messages

local runner = {}

-- Asks one point's question; returns false if interrupted.
local function run_one(sweep, p)
  local run, done = sweep.searched and sweep.run or sweep.ask, sweep.done
  -- a script's own function may change what it gets, which other points have, too
  local ok, result, reason = pcall(refusal.attempt, run, sweep.own and own.copy(p.args) or p.args)
  if core.search.pending() then return not core.search.interrupted() end -- the result may be incomplete
  if not ok then
    result = sweep:failed(p, result)
  elseif reason then
    result = rows.refusal(reason)
  elseif sweep.searched then
    if result.candidates == nil then check.fail("%s: gpus and system are one each, at every point", WHAT) end
    if not result.complete then return false end
  elseif result ~= nil and type(result) ~= "table" and type(result) ~= "number" then
    check.fail("%s: 'run' returned %s, where a table, a number or nil must be", WHAT, check.show(result))
  end
  done(p, train.brief(result))
  return true
end

-- Builds the arguments of all points before the first search.
local function run_searches(sweep)
  local plain = {}
  for i = 1, sweep.total do
    if core.search.interrupted() then return false end
    local p = sweep:point(i)
    if p.args and batches.takes(p.args) then
      plain[#plain + 1] = p
    elseif not p.known and not run_one(sweep, p) then
      return false
    end
  end
  local function one(p) return run_one(sweep, p) end
  if pool.is_shared() and not sweep.job.rows_of_errors then return spread.searches(sweep, plain, one) end
  for _, batch in ipairs(batches.of(plain, QUESTIONS_AT_ONCE)) do
    if not batches.ask(batch, sweep.done, one) then return false end
  end
  return true
end

local function run_each(sweep)
  if pool.is_shared() and not sweep.own and not sweep.job.rows_of_errors then
    return spread.each(sweep, function(p) return run_one(sweep, p) end)
  end
  for i = 1, sweep.total do
    if core.search.interrupted() then return false end
    local p = sweep:point(i)
    if not p.known and not run_one(sweep, p) then return false end
  end
  return not core.search.interrupted()
end

-- --- the whole sweep ---

local function open_cache(job, run)
  if job.cache == nil then return nil end
  return require "tperf.question.sweep.cache".open(job.cache, questions.name(run), job.key, run)
end

local function check_job(job)
  local run, fields = job.run or search.run, job.fields
  local call = type(run) == "table" and debug.getmetatable(run)
  call = type(call) == "table" and rawget(call, "__call")
  if call then -- such as tperf.schedule
    local callable = run
    run = function(arguments) return callable(arguments) end
  end
  if type(run) ~= "function" then check.fail("%s: 'run' must be a function, got %s", WHAT, check.show(run)) end
  if job.on_error ~= nil and job.on_error ~= "row" and job.on_error ~= "stop" then
    check.fail("%s: 'on_error' must be \"stop\" (the default) or \"row\", got %s", WHAT, check.show(job.on_error))
  end
  job.rows_of_errors = job.on_error == "row"
  if job.key ~= nil and type(job.key) ~= "string" then check.fail("%s: 'key' must be a string", WHAT) end
  if job.each ~= nil and type(job.each) ~= "function" then
    check.fail("%s: 'each' must be a function, got %s", WHAT, check.show(job.each))
  end
  if fields ~= nil then
    local list, message = check.list(check.string())(fields, "fields")
    if not list then check.fail("%s: %s", WHAT, message) end
    job.fields = list
  end
  return run
end

-- A point for messages, with the values that vary: "point 3 (tp = 8)".
local function place(self, i)
  local values, words = self.job.points[i], {}
  for k, path in ipairs(self.job.paths) do
    if values[path] ~= nil then
      words[#words + 1] = ("%s = %s"):format(self.job.names[path], check.show(rows.shown(values[path])))
    end
    if k == MOST_WORDS then break end
  end
  return ("point %d%s"):format(i, #words > 0 and (" (%s)"):format(table.concat(words, ", ")) or "")
end

-- The row of a point whose question raised an error, if the sweep asks for such rows; else raises it for the sweep.
local function failed(self, p, message)
  local text = type(message) == "string" and message or check.show(message)
  if text:find("not enough memory", 1, true) then error(message, 0) end -- which says nothing about the point
  local where, said = text:match "^([^\n]-:%d+: )(.*)$"
  if self.job.rows_of_errors then return rows.failure(("%s: %s"):format(self:place(p.index), said or text)) end
  if type(message) ~= "string" then error(message, 0) end
  error(("%s%s: %s: %s"):format(where or check.where(), WHAT, self:place(p.index), said or text), 0)
end

-- A function that asks the question of the i-th point again; nil if nobody can.
local function asks_again(self, i)
  return self.again and function() return self.again(i) end
end

-- The i-th point: { index, args, key, known }; known: it already has a row, because it was refused or cached.
local function point(self, i)
  local p, found = { index = i }, nil
  local ok, args, reason = pcall(refusal.attempt, self.job.build, self.job.points[i])
  p.args = ok and args or nil
  if not ok then
    found = self:failed(p, args)
  elseif reason then
    found = rows.refusal(reason)
  elseif self.cache then
    p.key, found = self.cache:find(args, self:asks_again(i))
  end
  if found ~= nil then
    p.known = true
    self:keep(i, found)
    self.found = self.found + 1
  end
  return p
end

-- Passes the rows that are next in order to `each`, and drops them.
local function hand_out(self)
  local row = self.rows[self.next]
  while row do
    self.rows[self.next], self.next = nil, self.next + 1
    self.job.each(row)
    row = self.rows[self.next]
  end
end

-- Makes and stores the row of a point; returns the row with all its fields.
local function keep(self, i, result)
  local row, full = rows.of(self.job, self.job.points[i], result, self.searched, self.own)
  if self.unseen.left[1] and not rows.is_empty(result) then self.unseen:look(row, full) end
  if rows.is_refusal(result) then
    self.refused = self.refused + 1
    if not self.reason or i == 1 then self.reason = result.reason end
  end
  self.rows[i], self.finished = row, self.finished + 1
  if self.job.each then hand_out(self) end
  return full
end

-- Rows that are found when somebody reads them, of results as bytes.
local function rows_of(job, first, answers, again)
  local made, waiting, reasons = {}, answers.waiting, answers.reasons or {}
  for k, bytes in ipairs(answers.list) do
    local i, reason = first + k - 1, reasons[k]
    made[k] = lazy.record(function()
      local result = reason and rows.refusal(reason) or core.codec.decode(bytes)
      if not reason and waiting then lazy.add(result, waiting, function() return again(i) end) end
      return (rows.of(job, job.points[i], result, false))
    end)
  end
  return made
end

-- How to ask a question again, for fields that records of answers lack; nil if nobody can.
local function repeater(job, run)
  local described = run == train.run and jobs.of(job, "train")
  return described and jobs.again(described, job.points, run) or nil
end

local function new_sweep(job, run, cache)
  local sweep = {
    job = job, run = run, cache = cache, searched = run == search.run, total = #job.points,
    rows = core.codec.list(job.each and 0 or #job.points), finished = 0,
    found = 0, refused = 0, next = 1, point = point, keep = keep, asks_again = asks_again, place = place,
    failed = failed, own = not questions.name(run), unseen = own.unseen(job.fields, questions.name(run)),
    again = cache and repeater(job, run), ask = questions.prepared(run),
  }
  local packed = {} -- a row of each message whose rows are packed
  local show = job.quiet and function() end or progress.start(WHAT)
  -- Takes the result of a point; bytes: the result as encoded by core.codec, if it is; checksum: of these, if known.
  function sweep.done(p, result, bytes, checksum)
    local refused = (cache or sweep.searched) and rows.is_empty(result)
    if sweep.searched and not refused then result = rows.answer(result) end
    local full = sweep:keep(p.index, result)
    if cache and bytes then
      if result ~= nil then cache:add_bytes(p.key, bytes, full, p.args, checksum) end
    elseif cache and not refused then
      cache:add(p.key, result, sweep.again ~= nil, full, p.args)
    end
    show(sweep.finished - sweep.found, sweep.total - sweep.found)
  end
  -- Takes the answers at consecutive points from another process: ranks/answers. again(i): the whole answer at a point.
  function sweep.take(first, answers, again)
    local made = answers.rows and lazy.packed(answers.rows) or rows_of(job, first, answers, again)
    if answers.rows and not job.each then packed[#packed + 1] = made[1] end
    if #made > (answers.refused or 0) then sweep.unseen:look(made[#made]) end
    table.move(made, 1, #made, first, sweep.rows)
    sweep.finished, sweep.refused = sweep.finished + #made, sweep.refused + (answers.refused or 0)
    if first == 1 and answers.reasons then sweep.reason = answers.reasons[1] end
    if job.each then hand_out(sweep) end
    show(sweep.finished, sweep.total)
  end
  -- Unpacks rows before the script reads them; returns whether there were any.
  function sweep.unpack_some()
    local row = table.remove(packed)
    lazy.settle(row)
    return row ~= nil
  end
  function sweep.stop_showing() show() end
  return sweep
end

local TRIED <const> = 8 -- points of an estimate

-- Says how long the sweep will take, from points of which nothing is kept.
local function estimate(sweep)
  local start, tried = core.clock(), math.min(TRIED, sweep.total)
  for k = 1, tried do
    local ok, args = pcall(refusal.attempt, sweep.job.build, sweep.job.points[1 + (k - 1) * sweep.total // tried])
    if ok and args then pcall(sweep.run, sweep.own and own.copy(args) or args) end
    if core.search.pending() then return end
  end
  local each = (core.clock() - start) / tried
  io.stderr:write(("tperf: %s: %d points will take about %s, %s each\n"):format(WHAT, sweep.total,
    units.format(each * sweep.total, "s", 2), units.format(each, "s", 2)))
end

-- Says which varied fields have no effect, such as a rate that a curve of measurements replaces.
local function tell_idle(job, found)
  for _, path in ipairs(own.idle(found, lists.of(job.points), job.names)) do
    io.stderr:write(("tperf: %s: '%s' changes no figure of these answers\n"):format(WHAT, path))
  end
end

--- Runs a job: { run, points, paths, names, build, cache, key, fields, each, quiet }.
---@return table[] rows
function runner.run(job)
  local run = check_job(job)
  local cache <close> = open_cache(job, run)
  local sweep = new_sweep(job, run, cache)
  if job.estimate then estimate(sweep) end
  local complete = (sweep.searched and run_searches or run_each)(sweep)
  sweep.stop_showing()
  if not complete then
    check.fail("%s: interrupted after %d of %d points%s", WHAT, sweep.finished, sweep.total,
      cache and ("; '%s' keeps them"):format(job.cache) or "")
  end
  sweep.unseen:finish()
  if sweep.refused == sweep.total and sweep.total > 0 then
    refusal.raise("%s: none of %d points is possible; the first: %s", WHAT, sweep.total, sweep.reason)
  end
  if not sweep.own and not job.each then tell_idle(job, sweep.rows) end
  return sweep.rows
end

return runner
