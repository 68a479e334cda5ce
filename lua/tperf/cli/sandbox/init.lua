--- The sandbox. Scripts get their own global table with copies of the standard libraries: they may read regular files
-- and write new files, or their own, below the output folder; processes, native or binary code, the clock, the
-- environment and the library's own tables are out of reach. The same functions are removed from the real libraries,
-- so nothing that the library passes to a script can lead to them.
local check = require "tperf.base.check"
local core = require "tperf.core"
local files = require "tperf.cli.sandbox.files"
local modules = require "tperf.cli.sandbox.modules"
local order = require "tperf.cli.sandbox.order"
require "tperf.output.render" -- captures its own way to run rsvg-convert, removed below

local sandbox = {}

local HINT <const> = " is not available to scripts (tperf run --trust lifts this)"

local function refuse(name)
  return function() error(name .. HINT, 2) end
end

local function copy(from)
  local to = {}
  for name, value in pairs(from) do to[name] = value end
  return to
end

local function replace(library, changes)
  for name, value in pairs(changes) do library[name] = value or nil end
  return library
end

-- Returns the results of a call of f, or raises its error at the script's line, since these functions stand between
-- the two. Errors raised by the script's own code have a position already.
local function settle(name, ok, ...)
  if ok then return ... end
  local message = ...
  if type(message) ~= "string" then error(message, 0) end
  message = message:gsub("^[^:\n]-tperf/cli/sandbox/%a+%.lua:%d+: ", "")
  message = message:gsub("^(bad argument #%d+ to )'[^']*'", "%1'" .. name .. "'")
  error(message:find "^[^:\n]+:%d+: " and message or check.where() .. message, 0)
end

-- Wraps a library's functions; errors of those written in Lua get the script's position.
local function placed(library, but)
  for name, f in pairs(library) do
    if type(f) == "function" and name ~= but and debug.getinfo(f, "S").what == "Lua" then
      library[name] = function(...) return settle(name, pcall(f, ...)) end
    end
  end
  return library
end

-- --- the libraries ---

local function string_library(host)
  local library = replace(copy(string), host.safe.string)
  library.dump = refuse "string.dump"
  return library
end

local function math_library()
  local library, seeded = copy(math), false
  function library.randomseed(...)
    if select("#", ...) == 0 then error("math.randomseed needs a number: an unseeded run could not be repeated", 2) end
    math.randomseed(...)
    seeded = true
  end
  function library.random(...)
    if not seeded then error("math.random: call math.randomseed(NUMBER) first, so that the run can be repeated", 2) end
    return math.random(...)
  end
  return library
end

local function os_library(host)
  local library = {
    difftime = os.difftime,
    remove = files.remover(host),
    rename = files.renamer(host),
  }
  for _, name in ipairs { "clock", "execute", "getenv", "setlocale", "tmpname" } do
    library[name] = refuse("os." .. name)
  end
  function library.time(when)
    if when == nil then error("os.time without a date reads the clock, which" .. HINT, 2) end
    return os.time(when)
  end
  function library.date(format, when)
    if when == nil then error("os.date without a time reads the clock, which" .. HINT, 2) end
    return os.date(format, when)
  end
  function library.exit(status)
    if status == nil or status == true then status = 0 elseif status == false then status = 1 end
    if math.type(status) ~= "integer" then error("os.exit: an integer or a boolean is needed", 2) end
    host.exit(status & 255)
  end
  return library
end

-- --- loading code: text only, with the script's globals ---

