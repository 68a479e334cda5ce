--- tperf.architecture: the blocks of a model's layers and of both its ends.
--   tperf.architecture { name = "mine", layer = { block … }, first = { block … }, last = { block … } }
-- goes into a model: tperf.model { …, architecture = mine }. `layer` serves every group of layers (share.group tells
-- them apart); without first and last the model has the usual embedding and head. Models of several stacks, such as an
-- encoder and a decoder, list their groups themselves, each with its sequence. Other models get the architecture
-- that their description names (transformer.lua) or, if the rules say so, the published solver's layer (gpt.lua).
local block = require "tperf.describe.block"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"
local plan = require "tperf.describe.arch.plan"
local stated = require "tperf.describe.model.stated"

local architecture = {}
local metatable = { __index = architecture }

local is_block = function(value, path)
  if block.is(value) then return frozen.plain(value) end
  return nil, ("'%s' must be a block (see tperf.block), got %s"):format(path, check.show(value)), path
end
local some_blocks = check.list(is_block, { max = 64, optional = true })
local schema = {
  name = check.string { name = true }, layer = check.list(is_block, { max = 64, optional = true }), first = some_blocks,
  last = some_blocks, groups = check.any { optional = true },
  parameters = check.any { optional = true }, flops_per_token = check.any { optional = true },
  admits = check.func { optional = true }, replicas = check.boolean { default = false },
}

local class = frozen.class(function(one, field)
  check.fail("tperf.architecture '%s' is never changed, so '%s' cannot be set; define another", one.name,
    tostring(field))
end)

-- Groups that a script states, which it may change afterwards.
local function copy_of(value)
  value = frozen.plain(value)
  if type(value) ~= "table" or getmetatable(value) then return value end
  local copy = {}
  for name, one in next, value do copy[name] = copy_of(one) end
  return copy
end

--- Defines a custom architecture.
---@param given table
---   name          for messages
---   layer         the blocks of every layer, except in groups with their own blocks
---   first, last   blocks before the first layer and after the last (default: the usual embedding and head)
---   groups        the model's layers as runs of equal ones, in order, or function(model) -> list (default: from the
---                 model's description). Each is { count = layers, key = a name, the same for equal layers (default:
---                 made from the fields), blocks = { … }?, seq = tokens of its sequence (default: the model's),
---                 padded = true: where the GPUs that share it cannot have equal parts, it has as many tokens more
---                 (default: such layouts are refused), width = features of the stream that enters its layers
---                 (default: as its first op reads), carries = elements of a sequence that travel beside the stream to
---                 its layers (skips), keeps = what a sequence keeps of one layer between steps of decoding, as an
---                 op's `keeps`, or function(model, share) -> that (default: what its ops say), … }; blocks find the
---                 group, with all its fields, as share.group
---   admits        function(model, layout) -> true, or false and a reason: which layouts the blocks can have, in place
---                 of what the description's heads and widths divide into. layout: the sizes of the strategy's axes by
---                 name, strategy = its name
---   replicas      true: blocks find the number of replicas as share.dp, and their ops may communicate over the axis dp
---                 (false). A search lays layers out anew for each number of them; in serving it is 1
---   parameters    the number of parameters, or function(model) -> total, active (that one token uses); default: those
---                 of the ops
---   flops_per_token   forward and backward FLOPs, a number or function(model, options) -> number (options as in
---                 model:flops_per_token); MFU is computed from it; default: those of the ops
---@return table architecture
function architecture.define(given)
  local o = check.record("tperf.architecture", given, schema)
  stated.check(o)
  o.groups = copy_of(o.groups)
  return frozen.show(frozen.keep(setmetatable(o, metatable), class))
end

--- Whether a value was made by tperf.architecture.
function architecture.is(value)
  return type(value) == "table" and getmetatable(frozen.plain(value)) == metatable
end

--- The blocks of a model, in order.
---@param model table
---@param rules table?  (default: the default rules)
---@param apart boolean?  true: modules of multi-token prediction become separate layers after all others
---@return table parts  { groups = the runs of equal layers of model:groups(), each with `blocks` (the same for the same
---   `key`), first = the blocks before the first layer, last = those after the last one }
function architecture.of(model, rules, apart)
  local parts = plan.of(frozen.plain(model), frozen.plain(rules), apart)
  local function show_all(owner, name)
    local list = owner[name]
    owner[name] = {}
    for i, one in ipairs(list) do owner[name][i] = frozen.show(one) end
  end
  show_all(parts, "first")
  show_all(parts, "last")
  for _, group in ipairs(parts.groups) do show_all(group, "blocks") end
  return parts
end

return setmetatable(architecture, { __call = function(_, given) return architecture.define(given) end })
