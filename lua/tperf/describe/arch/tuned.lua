--- Applies partial training to a model's groups of layers and their ops (tperf/describe/tuning.lua holds the settings).
--   frozen    no weight gradients, so a product keeps no input for them (arXiv 2106.09685)
--   stopped   nothing below is trained, so there is no backward pass: the embedding, the layers up to the first trained
--             one, and in that layer everything before its first trained op
local adapters = require "tperf.describe.strategy.adapters"
local block = require "tperf.describe.block"
local check = require "tperf.base.check"

local tuned = {}

local MOST_KINDS <const> = 64 -- of layers that differ (TPERF_KINDS_MAX)

local function in_ranges(ranges, layer)
  for _, range in ipairs(ranges) do
    if layer >= range[1] and layer <= range[2] then return true end
  end
  return false
end

-- The last layer of the group's run from `layer` on in which all layers are alike.
local function run_end(ranges, layer, last)
  local status, at = in_ranges(ranges, layer), layer
  while at < last and in_ranges(ranges, at + 1) == status do at = at + 1 end
  return at, status
end

local function part_of(group, first, count, suffix, fields)
  local part = {}
  for name, value in pairs(group) do part[name] = value end
  part.first, part.count, part.key = first, count, group.key .. suffix
  for name, value in pairs(fields) do part[name] = value end
  return part
end

-- Splits groups so that in each one all layers are frozen or none.
local function divided(groups, t)
  local list, layer = {}, 1
  for _, group in ipairs(groups) do
    local last = layer + group.count - 1
    while layer <= last do
      local stop, frozen = run_end(t.frozen.ranges, layer, last)
      frozen = frozen or t.frozen.parts[group.key]
      list[#list + 1] = frozen and part_of(group, layer, stop - layer + 1, " frozen", { frozen = true })
        or part_of(group, layer, stop - layer + 1, "", {})
      layer = stop + 1
    end
  end
  return list
end

-- Separates the groups below which nothing needs a gradient, and the first trained layer.
local function led(groups)
  local list, below = {}, false
  for i, group in ipairs(groups) do
    if below then
      list[#list + 1] = group
    elseif group.frozen then
      group.stopped, group.key, list[#list + 1] = true, group.key .. " below", group
    else
      below = true
      list[#list + 1] = part_of(group, group.first, 1, " first", { leading = true })
      if group.count > 1 then list[#list + 1] = part_of(group, group.first + 1, group.count - 1, "", {}) end
    end
    if i == #groups and not below then break end
  end
  return list
end

local function kinds(groups)
  local seen, count = {}, 0
  for _, group in ipairs(groups) do
    count = count + (seen[group.key] and 0 or 1)
    seen[group.key] = true
  end
  return count
end

--- A model's groups of layers, with trained and frozen layers in separate groups.
---@param t table  from tuning.of
function tuned.groups(groups, t)
  local list = divided(groups, t)
  if not (t.peft or t.frozen.parts.embedding) then return list end
  local with_first = led(list)
  return kinds(with_first) <= MOST_KINDS and with_first or divided(groups, t)
end

-- Stops ops up to the first trained one: they have no backward pass, and that one computes no input gradient.
local function stop_below(ops)
  for _, one in ipairs(ops) do
    one:stop()
    if one:trained() > 0 then return end
  end
end

local function trains(ops)
  for _, one in ipairs(ops) do
    if one:trained() > 0 then return true end
  end
  return false
end

-- The products whose input is fused attention's output: attention's backward pass needs it and has no op that keeps it.
-- An adapter may keep it instead, unless it keeps the dropout's output.
local function keepers(ops, t)
  local set, follows = {}, false
  for i, one in ipairs(ops) do
    local bare = one:parameters() == 0
    local kept = ops[i + 1] and adapters.is(ops[i + 1]) and t.peft.dropout == 0
    set[one] = follows and not bare and not kept or nil
    follows = one:has_output() or follows and bare and one:saved_bytes() == 0
  end
  return set
end

local FP32 <const> = 4

-- Bytes of a frozen parameter, if they differ from the op's: 4 bits of products that qlora quantises, and of all else
-- what it is cast to (PEFT, utils/other.py: prepare_model_for_kbit_training).
local function element_of(one, t)
  local rest = t.peft and t.peft.kind == "qlora" and t.peft.rest == "fp32" and FP32 or nil
  return adapters.element(one) or rest
end

-- where: "embedding" or "head"; nil: a layer.
local function freeze(ops, p, name, where)
  local t = p.tuning
  local frozen = t.peft or t.frozen.parts[where or name] or not where and p.group and p.group.frozen
  local keeps = frozen and keepers(ops, t) or {}
  local table_alone = where == "head" and not frozen and t.frozen.parts.embedding
  for _, one in ipairs((frozen or table_alone) and ops or {}) do
    if not adapters.is(one) and (frozen or one:counts().tied) then one:freeze(element_of(one, t), keeps[one]) end
  end
  local stopped = where == "embedding" and frozen or not where and p.group and p.group.stopped
  for _, one in ipairs(stopped and ops or {}) do one:stop() end
  return ops
end

--- A block's ops with partial training applied.
---@param ops table        as the block built them
---@param p table          the share
---@param name string      the block's name
---@param where string?    "embedding" or "head"; nil: a layer
---@param before function[]?  builders of the layer's preceding blocks
function tuned.ops(ops, p, name, where, before)
  ops = freeze(adapters.expand(ops), p, name, where)
  local leading = not where and p.group and p.group.leading and p.recompute ~= "full"
  for _, build in ipairs(leading and before or {}) do leading = leading and not trains(build()) end
  if leading then stop_below(ops) end
  return ops
end

-- A block made of another one: its products run in the same precision.
local function made_of(one, name, build)
  local made = block(name, build)
  made.has_layers = one.has_layers
  return made
end

--- A block of one of the model's ends with partial training applied.
function tuned.ending(one, where)
  return made_of(one, one.name, function(m, p)
    local ops = one.build(m, p)
    return p.tuning and type(ops) == "table" and tuned.ops(ops, p, one.name, where) or ops
  end)
end

-- The reference model's forward pass of a block. If the policy trains adapters, both share the same weights.
local function twin(one)
  return made_of(one, ("ref-%s"):format(one.name):sub(1, 23), function(m, p)
    p.referring = true
    local ops = adapters.expand(one.build(m, p))
    p.referring = nil
    for _, op in ipairs(ops) do op:freeze(p.tuning.reference == "shared" and 0 or nil):stop() end
    return ops
  end)
end

--- The blocks, followed by those of the reference model.
function tuned.with_reference(blocks)
  local list = table.move(blocks, 1, #blocks, 1, {})
  for _, one in ipairs(blocks) do list[#list + 1] = twin(one) end
  return list
end

--- Raises if 'frozen' names parts that the model does not have.
function tuned.check(t, groups)
  local known = { embedding = true, head = true }
  for _, group in ipairs(groups) do
    known[group.key] = true
    for _, one in ipairs(group.blocks) do known[one.name] = true end
  end
  for name in pairs(t.frozen.parts) do
    if not known[name] then
      local names = check.names(known)
      check.fail("'frozen' has %s, which the model does not have%s; it has layers, layers:FIRST-LAST, %s",
        check.show(name), check.suggest(name, names), table.concat(names, ", "))
    end
  end
end

return tuned
