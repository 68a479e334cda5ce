--- tperf.block: a named part of a layer: a function from the model and one GPU's share to a list of ops.
--   tperf.block("mlp", function(model, share) return { op.linear { … }, … } end)
-- The share holds micro_batch, seq, tokens (their product), the size of each of the strategy's axes by name (share.tp),
-- rules, the fields that strategy.share documents (share.group, share.mode …), and the strategy's cuts as methods
-- (listed in tperf/describe/strategy/init.lua), so one block serves every strategy, training and inference.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local is_op = require "tperf.core".op.is
local refusal = require "tperf.base.refusal"

local block = {}
local metatable = { __index = block }

local class = frozen.class(function(one, field)
  check.fail("block '%s' is never changed, so '%s' cannot be set; tperf.block makes another", one.name, tostring(field))
end, block)

-- A block of the library, whose functions change no model. reads: what is known of that, see layout/memo.lua.
local function new(name, build, reads)
  local made = frozen.keep(setmetatable({ name = name, build = build }, metatable), class)
  for field, value in next, reads or {} do made[field] = value end
  return made
end

--- Defines a block: a function from the model and one GPU's share to a list of ops.
---@param name string
---@param build fun(model: tperf.model, share: tperf.share): table|nil, string|nil  a list of ops, and of lists of
---  them in turn (as p:scan, p:attention and functions of one's own make them); or nil and why the block cannot have
---  this shape, which a search then leaves out with this reason
---@return table block
local function define(name, build)
  if type(name) ~= "string" or name == "" then check.fail("tperf.block: the name must be a string") end
  if type(build) ~= "function" then check.fail("tperf.block '%s': the second argument must be a function", name) end
  local made = new(name, function(model, share) return build(frozen.show(model), share) end)
  made.of_script = true -- it knows neither what serving engines fuse nor how PyTorch runs without a compiler
  return frozen.show(made)
end

local DEEPEST <const> = 16 -- lists in lists

-- Appends the items of a list that a block returned: ops, and the ops of lists in it.
local function append(list, name, ops, depth)
  argument.list(("block '%s' returned a list with a hole"):format(name), "ops", ops)
  for key, one in next, ops do
    local fits = math.type(key) == "integer" and (is_op(one) or depth < DEEPEST and type(one) == "table")
    if not fits and key ~= "name" then
      check.fail("block '%s' returned a list with %s at [%s], where an op must be", name, check.show(one),
        check.show(key))
    end
  end
  for i = 1, rawlen(ops) do
    local one = rawget(ops, i)
    if is_op(one) then list[#list + 1] = one else append(list, name, one, depth + 1) end
  end
end

--- What a block's function returned, as a list with the block's `name`. Raises if it is none, and refuses the shape if
--- the function does.
---@param name string  the block's
---@param ops any
---@param reason any
function block.result(name, ops, reason)
  if ops == nil and type(reason) == "string" then refusal.raise("block '%s': %s", name, reason) end
  if type(ops) ~= "table" then check.fail("block '%s' returned %s, not a list of ops", name, check.show(ops)) end
  local list = { name = name } -- a copy, which is never changed again
  append(list, name, ops, 0)
  return list
end

--- The block's ops for a share, as a list with the block's `name`.
function block:ops(model, share)
  share.block = self.name -- for messages
  return block.result(self.name, self.build(model, share))
end

--- Whether a value was made by tperf.block.
function block.is(value)
  return type(value) == "table" and getmetatable(frozen.plain(value)) == metatable
end

return setmetatable({
  is = block.is, result = block.result,
  --- What scripts have.
  public = setmetatable({ is = block.is }, { __call = function(_, name, build) return define(name, build) end }),
}, { __call = function(_, ...) return new(...) end })
