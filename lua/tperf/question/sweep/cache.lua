--- Finished points of sweeps, in a database (see tperf/question/sweep/store). The key of a point covers everything that
--- decides its result: the question, the arguments (systems and models by content, not by name) and the build of tperf.
--- A record is only used if its checksum matches; a damaged database is set aside, and a new one is started.
local debug, io, os = debug, io, os
local script_arguments = require "tperf.input.args"
local check = require "tperf.base.check"
local columns = require "tperf.question.sweep.columns"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local engine = require "tperf.question.serve.engine"
local kernels = require "tperf.describe.kernels"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local own_code = require "tperf.question.sweep.own_code"
local catalogue = require "tperf.base.catalogue"
local record = require "tperf.question.sweep.record"
local rules = require("tperf.describe.rules.sets").of
local problem = require "tperf.base.lazy".module "tperf.question.problem"
local profile = require "tperf.describe.profile"
local software = require "tperf.base.catalogue".shared(require "tperf.describe.software")
local store = require "tperf.question.sweep.store"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local text_file = require "tperf.input.text"

local WHAT <const> = "tperf.sweep"
local LARGEST <const> = 1 << 30 -- bytes of a record, within SQLite's limit

local sha256, codec = core.file.sha256, core.codec

local cache = {}
cache.__index = cache

-- An identifier of this build. In development the Lua side may come from the disk.
local function build_id()
  local parts, folder = { core.version, core.sources, kernels.all() }, os.getenv "TPERF_LUA_DIR"
  if folder and folder ~= "" then
    for _, name in ipairs(core.modules()) do
      local path = folder .. "/" .. name:gsub("%.", "/")
      local file = core.file.open(path .. ".lua") or core.file.open(path .. "/init.lua")
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

-- The object that a system, model, profile or rule set names: a file may change while its name stays the same.
local function meant(self, name, value)
  if name == "rules" then return rules(value) end
  if name == "software" and value == profile.NONE then return value end
  if self.question == "serve" then
    if name == "software" then return engine.of(value) end
    if name == "requests" and type(value) == "string" then return text_file.read(value) end
    if (name == "prefill" or name == "decode") and type(value) == "table" and value.system then
      local pool = { system = system(value.system) }
      for field, setting in pairs(value) do pool[field] = pool[field] or setting end
      return pool
    end
  end
  local kind = type(value) == "string" and by_name[name]
  if not (kind and (self.question or catalogue.find(kind[1], value))) then return value end
  local object = kind[2](value)
  -- How far a profile errs may be what runs of another one say.
  return name == "software" and object.like and { object, software(object.like) } or object
end

local function digest_of(self, name, value)
  local ok, bytes = pcall(codec.encode, meant(self, name, value))
  if not ok and not self.key then
    check.fail("%s: the cache cannot tell what '%s' is: %s; name it with key = \"…\", and change the key when "
      .. "it changes", WHAT, name, bytes)
  end
  return sha256(ok and bytes or "")
end

-- The digest of one argument in a question; computed once for each name and object, because many points share them.
local function part_of(self, name, value)
  if name == "threads" or name == "progress" then return nil end -- these do not affect the result
  local kind = type(value)
  if kind == "number" or kind == "boolean" then return value end
  if kind == "table" and frozen.plain(value) == value then return digest_of(self, name, value) end -- a script's own
  local known = self.known[name] or {}
  self.known[name] = known
  known[value] = known[value] or digest_of(self, name, value)
  return known[value]
end

local TRAINS <const> = { search = true, train = true }

-- The software of a question that names none; nil: of questions without any.
local function usual_software(self, args)
  local name = TRAINS[self.question] and problem.implied(args) or self.question == "serve" and engine.USUAL
  return name and part_of(self, "software", name) or nil
end

local function question_bytes(self, args)
  local parts = {
    rules = args.rules == nil and part_of(self, "rules", "default") or nil,
    software = args.software == nil and usual_software(self, args) or nil,
  }
  for name, value in pairs(args) do parts[name] = part_of(self, name, value) end
  return codec.encode(parts)
end

--- The key of a point, and its result if the cache has it.
---@param args table
---@param again (fun(): table)?  asks the question again, for the fields that records lack
---@return string key
---@return any answer
function cache:find(args, again)
  if self.question and self.question ~= "collective" and not self.key then
    local what, name = own_code(args)
    if what then
      check.fail("%s: the cache cannot tell what the %s '%s' does; name it with key = \"…\", and change the key when "
        .. "it changes", WHAT, what, name)
    end
  end
  local key = sha256(self.prefix .. question_bytes(self, args))
  local bytes = self.store:find(key)
  if bytes then return key, record.decode(bytes, again) end
  return key
end

--- Stores a result.
---@param key string
---@param answer any
---@param again boolean  as for record.encode
---@param row table      the sweep's row, whose fields become columns
---@param args table
function cache:add(key, answer, again, row, args)
  if answer == nil then return end
  local ok, bytes = pcall(record.encode, answer, again)
  if not ok then check.fail("%s: the cache cannot keep what 'run' returned: %s", WHAT, bytes) end
  self:add_bytes(key, bytes, row, args)
end

--- Stores a record that was made already; checksum: of key and bytes, if another process knows it.
function cache:add_bytes(key, bytes, row, args, checksum)
  if #bytes > LARGEST then check.fail("%s: the cache '%s': an answer is too large", WHAT, self.path) end
  local list, values = columns.of(row, args)
  self.store:add { key = key, question = self.question or self.own, record = bytes, checksum = checksum,
    columns = list, values = values }
end

local function short(bytes) return sha256(bytes):sub(1, 12) end

-- Says so if points of the same key were computed by another version of the script, or with other arguments: what they
-- compute may have changed, and the key has not.
local function warn_of_changes(self, run)
  local prefix = ("own: %s; script "):format(self.key)
  local path = debug.getinfo(run, "S").source:match "^@(.*)"
  local file <close> = path and core.file.open(path) or nil
  self.own = ("%s%s, arguments %s"):format(prefix, short(file and file:read "a" or ""), short(script_arguments.text()))
  local other = self.store:other(prefix, self.own)
  if not other then return end
  local same = other:match "script (%x+)" == self.own:match("script (%x+)", #prefix - 7)
  io.stderr:write(("tperf: %s '%s', by which '%s' knows its points; they are used as they are. Where that changes what "
    .. "'run' computes, change the key\n"):format(same and "the script's arguments are not those of key"
    or "the script has changed since points were computed under key", self.key, self.path))
end

--- Opens a cache for one sweep; it is closed as a to-be-closed variable.
---@param path string      below the output folder
---@param question string? name of the question, if it is one of tperf's
---@param key string?      the user's name for the question, if it is the script's own function
---@param run function      the question
function cache.open(path, question, key, run)
  if type(path) ~= "string" or path == "" then check.fail("%s: 'cache' must be a file name", WHAT) end
  if not question and not key then
    check.fail("%s: a cache needs key = \"…\" beside a function of your own: a name of what it computes, to change "
      .. "when that does", WHAT)
  end
  local self = setmetatable({
    path = path, question = question, key = key, known = {}, store = store.open(path),
    prefix = codec.encode { build_id(), question or "own", key or "" },
  }, cache)
  if not question then warn_of_changes(self, run) end
  return self
end

function cache:__close() self.store:close() end

return cache
