--- Notes which files a script reads and writes, and keeps what it prints, so that a manifest can tell what a run
-- depended on. Installed before the sandbox copies the standard libraries; everything that opens files or prints goes
-- through these.
local sha256 = require "tperf.core".file.sha256
local terminal = require "tperf.report.terminal"

local recorder = { MANIFEST = "manifest.json" }

local STDOUT <const> = "stdout.txt"
local RESERVED = { [STDOUT] = "what the script prints", [recorder.MANIFEST] = "the run's manifest" }

local open, io_type = io.open, io.type -- the standard ones

local function slurp(path)
  local file = open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  return text
end
recorder.slurp = slurp

--- The SHA-256 of a file, or nil when it cannot be read.
function recorder.hash(path)
  local text = slurp(path)
  return text and sha256(text)
end

-- "./a//b/../c" below the folder as "a/c".
local function plain(path, folder)
  if path:sub(1, #folder + 1) == folder .. "/" then path = path:sub(#folder + 2) end
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then table.remove(parts) elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

-- Notes what is read.
local function watch_reading(record)
  local function note(path)
    if type(path) == "string" and not record.read[path] then record.read[path] = recorder.hash(path) end
  end
  local lines, input, load = io.lines, io.input, loadfile
  rawset(io, "open", function(path, mode)
    if mode == nil or mode == "r" or mode == "rb" then note(path) end
    return open(path, mode)
  end)
  for library, names in pairs { [io] = { lines = lines, input = input }, [_G] = { loadfile = load } } do
    for name, standard in pairs(names) do
      rawset(library, name, function(path, ...)
        note(path)
        return standard(path, ...)
      end)
    end
  end
end

-- Notes what is written; returns the functions that stood there before.
local function watch_writing(record, host, folder)
  local write_to, rename = host.output.open, host.output.rename
  local function name_of(path)
    if type(path) ~= "string" then return path end -- which the standard function refuses
    local name = plain(path, folder)
    if RESERVED[name] then error(("cannot write '%s': that is where %s goes"):format(path, RESERVED[name]), 0) end
    return name
  end
  function host.output.open(path, mode)
    local name = name_of(path)
    local file, message = write_to(path, mode)
    if file then record[mode:sub(1, 1) == "a" and "kept" or "written"][name] = true end
    return file, message
  end
  function host.output.rename(from, to)
    local name = name_of(to)
    local ok, message = rename(from, to)
    if ok then record.written[plain(from, folder)], record.written[name] = nil, true end
    return ok, message
  end
  return { open = write_to, rename = rename }
end

-- Copies what goes to standard output into a file, which the first of it opens. Whatever way a script prints, the
-- method `write` of files does it.
local function watch_printing(record, write_to)
  local stdout, output, methods = io.stdout, io.output, getmetatable(io.stdout).__index
  local write = methods.write
  local function put(file, ...)
    if io_type(file) ~= "file" then error("attempt to write to what is no open file", 2) end
    for i = 1, select("#", ...) do
      local kind = type((select(i, ...)))
      if kind ~= "string" and kind ~= "number" then
        error(("bad argument #%d to 'write' (string expected, got %s)"):format(i, kind), 2)
      end
    end
    if file ~= stdout or not record.running then return write(file, ...) end
    if not record.printed then
      record.printed = assert(write_to(STDOUT, "w"))
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

--- Begins to note. host.output writes below `folder`.
---@return table record  read: path -> SHA-256; written, kept: name -> true (kept: files that are appended to, such as
---  the caches of sweeps, are no output of one run); for recorder.finish: running, printed, before
function recorder.start(host, folder)
  local record = { read = {}, written = {}, kept = {}, running = true }
  host.output.remove(recorder.MANIFEST) -- of an earlier run; this one may fail
  host.output.remove(STDOUT)
  watch_reading(record)
  record.before = watch_writing(record, host, folder)
  watch_printing(record, record.before.open)
  return record
end

--- The script has ended: what the program writes and prints from now on is not noted.
function recorder.finish(record, host)
  record.running = false
  host.output.open, host.output.rename = record.before.open, record.before.rename
  if record.printed then assert(record.printed:close()) end
end

return recorder