-- A reader for load whose pieces are charged.
local function charged(host, read)
  return function()
    local piece = read()
    if type(piece) == "string" then host.safe.charge(#piece) end
    return piece
  end
end

local function add_loading(host, env)
  function env.load(chunk, name, mode, ...)
    if type(chunk) ~= "string" and type(chunk) ~= "function" then
      error(("bad argument #1 to 'load' (a string or a function expected, got %s)"):format(type(chunk)), 2)
    end
    if type(chunk) == "string" then host.safe.charge(#chunk) else chunk = charged(host, chunk) end
    if mode ~= nil and (type(mode) ~= "string" or not mode:find("t", 1, true)) then
      error("binary chunks: load" .. HINT, 2)
    end
    if select("#", ...) > 0 then return load(chunk, name, "t", (...)) end
    return load(chunk, name, "t", env)
  end
  function env.loadfile(path, mode, ...)
    if mode ~= nil and (type(mode) ~= "string" or not mode:find("t", 1, true)) then
      error("binary chunks: loadfile" .. HINT, 2)
    end
    if select("#", ...) > 0 then return files.load(host, path, (...)) end
    return files.load(host, path, env)
  end
  function env.dofile(path)
    local chunk, message = files.load(host, path, env)
    if not chunk then error(message, 0) end
    return chunk()
  end
end

local function library_module(find, name)
  if name ~= "tperf" and name:sub(1, 6) ~= "tperf." then return nil end
  return find(name) or error(check.worded("module '%s'", name) .. HINT, 3)
end

local function find_module(package, search, name)
  local preload = type(package.preload) == "table" and rawget(package.preload, name)
  if preload then return preload, ":preload:" end
  if type(package.path) ~= "string" then error("package.path must be a string", 3) end
  local path, tried = search(name, package.path)
  if not path then error(("module '%s' not found:%s"):format(check.worded("%s", name), tried), 3) end
  return path
end

local function add_require(host, env, path)
  local find_library = modules.finder()
  local package = {
    path = path,
    cpath = "",
    config = package.config,
    preload = {},
    searchpath = files.search(host),
    loadlib = refuse "package.loadlib",
    loaded = { _G = env },
  }
  for _, name in ipairs { "coroutine", "io", "math", "os", "string", "table", "utf8" } do
    package.loaded[name] = env[name]
  end
  package.loaded.package = package
  env.package = package
  local loaded, search = package.loaded, package.searchpath
  function env.require(name)
    if type(name) ~= "string" then error("require: a module's name is needed", 2) end
    if loaded[name] ~= nil then return loaded[name] end
    local value, from = library_module(find_library, name), nil
    if value == nil then
      local found, where = find_module(package, search, name)
      from = where or found
      if type(found) == "string" then
        local chunk, message = files.load(host, found, env)
        if not chunk then error(("cannot load module '%s': %s"):format(name, message), 0) end
        found = chunk
      end
      value = found(name, from)
    end
    if value ~= nil then loaded[name] = value elseif loaded[name] == nil then loaded[name] = true end
    return loaded[name], from
  end
end

-- --- the global table ---

local ABSENT = { debug = true }

local function make_strict(env)
  local names
  setmetatable(env, {
    __metatable = false,
    __index = function(_, name)
      if ABSENT[name] then error(name .. HINT, 2) end
      names = {}
      for known in next, env do names[#names + 1] = type(known) == "string" and known or nil end
      table.sort(names)
      error(("undeclared global '%s'%s"):format(tostring(name), check.suggest(name, names)), 2)
    end,
    __newindex = function(_, name)
      error(("assignment to undeclared global '%s' (write 'local %s')"):format(tostring(name), tostring(name)), 2)
    end,
  })
end

local PLAIN = {
  "assert", "error", "ipairs", "pcall", "print", "rawequal", "rawget", "rawlen", "rawset",
  "select", "tonumber", "tostring", "type", "warn", "xpcall", "_VERSION",
}

local GARBAGE = { collect = true, count = true, step = true }

local STEPS_PER_KIB <const> = 16

local function garbage_collector(host)
  return function(what, ...)
    if not GARBAGE[what or "collect"] then error(("collectgarbage '%s'"):format(tostring(what)) .. HINT, 2) end
    if what ~= "count" then host.safe.charge(STEPS_PER_KIB * collectgarbage "count") end
    return collectgarbage(what, ...)
  end
end

-- Removes from the real libraries what no script may reach; the library has captured what it needs.
local function disarm(host, env)
  replace(os, { execute = false, tmpname = false, setlocale = false, exit = env.os.exit,
    remove = env.os.remove, rename = env.os.rename })
  replace(io, { popen = false, tmpfile = false, open = env.io.open, output = env.io.output, input = env.io.input,
    lines = env.io.lines })
  replace(core.file, { write = host.output.write, keep = host.output.keep, open = host.input.open,
    real = host.input.real, rsvg = false })
  replace(string, { dump = false })
  replace(core.resource, { make_folder = host.output.make_folder })
  -- Library modules come only from the binary or from the tree named by TPERF_LUA_DIR.
  replace(package, { loadlib = false, cpath = "", path = "" })
  for _ = 1, 3 do table.remove(package.searchers) end -- the standard ones that search for files
  -- Methods of strings and files are shared with the library: scripts may call but not change them.
  local strings = getmetatable ""
  strings.__index, strings.__metatable = copy(env.string), false
  local of_files = getmetatable(io.stdout)
  of_files.__index.write, of_files.__metatable = host.safe.writing(of_files.__index.write), false
end

--- Makes the global table of a script. Only once per process, as it disarms the standard libraries, too.
---@param host table
---@param path string  the script's package.path
function sandbox.environment(host, path)
  local env = {}
  for _, name in ipairs(PLAIN) do env[name] = _G[name] end
  env._G = env
  replace(env, host.safe._G)
  env.pairs, env.next, env.collectgarbage = order.pairs, order.next, garbage_collector(host)
  env.string, env.table = string_library(host), replace(copy(table), host.safe.table)
  env.math, env.os, env.io = placed(math_library()), placed(os_library(host), "exit"), placed(files.io(host))
  env.utf8, env.coroutine = replace(copy(utf8), host.safe.utf8), replace(copy(coroutine), host.safe.coroutine)
  env.print, env.io.write = host.safe.charging(print), host.safe.writing(env.io.write, io.output)
  disarm(host, env)
  add_loading(host, env)
  add_require(host, env, path)
  make_strict(env)
  return env
end

return sandbox
