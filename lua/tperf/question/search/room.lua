--- Whether the rows of a search's answer fit into the memory that is left.
local core = require "tperf.core".search
local check = require "tperf.base.check"
local shapes = require "tperf.question.search.shapes"
local units = require "tperf.base.units"

local search_room = {}

-- Bytes of a row of the answer: at least, as spec/memory_limit_spec.lua measures.
local ROW_BYTES <const> = 1400

-- How many rows the answer has: what the core counts without timing anything. nil when interrupted.
local function count_rows(p, o, new_core_search)
  local options = { top = 1, threads = o.threads, prune = true, memory_only = true, fast = o.fast }
  local core_search <close> = new_core_search(p, options)
  if not shapes.all(p, options, core_search) then return nil end
  local rows = 0
  for i in ipairs(p.questions) do
    local found = core_search:answer(i)
    local most = (o.keep == "all" or o.infeasible) and found.candidates or found.feasible
    rows = rows + (o.keep == "all" and most or math.min(o.top, most))
  end
  return rows
end

--- Refuses an answer that cannot fit before the walk for it. false when interrupted.
---@param p table  as problem.of makes it
---@param o table  checked arguments
---@param new_core_search fun(p: table, options: table): userdata
function search_room.check(p, o, new_core_search)
  local function left() return core.memory_left and core.memory_left() or math.huge end
  local most = o.keep == "all" and math.huge or o.top * #p.questions
  if o.where or left() == math.huge or most * ROW_BYTES <= left() then return true end
  local rows = count_rows(p, o, new_core_search)
  collectgarbage()
  if not rows or rows * ROW_BYTES <= left() then return rows ~= nil end
  local what = o.keep == "all" and "keep = \"all\"" or ("top = %d"):format(o.top)
  check.fail("tperf.search: not enough memory: %s makes %d rows, at least %s, and %s are left: ask for fewer (fix "
    .. "sizes, or give 'where')", what, rows, units.format(rows * ROW_BYTES, "bytes"), units.format(left(), "bytes"))
end

return search_room
