--- tperf.strategy, as scripts have it: strategies that they have seen must stay as they are.
local sealed = require "tperf.base.object.sealed"
local several = require "tperf.describe.strategy.several"
local strategy = require "tperf.describe.strategy"

local public = { names = strategy.names }

local function show_all(list)
  for _, s in ipairs(list) do sealed.show(s) end
  return list
end

--- Registers a strategy by its name, so that searches find it. It cannot be changed afterwards.
---@param given table  as described above
---@return table strategy
function public.define(given) return sealed.show(strategy.define(given)) end

--- All strategies, in the order of their definition.
function public.all() return show_all(strategy.all()) end

--- A strategy by name, or one that strategy.define returned.
function public.of(value) return sealed.show(strategy.of(value)) end

--- A name, a list of names, or "all", as a list of strategies without repetition.
function public.list(value) return show_all(several(value)) end

public.share = strategy.share

return public
