--- Shares work among the processes of a run under MPI: the first process sends units to the others, the largest first,
-- and takes their answers in the order in which they arrive.
local check = require "tperf.base.check"
local core = require "tperf.core"
local questions = require "tperf.question.ranks.questions"
local sets = require "tperf.describe.rules.sets"

local ranks, codec = core.ranks, core.codec

local pool = {}

local AHEAD <const> = 2 -- units queued at a process: the one that it works on, and the next
local PARTS <const> = 4 -- units for each process that what is left is divided into
local FIRST <const> = 16 -- points of a unit before it is known how long a point takes
local SERVING <const> = 100e-6 -- s: for which a unit must last, for each process; serving it takes this one a third
local LONGEST_UNIT <const> = 0.25 -- s: for which a process answers a unit of several points
local HELPS_BELOW <const> = 16 -- processes: with more, the first is busy enough serving the others
local SHORTEST <const>, LONGEST <const> = 20e-6, 1e-3 -- s, between polls for messages

local workers -- { rank, waiting: number of its units, run, known: definitions that it has }
local number = 0 -- of the last unit sent

local is_running = false

--- Whether there are processes to share work with: false inside work that is shared already.
---@return boolean
function pool.is_shared() return ranks.count > 1 and ranks.self == 0 and not is_running end

--- The number of processes that answer.
---@return integer
function pool.size() return ranks.count end

local function start()
  if workers then return end
  workers = {}
  for rank = 1, ranks.count - 1 do
    workers[rank] = { rank = rank, waiting = 0 }
    local setup = { sources = core.sources, memory = ranks.memory, threads = ranks.threads }
    ranks.send(rank, codec.encode { setup = setup })
  end
end

local function send(worker, unit, definitions)
  if worker.run ~= definitions.run then worker.run, worker.known = definitions.run, {} end
  local new
  for id in next, unit.ids do
    if not worker.known[id] then
      new = new or {}
      worker.known[id], new[id] = true, definitions.bytes[id]
    end
  end
  number = number + 1
  ranks.send(worker.rank, codec.encode { number = number, run = definitions.run, definitions = new, unit = unit.sent })
  worker.waiting = worker.waiting + 1
  return number
end

-- The units of a run: those that can be sent, the largest first, and those that only this process can answer.
local Run = {}
Run.__index = Run

-- The number of points that a process answers in so many seconds; nil if nothing is known about that.
function Run:points_in(seconds)
  if self.answered > 0 then return math.max(1, math.floor(seconds * self.answered / math.max(self.seconds, 1e-9))) end
end

