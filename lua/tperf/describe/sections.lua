--- The sections of a model's workload: the blocks of each kind of layer, of what precedes the layers and of what
--- follows them, with their ops for one shape.
local architecture = require "tperf.describe.arch"
local memo = require "tperf.describe.arch.memo"
local narrowed = require "tperf.describe.arch.narrowed"
local strategy = require "tperf.describe.strategy"

local sections = {}

local ELEMENT_BYTES <const> = 2 -- per activation sent between pipeline stages

-- The part of a group within the model's layers from..to; at: the group's first layer; nil: empty. wide: stays in 16
-- bits.
local function part_of(group, at, from, to, wide)
  local count = math.min(at + group.count - 1, to) - math.max(at, from) + 1
  if count <= 0 then return nil end
  return setmetatable({ count = count, wide = wide, key = wide and group.key .. " in 16 bits" or group.key },
    { __index = group })
end

-- The groups, split so that the first and last layers that a precision leaves in 16 bits are separate.
local function groups_of(plan, model, precision)
  local first, last = precision and precision.first_layers or 0, precision and precision.last_layers or 0
  if first + last == 0 then return plan.groups end
  local list, at, from, to = {}, 1, first + 1, model.layers - last
  for _, group in ipairs(plan.groups) do
    list[#list + 1] = part_of(group, at, 1, math.min(first, model.layers), true)
    list[#list + 1] = part_of(group, at, from, to, false)
    list[#list + 1] = part_of(group, at, math.max(from, to + 1), model.layers, true)
    if at > model.layers then list[#list + 1] = group end -- modules of multi-token prediction
    at = at + group.count
  end
  return list
end

-- The distinct kinds of layers, and the model's layers as runs of { kind, layers }.
local function kinds_of(all)
  local kinds, runs, number = {}, {}, {}
  for _, group in ipairs(all) do
    if not number[group.key] then
      kinds[#kinds + 1] = group
      number[group.key] = #kinds
    end
    runs[#runs + 1] = { number[group.key], group.count }
  end
  return kinds, runs
end

-- Duplicates the kinds after all others, if some layers are recomputed, or offloaded, and others are not.
local TWINS <const> = { recompute = ", recomputed", offload = ", offloaded" }

local function with_twins(kinds, how)
  local all = table.move(kinds, 1, #kinds, 1, {})
  for i, kind in ipairs(kinds) do
    all[#kinds + i] = setmetatable({ key = kind.key .. how, group = kind }, { __index = kind })
  end
  return all
end

-- The lists of the blocks' ops.
local function ops_of(blocks, model, share)
  local list = {}
  for i, block in ipairs(blocks) do list[i] = block:ops(model, share) end
  return list
end

local function narrowed_by(list, precision)
  if precision.stored then return narrowed.stored(list, precision.stored, precision.products) end
  return narrowed.block(list, precision)
end

-- The ops in a precision. blocks: those around the layers, of which only blocks with layers of their own are narrowed.
local function in_precision(lists, precision, blocks)
  for i, list in ipairs(precision and lists or {}) do
    if not blocks or blocks[i].has_layers then lists[i] = narrowed_by(list, precision) end
  end
  return lists
end

-- A block of the library as the core joins it, of remembered ops; a table of such where it consists of others.
local function remembered(block, model, share, sizes, precision, memory)
  local lists = memo.lists(memory, block, model, share)
  if precision then
    local ops = memo.joint(memory, lists)
    ops.narrowed = ops.narrowed or narrowed_by(ops, precision)
    return memo.block(memory, ops.narrowed, sizes)
  end
  if #lists == 1 then return memo.block(memory, lists[1], sizes) end
  for i, list in ipairs(lists) do lists[i] = memo.block(memory, list, sizes) end
  return lists
end

-- A group's block named attention, or all blocks if there is none.
local function attention_blocks(group)
  for _, block in ipairs(group.blocks) do
    if block.name == "attention" then return { block } end
  end
  return group.blocks
end

local metatable = { __index = sections }

--- A model cut by one strategy. o: as layout.of takes them (tperf/describe/workload.lua).
---@return table sections  with kinds, runs, has_ends, and the methods below
function sections.new(model, s, attention, rules, o)
  local plan = architecture.of(model, rules, o.apart, o.tuning)
  local kinds, runs = kinds_of(groups_of(plan, model, o.precision))
  local plain = o.twins and #kinds or 0 -- number of kinds without full recomputation
  if o.twins then kinds = with_twins(kinds, TWINS[o.twins]) end
  return setmetatable({
    model = model, strategy = s, attention = attention, rules = rules, precision = o.precision, tuning = o.tuning,
    twins = o.twins, plan = plan, kinds = kinds, runs = runs, plain = plain, has_ends = #plan.first + #plan.last > 0,
    memory = s.built_in and not model.architecture and memo.new(s) or nil, -- others may have side effects
  }, metatable)
end

-- One GPU's share, with the group's own sequence length if it has one. own: blocks and strategy are the library's.
local function share_of(all, group, sizes, micro_batch, variant, own)
  local precision, tuning = all.precision, all.tuning
  local trains = precision and not precision.stored and not group.wide and precision or nil
  local options = { seq = group.seq, precision = trains }
  for name, value in pairs(variant) do options[name] = value end
  local sequences = tuning and tuning.sequences or 1 -- per sample
  local share = strategy.share(all.strategy, all.model, micro_batch * sequences, sizes, all.rules, options, own)
  share.attention, share.tuning = all.attention, tuning
  return share
end

-- Some blocks as a section. around: they are around the layers; memory: nil: makes lists of ops.
local function section_of(all, blocks, share, sizes, precision, around, memory)
  if not memory then return in_precision(ops_of(blocks, all.model, share), precision, around and blocks) end
  local list = {}
  for i, block in ipairs(blocks) do
    local narrows = precision and (not around or block.has_layers) and precision
    list[i] = remembered(block, all.model, share, sizes, narrows, memory)
  end
  return list
end

-- The sections for one shape, and the bytes that a micro-batch sends to the next stage.
local function lay_out(all, sizes, micro_batch, variant, memory)
  local model, kinds, plan, part, tuning = all.model, all.kinds, all.plan, variant.part, all.tuning
  local share = share_of(all, {}, sizes, micro_batch, variant, memory ~= nil)
  local list, widest = {}, share:boundary(model.hidden)
  for i, group in ipairs(kinds) do
    local own = (group.seq or group.wide) and share_of(all, group, sizes, micro_batch, variant, memory ~= nil) or share
    own.group = group.group or group
    own.recompute = i <= all.plain and variant.recompute == "full" and "none" or variant.recompute
    own.offload = all.twins == "offload" and i > all.plain or nil
    local blocks = part == "last" and {} or part and attention_blocks(group) or group.blocks
    list[i] = section_of(all, blocks, own, sizes, not group.wide and all.precision, false, memory)
    if group.seq then widest = math.max(widest, own:boundary(model.hidden)) end
  end
  share.group, share.recompute, share.offload = nil, variant.recompute, nil
  list[#kinds + 1] = section_of(all, part and {} or plan.first, share, sizes, nil, true, memory)
  local last = part == "attention" and {} or plan.last
  list[#kinds + 2] = section_of(all, last, share, sizes, all.precision, true, memory)
  -- A reference model's activations are sent forward, too: one message in three.
  return list, ELEMENT_BYTES * widest * (tuning and tuning.reference and 1.5 or 1)
end

--- The sections as tperf.core.workload takes them, and the bytes that a micro-batch sends to the next stage.
---@param sizes integer[]
---@param micro_batch integer
---@param variant table
---@return table[] list, number bytes
function sections:blocks(sizes, micro_batch, variant) return lay_out(self, sizes, micro_batch, variant, self.memory) end

--- The sections as lists of lists of ops.
---@return table[][] list
function sections:ops(sizes, micro_batch, variant) return (lay_out(self, sizes, micro_batch, variant)) end

return sections
