--- Whether the rows of a search's result fit into the memory limit.
local core = require "tperf.core".search
local check = require "tperf.base.check"
local shapes = require "tperf.question.search.shapes"
local units = require "tperf.base.units"

local search_room = {}

-- Lower bound of the bytes of a row of the result, measured by spec/memory_limit_spec.lua.
local ROW_BYTES <const> = 2200

-- The number of rows of the result, which the core counts without timing anything; nil if interrupted.
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

--- Refuses a result that cannot fit, before walking for it. Returns false if interrupted.
---@param p table  of problem.of
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
