--- The variations of a sweep: values of one argument, and sets of points over several arguments.
-- A set is { points = { { path = value … } … }, id }; ids count up, so that rows follow the order of the script.
local check = require "tperf.base.check"
local lists = require "tperf.question.sweep.lists"

local vary = {}

local MOST <const> = 1 << 24 -- points of one set

local variation, set = { __name = "tperf.vary" }, { __name = "tperf points" }
local made = 0

local function tag(object, metatable)
  made = made + 1
  object.id = made
  return setmetatable(object, metatable)
end

function vary.is(value) return getmetatable(value) == variation end
function vary.is_set(value) return getmetatable(value) == set end

--- The values over which tperf.sweep varies an argument.
---@param given any[]  the values; `as` names the column of the rows
function vary.values(given)
  if type(given) ~= "table" then check.fail("tperf.vary needs a list of values, got %s", check.show(given)) end
  local as = given.as
  if as ~= nil and (type(as) ~= "string" or as == "") then check.fail("tperf.vary: 'as' must be a name") end
  local copy = {}
  for key, value in pairs(given) do
    if key ~= "as" then copy[key] = value end
  end
  local values, message = check.list(check.any(), { min = 1, max = MOST })(copy, "values")
  if not values then check.fail("tperf.vary: %s", message) end
  return tag({ values = values, as = as }, variation)
end

local function space(what, a, b, n, at)
  local function number(value, name)
    if type(value) ~= "number" or value - value ~= 0 then
      check.fail("%s: %s must be a finite number, got %s", what, name, check.show(value))
    end
    return value
  end
  number(a, "the first value")
  number(b, "the last value")
  local count = math.type(n) ~= nil and math.tointeger(n)
  if not count or count < 2 or count > MOST then
    check.fail("%s: the number of values must be an integer from 2 to %d, got %s", what, MOST, check.show(n))
  end
  local values = { a }
  for i = 2, count - 1 do values[i] = at((i - 1) / (count - 1), i - 1) end
  values[count] = b
  return vary.values(values)
end

--- n evenly spaced values from a to b, both included.
---@param a number
---@param b number
---@param n integer
function vary.linspace(a, b, n)
  return space("tperf.linspace", a, b, n, function(t, i)
    local value = (a * (n - 1.0 - i) + b * i) / (n - 1.0) -- exact where the value is: 64, not 63.99999999999999
    return value - value == 0 and value or a + t * (b - a)
  end)
end

local ROUNDING <const> = 2.0 ^ -49 -- of a power, as a part of it

-- The number of up to 12 digits, or the integer, that a power misses by rounding alone: 8 in place of
-- 7.9999999999999991. Also whether there is one.
local function near(value)
  local short = math.abs(value) < 2 ^ 53 and math.floor(value + 0.5) or value
  if math.abs(short - value) > ROUNDING * value then short = tonumber(("%.12g"):format(value)) end
  if math.abs(short - value) <= ROUNDING * value then return short + 0.0, true end
  return value, false
end

--- n values from a to b, both included, with a constant ratio between neighbours.
---@param a number
---@param b number
---@param n integer
function vary.logspace(a, b, n)
  if not (type(a) == "number" and type(b) == "number") then return space("tperf.logspace", a, b, n) end
  if not (a > 0 and b > 0) then check.fail("tperf.logspace: both ends must be above 0") end
  local steps = type(n) == "number" and n - 1 or 1
  local ratio, exact = near((b / a) ^ (1 / steps))
  exact = exact and math.abs(a * ratio ^ steps - b) <= ROUNDING * b
  return space("tperf.logspace", a, b, n, function(t, i)
    return (near(exact and a * ratio ^ i or a ^ (1 - t) * b ^ t))
  end)
end

