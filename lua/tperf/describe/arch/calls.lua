--- Calls the functions of the blocks of a custom architecture, and refuses what they leave out of a question: an axis
--- that they read and the strategy lacks, and all that attention written as an op cannot follow, as share:attention
--- does.
local block = require "tperf.describe.block"
local eager = require "tperf.describe.arch.eager"
local op = require "tperf.describe.op"
local order = require "tperf.describe.strategy.order"
local recall = require "tperf.describe.arch.recall"
local refusal = require "tperf.base.refusal"

local calls = {}

-- Whether a name is that of an axis of some strategy.
local function is_axis(name)
  for _, s in ipairs(order) do
    if s.index[name] then return true end
  end
  return false
end

-- An axis that the strategy lacks is nil in a share. Where that ends a block, the strategy cannot cut it.
local function unless_failed(one, p, ok, ops, reason)
  if ok then return block.result(one.name, ops, reason) end
  local name = type(ops) == "string" and ops:match "a nil value %(field '([%w_]+)'%)"
  if name and is_axis(name) and p[name] == nil then
    refusal.raise("block '%s' reads p.%s, and strategy '%s' has no axis '%s': it has %s", one.name, name, p.name, name,
      table.concat(p.axis_names, ", "))
  end
  error(ops, 0)
end

-- The heads of a layer as a script's products see them. An exchange, which brings attention other ones, belongs to
-- share:attention.
local function heads_of(p, reads)
  return function(_, ...)
    local cut = p:heads(...) -- p: notes what this reads, too
    reads.cut = cut
    if not cut.projected then return cut end
    local seen = { projected = cut.projected }
    for field, value in next, cut.projected do seen[field] = value end
    return seen
  end
end

-- A group as a block sees it that has fields nearly called as those that tperf reads: notes which of them it reads.
local function group_of(p, group)
  local near, read = p.recalled and p.recalled.near[group.key], p.recalled and p.recalled.read
  if not near then return group end
  local function note(field)
    if near[field] then read[group.key .. " " .. field] = true end
  end
  return setmetatable({}, {
    __index = function(_, field)
      note(field)
      return group[field]
    end,
    __newindex = group,
    __pairs = function()
      for field in next, near do note(field) end
      return pairs(group)
    end,
  })
end

-- The share as a block sees it: notes the fields that it, and the cuts that it calls, read. path: of recall.path.
local function watched(p, of_script, path)
  local reads = {}
  local itself = recall.noting(path, p)
  local heads = of_script and heads_of(itself, reads)
  return setmetatable({ itself = itself }, {
    __index = function(_, field)
      reads[field] = true
      if field == "heads" and heads then return heads end
      local value = itself[field]
      return field == "group" and value and group_of(p, value) or value
    end,
    __newindex = function(_, field, value) itself[field] = value end,
    __pairs = function()
      path.open = true
      return pairs(p)
    end,
  }), reads
end

-- What the function of a block returned for a share, or for an earlier one that agrees in all that it reads: its ops,
-- and the fields that it read.
local function made_of(one, m, p)
  local memory, path = one.of_script and p.recalled and p.recalled.of and p.recalled or nil, recall.path()
  local known = memory and recall.find(memory, one, p)
  if known and known.refused then refusal.raise("%s", known.refused) end
  if known then return recall.copies(known.ops), known.reads end
  local seen, reads = watched(p, one.of_script, path)
  local done, ops = pcall(function() return unless_failed(one, p, pcall(one.build, m, seen)) end)
  local refused = not done and refusal.text_of(ops) or nil
  if memory and (done or refused) then
    recall.keep(memory, one, path, { ops = done and recall.copies(ops) or nil, reads = reads, refused = refused })
  end
  if not done then error(ops, 0) end
  return ops, reads
end

-- An op of a script's block as the engine or the stack of the share runs it: serving engines add the branch to the
-- stream in the next norm's kernel; PyTorch without a compiler rotates and gates in several kernels.
local function as_run(one, p)
  local role, elements = one:role()
  if role == "residual" and p.mode ~= "train" then
    local c = one:counts()
    return op.residual { name = c.name, dtype = c.dtype, elements = elements, fused = true }:occur(one:times())
  elseif role == "rotary" and p.eager then
    return eager.rotary(p, one:copy(), elements)
  elseif role == "gate" and p.eager then
    local copy = one:copy()
    eager.gate(p, copy, elements)
    return copy
  end
  return one
end

local HALF <const> = 0.5 -- of all pairs: fewer see each other where a causal mask hides more than the later tokens

