--- `--why A,B`: why one row of a search is faster than another, as tables or JSON.
local format = require "tperf.output.format"
local json = require "tperf.output.json"
local parts = require "tperf.cli.answer.parts"
local say = require "tperf.output.terminal".say
local why = require "tperf.question.why"

local answer = {}

--- The option of searches.
answer.option = { long = "why", value = "A,B", kind = "integers", min = 1,
  help = "why row A is faster than row B, and what would turn the order" }

--- Numbers of software profiles in words.
local WORDS <const> = { compute = "matrix products", attention = "attention", memory = "kernels that memory bounds",
  comm = "collectives", host = "launches" }
local FEW <const> = 6 -- parts of each table

local function percent(part) return format.number(part, "%", 2) end

-- The largest differences, with the parts' titles.
local function rows_of(list, names)
  local titles, rows = {}, {}
  for _, pair in ipairs(names) do titles[pair[1]] = pair[2] end
  for i = 1, math.min(#list, FEW) do
    local row = list[i]
    rows[i] = { part = titles[row.name] or row.name, first = row.first, second = row.second,
      difference = row.difference }
  end
  return rows
end

local function columns(title, unit, a, b)
  return { { key = "part", title = title }, { key = "first", title = "row " .. a, unit = unit },
    { key = "second", title = "row " .. b, unit = unit }, { key = "difference", unit = unit } }
end

-- What would turn the order, in words.
local function turns_in_words(turns)
  if not turns then return "what would turn the order is not known: one is simulated, or no profile is common" end
  if not turns[1] then return "no one number of the software profile, halved or doubled, turns the order" end
  local list = {}
  for i, turn in ipairs(turns) do
    list[i] = turn.name == "overlap" and ("%s of each message hidden, not %s"):format(percent(turn.at),
      percent(turn.now)) or ("%s %.3g times as long as assumed"):format(WORDS[turn.name], turn.factor)
  end
  return "the order turns with: " .. table.concat(list, "; or ")
end

-- Whether the intervals tell them apart, and which to take if they do not.
local function apart_in_words(result, found, a, b)
  if result.apart == nil then return result.reason end
  if result.apart then return ("their intervals tell them apart: row %d is faster"):format(
    result.faster == 1 and a or b) end
  local text = "their intervals do not tell them apart: errors that both share cancel, others may be larger"
  local alike = found.alike or 1
  if alike < 2 then return text end
  local best = why.roomiest(found, alike)
  return ("%s\nrows 1 to %d are equal within the error: row %d needs the least memory, %s"):format(text, alike, best,
    format.number(found[best].memory.total, "bytes"))
end

--- Checks the rows that --why names.
---@param rows integer[]
---@return string? message
function answer.check(rows)
  if #rows ~= 2 or rows[1] == rows[2] then return "--why needs two rows of the search, such as 1,2" end
end

--- Prints why one row is faster than the other.
---@param values table   the command's options
---@param found table[]  the configurations, best first
function answer.print(values, found)
  local a, b = values.why[1], values.why[2]
  for _, row in ipairs { a, b } do
    if not found[row] then
      error(("--why: the search has %d rows, and no row %d; --top asks for more"):format(#found, row), 0)
    end
  end
  local result, report = why.of(found[a], found[b]), require "tperf.report"
  if values.json then
    result.first, result.second, result.alike = a, b, found.alike
    result.roomiest = found.alike and why.roomiest(found, found.alike)
    io.stdout:write(json.encode(result), "\n")
    return
  end
  say(("row %d (%s) takes %s, row %d (%s) %s: %s"):format(a, report.layout(found[a]),
    format.number(found[a].time, "s"), b, report.layout(found[b]), format.number(found[b].time, "s"),
    result.difference == 0 and "as long" or ("row %d is %s faster"):format(result.faster == 1 and a or b,
      percent(result.part))))
  print()
  report.print(rows_of(result.time, parts.time), columns("time of an iteration", "s", a, b))
  print()
  report.print(rows_of(result.memory, parts.memory), columns("memory of the fullest GPU", "bytes", a, b))
  say("\n" .. turns_in_words(result.turns))
  say(apart_in_words(result, found, a, b))
end

return answer
