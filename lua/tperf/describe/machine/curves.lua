--- The curves of a system: what its kernels and collectives reach of its peaks and bandwidths, in place of a constant.
-- include/tperf/efficiency.h defines their numbers. A curve may state its fit: `error`, the median of
-- |predicted / measured - 1| over `points` measurements, including those held back from the fit.
local check = require "tperf.base.check"
local core = require "tperf.core"

local curves = {}

local HEAD_SIZES <const> = { min = 1, max = 8 }

local of_fit = {
  error = check.number { min = 0, max = 10, optional = true },
  points = check.integer { min = 1, max = 1 << 31, optional = true },
}

--- The schema of a curve with these fields.
function curves.of(fields)
  fields.error, fields.points = of_fit.error, of_fit.points
  fields.source = check.string { optional = true }
  local one = check.record_of(fields, { optional = true })
  check.describe(one, { kind = "any", optional = true, schema = fields }) -- the reference names no curve's numbers
  return one
end

local numbers = {}
for _, row in ipairs(core.curves) do numbers[row.kind] = row.numbers end

local checkers_of = check.once(function(kind)
  local fields = {}
  for _, f in ipairs(numbers[kind]) do
    local default = f.optional and 0 or nil
    local least = f.optional and math.min(f.low, 0) or f.low -- 0: nothing is said
    fields[f.name] = check.number { unit = f.unit, min = least, max = f.high, default = default }
  end
  return fields
end)

--- The numbers of a kind of curve, described by the core's table.
function curves.numbers(kind)
  local fields = {}
  for name, one in next, checkers_of(kind) do fields[name] = one end
  return fields
end

--- The fields of a curve between GPUs, which its place cannot do without unless a constant stands there.
function curves.between(name)
  local fields = curves.numbers(name)
  fields.error, fields.points = of_fit.error, of_fit.points
  return fields
end

-- With numbers for each size of a head, `backward` for all of them or each.
local function by_head(fields)
  local reached = check.number { min = 1e-6, max = 10 } -- clocks may boost beyond the figure, and losses add up
  local part = check.number { min = 1e-6, max = 1e6 }
  fields.head_dim = check.list(check.integer { min = 1, max = 1000000 }, HEAD_SIZES)
  fields.efficiency = check.list(reached, HEAD_SIZES)
  fields.backward = check.one_of(part, check.list(part, HEAD_SIZES))
  fields.backward_error, fields.backward_points = of_fit.error, of_fit.points
  return fields
end

-- One curve for each dtype.
local function by_dtype(one)
  local fields = {}
  for _, dtype in ipairs { "fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4" } do fields[dtype] = one end
  return check.record_of(fields, { optional = true })
end

--- The curve, or the curves by dtype, that one row of the core's table describes.
local function of_row(row)
  local fields = curves.numbers(row.kind)
  if row.required then
    fields.error, fields.points = of_fit.error, of_fit.points
    return check.record_of(fields)
  end
  local one = curves.of(row.heads and by_head(fields) or fields)
  return row.by_dtype and by_dtype(one) or one
end

--- The curves that a table of a system's file has, by name.
---@param place string  the table's path: "network.fast.efficiency"
---@return table<string, function>
function curves.at(place)
  local fields = {}
  for _, row in ipairs(core.curves) do
    if row.place == place then fields[row.name] = of_row(row) end
  end
  return fields
end

return curves
