--- Finished points of sweeps, in a file that grows by one record a point. A record that was not written whole, or that
--- something has changed since, is noticed by its checksum; it and what follows are cut off and computed again.
--
-- The file: HEADER, then records: the SHA-256 of the question, the length and the bytes of its answer (see
-- tperf/sweep/codec), and the SHA-256 of these three. A question is everything that decides the answer: what was asked,
-- the arguments (systems and models by their content, not by their names), and the build of tperf.
local io, os, debug = io, os, debug
local check = require "tperf.check"
local codec = require "tperf.sweep.codec"
local core = require "tperf.core"
local model = require "tperf.model"
local resource = require "tperf.resource"
local rules = require "tperf.rules"
local runtime = require "tperf.runtime"
local schedule = require "tperf.schedule"
local software = require "tperf.software"
local strategy = require "tperf.strategy"
local system = require "tperf.system"

local WHAT <const> = "tperf.sweep"
local HEADER <const> = "tperf sweep cache 1\n"
local DIGEST <const> = 64 -- hexadecimal digits
local LARGEST <const> = 1 << 30 -- bytes of an answer

local sha256 = core.file.sha256

local cache = {}
cache.__index = cache

-- This build. In development the Lua side may come from the disk.
local function build_id()
  local parts, folder = { core.version, core.sources }, os.getenv "TPERF_LUA_DIR"
  if folder and folder ~= "" then
    for _, name in ipairs(core.modules()) do
      local path = folder .. "/" .. name:gsub("%.", "/")
      local file = io.open(path .. ".lua", "rb") or io.open(path .. "/init.lua", "rb")
      parts[#parts + 1] = file and file:read "a" or ""
      if file then file:close() end
    end
  end
  return sha256(codec.encode(parts))
end

-- --- questions ---

local library = debug.getinfo(1, "S").source:match "^(.*)sweep/cache%.lua$"

local function is_own(f) return debug.getinfo(f, "S").source:sub(1, #library) ~= library end

-- Strategies and schedules that scripts define are code of theirs, which a name says nothing about.
local function refuse_own_code(args)
  local function refuse(what, name)
    check.fail("%s: the cache cannot tell what the %s '%s' does; name it with key = \"…\", and change the key when it "
      .. "changes", WHAT, what, name)
  end
  for _, s in ipairs(strategy.list(args.strategy or "tensor")) do
    if not s.built_in then refuse("strategy", s.name) end
  end
  local wanted = type(args.schedule) == "table" and args.schedule or { args.schedule }
  if wanted[1] == "any" then wanted = schedule.names() end
  local known = {}
  for _, name in ipairs(schedule.names()) do known[name] = true end
  for _, name in ipairs(wanted) do
    if known[name] and is_own(schedule.get(name).order) then refuse("schedule", name) end
  end
end

local by_name = {
  system = { "systems", system }, model = { "models", model }, software = { "software", software },
}

-- What the name of a system, a model, a profile or a set of rules stands for: a file may change while its name stays.
local function meant(self, name, value)
  if name == "rules" then return rules(value) end
  local kind = type(value) == "string" and by_name[name]
  if kind and (self.question or resource.find(kind[1], value)) then return kind[2](value) end
  return value
end

-- What stands for one argument in a question; made once for each name and table, as many points share them.
local function part_of(self, name, value)
  if name == "threads" or name == "progress" then return nil end -- they decide nothing
  local kind = type(value)
  if kind == "number" or kind == "boolean" then return value end
  local known = self.known[name] or {}
  self.known[name] = known
  if not known[value] then
    local ok, bytes = pcall(codec.encode, meant(self, name, value))
    if not ok and not self.key then
      check.fail("%s: the cache cannot tell what '%s' is: %s; name it with key = \"…\", and change the key when it "
        .. "changes", WHAT, name, bytes)
    end
    known[value] = sha256(ok and bytes or "")
  end
  return known[value]
end

local OF_TRAINING <const> = { search = true, train = true } -- what a profile runs where none is named

local function question_bytes(self, args)
  local parts = {
    rules = args.rules == nil and part_of(self, "rules", "default") or nil,
    software = args.software == nil and OF_TRAINING[self.question] and part_of(self, "software", runtime.USUAL)
      or nil,
  }
  for name, value in pairs(args) do parts[name] = part_of(self, name, value) end
  return codec.encode(parts)
end

--- The key of a point, and its answer if it is known.
---@param args table
---@return string key
---@return any answer
function cache:find(args)
  if self.question and self.question ~= "collective" and not self.key then refuse_own_code(args) end
  local key = sha256(self.prefix .. question_bytes(self, args))
  return key, self.answers[key]
end

-- --- the file ---

-- Reads records into answers; returns how many bytes of the text are good, nil when it is no cache at all.
local function read_records(text, answers)
  local at = #HEADER + 1
  while at + DIGEST + 4 <= #text do
    local length = string.unpack("<I4", text, at + DIGEST)
    local body_end = at + DIGEST + 4 + length - 1
    if body_end + DIGEST > #text then break end
    if sha256(text:sub(at, body_end)) ~= text:sub(body_end + 1, body_end + DIGEST) then break end
    local ok, value = pcall(codec.decode, text:sub(at + DIGEST + 4, body_end))
    if not ok then break end
    answers[text:sub(at, at + DIGEST - 1)] = value
    at = body_end + DIGEST + 1
  end
  if text:sub(1, #HEADER) == HEADER then return at - 1 end
  -- Whose file is it? A header cut short or a good record behind a damaged one say: ours.
  if at > #HEADER + 1 or #text > 0 and HEADER:sub(1, #text) == text then return 0 end
  return nil
end

local function must(path, ok, message)
  if not ok then check.fail("%s: the cache '%s': %s", WHAT, path, message or "cannot be written") end
  return ok
end

-- Without a buffer: what cannot be written whole is cut off again.
local function append(self, text)
  local ok, message = self.file:write(text)
  if not ok then
    core.file.truncate(self.file, self.size)
    must(self.path, nil, message)
  end
  self.size = self.size + #text
end

--- Keeps an answer.
function cache:add(key, answer)
  if answer == nil then return end
  local ok, bytes = pcall(codec.encode, answer)
  if not ok then check.fail("%s: the cache cannot keep what 'run' returned: %s", WHAT, bytes) end
  must(self.path, #bytes <= LARGEST, "an answer is too large")
  local body = key .. string.pack("<s4", bytes)
  append(self, body .. sha256(body))
end

--- Opens a cache for one sweep; it is closed as a to-be-closed variable.
---@param path string      below the output folder
---@param question string? what is asked, when it is a question of tperf's
---@param key string?      what is asked, when it is the script's
function cache.open(path, question, key)
  if type(path) ~= "string" or path == "" then check.fail("%s: 'cache' must be a file name", WHAT) end
  if not question and not key then
    check.fail("%s: a cache needs key = \"…\" beside a function of your own: a name of what it computes, to change "
      .. "when that does", WHAT)
  end
  local file = must(path, core.file.log(path, HEADER))
  local self = setmetatable({
    path = path, file = file, question = question, key = key, answers = {}, known = {},
    prefix = codec.encode { build_id(), question or "own", key or "" },
  }, cache)
  local locked, problem = core.file.lock(file)
  if locked == nil then must(path, nil, problem) end
  if not locked then
    file:close()
    check.fail("%s: the cache '%s' is in use by another sweep; let it end, or name another file", WHAT, path)
  end
  file:seek "set"
  local text = must(path, file:read "a")
  local good = read_records(text, self.answers)
  if not good then
    file:close()
    check.fail("%s: '%s' is there and is no cache of sweeps; name another file", WHAT, path)
  end
  if good == 0 then self.answers = {} end
  if good < #text then
    must(path, core.file.truncate(file, good))
    io.stderr:write(("tperf: the cache '%s' is damaged after %d of %d bytes; what followed is computed again\n"):format(
      path, good, #text))
  end
  file:setvbuf "no"
  self.size = good
  if good == 0 then append(self, HEADER) end
  return self
end

function cache:__close() self.file:close() end

return cache
