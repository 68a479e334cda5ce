--- The sections of a model's workload: the blocks of each kind of layer, of what precedes the layers and of what
--- follows them, with their ops for one shape.
local captured = require "tperf.describe.captured"
local core = require "tperf.core"
local lazy = require "tperf.base.lazy"
local calls = lazy.module "tperf.describe.arch.calls"
local blocks_of = require "tperf.describe.arch.plan".of
local forms = require "tperf.describe.layout.forms"
local memo = require "tperf.describe.layout.memo"
local recall = lazy.module "tperf.describe.arch.recall"
local idle = lazy.module "tperf.describe.layout.idle"
local narrowed = lazy.module "tperf.describe.arch.narrowed"
local refusal = require "tperf.base.refusal"
local shared_weights = lazy.module "tperf.describe.layout.shared"
local stated = require "tperf.describe.model.stated"
local strategy = require "tperf.describe.strategy"

local sections = {}

local ELEMENT_BYTES <const> = 2 -- per activation sent between pipeline stages

-- The part of a group within the model's layers from..to; at: the group's first layer; nil: empty. wide: stays in 16
-- bits.
local function part_of(group, at, from, to, wide)
  local count = math.min(at + group.count - 1, to) - math.max(at, from) + 1
  if count <= 0 then return nil end
  return setmetatable({ count = count, in_16_bits = wide, key = wide and group.key .. " in 16 bits" or group.key },
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

local MOST_KINDS <const> = 64 -- TPERF_KINDS_MAX
local TOGETHER <const> = { recompute = " with the recomputed ones", offload = " with the offloaded ones" }

-- Duplicates the kinds after all others, if some layers are recomputed, or offloaded, and others are not.
local TWINS <const> = { recompute = ", recomputed", offload = ", offloaded" }

local function with_twins(kinds, how)
  local all = table.move(kinds, 1, #kinds, 1, {})
  for i, kind in ipairs(kinds) do
    all[#kinds + i] = setmetatable({ key = kind.key .. how, group = kind }, { __index = kind })
  end
  return all
end

local function narrowed_by(list, precision)
  if precision.parts then return narrowed.stored(list, precision.parts) end
  return narrowed.block(list, precision)
end

-- A group's block named attention, or all blocks if there is none, or if a script named them.
local function attention_blocks(group, model)
  if model.architecture then return group.blocks end
  for _, block in ipairs(group.blocks) do
    if block.name == "attention" then return { block } end
  end
  return group.blocks
end

local plans = setmetatable({}, { __mode = "k" }) -- model -> rules -> strategy and options -> what `planned` returns

local recalled = setmetatable({}, { __mode = "k" }) -- model, with what its functions captured -> strategy -> memory

-- What the functions of an architecture's blocks returned, and of a model that anything may change only what they read
-- of their groups.
local function recalled_of(model, s, groups)
  local known, key = recalled[model] or {}, s.name .. captured.of_strategy(s)
  local memory = known[key] or recall.new()
  if captured.is_variant(model) then recalled[model], known[key] = known, memory else memory.of = nil end
  for _, group in ipairs(model.architecture.groups and groups or {}) do memory.near[group.key] = stated.near(group) end
  return memory
end

-- The model's blocks, and what is remembered of them: the same for all precisions, which few blocks depend on.
local function planned(model, s, attention, rules, o)
  if not s.built_in or model.architecture then -- functions of a script
    local plan = blocks_of(model, rules, o.apart, o.tuning)
    return { of = plan, recalled = model.architecture and recalled_of(model, s, plan.groups) or nil }
  end
  local key = ("%s %s %s %s"):format(s.name, attention, o.apart, o.tuning and o.tuning.key)
  plans[model] = plans[model] or setmetatable({}, { __mode = "k" })
  local known = plans[model][rules] or {}
  plans[model][rules] = known
  known[key] = known[key] or { of = blocks_of(model, rules, o.apart, o.tuning), memory = memo.new(s, rules) }
  return known[key]
end

local metatable = { __index = sections }

--- A model cut by one strategy. o: as layout.of takes them (tperf/describe/workload.lua).
---@return table sections  with kinds, runs, has_ends, and the methods below
function sections.new(model, s, attention, rules, o)
  local shared = planned(model, s, attention, rules, o)
  local plan = shared.of
  local kinds, runs = kinds_of(groups_of(plan, model, o.precision))
  local plain = o.twins and #kinds or 0 -- number of kinds without full recomputation
  if o.twins then kinds = with_twins(kinds, TWINS[o.twins]) end
  if #kinds > MOST_KINDS then
    refusal.raise("model '%s' has %d kinds of layers, at most %d%s; groups with the same fields are one kind: leave "
      .. "out fields that change no op", model.name, #kinds, MOST_KINDS, o.twins and TOGETHER[o.twins] or "")
  end
  return setmetatable({
    model = model, strategy = s, attention = attention, rules = rules, precision = o.precision, tuning = o.tuning,
    twins = o.twins, plan = plan, kinds = kinds, runs = runs, plain = plain, has_ends = #plan.first + #plan.last > 0,
    memory = shared.memory, recalled = shared.recalled, scripted = not shared.memory,
  }, metatable)
end

-- One GPU's share, with the group's own sequence length if it has one. own: blocks and strategy are the library's.
local function share_of(all, group, sizes, variant, own)
  local precision, options = all.precision, { seq = group.seq }
  for name, value in pairs(precision and not group.in_16_bits and precision.share or {}) do options[name] = value end
  for name, value in pairs(variant) do options[name] = value end
  local share = strategy.share(all.strategy, all.model, 1, sizes, all.rules, options)
  share.attention, share.tuning, share.recalled = all.attention, all.tuning, all.recalled
  if own and not (precision and precision.share) then memo.classify(all.memory, variant, share) end
  if group.padded and group.seq then
    share.seq = calls.padded(share, share.seq)
    share.tokens = share.micro_batch * share.seq
  end
  return own and setmetatable(share, all.strategy.own_metatable) or share
end

--- One GPU's share of a layer of a kind, for one sample.
function sections:share(sizes, variant, group)
  local share = share_of(self, group or {}, sizes, variant)
  share.group = group
  return share
end

-- What a model's sections consist of, in order, for one variant: each with its blocks, the group and the recomputation
-- that the share says, whether it is offloaded, and the precision of all its blocks, or of those with layers of their
-- own (`around`).
local function parts_of(all, variant)
  local list, plan, part = {}, all.plan, variant.part
  for i, group in ipairs(all.kinds) do
    list[i] = {
      blocks = part == "last" and {} or part and attention_blocks(group, all.model) or group.blocks, own = group,
      group = group.group or group, precision = not group.in_16_bits and all.precision or nil,
      recompute = i <= all.plain and variant.recompute == "full" and "none" or variant.recompute,
      offload = all.twins == "offload" and i > all.plain or nil,
    }
  end
  local last = part == "attention" and {} or plan.last
  list[#list + 1] = { blocks = part and {} or plan.first, recompute = variant.recompute,
    precision = all.precision, around = true }
  list[#list + 1] = { blocks = last, recompute = variant.recompute, precision = all.precision, around = true }
  return list
end

-- The parts for some sizes, each with its share; and the shares.
local function series_of(all, sizes, variant, own)
  local plain = share_of(all, {}, sizes, variant, own)
  local list, shares = parts_of(all, variant), { plain }
  for _, part in ipairs(list) do
    local group = part.own
    part.share = plain
    if group and (group.seq or group.in_16_bits) then
      part.share = share_of(all, group, sizes, variant, own)
      part.reaches = group.seq ~= nil -- its boundary differs
      shares[#shares + 1] = part.share
    end
  end
  return { of = all, parts = list, shares = shares, plain = plain }
end

local function set_part(part)
  local share = part.share
  share.group, share.recompute, share.offload = part.group, part.recompute, part.offload
  return share
end

local function set_micro_batch(all, series, micro_batch)
  local sequences = all.tuning and all.tuning.sequences or 1 -- per sample
  for _, share in ipairs(series.shares) do
    share.micro_batch = micro_batch * sequences
    share.tokens = share.micro_batch * share.seq
  end
end

-- Tokens of this GPU's stream, by which ops are remembered (tperf/describe/layout/memo.lua).
local function set_streams(series)
  for _, share in ipairs(series.shares) do
    share.stream = nil -- what it was before
    share.stream = share:outer_tokens()
  end
end

-- Elements of the stream that a micro-batch brings to a kind of custom layers, and of what travels beside it. The
-- stream is as wide as the group says; else as the layer's first op, if that is a norm or a product; else as the model.
local function elements_into(all, part)
  local share, group, hidden = part.share, part.own, all.model.hidden
  local usual = share:boundary(hidden)
  local carried = (group.carries or 0) * usual / (share.seq * hidden)
  if group.width then return share:boundary(group.width) + carried end
  return usual * (part.input and part.input / (2 * share:outer(hidden)) or 1) + carried
end

-- The elements of a micro-batch's largest message between layers of an architecture. None reaches the first layer.
local function widest_of(all, series)
  local widest, count = 0, {}
  for _, run in ipairs(all.runs) do count[run[1]] = (count[run[1]] or 0) + run[2] end
  for i, part in ipairs(series.parts) do
    local reached = part.own and not (i == all.runs[1][1] and count[i] == 1)
    if reached then widest = math.max(widest, elements_into(all, part)) end
  end
  return widest > 0 and widest or series.plain:boundary(all.model.hidden)
end

-- Bytes of a micro-batch's message to the next stage, and the number of GPUs that have the same message and send a part
-- of it each. A reference model's activations are sent forward, too: one message in three.
local function boundary_of(all, series)
  local plain = series.plain
  local widest = all.model.architecture and widest_of(all, series) or plain:boundary(all.model.hidden)
  for _, part in ipairs(all.model.architecture and {} or series.parts) do
    if part.reaches then widest = math.max(widest, part.share:boundary(all.model.hidden)) end
  end
  local parts = plain.scatter_messages and plain.boundary_copies and plain:boundary_copies() or 1
  return ELEMENT_BYTES * widest * (all.tuning and all.tuning.reference and 1.5 or 1), parts
end

-- Which precision narrows the block; nil: none. Tables stay in 16 bits unless a checkpoint's format is said of them.
local function narrows(part, block)
  local r = part.precision
  return (not part.around or block.has_layers or r and r.ends) and r or nil
end

-- Of ops of a layer whose input has one name, the one with the largest part of it keeps it; others that do not run
-- again in the backward pass borrow it.
local function keep_inputs_once(section)
  local keeper = {}
  for _, block in ipairs(section) do
    for _, one in ipairs(block) do
      local name = one:reads()
      if name and one:input_bytes() > 0 and one:saved_bytes() >= one:input_bytes() and not one:is_recomputed() then
        local before = keeper[name]
        local larger = not before or one:input_bytes() > before:input_bytes()
        if before then (larger and before or one):borrow_input() end
        keeper[name] = larger and one or before
      end
    end
  end
end

--- The sections as lists of lists of ops, and the bytes and parts of a micro-batch's message to the next stage.
---@param sizes integer[]
---@param micro_batch integer
---@param variant table  with `notes`, a list: it receives what blocks of an architecture read
---@return table[][] list, number bytes, integer parts
function sections:ops(sizes, micro_batch, variant)
  local series, list = series_of(self, sizes, variant, self.memory ~= nil), {}
  local asks = self.model.architecture and (self.attention ~= "flash" or variant.kv_dtype or self.model.packing)
  local notes = variant.notes or asks and {} or nil
  set_micro_batch(self, series, micro_batch)
  for i, part in ipairs(series.parts) do
    local share, section = set_part(part), {}
    share.input, share.notes = nil, notes
    for k, block in ipairs(part.blocks) do
      local precision = narrows(part, block)
      section[k] = block:ops(self.model, share)
      if precision then section[k] = narrowed_by(section[k], precision) end
    end
    if self.model.architecture then keep_inputs_once(section) end
    list[i], part.input = section, share.input
  end
  if self.recalled and next(self.recalled.near) and not variant.part then idle.check_fields(self) end
  if asks and not variant.part then idle.check(self, notes, variant) end
  if self.model.architecture then shared_weights.extract(list) end
  return list, boundary_of(self, series)
end

-- Makes shares tell whether somebody asks for their context, which is not a field of theirs then.
local function watch(series, context)
  for _, share in ipairs(series.shares) do
    local index = getmetatable(share).__index
    share.context = nil
    setmetatable(share, { __index = function(asked, field)
      if field ~= "context" then return index(asked, field) end
      context.asked = true
      return context.tokens
    end })
  end
end

-- Decode steps whose sections share weights, which are theirs together: all blocks are called for each.
local function steps_together(all, sizes, micro_batch, variant)
  return function(tokens)
    local copy = {}
    for name, value in next, variant do copy[name] = value end
    copy.context = tokens
    return (all:ops(sizes, micro_batch, copy))
  end
end

-- Decode steps as a function of the earlier tokens. Blocks that never ask for these are called once.
local function steps_of(all, sizes, micro_batch, variant)
  local series, context, fixed, grid = series_of(all, sizes, variant, false), {}, {}, all.strategy.grid
  set_micro_batch(all, series, micro_batch)
  watch(series, context)
  local function one(part, block)
    local precision, list = narrows(part, block), block:ops(all.model, set_part(part))
    return precision and narrowed_by(list, precision) or list
  end
  return function(tokens)
    local list = {}
    context.tokens = tokens
    for i, part in ipairs(series.parts) do
      local section, known = {}, fixed[i] or {}
      fixed[i] = known
      for k, block in ipairs(part.blocks) do
        context.asked = false
        section[k] = known[k] or core.block(grid, sizes, one(part, block))
        if not context.asked then known[k] = section[k] end
      end
      list[i] = section
    end
    return list
  end
end

--- The sections of decode steps of one shape, as sections:ops returns them: a function of the earlier tokens.
---@return fun(tokens: integer): table[][] list
---@return number bytes, integer parts
function sections:steps(sizes, micro_batch, variant)
  local list, boundary, parts = self:ops(sizes, micro_batch, variant)
  local make = list.holders and steps_together or steps_of
  return make(self, sizes, micro_batch, variant), boundary, parts
end

-- The series of some sizes with the jobs of its blocks, which shapes that differ in the micro-batch alone share.
local function remembered_series(all, sizes, variant, kept)
  if kept and kept.series and kept.series.of == all then return kept.series end
  local series = series_of(all, sizes, variant, true)
  series.list = {}
  for i, part in ipairs(series.parts) do
    local share = set_part(part)
    part.jobs, series.list[i] = {}, {}
    for k, block in ipairs(part.blocks) do
      part.jobs[k] = memo.jobs(all.memory, block, all.model, share)
      part.jobs[k].precision = narrows(part, block)
    end
  end
  if kept then kept.series = series end
  return series
end

-- A block as the core joins it, of remembered ops; a table of such where it consists of others. A precision's ops keep
-- to no line: there is one scale for so many numbers.
local function remembered(all, jobs, share, sizes)
  local grid = all.strategy.grid
  if not jobs.precision then
    local blocks = memo.blocks(grid, jobs, all.model, share, sizes)
    return #blocks == 1 and blocks[1] or blocks
  end
  local blocks = forms.narrowed(all.memory.joints, memo.lists(jobs, all.model, share), jobs.precision)
  for i = 1, #blocks do blocks[i] = forms.block(grid, blocks[i], sizes, memo.hold) end
  return #blocks == 1 and blocks[1] or blocks
end

--- Whether a variant's blocks are remembered. In serving, shapes without experts share too few ops to be worth it.
---@return boolean
function sections:remembers(variant)
  if not self.memory then return false end
  return self.model.experts ~= nil or variant.mode == nil or variant.mode == "train"
end

--- The sections as tperf.core.workload takes them, and the bytes and parts of a micro-batch's message to the next
--- stage. The lists are filled anew for the next shape.
---@param sizes integer[]
---@param micro_batch integer
---@param variant table
---@param kept table?  of these sizes and this variant, for what their shapes share: its `series`, until memo.forget
---@return table[][] list, number bytes, integer parts
function sections:blocks(sizes, micro_batch, variant, kept)
  if not self:remembers(variant) then return self:ops(sizes, micro_batch, variant) end
  local series = remembered_series(self, sizes, variant, kept)
  local parts, list = series.parts, series.list
  set_micro_batch(self, series, micro_batch)
  set_streams(series)
  for i = 1, #parts do
    local part, section = parts[i], list[i]
    local share, jobs = set_part(part), part.jobs
    for k = 1, #jobs do section[k] = remembered(self, jobs[k], share, sizes) end
  end
  return list, boundary_of(self, series)
end

return sections
