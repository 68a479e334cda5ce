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

local clock, open, machine_name = os.date, io.open, "/proc/sys/kernel/hostname" -- captured: the standard ones

local function inputs_of(record, script)
  local list = {}
  for _, path in ipairs(check.names(record.read)) do
    local shipped = roots.shipped(path)
    if path ~= script then
      list[#list + 1] = { file = shipped or path, shipped = shipped and true, sha256 = record.read[path] }
    end
  end
  return list
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

--- Writes the manifest of a successful run whose record is finished.
---@param run table  { script, arguments, folder, record, stamp }
function manifest.write(run, host)
  local content = {
    format = FORMAT, tperf = core.version, script = { file = run.script, sha256 = run.record.read[run.script] },
    arguments = run.arguments, rules = require "tperf.describe.rules".used(),
    inputs = inputs_of(run.record, run.script),
    outputs = outputs_of(run.record, run.folder, host),
  }
  if next(run.record.kept) then content.kept = check.names(run.record.kept) end
  if run.stamp then
    local file <close> = open(machine_name)
    content.stamp = { date = clock "!%Y-%m-%dT%H:%M:%SZ", host = (file and file:read() or ""):match "%S+" }
  end
  local ok, message = host.output.manifest(encode(content) .. "\n")
  if not ok then error(message, 0) end
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

--- Removes the manifest of an earlier run, which this run invalidates. The files in it that are unchanged may be
--- overwritten by a run of the same script.
---@param folder string
---@param script string
function manifest.retire(folder, script, host)
  local path = folder .. "/" .. recorder.MANIFEST
  local file, _, code = host.input.open(path)
  if not file and code == MISSING then return end
  if file then file:close() end
  local ok, content = pcall(manifest.read, folder, host)
  if not ok then error(("%s; it is where a run's manifest goes: name another folder with --out"):format(content), 0) end
  if content.script.file == script then
    for _, output in ipairs(content.outputs) do host.output.claim(output.file, output.sha256) end
  end
  local gone, message = host.output.manifest()
  if not gone then error(("cannot remove %s"):format(message), 0) end
end

return manifest
