--- The functions of the standard library that open files, as scripts have them: host.input reads regular files,
-- host.output writes what is new or a run's own.
local check = require "tperf.check"
local source = require "tperf.cli.source"

local files = {}

local function unavailable(name)
  return function() error(name .. " is not available to scripts (tperf run --trust lifts this)", 2) end
end

--- The program's functions tell a refusal from a failure: nil and a message, but no error number. Refusals are raised.
function files.raising(f)
  return function(...)
    local value, message, code = f(...)
    if value then return value end
    if message and not code then check.fail("%s", message) end
    return value, message, code
  end
end

--- The library io.
function files.io(host)
  local library = {}
  for name, value in pairs(io) do library[name] = value end
  library.popen, library.tmpfile = unavailable "io.popen", unavailable "io.tmpfile"
  local read_from, write_to = host.input.open, files.raising(host.output.open)
  function library.open(path, mode)
    if mode == nil or mode == "r" or mode == "rb" then return read_from(path) end
    return write_to(path, mode)
  end
  local input, output, lines = io.input, io.output, io.lines
  local function must(file, message)
    if not file then check.fail("%s", message) end
    return file
  end
  function library.input(file)
    if type(file) ~= "string" then return input(file) end
    return input(must(read_from(file)))
  end
  function library.output(file)
    if type(file) ~= "string" then return output(file) end
    return output(must(write_to(file, "w")))
  end
  function library.lines(path, ...)
    if path == nil then return lines(nil, ...) end
    local file = must(read_from(path))
    local next_line = file:lines(...)
    local function one(first, ...)
      if first == nil then file:close() end
      return first, ...
    end
    return function() return one(next_line()) end, nil, nil, file
  end
  return library
end

--- loadfile, for text.
function files.load(host, path, env)
  if path == nil then return loadfile(nil, "t", env) end
  local text, message = source.read(path, host.input.open(path))
  if not text then return nil, message end
  return source.chunk(text, "@" .. path, "t", env)
end

--- package.searchpath, which opens what it tries: here, regular files only.
function files.search(host)
  return function(name, path, separator, replacement)
    separator, replacement = separator or ".", replacement or "/"
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
