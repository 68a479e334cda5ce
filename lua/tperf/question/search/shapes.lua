--- Splits the shapes of one large search among all processes of a run under MPI: each walks a part of them, and the
--- first process merges the results in the search's total order.
local lazy = require "tperf.base.lazy"
local pool = lazy.module "tperf.question.ranks.pool"
local search_walk = require "tperf.question.search.walk"

local shapes = {}

local FEWEST <const> = 1024 -- shapes for which it pays to lay out the problem again in each process
local PARTS <const> = 4     -- for each process: parts differ in how many of their shapes fit

-- The options of the walk that decide what it keeps.
local OPTIONS <const> = { "simulates", "reached", "top", "threads", "prune", "keep", "infeasible", "memory_only",
  "fast" }

-- The message to other processes: the question as it was asked, without what concerns this process only.
local function asked(p, o)
  local args, options = {}, {}
  for name, value in pairs(p.asked) do args[name] = name ~= "progress" and value or nil end
  for _, name in ipairs(OPTIONS) do options[name] = o[name] end
  return args, options
end

--- The number of parts into which a search is cut; nil if this process walks it alone because it is small, or because
--- a script's own functions decide in it.
---@param p table  of problem.of, with `asked`
---@param o table  checked arguments
---@return integer?
function shapes.parts(p, o)
  if not p.asked or not pool.is_shared() or o.where or o.minimize then return nil end
  local refused = {}
  local count = search_walk.count(p, refused)
  if count < FEWEST then return nil end
  p.refused = refused
  return math.min(PARTS * pool.size(), count)
end

--- Walks all shapes of a search in `parts` parts. Returns false if interrupted.
---@return boolean
function shapes.walk(p, o, core_search, parts)
  local args, options = asked(p, o)
  local done, units = 0, {}
  local here = setmetatable({ refused = {} }, { __index = p })
  local function tell(count)
    done = done + count
    if o.progress then o.progress(done) end
  end
  for i = 1, parts do
    local part = { index = i, of = parts }
    units[i] = {
      index = i, weight = 1,
      describe = function() return { walk = options, args = args, part = part } end,
      ask = function()
        local complete, count = search_walk.some(here, o, core_search, part)
        tell(count)
        return complete
      end,
      take = function(_, answers)
        for question, answer in ipairs(answers) do core_search:add(question, answer) end
        search_walk.add_refusals(p, answers.refusals)
        tell(answers.shapes)
      end,
      place = function() return ("part %d of %d of the shapes"):format(i, parts) end,
    }
  end
  return pool.run(units)
end

-- What was found as tables for another process.
local function plain(list)
  local copy = {}
  for i = 1, #list do
    copy[i] = list[i]
    copy[i].workload = nil -- of this process
  end
  return copy
end

--- Walks a part, in a process other than the one that asked.
---@param p table        the problem of the unit's arguments
---@param o table        the unit's options
---@param part table
---@return table? answers  of all questions, with `shapes`, the number walked; nil if interrupted
function shapes.answer(p, o, part)
  p.refused, p.refusals = {}, {}
  local core_search <close> = search_walk.new(p, o)
  local complete, count = search_walk.some(p, o, core_search, part)
  if not complete then return nil end
  local answers = { shapes = count, refusals = p.refusals }
  for question in ipairs(p.questions) do
    local found = core_search:answer(question)
    found.found, found.open = plain(found.found), plain(found.open)
    answers[question] = found
  end
  return answers
end

--- Walks all shapes of a search, on all processes of a run under MPI if that pays. Returns false if interrupted.
---@return boolean
function shapes.all(p, o, core_search)
  local parts = shapes.parts(p, o)
  if parts then return shapes.walk(p, o, core_search, parts) end
  return (search_walk.some(p, o, core_search))
end

return shapes
