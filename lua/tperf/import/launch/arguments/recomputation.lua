--- A launch's recomputation, as arguments of tperf.train.
local recompute = require "tperf.describe.arch.recompute"

local recomputation = {}

-- The word of `words` that a launch's module or method equals, or nil.
local function word(value, words)
  for _, one in ipairs(words) do
    if tostring(value) == one then return one end
  end
end

-- Splits modules into known and unknown ones.
local function sorted(modules)
  local known, others = {}, {}
  for _, name in ipairs(type(modules) == "table" and modules or { modules }) do
    local one = word(name, recompute.modules)
    table.insert(one and known or others, one or tostring(name))
  end
  return known, others
end

--- Adds the recomputation settings to arguments.
---@param launch table  of tperf.import.launch
---@param a table       arguments, changed in place
function recomputation.add(launch, a)
  local r = launch.recompute or { granularity = "none" }
  a.recompute = r.granularity
  local every = r.granularity == "selective" and math.tointeger(tonumber(r.option)) -- torchtitan's every N-th layer
  if every and every > 0 then
    a.recompute, a.recompute_method, a.recompute_num_layers = "full", "every", every
  elseif r.granularity == "selective" then
    local known = sorted(r.option or r.modules)
    a.recompute_modules = known[1] and known or nil
  elseif r.granularity == "full" then
    local method = word(r.method, recompute.methods)
    local layers = math.tointeger(tonumber(r.num_layers))
    if method and layers and layers > 0 and not (method == "uniform" and layers == 1) then
      a.recompute_method, a.recompute_num_layers = method, layers
    end
  end
end

--- Adds modules that are recomputed, but not in a prediction.
---@param add fun(option: string, value: any)
function recomputation.lacking(launch, add)
  local r = launch.recompute
  if not (r and r.granularity == "selective") or math.tointeger(tonumber(r.option)) then return end
  local _, others = sorted(r.option or r.modules)
  if others[1] then add("recompute-modules", table.concat(others, " ")) end
end

--- Notes what predictions do not cover.
---@param note fun(format: string, ...)
function recomputation.note(launch, note)
  local r = launch.recompute
  if not (r and r.granularity == "selective") or math.tointeger(tonumber(r.option)) then return end
  local known = sorted(r.option or r.modules)
  if not known[1] then note "which ops are recomputed: predicted as those of attention's core" end
end

return recomputation
