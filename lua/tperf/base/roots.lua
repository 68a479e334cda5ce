--- Where data files lie: in the folders of --data and TPERF_PATH, and in the installation: the source tree that built
--- the program, share/tperf beside its bin, the library's own folder, PREFIX/share/tperf. Never in the current folder:
--- what a name means must not depend on where a command is typed.
local os, debug = os, debug
local core = require "tperf.core"

local roots = {}

local loaded_from = select(2, ...) -- by require: nil for what is embedded in the program
local stamp = core.resource.stamp

--- The last part of a path. Names are foreign: path:match "[^/]*$" would look from every byte on, which is quadratic.
---@param path string
---@return string
function roots.last(path) return path:match "^.*/(.*)$" or path end

--- Whether core.file.open may open it: a folder of data may hold pipes, devices and links to either, which are no data.
function roots.exists(path) return core.file.is_there(path) end

-- The folder of the data that belong to the program at this path.
local function of_program(path)
  local folder = path:match "^(.*)/"
  local tree = folder:match "^(.*)/build/[^/]+$"
  if tree and stamp(tree .. "/lua/tperf/base/roots.lua") then return tree end
  -- A build elsewhere, `make B=FOLDER`, has a link to the source tree.
  if stamp(folder .. "/tree/lua/tperf/base/roots.lua") then return folder .. "/tree" end
  local prefix = folder:match "^(.*)/bin$"
  return prefix and prefix .. "/share/tperf"
end

-- The folders of the data that belong to the library read from this file: a source tree's, or what `make install-lua`
-- put beside it.
local function of_library(path)
  local tree, library = path:match "^(.*)lua/tperf/base/roots%.lua$", path:match "^(.*/tperf)/base/roots%.lua$"
  return tree and (tree == "" and "." or tree:gsub("/$", "")), library and library .. "/data"
end

local installation -- the folders with what tperf ships

local function installed()
  if installation then return installation end
  installation = {}
  local program = core.resource.executable
  if program then installation[1] = of_program(program) end
  if loaded_from then
    local tree, library = of_library(debug.getinfo(1, "S").source:sub(2))
    installation[#installation + 1] = tree
    installation[#installation + 1] = library
  end
  installation[#installation + 1] = core.resource.prefix .. "/share/tperf"
  return installation
end

local asked -- the folder of --data

--- Makes this folder the first that data are looked for in.
---@param folder string
function roots.prefer(folder) asked = folder end

--- The folders that may hold data, in the order of precedence.
---@return string[]
function roots.list()
  local list = { asked }
  for root in (os.getenv "TPERF_PATH" or ""):gmatch "[^:]+" do list[#list + 1] = root end
  return table.move(installed(), 1, #installed(), #list + 1, list)
end

local KINDS <const> = { systems = true, models = true, software = true, kernels = true, recipes = true }

local function same_file(a, b)
  local moment, size, number = stamp(a)
  local moment_of_b, size_of_b, number_of_b = stamp(b)
  return moment ~= nil and moment == moment_of_b and size == size_of_b and number == number_of_b
end

--- The name of a file that tperf ships, such as "systems/h100-sxm.yaml"; nil for any other file.
---@param path string
---@return string?
function roots.shipped(path)
  for _, root in ipairs(installed()) do
    local name = path:sub(1, #root + 1) == root .. "/" and path:sub(#root + 2) or path
    for kind in pairs(KINDS) do
      local own = name:match("^" .. kind .. "/.+") or name:match("/(" .. kind .. "/.+)")
      if own and same_file(path, root .. "/" .. own) then return own end
    end
  end
end

local function first_with(name, folders)
  for _, root in ipairs(folders) do
    local path = root .. "/" .. name
    if roots.exists(path) then return path end
  end
end

--- The path of a relative name in the first root that has it; nil if none has.
function roots.find(name) return first_with(name, roots.list()) end

--- The same for a file that tperf ships.
function roots.installed(name) return first_with(name, installed()) end

local used, known, told, silent = {}, {}, nil, false

--- Notes that an answer uses a data file, unless tperf ships it.
---@param path string
function roots.use(path)
  if silent or known[path] then return end
  known[path] = true
  if roots.shipped(path) then return end
  used[#used + 1] = path
  if told then told(path) end
end

--- The data files used that tperf does not ship, in order.
---@return string[]
function roots.used() return used end

--- Forgets those used so far, and calls f(path) once for every one from now on.
function roots.tell(f) used, known, told = {}, {}, f end

--- Calls f(...), which looks through data files of which no answer comes, without noting them.
function roots.browse(f, ...)
  local before = silent
  silent = true
  local results = table.pack(pcall(f, ...))
  silent = before
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

return roots
