--- The stacks that share `typical` or `tuned`, and what a stack's profile is likely to be before its runs are seen:
--- what the others of its kind share.
local memo = require "tperf.base.memo"
local profile = require "tperf.measured.calibrate.profile"
local stacks = require "tperf.measured.run.stacks"

local kinds = {}

local FEWEST <const> = 2 -- stacks that share something
local MOST <const> = 64  -- remembered
local FROM <const> = {}  -- the values that a search starts from: profile.parameters'

--- The cases of the stacks that `typical` or `tuned` is fitted to, a list per stack.
---@param cases table<string, table[]>  from profile.by_stack
---@param kind string
---@param but string?  a stack to leave out
---@return table[][]
function kinds.of(cases, kind, but)
  local names, list = {}, {}
  for name in pairs(cases) do
    if stacks.kind(name) == kind and name ~= but then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = cases[name] end
  return list
end

--- What is usual of a stack, as profile.best takes it: the values that the other stacks of its kind share, of which it
--- sees nothing. nil: there are no two others.
---@param cases table<string, table[]>  from profile.by_stack
---@return fun(name: string): table?
function kinds.usual(cases)
  local known = memo.by_text(MOST)
  return function(name)
    local kind = stacks.nearest(name)
    local others = kinds.of(cases, kind, name)
    if #others < FEWEST then return nil end
    local own = stacks.kind(name) == kind -- all stacks that are apart have the same others
    return known(own and name or kind, function() return profile.shared(others, FROM) end)
  end
end

return kinds
