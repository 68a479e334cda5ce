--- Finished points of sweeps, in a database (see tperf/question/sweep/store): each under a key that stands for
--- everything that decides its answer: what was asked, the arguments (systems and models by their content, not by their
--- names), and the build of tperf. An answer is found again only as its checksum says it was written; a database with
--- damage in it is set aside, and a new one begun.
local io, os = io, os
local check = require "tperf.base.check"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local model = require "tperf.describe.model"
local own_code = require "tperf.question.sweep.own_code"
local catalogue = require "tperf.base.catalogue"
local rules = require "tperf.describe.rules"
local profile = require "tperf.describe.profile"
local software = require "tperf.describe.software"
local store = require "tperf.question.sweep.store"
local system = require "tperf.describe.system"
local train = require "tperf.question.train"

local WHAT <const> = "tperf.sweep"
local LARGEST <const> = 1 << 30 -- bytes of an answer, which SQLite can hold

local sha256, codec = core.file.sha256, core.codec

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

local by_name = {
  system = { "systems", system }, model = { "models", model }, software = { "software", software },
}

-- What the name of a system, a model, a profile or a set of rules stands for: a file may change while its name stays.
local function meant(self, name, value)
  if name == "rules" then return rules(value) end
  if name == "software" and value == profile.NONE then return value end
  local kind = type(value) == "string" and by_name[name]
  if kind and (self.question or catalogue.find(kind[1], value)) then return kind[2](value) end
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
      check.fail("%s: the cache cannot tell what '%s' is: %s; name it with key = \"…\", and change the key when "
        .. "it changes", WHAT, name, bytes)
    end
    known[value] = sha256(ok and bytes or "")
  end
  return known[value]
end

local OF_TRAINING <const> = { search = true, train = true } -- what a profile runs where none is named

local function question_bytes(self, args)
  local parts = {
    rules = args.rules == nil and part_of(self, "rules", "default") or nil,
    software = args.software == nil and OF_TRAINING[self.question] and part_of(self, "software", profile.USUAL)
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
  if self.question and self.question ~= "collective" and not self.key then
    local what, name = own_code(args)
    if what then
      check.fail("%s: the cache cannot tell what the %s '%s' does; name it with key = \"…\", and change the key when "
        .. "it changes", WHAT, what, name)
    end
  end
  local key = sha256(self.prefix .. question_bytes(self, args))
  local bytes = self.store:find(key)
  if bytes then return key, codec.decode(bytes) end
  return key
end

-- The configurations in an answer, with all their fields in them.
local function settle(value, seen)
  if type(value) ~= "table" or seen[value] then return end
  seen[value] = true
  lazy.settle(train.brief(value))
  for _, part in next, value do settle(part, seen) end
end

--- Keeps an answer.
---@param key string
---@param answer any
---@param row table  of the sweep, whose fields become columns
---@param args table
function cache:add(key, answer, row, args)
  if answer == nil then return end
  settle(answer, {})
  local ok, bytes = pcall(codec.encode, answer)
  if not ok then check.fail("%s: the cache cannot keep what 'run' returned: %s", WHAT, bytes) end
  self:add_bytes(key, bytes, row, args)
end

--- Likewise an answer that codec.encode has written already.
function cache:add_bytes(key, bytes, row, args)
  if #bytes > LARGEST then check.fail("%s: the cache '%s': an answer is too large", WHAT, self.path) end
  self.store:add { key = key, question = self.question or "own: " .. self.key, record = bytes,
    fields = store.fields(row, args) }
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
  return setmetatable({
    path = path, question = question, key = key, known = {}, store = store.open(path),
    prefix = codec.encode { build_id(), question or "own", key or "" },
  }, cache)
end

function cache:__close() self.store:close() end

return cache
