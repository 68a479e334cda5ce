--- What a script may touch. Scripts get a global table of their own, with copies of the standard libraries:
-- reading files is allowed, writing goes below the output folder, and nothing reaches processes, native or
-- binary code, the clock, the environment or the library's own tables. The same is taken away from the real
-- libraries, so that nothing the library hands to a script can lead there either.
local check = require "tperf.check"
require "tperf.plot.gnuplot" -- keeps its own way to run gnuplot, which is taken away below

local sandbox = {}

local library_require = require

local HINT <const> = " is not available to scripts (tperf run --trust lifts this)"

local function refuse(name)
  return function() error(name .. HINT, 2) end
end

local function copy(from)
  local to = {}
  for name, value in pairs(from) do to[name] = value end
  return to
end

-- Keys in one fixed order (numbers, then strings, then the rest as they come): the order of Lua's own pairs
-- changes from run to run, and so would what a script prints.
local RANK = { number = 1, string = 2 }

local function before(a, b)
  local x, y = RANK[type(a)] or 3, RANK[type(b)] or 3
  if x ~= y then return x < y end
  return x < 3 and a < b
end

local function ordered_pairs(t)
  local meta = getmetatable(t)
  if type(t) ~= "table" or (type(meta) == "table" and rawget(meta, "__pairs")) then return pairs(t) end
  local keys, n, in_order = {}, 0, true
  for key in next, t do
    n = n + 1
    keys[n] = key
    in_order = in_order and key == n
  end
  if not in_order then table.sort(keys, before) end
  local i = 0
  return function()
    while i < n do
      i = i + 1
      local value = rawget(t, keys[i])
      if value ~= nil then return keys[i], value end
    end
  end, t, nil
end

-- What a call of f gave, or its error, placed at the script's line: these functions stand between the script and what
-- failed. What the script's own code raised has its place already.
local function settle(name, ok, ...)
  if ok then return ... end
  local message = ...
  if type(message) ~= "string" then error(message, 0) end
  message = message:gsub("^lua/tperf/[%w_/]+%.lua:%d+: ", "")
  message = message:gsub("^(bad argument #%d+ to )'[^']*'", "%1'" .. name .. "'")
  error(message:find "^[^:\n]+:%d+: " and message or check.where() .. message, 0)
end

-- The library's functions, those written in Lua placing their errors.
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
  local library = copy(string)
  for _, name in ipairs { "rep", "find", "match", "gmatch", "gsub" } do library[name] = host.safe[name] end
  library.dump = refuse "string.dump"
  return library
end

local function table_library(host)
  local library = copy(table)
  for _, name in ipairs { "concat", "insert", "move", "remove", "sort" } do library[name] = host.safe[name] end
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
    remove = host.output.remove,
    rename = host.output.rename,
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

local function io_library(host)
  local library = copy(io)
  library.popen, library.tmpfile = refuse "io.popen", refuse "io.tmpfile"
  local open, write_to = io.open, host.output.open
  function library.open(path, mode)
    if mode == nil or mode == "r" or mode == "rb" then return open(path, mode) end
    return write_to(path, mode)
  end
  local output = io.output
  function library.output(file)
    if type(file) ~= "string" then return output(file) end
    local opened, message = write_to(file, "w")
    if not opened then error(message, 2) end
    return output(opened)
  end
  return library
end

-- --- loading code: text only, and with the script's globals ---

local function add_loading(env)
  function env.load(chunk, name, mode, ...)
    if type(chunk) ~= "string" and type(chunk) ~= "function" then
      error(("bad argument #1 to 'load' (a string or a function expected, got %s)"):format(type(chunk)), 2)
    end
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
    if select("#", ...) > 0 then return loadfile(path, "t", (...)) end
    return loadfile(path, "t", env)
  end
  function env.dofile(path)
    local chunk, message = loadfile(path, "t", env)
    if not chunk then error(message, 0) end
    return chunk()
  end
end

