--- Records which files a script reads and writes, and a copy of what it prints, for the manifest of a run. Installed
-- before the sandbox copies the standard libraries, so that everything that opens files or prints goes through it.
local sha256 = require "tperf.core".file.sha256
local terminal = require "tperf.output.terminal"

local recorder = { MANIFEST = "manifest.json" }

local STDOUT <const> = "stdout.txt"

local io_type = io.type -- captured: the standard one

-- Normalizes "./a//b/../c" below the folder to "a/c".
local function plain(path, folder)
  if path:sub(1, #folder + 1) == folder .. "/" then path = path:sub(#folder + 2) end
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then table.remove(parts) elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

-- Records files read: the sandbox opens every input with host.input.
local function watch_reading(record, host, folder)
  local read_from, real = host.input.open, host.input.real
  function host.input.real(path, hash)
    local wanted = record.running and not record.read[path]
    local found, digest = real(path, wanted or hash)
    if found and wanted and not record.kept[plain(found, folder)] then record.read[path] = digest end
    return found, digest
  end
  function host.input.open(path)
    if record.running and not record.read[path] then
      local found, digest = real(path, true) -- hashed piece by piece, and charged for
      if found then record.read[path] = digest end
    end
    return read_from(path)
  end
end

-- Records files written; returns the functions it replaces.
local function watch_writing(record, host, folder)
  local before = {}
  local function watch(name, kind, path_at)
    local write_to = host.output[name]
    before[name] = write_to
    host.output[name] = function(...)
      local path = (select(path_at, ...))
      local known = type(path) == "string" and plain(path, folder)
      if known == STDOUT then
        return nil, ("cannot write '%s': that is where what the script prints goes"):format(path)
      end
      local value, message, code = write_to(...)
      if value and known then record[kind(...)][known] = true end
      return value, message, code
    end
  end
  local function written() return "written" end
  watch("open", function(_, mode) return mode:sub(1, 1) == "a" and "kept" or "written" end, 1)
  watch("write", written, 1)
  watch("keep", function() return "kept" end, 1)
  watch("rename", function(from)
    record.written[plain(from, folder)] = nil
    return "written"
  end, 2)
  local remove = host.output.remove
  before.remove = remove
  function host.output.remove(path)
    local value, message, code = remove(path)
    if value then record.written[plain(path, folder)] = nil end
    return value, message, code
  end
  return before
end

local CALLER <const> = 3 -- level of the script's call, above the function that charges for it (safe.c)

-- Copies standard output into a file, opened by the first output; that of an earlier run stays until this one succeeds,
-- unless it is another script's. All ways to print end in the method `write` of
-- files.
local function watch_printing(record, write_to, retire)
  local stdout, output, methods = io.stdout, io.output, getmetatable(io.stdout).__index
  local write = methods.write
  local function put(file, ...)
    if io_type(file) ~= "file" then error("attempt to write to what is no open file", CALLER) end
    for i = 1, select("#", ...) do
      local kind = type((select(i, ...)))
      if kind ~= "string" and kind ~= "number" then
        error(("bad argument #%d to 'write' (string expected, got %s)"):format(i, kind), CALLER)
      end
    end
    if file ~= stdout or not record.running then return write(file, ...) end
    if not record.printed then
      record.printed = write_to(STDOUT, "w") or assert(retire(STDOUT)) and assert(write_to(STDOUT, "w"))
      record.written[STDOUT] = true
    end
    assert(write(record.printed, ...))
    return write(file, ...)
  end
  methods.write = put
  rawset(io, "write", function(...) return put(output(), ...) end)
  rawset(_G, "print", function(...)
    local texts = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    put(stdout, table.concat(texts, "\t"), "\n")
    stdout:flush()
  end)
  terminal.plain = true
end

local function note(record, path, text) record.read[path] = sha256(text) end

--- Starts recording. host.input reads, and host.output writes below `folder`.
---@return table record  read: path -> SHA-256; written, kept: name -> true (kept: files that runs append to, such as
---  the caches of sweeps, which are not the output of one run); note(record, path, text): records a file read; for
---  recorder.finish: running, printed, before
function recorder.start(host, folder)
  local record = { read = {}, written = {}, kept = {}, running = true, note = note }
  watch_reading(record, host, folder)
  record.before = watch_writing(record, host, folder)
  watch_printing(record, record.before.open, host.output.retire)
  return record
end

--- Stops recording at the end of the script; later output is the program's own.
function recorder.finish(record, host)
  record.running = false
  for name, write_to in pairs(record.before) do host.output[name] = write_to end
  if record.printed then assert(record.printed:close()) else assert(host.output.retire(STDOUT)) end -- an earlier run's
end

return recorder