-- What attention written as an op leaves out of a question; nil: nothing.
local function unanswered(one, p, reads)
  local _, _, _, keys = one:kept()
  local cut = reads.cut or {}
  if p.attention ~= "flash" and not reads.attention then return ("attention = \"%s\""):format(p.attention) end
  if p.kv_dtype and p.kv_dtype ~= "bf16" and not reads.kv_dtype then return ("kv_dtype = \"%s\""):format(p.kv_dtype) end
  if p.fused_dtype and not reads.fused_dtype then return ("attention in %s"):format(p.fused_dtype) end
  if p.mode == "train" and p.model.packing and one:seen_part() >= HALF then return "packing" end
  if (cut.key_shards or 1) > 1 and keys == p.context + p.seq then
    return ("%d shards of the keys over %s"):format(cut.key_shards, cut.key_axis)
  end
  if cut.projected then return "an all-to-all of heads around attention" end
  if cut.ring and cut.shards > 1 and not one:is_ring() then return "keys that pass from GPU to GPU in a ring" end
end

local function check_attention(name, one, p, reads)
  local _, _, _, keys = one:kept()
  reads.seen = reads.seen or keys > 0 and one:seen_part() < HALF -- packed documents, which the model has
  local what = keys > 0 and not one:belongs "core_attn" and unanswered(one, p, reads)
  if what then
    refusal.raise("block '%s' does not answer %s: its op '%s' is attention written as an op; share:attention follows "
      .. "the question", name, what, one:counts().name)
  end
end

-- Refuses what is only for serving. A backward pass needs the transposed weights, which are not sparse that way, and
-- updates need all of them.
local function check_trains(name, one, p)
  if p.mode ~= "train" then return end
  if one:is_on_host() and one:has_weight_product() and one:trained() > 0 then
    refusal.raise("block '%s', op '%s': a product whose weights are on the host is not trained there: op.frozen says "
      .. "so, and offload_optimizer keeps the state of trained weights on the host", name, one:counts().name)
  end
  if not one:is_sparse() then return end
  refusal.raise("block '%s', op '%s': sparse products are those of serving, training multiplies whole ones: give "
    .. "sparse = p.mode ~= \"train\"", name, one:counts().name)
end

--- The tokens of a sequence with as many more as it takes for the GPUs that share it to have equal parts.
---@param p table
---@param seq integer
---@return integer
function calls.padded(p, seq)
  local shards = p.sequence_shards(p)
  return (seq + shards - 1) // shards * shards
end

-- A share in which some fields differ; what is written goes to the share itself.
local function changed(p, own)
  return setmetatable(own, {
    __index = function(_, field) return p[field] end,
    __newindex = function(_, field, value) p[field] = value end,
  })
end

-- The shares of a group with a sequence of its own in serving, { share, how often it runs } each; none: it does not. A
-- group with `seq` encodes something, once, when the prompt is read. One with a `rate` has so many tokens for each of
-- the model's. In a step of decoding, on average, that many of the batch's sequences have one: with 1.75 of them, one
-- step in four has 1 and three have 2. From 1 on, each has several, one step after the other.
local function shares_of(p)
  local group = p.group
  local rate, seq = group and group.rate, group and group.seq
  if p.mode == "train" or not seq then return { { p, 1 } } end
  local context = rate and math.floor(rate * p.context) or 0
  if p.mode ~= "decode" then
    seq = rate and math.max(math.floor(rate * p.seq), 1) or seq
    if group.padded then seq = calls.padded(p, seq) end
    return { { changed(p, { seq = seq, tokens = seq * p.micro_batch, context = context }), 1 } }
  end
  if not rate then return {} end
  local function rows(n, times)
    return { changed(p, { micro_batch = n, tokens = n * p.seq, context = context }), times }
  end
  local mean = rate * p.micro_batch
  local least = math.floor(mean + 1e-9) -- a third of 3
  if rate >= 1 then return { rows(p.micro_batch, rate) } end
  if least < 1 then return { rows(1, mean) } end
  if mean - least < 1e-9 then return { rows(least, 1) } end
  return { rows(least, 1 - (mean - least)), rows(least + 1, mean - least) }
end

-- The ops of a block for the share of its group, checked.
local function called(one, m, p)
  local ops, reads = made_of(one, m, p)
  if p.notes then p.notes[#p.notes + 1] = { block = one.name, of_script = one.of_script, reads = reads, ops = ops } end
  for i = 1, one.of_script and #ops or 0 do
    check_attention(one.name, ops[i], p, reads)
    check_trains(one.name, ops[i], p)
    ops[i] = as_run(ops[i], p)
  end
  return ops
end

--- The ops of a block for a share, checked.
---@param one table  a block
---@param m table
---@param p table
---@return table[] ops  with the block's `name`
function calls.block(one, m, p)
  local list = { name = one.name }
  for i, one_of in ipairs(shares_of(p)) do
    local share, times = table.unpack(one_of)
    local ops = called(one, m, share)
    if times == 1 and i == 1 then return ops end
    for k = 1, #ops do
      -- the first one's weights and cache are those of all
      local copy = i == 1 and ops[k]:copy() or ops[k]:lent():keep {}
      list[#list + 1] = copy:occur(times)
    end
  end
  return list
end

return calls