-- Of the library, scripts may require what is meant for them.
local INTERNAL = { ["tperf.core"] = true, ["tperf.progress"] = true, ["tperf.cli"] = true,
  ["tperf.plot.gnuplot"] = true }

local function library_module(name)
  if name ~= "tperf" and name:sub(1, 6) ~= "tperf." then return nil end
  if INTERNAL[name] or name:sub(1, 10) == "tperf.cli." then error(name .. HINT, 3) end
  return library_require(name)
end

local function find_module(package, name)
  local preload = type(package.preload) == "table" and rawget(package.preload, name)
  if preload then return preload, ":preload:" end
  if type(package.path) ~= "string" then error("package.path must be a string", 3) end
  local path, tried = package.searchpath(name, package.path)
  if not path then error(("module '%s' not found:%s"):format(name, tried), 3) end
  return path
end

local function add_require(env, path)
  local package = {
    path = path,
    cpath = "",
    config = package.config,
    preload = {},
    searchpath = package.searchpath,
    loadlib = refuse "package.loadlib",
    loaded = { _G = env },
  }
  for _, name in ipairs { "coroutine", "io", "math", "os", "string", "table", "utf8" } do
    package.loaded[name] = env[name]
  end
  package.loaded.package = package
  env.package = package
  local loaded = package.loaded
  function env.require(name)
    if type(name) ~= "string" then error("require: a module's name is needed", 2) end
    if loaded[name] ~= nil then return loaded[name] end
    local value, from = library_module(name), nil
    if value == nil then
      local found, where = find_module(package, name)
      from = where or found
      if type(found) == "string" then
        local chunk, message = loadfile(found, "t", env)
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
  "assert", "error", "getmetatable", "ipairs", "next", "pcall", "print", "rawequal", "rawget", "rawlen", "rawset",
  "select", "tonumber", "tostring", "type", "warn", "xpcall", "_VERSION",
}

local GARBAGE = { collect = true, count = true, step = true }

local function collect_garbage(what, ...)
  if not GARBAGE[what or "collect"] then error(("collectgarbage '%s'"):format(tostring(what)) .. HINT, 2) end
  return collectgarbage(what, ...)
end

local function replace(library, changes)
  for name, value in pairs(changes) do library[name] = value or nil end
end

-- Takes from the real libraries what no script may reach; they stay the library's.
local function disarm(host, env)
  replace(os, { execute = false, tmpname = false, setlocale = false, exit = env.os.exit,
    remove = host.output.remove, rename = host.output.rename })
  replace(io, { popen = false, tmpfile = false, open = env.io.open, output = env.io.output })
  replace(string, { dump = false })
  for i = 4, #package.searchers do package.searchers[i] = nil end -- keep preload, embedded text and Lua files
  -- Library modules come from the binary, or from the tree that TPERF_LUA_DIR names; nowhere else.
  local dir = os.getenv "TPERF_LUA_DIR"
  local tree = dir and dir ~= "" and ("%s/?.lua;%s/?/init.lua"):format(dir, dir) or ""
  replace(package, { loadlib = false, cpath = "", path = tree })
  -- Methods of strings and files are shared with the library: scripts may call them, not change them.
  local strings = getmetatable ""
  strings.__index, strings.__metatable = copy(env.string), false
  getmetatable(io.stdout).__metatable = false
end

--- The global table of a script. Once per process: it also disarms the standard libraries.
function sandbox.environment(host)
  local path = package.path
  local env = {}
  for _, name in ipairs(PLAIN) do env[name] = _G[name] end
  env._G = env
  env.pairs, env.setmetatable, env.collectgarbage = ordered_pairs, host.safe.setmetatable, collect_garbage
  env.string, env.table, env.math = string_library(host), table_library(host), placed(math_library())
  env.os, env.io = placed(os_library(host), "exit"), placed(io_library(host))
  env.utf8, env.coroutine = copy(utf8), copy(coroutine)
  disarm(host, env)
  add_loading(env)
  add_require(env, path)
  make_strict(env)
  return env
end

return sandbox
