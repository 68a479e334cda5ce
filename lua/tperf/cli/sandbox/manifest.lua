--- manifest.json: the inputs and outputs of a script's run, each with its SHA-256.
local check = require "tperf.base.check"
local core = require "tperf.core"
local encode = require "tperf.output.json".encode
local recorder = require "tperf.cli.sandbox.recorder"
local catalogue = require "tperf.base.catalogue"
local roots = require "tperf.base.roots"

local manifest = {}

local MISSING <const> = select(3, io.open "") -- ENOENT, whose number depends on the platform

local FORMAT <const> = 1

local clock, variable = os.date, os.getenv -- captured: the standard ones

-- The folder of a script without its links, with a slash at its end; nil if it is unknown.
local function folder_of(script, host)
  local real = host.input.real(script)
  return real and real:match "^(.*/)"
end

-- An absolute path as seen from a folder: "../lib/a.lua".
local function relative(path, folder)
  local up = ""
  while path:sub(1, #folder) ~= folder do
    folder, up = folder:match "^(.*/)[^/]*/$", up .. "../"
    if not folder then return path end
  end
  return up .. path:sub(#folder + 1)
end

-- Files that were named absolutely, such as modules that LUA_PATH finds, are listed as seen from the script's folder,
-- so that both can move together.
local function inputs_of(record, script, host)
  local list, folder = {}, folder_of(script, host)
  for _, path in ipairs(check.names(record.read)) do
    local shipped = roots.shipped(path)
    local beside = not shipped and folder and path:sub(1, 1) == "/" and relative(path, folder)
    if path ~= script then
      list[#list + 1] = { file = shipped or beside or path, shipped = shipped and true,
        from = beside and "script" or nil, sha256 = record.read[path] }
    end
  end
  return list
end

--- Where `require` looks before the program's own places, as the environment says.
---@return string?
function manifest.lua_path() return variable "LUA_PATH_5_4" or variable "LUA_PATH" end

--- The path of an input in the manifest of a script.
---@param input table
---@param script string
---@return string
function manifest.path_of(input, script, host)
  if input.shipped then return not input.file:find("..", 1, true) and roots.installed(input.file) or input.file end
  return input.from == "script" and (folder_of(script, host) or "") .. input.file or input.file
end

local function outputs_of(record, folder, host)
  local list = {}
  for _, name in ipairs(check.names(record.written)) do
    local path, digest
    if not record.kept[name] then path, digest = host.input.real(folder .. "/" .. name, true) end
    if path then list[#list + 1] = { file = name, bytes = select(2, core.resource.stamp(path)), sha256 = digest } end
  end
  return list
end

--- Reads a manifest; raises if it is invalid.
---@param folder string
---@return table
function manifest.read(folder, host)
  local path = folder .. "/" .. recorder.MANIFEST
  local content, message = catalogue.read(path, host.input.open)
  if content == nil then error(message, 0) end
  local function needs(ok)
    if not ok then error(("%s is no manifest of `tperf run --out`"):format(path), 0) end
  end
  local function files(list)
    needs(type(list) == "table")
    for _, item in ipairs(list) do
      needs(type(item) == "table" and type(item.file) == "string" and type(item.sha256) == "string")
      needs(not item.file:find("..", 1, true) or list ~= content.outputs)
    end
  end
  needs(type(content) == "table" and content.format == FORMAT and type(content.script) == "table")
  needs(type(content.script.file) == "string" and type(content.tperf) == "string")
  needs(type(content.arguments) == "table")
  files(content.inputs)
  files(content.outputs)
  for _, argument in ipairs(content.arguments) do needs(type(argument) == "string") end
  return content
end

-- The manifest of an earlier run; nil if there is none. Raises if the file is something else.
local function earlier(folder, host)
  local file, _, code = host.input.open(folder .. "/" .. recorder.MANIFEST)
  if not file and code == MISSING then return nil end
  if file then file:close() end
  local ok, content = pcall(manifest.read, folder, host)
  if not ok then error(("%s; it is where a run's manifest goes: name another folder with --out"):format(content), 0) end
  return content
end

--- Writes the manifest of a successful run whose record is finished.
---@param run table  { script, arguments, folder, record, stamp }
function manifest.write(run, host)
  local content = {
    format = FORMAT, tperf = core.version, build = core.sources, lua_path = manifest.lua_path(),
    script = { file = run.script, sha256 = run.record.read[run.script] },
    arguments = run.arguments, rules = require "tperf.describe.rules".used(),
    inputs = inputs_of(run.record, run.script, host),
    outputs = outputs_of(run.record, run.folder, host),
  }
  if next(run.record.kept) then content.kept = check.names(run.record.kept) end
  if run.stamp then
    content.stamp = { date = clock "!%Y-%m-%dT%H:%M:%SZ", host = core.resource.host() }
  end
  earlier(run.folder, host) -- which another run may have written meanwhile
  local ok, message = host.output.manifest(encode(content) .. "\n")
  if not ok then error(message, 0) end
end

--- Lets a run of the same script overwrite the files of an earlier one's manifest, if they are unchanged. That manifest
--- stays until this run succeeds.
---@param folder string
---@param script string
function manifest.claim(folder, script, host)
  local content = earlier(folder, host)
  if content and content.script.file == script then
    for _, output in ipairs(content.outputs) do host.output.claim(output.file, output.sha256) end
  end
end

return manifest
