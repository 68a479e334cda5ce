--- tperf.differ: whether two answers differ by more than what their intervals leave open.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"

local differ = {}

local WHAT <const> = "tperf.differ"
local USUAL <const> = { "time", "tpot", "step" } -- the figure that an answer is about, the first that it has

local function interval_of(answer, figure)
  local all = type(answer) == "table" and answer.intervals
  return type(all) == "table" and all[figure] or nil
end

-- The figure that both have an interval of.
local function usual(a, b)
  for _, figure in ipairs(USUAL) do
    if interval_of(a, figure) and interval_of(b, figure) then return figure end
  end
end

local function apart(a, b) return a.low > b.high or b.low > a.high end

--- Whether two answers, such as layouts of one search or runs on two systems, differ in a figure by more than their
--- intervals, each of which holds nine tenths of comparable runs: true if none of the values that one may have is one
--- that the other may have. That is careful: errors that both share, as layouts of one model on one system do, cancel
--- when they are compared, so that their order is better known than either time (docs/limits.md).
---@param a table  an answer with `intervals`, or a row of a sweep with them
---@param b table
---@param figure string?  a field of `intervals`: "time", "memory", "tpot", "ttft" … (default: the time of a step, or
---  of a token)
---@return boolean? differ  nil: one of them has no interval of it
---@return string? reason  why it is not known
function differ.answers(a, b, figure)
  argument.table(WHAT, "the first answer", a, "an answer")
  argument.table(WHAT, "the second answer", b, "an answer")
  if figure ~= nil and type(figure) ~= "string" then
    check.fail("%s: the figure must be a name such as \"time\", got %s", WHAT, check.show(figure))
  end
  figure = figure or usual(a, b)
  if not figure then return nil, "one of them has no intervals: software = \"none\" has none" end
  local one, other = interval_of(a, figure), interval_of(b, figure)
  if not (one and other) then return nil, ("one of them has no interval of '%s'"):format(figure) end
  return apart(one, other)
end

local RANKED <const> = { "time", "memory" } -- figures of searches that have intervals

--- How many of a search's configurations, from the first on, do not differ from it by more than their intervals.
---@param found table[]  configurations, best first
---@param ranked string|function?  what they are ranked by
---@return integer? count  nil: it is not known
function differ.alike(found, ranked)
  local figure = ranked or "time"
  local first = found[1] and lists.has(RANKED, figure) and interval_of(found[1], figure)
  if not first then return nil end
  local count = 1
  while found[count + 1] do
    local other = interval_of(found[count + 1], figure)
    if not other or apart(first, other) then break end
    count = count + 1
  end
  return count
end

return differ
