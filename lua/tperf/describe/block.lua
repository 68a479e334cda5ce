--- tperf.block: a named part of a layer: a function from the model and one GPU's share to a list of ops.
--   tperf.block("mlp", function(model, share) return { op.linear { … }, … } end)
-- The share holds micro_batch, seq, tokens (their product), the size of each of the strategy's axes by name (share.tp),
-- rules, the fields that strategy.share documents (share.group, share.mode …), and the strategy's cuts as methods
-- (listed in tperf/describe/strategy/init.lua), so one block serves every strategy, training and inference.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local is_op = require "tperf.core".op.is

local block = {}
local metatable = { __index = block }

local class = frozen.class(function(one, field)
  check.fail("block '%s' is never changed, so '%s' cannot be set; tperf.block makes another", one.name, tostring(field))
end, block)

-- A block of the library, whose functions change no model.
local function new(name, build)
  return frozen.keep(setmetatable({ name = name, build = build }, metatable), class)
end

--- Defines a block: a function from the model and one GPU's share to a list of ops.
---@param name string
---@param build fun(model: table, share: table): table  a list of ops
---@return table block
local function define(name, build)
  if type(name) ~= "string" or name == "" then check.fail("tperf.block: the name must be a string") end
  if type(build) ~= "function" then check.fail("tperf.block '%s': the second argument must be a function", name) end
  return frozen.show(new(name, function(model, share) return build(frozen.show(model), share) end))
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
  return type(value) == "table" and getmetatable(frozen.plain(value)) == metatable
end

return setmetatable({
  is = block.is,
  --- What scripts have.
  public = setmetatable({ is = block.is }, { __call = function(_, name, build) return define(name, build) end }),
}, { __call = function(_, name, build) return new(name, build) end })
