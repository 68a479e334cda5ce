-- Every value of a result as text, floats to the last bit, for specs that compare whole results. Leaves out a search's
-- duration and how much it skipped.
local skipped = { seconds = true, evaluated = true, model = true, system = true }

local orders = {} -- texts in order, by the texts as they came: many tables have the same fields

local function in_order(texts)
  local key = table.concat(texts, "\0")
  if not orders[key] then
    table.sort(texts)
    orders[key] = texts
  end
  return orders[key]
end

-- The names of a table's fields: numbers, then strings, each in order.
local function names_of(value)
  local numbers, texts = {}, {}
  for name in pairs(value) do
    local list = type(name) == "number" and numbers or texts
    list[#list + 1] = name
  end
  table.sort(numbers)
  texts = in_order(texts)
  return #numbers == 0 and texts or table.move(texts, 1, #texts, #numbers + 1, numbers)
end

local function add(list, value)
  if type(value) ~= "table" then
    list[#list + 1] = math.type(value) == "float" and ("%a"):format(value) or tostring(value)
    return
  end
  for _, name in ipairs(names_of(value)) do
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