-- The arguments of zip and grid as a list of { path, variation }, in the order in which the variations were created.
local function axes_of(what, given)
  if type(given) ~= "table" then check.fail("%s needs a table of arguments and values", what) end
  local list = {}
  for path, values in pairs(given) do
    if type(path) ~= "string" or path == "" then check.fail("%s: %s names no argument", what, check.show(path)) end
    list[#list + 1] = { path = path, values = values }
  end
  table.sort(list, function(a, b) return a.path < b.path end)
  for _, axis in ipairs(list) do
    if not vary.is(axis.values) then axis.values = vary.values(axis.values) end
  end
  table.sort(list, function(a, b)
    if a.values.id ~= b.values.id then return a.values.id < b.values.id end
    return a.path < b.path
  end)
  if #list == 0 then check.fail("%s has nothing to vary", what) end
  return list
end

local function names_of(axes)
  local names = {}
  for _, axis in ipairs(axes) do names[axis.path] = axis.values.as end
  return names
end

-- A copy: the script can change the values of what tperf.vary returned.
local function values_of(made_by_script)
  return table.move(made_by_script.values, 1, #made_by_script.values, 1, {})
end

--- Arguments that vary together: first the first values of all, then the second values, and so on.
---@param given table<string, any[]>
function vary.zip(given)
  local axes, columns = axes_of("tperf.zip", given), {}
  local n = #axes[1].values.values
  for _, axis in ipairs(axes) do
    if #axis.values.values ~= n then
      check.fail("tperf.zip: '%s' has %d values, '%s' %d", axes[1].path, n, axis.path, #axis.values.values)
    end
    columns[axis.path] = values_of(axis.values)
  end
  return tag({ points = lists.combinations { { n = n, columns = columns } }, names = names_of(axes) }, set)
end

-- Copies of sets for a product: a function that runs at the points may change the lists that it was given.
local function own_lists(sets)
  local all = {}
  for _, one in ipairs(sets) do
    local combined = lists.of(one.points)
    if combined then
      table.move(combined, 1, #combined, #all + 1, all)
    else
      local points = {}
      for i, point in ipairs(one.points) do
        points[i] = {}
        for path, value in pairs(point) do points[i][path] = value end
      end
      all[#all + 1] = points
    end
  end
  return all
end

local function check_apart(what, all)
  local seen = {}
  for _, list in ipairs(all) do
    for _, path in ipairs(lists.paths(list)) do
      if seen[path] then check.fail("%s: '%s' is varied twice", what, path) end
      seen[path] = true
    end
  end
end

--- All combinations of sets; the first set varies slowest.
---@param sets table[]
---@return table[] points
function vary.product(what, sets)
  local count = 1
  for _, one in ipairs(sets) do
    if count > MOST // #one.points then check.fail("%s: more than %d points", what, MOST) end
    count = count * #one.points
  end
  local all = own_lists(sets)
  check_apart(what, all)
  return lists.combinations(all)
end

--- The set of points for one argument's values.
function vary.set_of(path, values)
  local list = { n = #values.values, columns = { [path] = values_of(values) } }
  return { points = lists.combinations { list }, names = { [path] = values.as }, id = values.id }
end

--- Every combination of the values of several arguments.
---@param given table<string, any[]>
function vary.grid(given)
  local axes, sets = axes_of("tperf.grid", given), {}
  for i, axis in ipairs(axes) do sets[i] = vary.set_of(axis.path, axis.values) end
  return tag({ points = vary.product("tperf.grid", sets), names = names_of(axes) }, set)
end

local function plain_table(value, path)
  if type(value) ~= "table" or next(value) == nil then
    return nil, ("'%s' must be a table of arguments"):format(path)
  end
  return value
end

--- A set from a plain list of points, each a table of arguments.
function vary.list(what, given, id)
  local points, message = check.list(plain_table, { min = 1, max = MOST })(given, "points")
  if not points then check.fail("%s: %s", what, message) end
  for i, point in ipairs(points) do
    for path in pairs(point) do
      if type(path) ~= "string" then check.fail("%s: point %d: %s names no argument", what, i, check.show(path)) end
    end
  end
  return { points = points, names = {}, id = id }
end

return vary
