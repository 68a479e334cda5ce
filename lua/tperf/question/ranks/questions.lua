--- What processes ask of each other under MPI: the library's questions by name, with arguments that are plain data.
local inner = require "tperf.base.entry.neutral".inner
local lazy = require "tperf.base.lazy"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local own_code = lazy.module "tperf.question.sweep.own_code"
local catalogue = require "tperf.base.catalogue"
local profile = require "tperf.describe.profile"

local questions = {}

local by_name, names, holders = {}, {}, {}

--- Registers a question, so that other processes find it under the same name.
---@param name string
---@param run function
---@param holding? fun(given: table, held: table)  as run, with what a prepared question keeps
function questions.register(name, run, holding)
  by_name[name], names[inner(run)], holders[inner(run)] = run, name, holding
end

--- A question that is asked again and again: what asking again needs is kept as long as the function that this returns.
---@param run function
---@return function
function questions.prepared(run)
  local holding, held = holders[inner(run)], {}
  if not holding then return run end
  return function(given) return holding(given, held) end
end

--- The name under which other processes know a question; nil for a script's own function.
---@param run function
---@return string?
function questions.name(run) return names[inner(run)] end

--- The question with this name.
---@param name string
---@return function
function questions.of(name) return by_name[name] end

local OF_FILES <const> = { "system", "model", "software" } -- these name files, which only the first process reads

-- The metatables of systems, models and profiles -> their names.
local function classes()
  local of = {}
  for name, metatable in pairs(catalogue.metatables) do of[metatable] = name end
  return of
end

--- A copy of a value for later, with systems, models and profiles, as bytes.
---@param value any
---@return string
function questions.freeze(value) return core.codec.encode(value, classes()) end

--- The value in these bytes.
---@param bytes string
---@return any
function questions.thaw(bytes) return core.codec.decode(bytes, catalogue.metatables) end

-- Objects that the arguments of many points share: each is sent to each process once.
local definitions = {}
definitions.__index = definitions

local runs = 0

--- Starts a run of many points.
---@return table definitions
function questions.begin()
  runs = runs + 1
  return setmetatable({ run = runs, names = classes(), classes = classes(), bytes = {}, count = 0, read = {},
    of_job = {} }, definitions)
end

-- The object that an argument names, or those of a list; adds their ids to `ids`. Raises if an object cannot be
-- encoded.
function definitions:define(kind, value, ids)
  value = frozen.plain(value)
  if type(value) == "table" and debug.getmetatable(value) == nil and value[1] ~= nil then
    local list = {}
    for i, item in ipairs(value) do list[i] = self:define(kind, item, ids) end
    return list
  end
  if type(value) == "string" then
    local key = kind .. ":" .. value
    self.read[key] = self.read[key] or require("tperf.describe." .. kind)(value)
    value = self.read[key]
  end
  if type(value) ~= "table" or debug.getmetatable(value) == nil then return value end
  return self:share(value, ids)
end

-- Marks a table to be sent once to each process; adds its id to `ids`.
function definitions:share(value, ids)
  if not self.names[value] then
    local bytes = core.codec.encode(value, self.classes)
    self.count = self.count + 1
    local id = "#" .. self.count
    self.names[value], self.bytes[id] = id, bytes
  end
  ids[self.names[value]] = true
  return value
end

-- A copy of the arguments with objects in place of their names.
function definitions:resolve(question, args, ids)
  if question ~= "collective" and own_code(args) then error("the script's own code", 0) end
  if question == "serve" and type(args.requests) == "string" then error("a file", 0) end
  local copy = {}
  for name, value in pairs(args) do copy[name] = value end
  for _, kind in ipairs(OF_FILES) do
    if copy[kind] ~= nil and copy[kind] ~= profile.NONE then copy[kind] = self:define(kind, copy[kind], ids) end
  end
  return copy
end

--- A unit of work as it is sent to another process, with the ids of the definitions that it needs; nil if it contains
--- something that cannot be encoded, such as a function.
---@param unit table  { question, points: arguments[], keys: of the cache, again }, { question = "search", rest,
---  systems, gpus }, { job, first, last, parts } of jobs.unit, or { walk: options, args, part }
---@return string|table|nil sent  bytes; or plain data, of a job that was sent before
---@return table<string, true>? ids
function definitions:encode(unit)
  local ids = self.of_job[unit.job]
  if ids then return { job = self.names[unit.job], first = unit.first, last = unit.last }, ids end
  ids = {}
  local ok, bytes = pcall(function()
    local copy = { question = unit.question }
    if unit.job then
      copy.job, copy.parts = self:share(unit.job, ids), unit.parts
      copy.first, copy.last = unit.first, unit.last
      if not unit.parts then self.of_job[unit.job] = ids end
    elseif unit.call then
      copy.call, copy.args, copy.more = unit.call, self:resolve("serve", unit.args, ids), unit.more
    elseif unit.walk then
      copy.walk, copy.part, copy.args = unit.walk, unit.part, self:resolve("search", unit.args, ids)
    elseif unit.rest then
      copy.rest, copy.gpus, copy.systems = self:resolve("search", unit.rest, ids), unit.gpus, {}
      for i, system in ipairs(unit.systems) do copy.systems[i] = self:define("system", system, ids) end
    else
      copy.points, copy.keys, copy.again = {}, unit.keys, unit.again
      for i, args in ipairs(unit.points) do copy.points[i] = self:resolve(unit.question, args, ids) end
    end
    return core.codec.encode(copy, self.names)
  end)
  if ok then return bytes, ids end
end

-- --- the receiving side ---

local values = { run = 0 }

--- Decodes the unit of work in a message.
---@param message table  { run, definitions: table<string, string>?, unit: as sent }
---@return table
function questions.decode(message)
  if values.run ~= message.run then
    values = { run = message.run, known = {} }
    for name, metatable in pairs(catalogue.metatables) do values.known[name] = metatable end
  end
  for id, bytes in pairs(message.definitions or {}) do
    values.known[id] = questions.thaw(bytes)
  end
  local unit = message.unit
  if type(unit) == "string" then return core.codec.decode(unit, values.known) end
  unit.job = values.known[unit.job]
  return unit
end

return questions
