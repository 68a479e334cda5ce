--- What the blocks of a custom architecture leave out of a question, without a word of their own: GPUs of an axis that
--- each do all of a block's work, dtypes that it does not read, questions that no block reads.
local check = require "tperf.base.check"
local axes = require "tperf.describe.strategy.axes"
local refusal = require "tperf.base.refusal"

local idle = {}

local SAME <const> = 1 - 1e-6 -- of a block's work on one GPU of an axis, if the others save it nothing

local function copy_of(variant)
  local copy = {}
  for name, value in pairs(variant) do copy[name] = value end
  return copy
end

-- What the blocks do and read in a layout: { { block, of_script, reads, ops } … }; nil: they refuse it.
local function notes_of(all, sizes, micro_batch, variant)
  local notes, copy = {}, copy_of(variant)
  copy.notes = notes
  return refusal.attempt(function()
    all:ops(sizes, micro_batch, copy)
    return notes
  end)
end

-- The work of a block's forward pass: FLOPs of products, or the bytes that it moves, if it has none.
local function work_of(ops)
  local flops, bytes = 0, 0
  for _, one in ipairs(ops) do
    local forward = one:counts().forward
    flops, bytes = flops + forward.tensor_flops, bytes + forward.bytes
  end
  return flops, bytes
end

-- Whether the GPUs of an axis save a block nothing. Passes over the stream stay whole where the stream does.
local function saves_nothing(here, alone, splits_stream)
  local flops, bytes = work_of(here.ops)
  local all_flops, all_bytes = work_of(alone.ops)
  if all_flops > 0 then return flops >= SAME * all_flops end
  return splits_stream and all_bytes > 0 and bytes >= SAME * all_bytes
end

local function cuts_work(axis)
  return not axis.folds and (axes.cuts(axis, "tokens") or axes.cuts(axis, "weights") or axes.cuts(axis, "features"))
end

local function add(list, text)
  if list[text] then return end
  list[text], list[#list + 1] = true, text
end

local function check_axis(list, all, sizes, micro_batch, variant, i)
  local axis, one = all.strategy.axes[i], table.move(sizes, 1, #sizes, 1, { dp = sizes.dp })
  one[i] = 1
  local here, alone = notes_of(all, sizes, micro_batch, variant), notes_of(all, one, micro_batch, variant)
  if not (here and alone and #here == #alone) then return end
  for k, note in ipairs(here) do
    local splits_stream = axes.cuts(axis, "tokens") or variant.sequence_parallel ~= false
    if note.of_script and note.block == alone[k].block and saves_nothing(note, alone[k], splits_stream) then
      add(list, ("block '%s' does all of its work on each of %d GPUs of %s"):format(note.block, sizes[i], axis.name))
    end
  end
end

local UNREAD <const> = {
  weight_dtype = "its weights stay in 16 bits", matrix_dtype = "its products stay in 16 bits",
}

-- Whether an op is attention that sees no token of the cache.
local function sees_nothing(one, variant)
  local _, _, _, keys, _, stated = one:kept()
  return not stated and keys > 0 and keys <= variant.seq
end

local function check_reads(list, all, sizes, micro_batch, variant)
  local decodes = variant.mode == "decode" and variant.context > variant.seq
  for _, note in ipairs(notes_of(all, sizes, micro_batch, variant) or {}) do
    local held = 0
    for _, one in ipairs(note.ops) do
      held = held + (one:has_own_format() and 0 or one:parameters())
      if decodes and note.of_script and sees_nothing(one, variant) then
        add(list, ("block '%s', op '%s': attention sees none of the cached tokens: give keys = p.context + p.seq")
          :format(note.block, one:counts().name))
      end
    end
    for field, what in pairs(note.of_script and held > 0 and UNREAD or {}) do
      local value = variant[field]
      if value and value ~= "bf16" and not note.reads[field] then
        add(list, ("block '%s' does not read %s: %s"):format(note.block, field, what))
      end
    end
  end
end

--- Sentences about a layout of an architecture.
---@param all table        of tperf.describe.layout.sections
---@param sizes integer[]  of the strategy's axes
---@param micro_batch integer
---@param variant table
---@return string[]? list  nil: nothing
function idle.warnings(all, sizes, micro_batch, variant)
  local list = {}
  for i, axis in ipairs(all.strategy.axes) do
    if sizes[i] > 1 and cuts_work(axis) then check_axis(list, all, sizes, micro_batch, variant, i) end
  end
  check_reads(list, all, sizes, micro_batch, variant)
  return list[1] and table.move(list, 1, #list, 1, {}) or nil
end

--- Raises if a group has a field that no block reads and that is nearly called as one that tperf reads.
---@param all table
function idle.check_fields(all)
  for key, near in pairs(all.recalled.near) do
    for field, suggestion in pairs(near) do
      if not all.recalled.read[key .. " " .. field] then
        check.fail("tperf.architecture '%s': group '%s': nothing reads its field '%s'%s; a block that reads "
          .. "share.group.%s makes it yours", all.model.architecture.name, key, field, suggestion, field)
      end
    end
  end
end

--- Refuses a variant that no block reads.
---@param all table
---@param notes table[]  of the blocks of a layout
---@param variant table
function idle.check(all, notes, variant)
  local asked = {
    attention = all.attention ~= "flash" and all.attention or nil,
    kv_dtype = variant.kv_dtype ~= "bf16" and variant.kv_dtype or nil,
    packing = (variant.mode or "train") == "train" and all.model.packing and "" or nil,
  }
  for field, value in pairs(asked) do
    local read = false
    for _, note in ipairs(notes) do read = read or note.reads[field] or field == "packing" and note.reads.seen end
    if not read then
      refusal.raise("%s%s: no block of architecture '%s' reads it, so it would change nothing", field,
        value ~= "" and (" = \"%s\""):format(value) or "", all.model.architecture.name)
    end
  end
end

return idle
