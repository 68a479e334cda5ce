--- Scales: map values to positions between 0 and 1 and place ticks at round values.
local format = require "tperf.output.format"
local number = require "tperf.output.number"

local scale = {}

local SMALLEST <const>, LARGEST <const> = 0x1p-1074, 0x1.fffffffffffffp1023 -- positive doubles
scale.SMALLEST, scale.LARGEST = SMALLEST, LARGEST

local prefixes = { [-4] = "p", [-3] = "n", [-2] = "u", [-1] = "m", [0] = "", "k", "M", "G", "T", "P", "E" }
local binary = { [0] = "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei" }
local symbols = { bytes = "B", ["bytes/s"] = "B/s" }
local prefixed = { bytes = true, ["bytes/s"] = true, FLOP = true,
  ["FLOP/s"] = true, s = true, W = true, J = true, Hz = true }
local clocks = { { 2 * 86400, 86400, "days" }, { 2 * 3600, 3600, "h" }, { 120, 60, "min" } }

-- floor(log(value, base)), exact at the powers.
local function power_below(value, base)
  local p = math.floor(math.log(value, base))
  if base ^ (p + 1) <= value then p = p + 1 elseif base ^ p > value then p = p - 1 end
  return p
end

local superscripts = { ["-"] = "⁻", ["0"] = "⁰", ["1"] = "¹", ["2"] = "²", ["3"] = "³", ["4"] = "⁴", ["5"] = "⁵",
  ["6"] = "⁶", ["7"] = "⁷", ["8"] = "⁸", ["9"] = "⁹" }

local function power_text(p) return "10" .. (tostring(p):gsub(".", superscripts)) end

-- A tick's number with at most `digits` significant digits, without trailing zeros.
local function short(value, digits)
  local text = number.text(tonumber(string.format("%." .. (digits or 6) .. "g", value)))
  return (text:gsub("^%-", "−"))
end

--- A number as labels show it: format.number with the minus sign of the ticks.
---@param value number
---@param unit? string
---@param digits? integer
---@return string
function scale.number(value, unit, digits) return (format.number(value, unit, digits):gsub("^%-", "−")) end

--- The unit that suits values up to `largest`: its size in base units, and its name.
---@param largest number   in magnitude
---@param unit? string
---@param least? number    use a prefix only from this many of its unit (1)
---@return number factor, string name
function scale.unit(largest, unit, least)
  if unit == "%" then return 0.01, "%" end
  if largest == 0 then return 1, symbols[unit] or unit or "" end
  if unit == "s" then
    for _, clock in ipairs(clocks) do
      if largest >= clock[1] then return clock[2], clock[3] end
    end
  end
  local power = power_below(math.max(largest / (least or 1), SMALLEST), 10) // 3
  if not prefixed[unit] then
    local plain = largest < 1e6 and largest >= 1e-3
    if plain then return 1, unit or "" end
    return 10.0 ^ (3 * power), "×" .. power_text(3 * power) .. (unit and " " .. unit or "")
  end
  power = math.max(unit:find "^bytes" and 0 or -4, math.min(power, unit == "s" and 0 or 6))
  return 10.0 ^ (3 * power), prefixes[power] .. (symbols[unit] or unit)
end

--- A label with its unit: "Memory (GB)".
---@return string
function scale.title(label, unit)
  label, unit = label or "", unit or ""
  if unit == "" then return label end
  return label == "" and unit or label .. " (" .. unit .. ")"
end

--- The smallest step of 1, 2 or 5 times a power of ten that divides a span into at most `count` pieces.
---@return number
function scale.step(span, count)
  local raw = span / count
  if raw == 0 then return LARGEST end -- too narrow for any tick except 0
  local base = 10.0 ^ power_below(raw, 10)
  for _, m in ipairs { 1, 2, 5 } do
    if m * base >= raw * (1 - 1e-9) then return m * base end
  end
  return 10 * base
end

