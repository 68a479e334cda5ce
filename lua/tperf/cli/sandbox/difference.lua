--- Describes the differences between two texts, figure by figure.
local difference = {}

local MOST <const> = 10 -- limit on the changes reported per file

local function lines_of(text)
  local list = {}
  for line in (text:gsub("\n$", "") .. "\n"):gmatch "(.-)\n" do list[#list + 1] = line end
  return list
end

-- Splits a line into numbers and the text between them: { "time ", 3.5, " s" }.
local function tokens_of(line)
  local list, at = {}, 1
  while at <= #line do
    local first, last = line:find("[+-]?%d+%.?%d*[eE]?[+-]?%d*", at)
    local number = first and tonumber(line:sub(first, last))
    if first and not number then -- "4e" and the like: take the digits only
      last = first + #line:match("^[+-]?%d+", first) - 1
      number = tonumber(line:sub(first, last))
    end
    if not first then break end
    if first > at then list[#list + 1] = line:sub(at, first - 1) end
    list[#list + 1] = number
    at = last + 1
  end
  if at <= #line then list[#list + 1] = line:sub(at) end
  return list
end

local function short(text)
  text = tostring(text)
  return #text > 60 and text:sub(1, 57) .. "..." or text
end

local function change(before, after)
  local text = ("%s -> %s"):format(short(before), short(after))
  local a, b = tonumber(before), tonumber(after)
  if a and b and a ~= 0 then text = text .. (" (%+.3g %%)"):format(100.0 * (b - a) / a) end
  return text
end

local function in_csv(header, before, after, number, put)
  local names, a, b = {}, {}, {}
  for name in (header .. ","):gmatch "([^,]*)," do names[#names + 1] = name end
  for field in (before .. ","):gmatch "([^,]*)," do a[#a + 1] = field end
  for field in (after .. ","):gmatch "([^,]*)," do b[#b + 1] = field end
  if #a ~= #names or #b ~= #names then return false end
  for i, name in ipairs(names) do
    if a[i] ~= b[i] then put(("line %d, %s: %s"):format(number, name, change(a[i], b[i]))) end
  end
  return true
end

local function in_line(before, after, number, put)
  local a, b = tokens_of(before), tokens_of(after)
  local alike = #a == #b
  for i = 1, alike and #a or 0 do
    alike = alike and (type(a[i]) == "number" and type(b[i]) == "number" or a[i] == b[i])
  end
  if not alike then return put(("line %d: %s"):format(number, change(before, after))) end
  for i, figure in ipairs(a) do
    if figure ~= b[i] then put(("line %d: %s"):format(number, change(figure, b[i]))) end
  end
end

--- Describes the changes; the last line counts those not shown.
---@param name string  of the file: .csv is compared as a table
---@param before string
---@param after string
---@return string[]
function difference.of(name, before, after)
  local a, b, list, count = lines_of(before), lines_of(after), {}, 0
  local function put(text)
    count = count + 1
    if count <= MOST then list[#list + 1] = text end
  end
  local is_csv = name:find "%.csv$" and a[1] == b[1] and not (before .. after):find('"', 1, true)
  for i = 1, math.min(#a, #b) do
    if a[i] ~= b[i] and not (is_csv and in_csv(a[1], a[i], b[i], i, put)) then in_line(a[i], b[i], i, put) end
  end
  if #a ~= #b then put(("%d lines -> %d lines"):format(#a, #b)) end
  if count == 0 and before ~= after then put "other line endings" end
  if count > MOST then list[#list + 1] = ("and %d more"):format(count - MOST) end
  return list
end

return difference
