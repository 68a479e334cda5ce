--- Sandboxed versions of the standard functions that open files: host.input reads regular files, host.output writes
-- new files and the script's own.
local check = require "tperf.base.check"
local output_file = require "tperf.base.lazy".module "tperf.output.file"
local source = require "tperf.cli.sandbox.source"

local files = {}

local function unavailable(name)
  return function() error(name .. " is not available to scripts (tperf run --trust lifts this)", 2) end
end

-- Arguments are checked here, so that errors point at the script's line.
local function text(name, position, value)
  if type(value) == "number" then return tostring(value) end
  if type(value) == "string" then return value end
  check.fail("bad argument #%d to '%s' (string expected, got %s)", position, name, type(value))
end

local function mode_of(value)
  local mode = text("open", 2, value)
  if not mode:find "^[rwa]%+?b?$" then check.fail "bad argument #2 to 'open' (invalid mode)" end
  return mode
end

-- Raises a refusal, which the program returns as nil and a message without an error number.
local function raise_refusal(value, message, code)
  if value then return value end
  if message and not code then check.fail("%s", message) end
  return value, message, code
end

--- os.remove and os.rename.
function files.remover(host)
  return function(path) return raise_refusal(host.output.remove(text("remove", 1, path))) end
end

function files.renamer(host)
  return function(from, to)
    return raise_refusal(host.output.rename(text("rename", 1, from), text("rename", 2, to)))
  end
end

--- The io library.
function files.io(host)
  local library = {}
  for name, value in pairs(io) do library[name] = value end
  library.popen, library.tmpfile = unavailable "io.popen", unavailable "io.tmpfile"
  local read_from = host.input.open
  local function write_to(path, mode)
    if mode:sub(1, 1) == "r" then return raise_refusal(host.output.open(path, mode)) end
    return raise_refusal(output_file.in_folder(path, function() return host.output.open(path, mode) end))
  end
  function library.open(path, mode)
    path, mode = text("open", 1, path), mode_of(mode == nil and "r" or mode)
    if mode == "r" or mode == "rb" then return read_from(path) end
    return write_to(path, mode)
  end
  local input, output, lines = io.input, io.output, io.lines
  local function must(file, message)
    if not file then check.fail("%s", message) end
    return file
  end
  local function opened(name, file)
    if file ~= nil and type(file) ~= "string" and not io.type(file) then
      check.fail("bad argument #1 to '%s' (FILE* expected, got %s)", name, type(file))
    end
    return type(file) ~= "string"
  end
  function library.input(file)
    if opened("input", file) then return input(file) end
    return input(must(read_from(file)))
  end
  function library.output(file)
    if opened("output", file) then return output(file) end
    return output(must(write_to(file, "w")))
  end
  function library.lines(path, ...)
    if path == nil then return lines(nil, ...) end
    local file = must(read_from(text("lines", 1, path)))
    local next_line = file:lines(...)
    local function one(first, ...)
      if first == nil then file:close() end
      return first, ...
    end
    return function()
      if io.type(file) ~= "file" then check.fail "file is already closed" end
      return one(next_line())
    end, nil, nil, file
  end
  return library
end

--- loadfile, for text chunks only.
function files.load(host, path, env)
  if path == nil then return loadfile(nil, "t", env) end
  local content, message = source.read(path, host.input.open(text("loadfile", 1, path)))
  if not content then return nil, message end
  return source.chunk(content, "@" .. path, "t", env)
end

--- package.searchpath, which opens candidates: regular files only.
function files.search(host)
  return function(name, path, separator, replacement)
    name, path = text("searchpath", 1, name), text("searchpath", 2, path)
    separator, replacement = text("searchpath", 3, separator or "."), text("searchpath", 4, replacement or "/")
    local tried = {}
    if separator ~= "" then
      local pattern = separator:gsub("%p", "%%%0")
      name = name:gsub(pattern, (replacement:gsub("%%", "%%%%")))
    end
    for template in path:gmatch "[^;]+" do
      local candidate = template:gsub("%?", (name:gsub("%%", "%%%%")))
      local file = host.input.open(candidate)
      if file then
        file:close()
        return candidate
      end
      tried[#tried + 1] = ("\n\tno file '%s'"):format(candidate)
    end
    return nil, table.concat(tried)
  end
end

return files