--- Multiples of step from lo to hi, with a tolerance for rounding.
---@return number[]
function scale.multiples(lo, hi, step)
  local list, slack = {}, 1e-6
  for i = math.ceil(lo / step - slack), math.floor(hi / step + slack) do list[#list + 1] = i * step end
  return list
end

local function decimals(step)
  return math.max(0, -power_below(step * (1 + 1e-9), 10))
end

local function at_linear(lo, hi)
  local shrink = hi - lo == math.huge and 0.5 or 1 -- the widest span overflows
  return function(value) return (value * shrink - lo * shrink) / (hi * shrink - lo * shrink) end
end

--- A linear scale.
---@param lo number
---@param hi number
---@param options { unit?: string, count?: integer, zero?: boolean, nice?: boolean }
---  count: target number of pieces; zero: start at 0; nice: end at ticks
---@return table
function scale.linear(lo, hi, options)
  if options.zero then lo, hi = math.min(lo, 0), math.max(hi, 0) end
  if math.max(math.abs(lo), math.abs(hi)) < 1e-290 then lo, hi = 0.0, 0.0 end -- near-subnormal: treat as 0
  if hi - lo <= 1e-12 * math.max(math.abs(lo), math.abs(hi)) then -- all equal as far as a picture can show
    local pad = lo == 0 and 0.5 or math.abs(lo) / 2
    if options.zero then hi = lo == 0 and hi == 0 and 1 or hi else lo, hi = lo - pad, hi + pad end
    lo, hi = math.max(lo, -LARGEST), math.min(hi, LARGEST)
  end
  -- The next larger unit only from 2 on: most ticks of an axis up to 1 TB are hundreds of GB.
  local factor, name = scale.unit(math.max(math.abs(lo), math.abs(hi)), options.unit, 2)
  local a, b, count = lo / factor, hi / factor, options.count or 6
  local step = scale.step(b / count - a / count, 1) -- b - a may overflow
  if options.nice then
    a, b = math.floor(a / step + 1e-6) * step, math.ceil(b / step - 1e-6) * step
    lo, hi = math.max(a * factor, -LARGEST), math.min(b * factor, LARGEST)
  end
  local ticks, places = {}, decimals(step)
  -- Far from zero with small steps, or very small: as many digits as neighbouring ticks need to differ.
  local digits = math.max(3, math.ceil(math.log(math.max(math.abs(a), math.abs(b)) / step, 10)) + 1)
  for _, value in ipairs(scale.multiples(a, b, step)) do
    if math.abs(value * factor) <= LARGEST then
      local text = places > 6 and short(value, math.min(digits, 17)) or string.format("%." .. places .. "f", value)
      ticks[#ticks + 1] = { value = value * factor, label = (text:gsub("^%-0?%.?0*$", "0"):gsub("^%-", "−")) }
    end
  end
  return { kind = "linear", lo = lo, hi = hi, at = at_linear(lo, hi), ticks = ticks, minor = {}, unit = name }
end

-- Times from seconds to days have no single unit; ticks use clock units.
local function clock_ticks(lo, hi)
  local ticks = {}
  local function add(value, label)
    if value >= lo and value <= hi then ticks[#ticks + 1] = { value = value, label = label } end
  end
  for p = -12, -1 do
    local factor, name = scale.unit(10.0 ^ p, "s")
    add(10.0 ^ p, short(10.0 ^ p / factor) .. " " .. name)
  end
  add(1, "1 s")
  add(10, "10 s")
  add(60, "1 min")
  add(600, "10 min")
  add(3600, "1 h")
  if hi < 86400 then add(36000, "10 h") end
  for p = 0, 9 do add(86400 * 10.0 ^ p, short(10.0 ^ p) .. (p == 0 and " day" or " days")) end
  return ticks
end

-- How a log axis shows its unit: in each label ("each": 1 ms, 1 s), in clock units, or once, as a factor of the base.
local function log_style(lo, hi, base, unit)
  if unit == "bytes" and base == 2 then return "binary" end
  if unit == "s" and hi >= 100 then
    if lo < 43200 and #clock_ticks(lo, hi) >= 3 then return "clock" end
    return "once", scale.unit(math.sqrt(lo) * math.sqrt(hi), unit)
  end
  if prefixed[unit] then return "each" end
  if unit == "%" then return "once", scale.unit(hi, unit) end
  return "once", 1, unit or ""
end

local function label_once(ticks, lo, hi, base, factor)
  local powers = base == 10 and (hi / factor >= 1e6 or lo / factor < 1e-4)
  for _, tick in ipairs(ticks) do
    local value = tick.value / factor
    local p = powers and power_below(value, 10) or 0
    local mantissa = short(value / 10.0 ^ p)
    tick.label = not powers and short(value) or (mantissa == "1" and "" or mantissa .. "·") .. power_text(p)
  end
end

local LONG <const> = 1e7 -- numbers without a unit are shown as powers of ten from here on

--- A value with a suitable unit: "80 GB".
---@return string
function scale.text(value, unit)
  if not unit and math.abs(value) >= LONG then
    local power = power_below(math.abs(value), 10)
    return short(value / 10.0 ^ power) .. "·" .. power_text(power)
  end
  local factor, name = scale.unit(math.abs(value), unit)
  if unit == "s" and value >= 1 then factor, name = 1, "s" end
  return short(value / factor) .. (name == "" and "" or " " .. name)
end

local function label_each(ticks, how, unit)
  for _, tick in ipairs(ticks) do
    if how == "binary" then
      local p = math.max(0, math.min(6, power_below(tick.value, 2) // 10))
      tick.label = short(tick.value / 1024.0 ^ p) .. " " .. binary[p] .. "B"
    else
      tick.label = scale.text(tick.value, unit)
    end
  end
end

local function log_values(lo, hi, base, factor)
  local first, last = math.ceil(math.log(lo / factor, base) - 1e-9), math.floor(math.log(hi / factor, base) + 1e-9)
  local values, minor = {}, {}
  local step = math.max(1, math.ceil((last - first) / 16)) -- label only some powers if there are many
  for p = (first // step - 1) * step, last + 1, step do
    for m = 1, base == 10 and step == 1 and 9 or 1 do
      local value = m * (base + 0.0) ^ p * factor
      if value >= lo * (1 - 1e-9) and value <= math.min(hi * (1 + 1e-9), LARGEST) then
        local list = m == 1 and values or minor
        list[#list + 1] = { value = value, m = m }
      end
    end
  end
  return values, minor
end

-- Ticks at the powers of the base, or finer ones if fewer than three are in range. Minor ticks have no label.
local function log_ticks(lo, hi, base, factor)
  local values, minor = log_values(lo, hi, base, factor)
  if base == 10 and #values < 3 then
    local kept = {}
    for _, tick in ipairs(minor) do
      if tick.m == 2 or tick.m == 5 then values[#values + 1] = tick else kept[#kept + 1] = tick end
    end
    minor = kept
    table.sort(values, function(a, b) return a.value < b.value end)
  end
  if #values < 3 then -- too narrow for powers: evenly spaced numbers instead
    values, minor = {}, {}
    for _, v in ipairs(scale.multiples(lo / factor, hi / factor, scale.step((hi - lo) / factor, 5))) do
      if v > 0 and v * factor <= LARGEST then values[#values + 1] = { value = v * factor } end
    end
  end
  return values, minor
end

--- A logarithmic scale; lo and hi must be positive.
---@param options { unit?: string, base?: integer, count?: integer }
---@return table
function scale.log(lo, hi, options)
  local base = options.base or 10
  if hi / lo < 1 + 1e-9 then lo, hi = lo / base, hi * base end
  lo, hi = math.max(lo, SMALLEST), math.min(hi, LARGEST)
  local how, factor, name = log_style(lo, hi, base, options.unit)
  local values, minor
  if how == "clock" then
    values, minor = clock_ticks(lo, hi), {}
  else
    values, minor = log_ticks(lo, hi, base, factor or 1)
    if how == "once" then label_once(values, lo, hi, base, factor) else label_each(values, how, options.unit) end
  end
  local a, b = math.log(lo), math.log(hi)
  return { kind = "log", base = base, lo = lo, hi = hi, ticks = values, minor = minor, unit = name or "",
    at = function(value) return (math.log(value) - a) / (b - a) end }
end

--- The same scale from the other end: the first name, or the smallest number, at the top.
---@return table
function scale.flipped(s)
  local at = s.at
  s.at = function(value)
    local v = at(value)
    return v and 1 - v
  end
  s.is_flipped = true
  return s
end

--- One scale for what several show, all of one kind: of their names, or of their values.
---@param list table[]  numeric ones have `values` and `again`, which makes a scale of more values
---@return table
function scale.joined(list)
  local first = list[1]
  local values, seen = {}, {}
  for _, s in ipairs(list) do
    for _, tick in ipairs(first.kind == "band" and s.ticks or {}) do
      if not seen[tick.value] then seen[tick.value], values[#values + 1] = true, tick.value end
    end
    for _, value in ipairs(s.values or {}) do values[#values + 1] = value end
  end
  if first.sorted then table.sort(values) end
  local made = first.kind == "band" and scale.band(values) or first.again(values) -- which has a title of its own
  if first.kind == "band" then
    for _, tick in ipairs(made.ticks) do tick.label = first.label and first.label(tick.value) or tick.label end
    made.title, made.sorted, made.label = first.title, first.sorted, first.label
  end
  made.bare = first.bare
  return first.is_flipped and scale.flipped(made) or made
end

--- A scale of names in the order given, each centred in its band.
---@param names string[]
---@return table
function scale.band(names)
  local position, ticks = {}, {}
  for i, name in ipairs(names) do
    position[name] = (i - 0.5) / #names
    ticks[i] = { value = name, label = name }
  end
  return { kind = "band", ticks = ticks, minor = {}, unit = "", at = function(name) return position[name] end }
end

return scale
