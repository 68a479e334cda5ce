--- A system as the text of a system file: SI units, fitted values with four digits.
local lazy = require "tperf.base.lazy"
local number = require "tperf.output.number"

-- Fields in the order of the shipped files; others follow by name.
local ORDER = {
  "name", "vendor", "generation", "source", "accelerator", "network", "price", "units", "compute_efficiency", "launch",
  "power", "tensor", "vector", "hbm", "fast", "slow", "other", "send", "gemm", "attention", "bandwidth", "capacity",
  "head_dim", "efficiency",
}
local place = {}
for i, name in ipairs(ORDER) do place[name] = i end

local function keys_of(value)
  local keys = {}
  for key in next, lazy.settle(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local pa, pb = place[a] or math.huge, place[b] or math.huge
    return pa < pb or pa == pb and a < b
  end)
  return keys
end

local function scalar(value, fitted)
  if type(value) == "string" then return '"' .. value:gsub('[\\"]', "\\%0"):gsub("%c", " ") .. '"' end
  if fitted and math.type(value) == "float" then
    local text = ("%.4g"):format(value)
    if text:find "e" and not text:find "%." then text = text:gsub("e", ".0e") end
    return text
  end
  return type(value) == "number" and number.text(value) or tostring(value)
end

local function list(values)
  local items = {}
  for i, value in ipairs(values) do items[i] = scalar(value, true) end
  return "[" .. table.concat(items, ", ") .. "]"
end

-- A curve (a table of numbers and short texts) is written on one line. Before its error is noted, it has one of the
-- others.
local CURVES = { "error", "sustained", "ramp", "switch", "one_shot" }

local function is_curve(value)
  for _, name in ipairs(CURVES) do
    if value[name] ~= nil then return true end
  end
  return false
end

local function flow(value)
  local items = {}
  for _, key in ipairs(keys_of(value)) do
    local item = value[key]
    items[#items + 1] = key .. ": " .. (type(item) == "table" and list(item) or scalar(item, true))
  end
  local lines, line = {}, ""
  for i, item in ipairs(items) do
    local text = item .. (i < #items and ", " or "")
    if line ~= "" and #line + #text > 96 then
      lines[#lines + 1] = line:gsub(" $", "")
      line = ""
    end
    line = line .. text
  end
  lines[#lines + 1] = line
  return lines
end

local emit

function emit(lines, value, indent)
  for _, key in ipairs(keys_of(value)) do
    local item = value[key]
    if type(item) ~= "table" then
      lines[#lines + 1] = indent .. key .. ": " .. scalar(item, key == "launch" or key == "efficiency")
    elseif type(item[1]) == "table" then
      lines[#lines + 1] = indent .. key .. ":"
      for _, one in ipairs(item) do
        local first = #lines + 1
        emit(lines, one, indent .. "    ")
        lines[first] = indent .. "  - " .. lines[first]:sub(#indent + 5)
      end
    elseif item[1] ~= nil then
      lines[#lines + 1] = indent .. key .. ": " .. list(item)
    elseif is_curve(item) then
      lines[#lines + 1] = indent .. key .. ":"
      local rest = flow(item)
      for i, line in ipairs(rest) do
        lines[#lines + 1] = indent .. (i == 1 and "  { " or "    ") .. line .. (i == #rest and " }" or "")
      end
    else
      lines[#lines + 1] = indent .. key .. ":"
      emit(lines, item, indent .. "  ")
    end
  end
end

-- The fields of a file: a network of tiers without the fast and slow that these made.
local function given(system)
  local network = type(system) == "table" and system.network
  if not (network and network.tiers) then return system end
  local all, own = {}, {}
  for _, key in ipairs(keys_of(system)) do all[key] = system[key] end
  for _, key in ipairs(keys_of(network)) do own[key] = key ~= "fast" and key ~= "slow" and network[key] or nil end
  all.network = own
  return all
end

--- The text of a system file, or of a part of one.
---@param system table
---@param indent string?
return function(system, indent)
  local lines = {}
  emit(lines, given(system), indent or "")
  return table.concat(lines, "\n") .. "\n"
end
