--- The shapes of one large search on all processes of a run under MPI: each walks a part of them, and the first puts
--- what they find together, in the search's total order.
local pool = require "tperf.question.ranks.pool"
local search_walk = require "tperf.question.search.walk"

local shapes = {}

local FEWEST <const> = 1024 -- shapes that pay for laying the problem out once more in each process
local PARTS <const> = 4     -- for each process: parts differ in how much of them can fit

-- Of the walk's options, those that decide what it keeps.
local OPTIONS <const> = { "kept", "top", "threads", "prune", "keep", "infeasible", "memory_only", "fast" }

-- What others are told: the question as it was asked, without what is of this process alone.
local function asked(p, o)
  local args, options = {}, {}
  for name, value in pairs(p.asked) do args[name] = name ~= "progress" and value or nil end
  for _, name in ipairs(OPTIONS) do options[name] = o[name] end
  return args, options
end

--- How many parts a search is cut into; nil where it is walked here alone: it is small, or functions of the script's
--- own decide in it.
---@param p table  as problem.of makes it, with `asked`
---@param o table  checked arguments
---@return integer?
function shapes.parts(p, o)
  if not p.asked or not pool.is_shared() or o.where then return nil end
  local refused = {}
  local count = search_walk.count(p, refused)
  if count < FEWEST then return nil end
  p.refused = refused
  return math.min(PARTS * pool.size(), count)
end

--- Walks all shapes of a search, cut into so many parts. false when interrupted.
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
      take = function(answers)
        for question, answer in ipairs(answers) do core_search:add(question, answer) end
        tell(answers.shapes)
      end,
      place = function() return ("part %d of %d of the shapes"):format(i, parts) end,
    }
  end
  return pool.run(units)
end

--- Walks a part in another process than the one that asked.
---@param p table        the problem of the unit's arguments
---@param o table        the unit's options
---@param part table
---@return table? answers  of all questions, and `shapes`, how many there were; nil when interrupted
function shapes.answer(p, o, part)
  p.refused = {}
  local core_search <close> = search_walk.new(p, o)
  local complete, count = search_walk.some(p, o, core_search, part)
  if not complete then return nil end
  local answers = { shapes = count }
  for question in ipairs(p.questions) do answers[question] = core_search:answer(question) end
  return answers
end

--- Walks all shapes of a search, on all processes of a run under MPI if that pays. false when interrupted.
---@return boolean
function shapes.all(p, o, core_search)
  local parts = shapes.parts(p, o)
  if parts then return shapes.walk(p, o, core_search, parts) end
  return (search_walk.some(p, o, core_search))
end

return shapes
