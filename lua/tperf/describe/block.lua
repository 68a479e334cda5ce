--- tperf.block: a named part of a layer: a function from the model and one GPU's share to a list of ops.
--   tperf.block("mlp", function(model, share) return { op.linear { … }, … } end)
-- The share holds micro_batch, seq, tokens (their product), the size of each of the strategy's axes by name (share.tp),
-- rules, the fields that strategy.share documents (share.group, share.mode …), and the strategy's cuts as methods
-- (listed in tperf/describe/strategy/init.lua), so one block serves every strategy, training and inference.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local is_op = require "tperf.core".op.is

local block = {}
local metatable = { __index = block }

--- Defines a block: a function from the model and one GPU's share to a list of ops.
---@param name string
---@param build fun(model: table, share: table): table  a list of ops
local function new(name, build)
  if type(name) ~= "string" or name == "" then check.fail("tperf.block: the name must be a string") end
  if type(build) ~= "function" then check.fail("tperf.block '%s': the second argument must be a function", name) end
  return setmetatable({ name = name, build = build }, metatable)
end

--- The block's ops for a share, as a list with the block's `name`.
function block:ops(model, share)
  share.block = self.name -- for messages
  local ops = self.build(model, share)
  if type(ops) ~= "table" then check.fail("block '%s' returned %s, not a list of ops", self.name, check.show(ops)) end
  argument.list(("block '%s' returned a list with a hole"):format(self.name), "ops", ops)
  local list = { name = self.name } -- a copy, which is never changed again
  for key, one in next, ops do
    if math.type(key) == "integer" and is_op(one) then
      list[key] = one
    elseif key ~= "name" then
      check.fail("block '%s' returned a list with %s at [%s], where an op must be", self.name, check.show(one),
        check.show(key))
    end
  end
  return list
end

--- Whether a value was made by tperf.block.
function block.is(value)
  return getmetatable(value) == metatable
end

return setmetatable({ is = block.is }, { __call = function(_, name, build) return new(name, build) end })
