--- tperf.search with `software`: the best by the formulas, each timed as a training stack runs it (tperf/stack.lua), in
-- the order of that time. Only those are timed that are among the first POOL, or `top`, by the formulas.
local check = require "tperf.check"
local problem = require "tperf.problem"
local software = require "tperf.software"
local stack = require "tperf.stack"
local train = require "tperf.train"

local search_software = {}

local POOL <const> = 256

-- What a search is asked that one configuration is, too, and that a configuration does not say of itself.
local PASSED = {
  "model", "attention", "rules", "seq", "recompute_layers", "optimizer", "weights", "gradients", "master", "moments",
  "reserve", "gradient_shard",
}

-- What of a timed configuration goes to the one that the search found.
local TAKEN = { "time", "throughput", "tokens_per_second", "mfu", "mfu_all_pairs", "breakdown", "software", "interval",
  "warnings" }

-- The same question of machines whose clock is the sustained one, without what the profile says of overlap.
local function question_of(given, profile)
  local asked = {}
  for name, value in pairs(given) do asked[name] = value end
  asked.software, asked.data_overlap = nil, false
  asked.attention = given.attention or profile.kernel
  asked.gradient_shard = given.gradient_shard or profile.gradient_shard
  asked.top = math.max(POOL, math.tointeger(given.top) or 0)
  local machines, many = problem.systems(given.system)
  for i, one in ipairs(machines) do machines[i] = stack.machine(one) end
  asked.system = many and machines or machines[1]
  return asked
end

-- Times what a search found, sorts it by that, and keeps the first `top` in place.
local function rank(found, asked, profile, top)
  local place = {} -- by the formulas
  for i, c in ipairs(found) do
    local question = { configuration = c, system = found.system, software = profile }
    for _, name in ipairs(PASSED) do question[name] = asked[name] end
    local timed = train.run(question)
    for _, name in ipairs(TAKEN) do c[name] = timed[name] end
    place[c] = i
  end
  table.sort(found, function(a, b)
    if a.throughput ~= b.throughput then return a.throughput > b.throughput end
    if a.memory.total ~= b.memory.total then return a.memory.total < b.memory.total end
    return place[a] < place[b]
  end)
  for i = #found, top + 1, -1 do found[i] = nil end
end

--- As tperf.search.
---@param given table
---@param search fun(given: table): table  without software
---@return tperf.found|tperf.found[]
function search_software.run(given, search)
  if given.keep == "all" then
    check.fail("tperf.search: keep = \"all\" and software do not go together; top = N times the N best by the formulas")
  end
  local profile = software(given.software)
  local asked = question_of(given, profile)
  local found = search(asked)
  local top = math.tointeger(given.top) or 10
  for _, one in ipairs(found.candidates and { found } or found) do rank(one, asked, profile, top) end
  return found
end

return search_software