-- The number of points to send at once of units that can be cut: a part of what is left, so that all processes end at
-- about the same time, but not so few that this process could not serve all of them, nor so many that it waits long.
function Run:points_at_once()
  local part = math.max(1, self.points // (PARTS * ranks.count))
  local least = self:points_in(ranks.count * SERVING)
  return least and math.min(math.max(part, least), self:points_in(LONGEST_UNIT)) or math.min(part, FIRST)
end

-- Takes a unit that can be cut from `units`, or a part of it: so many points.
function Run:cut(unit, size)
  local part = unit.size > size and unit:cut(size) or unit
  self.points = self.points - part.size
  return part
end

-- The next unit to send, which may have none of the points up to a failure.
function Run:largest()
  local unit = self.units[self.first]
  local part = unit.cut and self:cut(unit, #self.own > 0 and unit.size or self:points_at_once()) or unit
  if part == unit then self.first = self.first + 1 end
  return part
end

-- Encodes and returns the next unit to send; units that cannot be encoded are kept for this process.
function Run:next_to_send()
  while self.first <= self.last do
    local unit = self:largest()
    if not self.failed or unit.index < self.failed.index then
      unit.sent, unit.ids = self.definitions:encode(unit:describe())
      if unit.sent then return unit end
      self.own[#self.own + 1] = unit
    end
  end
end

-- The next unit for this process: first those that cannot be sent, then the smallest, while the others are busy.
function Run:next_to_answer()
  local own = table.remove(self.own)
  if own or ranks.count > HELPS_BELOW or self.first > self.last then return own end
  local unit = self.units[self.last]
  local part = unit.cut and self:cut(unit, self:points_in(LONGEST) or 1) or unit
  if part == unit then self.last = self.last - 1 end
  return part
end

-- Sends units to the processes that have too few, in the order in which they had.
function Run:feed()
  while self.fed < #self.hungry do
    local unit = self:next_to_send()
    if not unit then return end
    self.fed = self.fed + 1
    self.sent[send(self.hungry[self.fed], unit, self.definitions)] = unit
    self.left, unit.sent, unit.ids = self.left + 1, nil, nil
  end
end

-- The failure to report is that of the first unit, as it would be without other processes.
function Run:fail(unit, message)
  if not self.failed or unit.index < self.failed.index then
    self.failed = { index = unit.index, message = message }
  end
end

function Run:take(bytes, from)
  if bytes == "" then check.fail("rank %d has ended before the run did", from) end
  local reply = codec.decode(bytes)
  if reply.stop then check.fail("%s (rank %d)", reply.stop, from) end
  local worker = workers[from]
  worker.waiting, self.hungry[#self.hungry + 1] = worker.waiting - 1, worker
  local unit = self.sent[reply.number]
  if not unit then return end -- of a run that has failed
  self.sent[reply.number], self.left = nil, self.left - 1
  if reply.error then
    self:fail(unit, ("%s%s (rank %d, %s)"):format(check.where(), reply.error, from, unit:place(reply.at)))
  elseif reply.answers then
    for _, name in ipairs(reply.rules) do sets.used[name] = true end
    unit:take(reply.answers)
    self.answered, self.seconds = self.answered + (unit.size or 1), self.seconds + reply.seconds
  else
    self.interrupted = true -- by the launcher's signal, which this process will also get
  end
end

-- Takes the messages that have arrived; returns whether there were any.
function Run:receive()
  local any = false
  while true do
    local bytes, from = ranks.receive()
    if not bytes then return any end
    any = true
    self:take(bytes, from)
  end
end

-- Answers a unit here; returns false if interrupted.
function Run:answer(unit)
  if self.failed and unit.index > self.failed.index then return true end
  local ok, result = pcall(unit.ask, unit)
  if ok then return result end
  self:fail(unit, result)
  return true
end

function Run:loop()
  local pause = SHORTEST
  while true do
    local any = self:receive()
    if core.search.pending() or self.interrupted then return false end
    self:feed()
    local unit = self:next_to_answer()
    if unit then
      if not self:answer(unit) then return false end
    elseif self.left == 0 and self.first > self.last then
      return true
    elseif not any and not (self.idle and self.idle()) then
      ranks.rest(pause)
      pause = math.min(2 * pause, LONGEST)
    end
    if any or unit then pause = SHORTEST end
  end
end

local function begin(units)
  local hungry, points = {}, 0
  for i = 1, AHEAD do
    for _, worker in ipairs(workers) do
      if worker.waiting < i then hungry[#hungry + 1] = worker end -- others still answer units of a run that has failed
    end
  end
  for _, unit in ipairs(units) do points = points + (unit.cut and unit.size or 0) end
  return setmetatable({ units = units, first = 1, last = #units, own = {}, sent = {}, left = 0, hungry = hungry,
    fed = 0, points = points, answered = 0, seconds = 0, definitions = questions.begin() }, Run)
end

--- Answers units of work on all processes. Returns false if interrupted, which it leaves for the caller to handle;
--- raises the error of the first unit that has one.
---@param units table[]  { index, weight } with methods: describe(): unit of questions; take(answers); ask(): boolean,
---  answers the unit in this process; place(i): names its i-th point in messages; and if it can be cut, `size`, its
---  points, and cut(n): a unit of its first n points, while it keeps the others
---@param idle? fun(): boolean  something short that this process may do while it waits; false: there is nothing now
---@return boolean
function pool.run(units, idle)
  start()
  table.sort(units, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return a.index < b.index
  end)
  local run = begin(units)
  run.idle = idle
  is_running = true
  local ok, complete = pcall(run.loop, run)
  is_running = false
  if not ok then error(complete, 0) end
  run:receive()
  if run.failed then error(run.failed.message, 0) end
  return complete
end

-- A unit that calls a function with plain data; its result goes to results[index].
local function call_unit(module, name, arguments, results, index, tell)
  local function finish(result)
    results[index] = result
    tell()
  end
  return {
    index = index, weight = 1,
    describe = function()
      local more = table.pack(table.unpack(arguments, 2))
      return { call = { module = module, name = name }, args = arguments[1], more = more }
    end,
    ask = function()
      local own = table.move(arguments, 1, #arguments, 1, {})
      own[#own + 1] = arguments.here
      finish(require(module)[name](table.unpack(own)))
      return not core.search.pending()
    end,
    take = function(_, answers) finish(answers[1]) end,
    place = function() return ("run %d"):format(index) end,
  }
end

--- Calls a function of one of the library's modules with each list of arguments, on all processes under MPI. The
--- arguments are plain data, the first of them a question; what a list has as `here` is one more argument in this
--- process alone. A call should take much longer than a message.
---@param module string
---@param name string
---@param list any[][]
---@param tell fun(done: integer)  called after each call
---@return any[] results  in the order of the list
function pool.map(module, name, list, tell)
  local results, units, done = {}, {}, 0
  local function count()
    done = done + 1
    tell(done)
  end
  for i, arguments in ipairs(list) do units[i] = call_unit(module, name, arguments, results, i, count) end
  if pool.is_shared() and #list > 1 then
    if not pool.run(units) then check.fail "interrupted" end
  else
    for _, unit in ipairs(units) do unit:ask() end
  end
  return results
end

return pool
