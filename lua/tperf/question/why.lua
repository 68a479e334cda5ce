--- tperf.why: which parts of time and memory make one configuration faster than another, and what would turn the order.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local configuration = require "tperf.question.configuration"
local core = require "tperf.core"
local differ = require "tperf.question.differ"
local prepare = require "tperf.question.train.prepare"
local runtime = require "tperf.describe.profile"

local why = {}

local WHAT <const> = "tperf.why"

-- The numbers of a software profile that may be otherwise: a factor, but `overlap`, which is a part.
local ASSUMED <const> = { "compute", "attention", "memory", "comm", "host", "overlap" }
local FARTHEST <const> = 2 -- a number twice as large, or half as large, is no doubt about it, but another stack
local NEAR <const> = 1e-4 -- how exactly a factor is found

-- Rows { name, first, second, difference = second - first } of those that either has, the largest difference first.
local function parts_of(first, second, names)
  local rows = {}
  for i, name in ipairs(names) do
    local a, b = first[name] or 0, second[name] or 0
    if a ~= 0 or b ~= 0 then rows[#rows + 1] = { name = name, first = a, second = b, difference = b - a, order = i } end
  end
  table.sort(rows, function(x, y)
    local p, q = math.abs(x.difference), math.abs(y.difference)
    if p ~= q then return p > q end
    return x.order < y.order
  end)
  for _, row in ipairs(rows) do row.order = nil end
  return rows
end

local MEMORY <const> = {}
for i, part in ipairs(core.memory_parts) do MEMORY[i] = part.name end

-- A configuration's time as a function of a profile's terms, and the profile; nil if its schedule is simulated.
local function timed(c)
  local t = prepare { configuration = c }
  if not t.problem.pipeline_list[1].closed or not t.o.profile then return nil end
  return configuration.predictor(t.candidate), t.o.profile, t.problem.training
end

-- The value of a term nearest to its own, towards `last`, at which the sign of `ahead` turns; nil: at none.
local function turning(ahead, own, last)
  local sign = ahead(own) > 0
  if (ahead(last) > 0) == sign then return nil end
  local near, far = own, last
  while math.abs(far - near) > NEAR * math.abs(own) + NEAR * NEAR do
    local middle = (near + far) / 2
    if (ahead(middle) > 0) == sign then near = middle else far = middle end
  end
  return far
end

-- Rows { name, now, at, factor } of single numbers of the profile at which the two would change places, the nearest
-- first.
local function turns_of(first, second)
  local one, profile, training = timed(first)
  local other, same = timed(second)
  if not (one and other) or profile ~= same then return nil end
  local rows = {}
  for _, name in ipairs(ASSUMED) do
    local terms = runtime.terms(profile, training)
    local own = terms[name]
    local function ahead(value)
      terms[name] = value
      return other(terms) - one(terms)
    end
    for _, last in ipairs(name == "overlap" and { 0, 1 } or { own / FARTHEST, own * FARTHEST }) do
      local at = turning(ahead, own, last)
      if at then rows[#rows + 1] = { name = name, now = own, at = at, factor = own > 0 and at / own or nil } end
    end
  end
  table.sort(rows, function(x, y) return math.abs(x.at - x.now) / x.now < math.abs(y.at - y.now) / y.now end)
  return rows
end

--- Why one configuration takes less time than another, such as two of one search.
---@param a table  a configuration of tperf.train or tperf.search
---@param b table  another of the same model
---@return table result  { faster = 1 or 2; difference = seconds that b takes more than a; part = that of the slower
---   one's time; time = rows { name, first, second, difference } of the parts of `breakdown`, the largest difference
---   first; memory = the same of parts of `memory` in bytes; apart = whether their intervals tell them apart (nil: not
---   known), reason = why that is not known; turns = rows { name, now, at, factor } of numbers of the software profile,
---   each of which would turn the order alone, the nearest first, within half and twice what is assumed (overlap: 0 to
---   1); nil: they were simulated, or have no profile or two different ones }
function why.of(a, b)
  for place, c in pairs { ["the first configuration"] = a, ["the second configuration"] = b } do
    argument.table(WHAT, place, c, "a configuration")
    if type(c.breakdown) ~= "table" or type(c.memory) ~= "table" or type(c.time) ~= "number" then
      check.fail("%s: %s is none of tperf.train or tperf.search: it has no breakdown", WHAT, place)
    end
  end
  local apart, reason = differ.answers(a, b)
  return {
    faster = a.time <= b.time and 1 or 2, difference = b.time - a.time,
    part = math.abs(b.time - a.time) / math.max(a.time, b.time),
    time = parts_of(a.breakdown, b.breakdown, core.time_parts), memory = parts_of(a.memory, b.memory, MEMORY),
    apart = apart, reason = reason, turns = turns_of(a, b),
  }
end

--- The configuration with most free memory of those from the first on that the intervals do not tell from it.
---@param found table[]  configurations, best first
---@param alike integer  how many of them are alike
---@return integer index
function why.roomiest(found, alike)
  local best = 1
  for i = 2, math.min(alike, #found) do
    if found[i].memory.total < found[best].memory.total then best = i end
  end
  return best
end

return why
