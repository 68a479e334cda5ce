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

-- Strategies that scripts define are code of theirs, which a name says nothing about.
local function refuse_own_strategies(args)
  for _, s in ipairs(strategy.list(args.strategy or "tensor")) do
    if debug.getinfo(s.sequence_shards, "S").source:sub(1, #library) ~= library then
      check.fail("%s: the cache cannot tell what the strategy '%s' does; name it with key = \"…\", and change the key "
        .. "when the strategy changes", WHAT, s.name)
    end
  end
end

local by_name = { system = { "systems", system }, model = { "models", model } }

-- What the name of a system, a model or a set of rules stands for: a file may change while its name stays.
local function meant(self, name, value)
  if name == "rules" then return rules(value) end
  local kind = type(value) == "string" and by_name[name]
  if not kind or not (self.question or resource.find(kind[1], value)) then return value end
  local key = name .. " " .. value
  self.named[key] = self.named[key] or kind[2](value)
  return self.named[key]
end

-- The bytes of arguments; those of systems and models are made once, as many points share them.
local function question_bytes(self, args)
  local plain, parts = { rules = not args.rules and rules() or nil }, {}
  for name, value in pairs(args) do
    value = meant(self, name, value)
    if name == "rules" then
      plain.rules = value
    elseif type(value) == "table" and getmetatable(value) ~= nil then
      local bytes = self.known[value]
      if not bytes then
        local ok, message = pcall(codec.encode, value)
        bytes = ok and message or self.key and "" or nil
        if not bytes then self.refuse(name, message) end
        self.known[value] = bytes
      end
      parts[name] = sha256(bytes)
    elseif type(value) == "function" then
      if not self.key then self.refuse(name, "it is a function") end
    elseif name ~= "threads" and name ~= "progress" then
      plain[name] = value
    end
  end
  local ok, bytes = pcall(codec.encode, { plain = plain, parts = parts })
  if not ok then self.refuse("the arguments", bytes) end
  return bytes
end

--- The key of a point, and its answer if it is known.
---@param args table
---@return string key
---@return any answer
function cache:find(args)
  if self.question == "search" and not self.key then refuse_own_strategies(args) end
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
  if at > #HEADER + 1 or HEADER:sub(1, #text) == text then return 0 end
  return nil
end

local function must(path, ok, message)
  if not ok then check.fail("%s: the cache '%s': %s", WHAT, path, message or "cannot be written") end
  return ok
end

local function append(self, text)
  must(self.path, self.file:write(text))
  must(self.path, self.file:flush())
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
  local file = must(path, io.open(path, "a+b"))
  local self = setmetatable({
    path = path, file = file, question = question, key = key, answers = {}, named = {},
    known = setmetatable({}, { __mode = "k" }),
    prefix = codec.encode { build_id(), question or "own", key or "" },
  }, cache)
  function self.refuse(name, problem)
    check.fail("%s: the cache cannot tell what '%s' is: %s; name it with key = \"…\", and change the key when it "
      .. "changes", WHAT, name, problem)
  end
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
  if good == 0 then append(self, HEADER) end
  return self
end

function cache:__close() self.file:close() end

return cache
