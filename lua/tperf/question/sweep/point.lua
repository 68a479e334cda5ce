--- Turns the paths of a point ("system.network.fast.domain") into arguments, and into short names for its row.
local check = require "tperf.base.check"
local core = require "tperf.core"
local lists = require "tperf.question.sweep.lists"
local model = require "tperf.describe.model"
local catalogue = require "tperf.base.catalogue"
local problem = require "tperf.base.lazy".module "tperf.question.problem"
local software = require "tperf.describe.software"
local system = require "tperf.describe.system"
local units = require "tperf.base.units"

local point = {}

-- Of the objects that points are changed copies of.
local constructors = { system = system, model = model, software = software }

local function parts_of(path)
  local parts = {}
  for part in (path .. "."):gmatch "(.-)%." do
    if part == "" then check.fail("tperf.sweep: '%s' is no path of fields", path) end
    parts[#parts + 1] = part
  end
  return parts
end

--- Short names: the shortest suffix of each path that no other path ends in.
---@param paths string[]
---@param given table<string, string>  names chosen by the user
---@return table<string, string>
function point.names(paths, given)
  local names = {}
  for _, path in ipairs(paths) do
    local parts, name = parts_of(path), nil
    for n = #parts, 1, -1 do
      name = table.concat(parts, ".", n)
      local unique = true
      for _, other in ipairs(paths) do
        if other ~= path and ("." .. other):sub(-#name - 1) == "." .. name then unique = false end
      end
      if unique then break end
    end
    names[path] = given[path] or name
  end
  local taken = {}
  for _, path in ipairs(paths) do
    local name = names[path]
    if taken[name] then check.fail("tperf.sweep: '%s' and '%s' are both called '%s'", taken[name], path, name) end
    taken[name] = path
  end
  return names
end

--- The units of varied arguments, by name: the unit of a system's field, or that of text values ("40 GB").
---@param paths string[]
---@param names table<string, string>
---@param all table[]  the lists that the sweep combines
---@return table<string, string>
function point.units(paths, names, all)
  local found = {}
  for _, path in ipairs(paths) do
    local below = path:match "^system%.(.+)$"
    local unit = below and catalogue.unit_at("systems", below)
    for _, list in ipairs(all) do
      local values, count = lists.column(list, path)
      for i = 1, unit and 0 or count do
        if type(values[i]) == "string" then unit = select(2, units.read(values[i])) end
        if unit then break end
      end
    end
    found[names[path]] = unit
  end
  return found
end

-- Sets { "network", "fast", "domain" } to 8 by merging { network = { fast = { domain = 8 } } } into a table.
local function put(into, parts, value)
  for i = 2, #parts - 1 do
    local below = into[parts[i]]
    if below ~= nil and type(below) ~= "table" then
      check.fail("tperf.sweep: '%s' is %s and has no fields", table.concat(parts, ".", 1, i), check.show(below))
    end
    local copy = {}
    for key, old in pairs(below or {}) do copy[key] = old end
    into[parts[i]] = copy
    into = copy
  end
  into[parts[#parts]] = value
end

local function copy_of(value, name)
  if type(value) == "string" and name == "rules" then return { base = value } end
  if value ~= nil and type(value) ~= "table" then
    check.fail("tperf.sweep: '%s' is %s and has no fields", name, check.show(value))
  end
  local copy = {}
  for key, field in pairs(value or {}) do copy[key] = field end
  return copy
end

--- Returns a function(point) -> arguments: `fixed` merged with the point's values. Systems and models are created once
--- for each combination of values, so that equal ones are the same object.
---@param fixed table   the arguments that do not vary
---@param paths string[]
function point.builder(fixed, paths)
  local roots, whole = {}, {}
  for _, path in ipairs(paths) do
    local parts = parts_of(path)
    local root = parts[1]
    if #parts == 1 then
      whole[root] = path
    else
      if not roots[root] then
        roots[root] = {}
        roots[#roots + 1] = root
      end
      table.insert(roots[root], { path = path, parts = parts })
    end
  end
  local made = {}
  for _, root in ipairs(roots) do made[root] = {} end

  local function build(root, base, values)
    local fields = roots[root]
    local constructor = constructors[root]
    if constructor and (type(base) == "string" or type(base) == "table") then
      local changes = {}
      for i, field in ipairs(fields) do put(changes, field.parts, values[i]) end
      return (type(base) == "table" and base.with and base or constructor(base)):with(changes)
    end
    local copy = copy_of(base, root)
    for i, field in ipairs(fields) do put(copy, field.parts, values[i]) end
    return copy
  end

  return function(values)
    local args = {}
    for name, value in pairs(fixed) do args[name] = value end
    for root, path in pairs(whole) do
      if values[path] ~= nil then args[root] = values[path] end
    end
    for _, root in ipairs(roots) do
      local own = {}
      if root == "software" and args.software == nil then args.software = problem.implied(args) end
      for i, field in ipairs(roots[root]) do own[i] = values[field.path] end
      local key = core.codec.identity { base = args[root], own = own }
      local object = made[root][key]
      if not object then
        object = build(root, args[root], own)
        made[root][key] = object
      end
      args[root] = object
    end
    return args
  end
end

return point
