-- Every value of a result as text, floats to the last bit, for specs that compare whole results. Leaves out a search's
-- duration and how much it skipped.
local skipped = { seconds = true, evaluated = true, model = true, system = true }

local function before(a, b) -- numbers, then strings
  local x, y = type(a), type(b)
  if x ~= y then return x < y end
  return a < b
end

local function add(list, value)
  if type(value) ~= "table" then
    list[#list + 1] = math.type(value) == "float" and ("%a"):format(value) or tostring(value)
    return
  end
  local names = {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names, before)
  for _, name in ipairs(names) do
    if not skipped[name] then
      list[#list + 1] = tostring(name)
      add(list, value[name])
    end
  end
end

---@param result any
---@return string
return function(result)
  local list = {}
  add(list, result)
  return table.concat(list, "|")
end
