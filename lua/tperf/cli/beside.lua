--- `tperf train … --measured FILE`: compares a measured step with the predicted one, by kind of work and by op.
local cli_table = require "tperf.cli.answer.table"
local number = require "tperf.output.format".number

local beside = {}

--- Why the options cannot be combined; nil if they can.
function beside.refused(values)
  for _, name in ipairs { "beside", "part", "by", "device" } do
    if values[name] and not values.measured then return ("--%s needs --measured"):format(name) end
  end
  if values.by and values.by ~= "op" and values.by ~= "kind" then
    return ("--by: kind or op is needed, got '%s'"):format(values.by)
  end
  if values.beside and not values.beside:find "%.svg$" then
    return ("--beside: the name must end in .svg, got '%s'"):format(values.beside)
  end
end

local NUMBERS <const> = {
  { key = "predicted", unit = "s" }, { key = "measured", unit = "s" }, { key = "difference", unit = "s" },
  { key = "ratio", title = "pred./meas.", digits = 3 },
}

local function with_numbers(...)
  local columns = { ... }
  return table.move(NUMBERS, 1, #NUMBERS, #columns + 1, columns)
end

local MOST_OPS <const>, MOST_KERNELS <const>, LONGEST <const> = 16, 8, 48
local TOLD <const> = 1e-3 -- of a step: smaller differences are summed up

-- The rows with the largest differences; the rest in one row.
local function longest(b)
  local rows, rest = {}, { op = "all others", predicted = 0.0, measured = 0.0, count = 0 }
  for _, row in ipairs(b.ops) do
    if #rows < MOST_OPS and math.abs(row.difference) >= TOLD * b.measured_time then
      rows[#rows + 1] = row
    else
      rest.predicted, rest.measured = rest.predicted + row.predicted, rest.measured + row.measured
      rest.count = rest.count + 1
    end
  end
  if rest.count == 0 then return rows end
  rest.op, rest.pass = ("%d others"):format(rest.count), ""
  rest.difference = rest.measured - rest.predicted
  rest.ratio = rest.measured > 0 and rest.predicted / rest.measured or nil
  rows[#rows + 1] = rest
  return rows
end

-- A kernel's name without template arguments.
local function short(name)
  local text = name:gsub("^void ", ""):gsub("%(anonymous namespace%)::", ""):gsub("%b()", ""):gsub("%b<>", "")
  return #text > LONGEST and text:sub(1, LONGEST - 1) .. "…" or text
end

local function print_unmatched(values, b)
  local rows, seconds, rest = {}, 0.0, 0
  for i, one in ipairs(b.unmatched) do
    seconds = seconds + one.measured
    if i <= MOST_KERNELS then
      rows[i] = { kernel = short(one.kernel), kind = one.kind, kernels = one.kernels, measured = one.measured }
    else
      rest = rest + 1
    end
  end
  if #rows == 0 then return end
  local time = number(seconds, "s")
  print(("\nKernels that no predicted op has, %s of a step%s"):format(time,
    rest > 0 and (" (%d more names)"):format(rest) or ""))
  cli_table(values, rows, { { key = "kernel" }, { key = "kind" }, { key = "kernels", digits = 6 },
    { key = "measured", unit = "s" } })
end

local function print_missing(values, b)
  if #b.missing == 0 then return end
  print "\nPredicted ops that the trace has no kernel of"
  local rows = table.move(b.missing, 1, math.min(#b.missing, MOST_OPS), 1, {})
  cli_table(values, rows, { { key = "op" }, { key = "pass" }, { key = "predicted", unit = "s" } })
end

local WHAT <const> = { step = "seconds of a step", pair = "seconds of a pair of chunks",
  forward = "seconds of a forward pass", backward = "seconds of a backward pass" }

local function print_trace(values, b)
  print()
  local op = { key = "op", title = "op by op" }
  cli_table(values, longest(b), with_numbers(op, { key = "pass" }, { key = "kernels", digits = 6 }))
  print_unmatched(values, b)
  print_missing(values, b)
  if not b.whole then print "\nParts of the trace are too long between two kernels of attention to tell op by op" end
  print(("\nMeasured: %d step%s of %s; predicted: device %d"):format(b.steps, b.steps == 1 and "" or "s",
    b.rank and "rank " .. b.rank or "a rank that the trace does not name", b.device))
end

-- The measured seconds of a whole step; nil if the file has only parts of one.
local function whole_step(b)
  if b.kind == "trace" then return b.part == "step" and b.measured_time or nil end
  for _, row in ipairs(b.rows) do
    if row.kind == "iteration" then return row.measured end
  end
end

-- Says where the measured step lies among runs of the software: whether it is slow, or the prediction wrong.
local function print_place(b, c)
  local step, range = whole_step(b), c.interval
  if not step or step == 0 then return end
  print(("\nThe measured step has an MFU of %s, the predicted one %s"):format(number(c.mfu * c.time / step, "%"),
    number(c.mfu, "%")))
  if not range then return end
  local place = ", as this one does"
  if step > range.high then place = "; this one is slower than nineteen in twenty of them" end
  if step < range.low then place = "; this one is faster than nineteen in twenty of them" end
  print(("Nine tenths of comparable runs (software %s) take %s to %s%s"):format(c.software, number(range.low, "s"),
    number(range.high, "s"), place))
end

--- Prints and draws the comparison of a trace or log of timers with a timeline.
---@param timeline tperf.timeline
---@param values table  the command's options
---@param c table       the predicted configuration
function beside.print(timeline, values, c)
  local b = timeline:beside(values.measured, { part = values.part, device = values.device })
  if b.kind ~= "trace" and (values.beside or values.by == "op") then
    error(("--%s: a log of timers tells no events"):format(values.beside and "beside" or "by"), 0)
  end
  if values.beside then
    require "tperf.output.render".write(values.beside, require "tperf.timeline.picture.beside_svg"(b))
  end
  local told = values.json or values.csv
  if told and values.by == "op" then
    return cli_table(values, b.ops, with_numbers({ key = "op" }, { key = "pass" }, { key = "kernels" }))
  end
  local title = b.kind == "trace" and WHAT[b.part] or "timer"
  cli_table(values, b.rows, with_numbers { key = "kind", title = title })
  if told then return end
  if b.kind == "trace" then
    print_trace(values, b)
  elseif b.others[1] then
    print("\nNot predicted: " .. table.concat(b.others, ", "))
  end
  print_place(b, c)
end

return beside
