--- What blocks of the library made, by what decides it: the variant, the sizes of the axes that cut the block, the
-- group's fields that concern it, and the micro-batch. A block says what it does not read:
--   dense       true, or function(share) -> true: the sizes of the axes of experts
--   part        "mixer": what a group says of MLPs and experts; "feed": what it says of attention and states. Both:
--               how losses and tables are computed
--   by_stream   function(share) -> true: the micro-batch, but for the tokens of this GPU's stream, and the other axes.
--               For experts, four samples on four GPUs are as many as two on two. A share has these as `stream`
--   linear      true: its counts are linear in the micro-batch; nothing is rounded or has bounds
-- Specs follow blocks through their shares and find that nothing else is read. Ops that are remembered never change
-- again. A layer's ops, joined to the sizes of its axes, are shared by all workloads that have them.
--
-- Of linear blocks the core makes the blocks of further micro-batches from those of the first two (tperf_op_on_line),
-- and Lua is not asked again.
local axes = require "tperf.describe.strategy.axes"
local block_on_line = require "tperf.core".block_on_line
local forms = require "tperf.describe.layout.forms"

local memo = {}

local MOST_OPS <const> = 49152 -- in all; each takes two KiB
local LARGE <const> = 128 << 10 -- KiB in use, from which what was forgotten goes at once: else as much may come again
local collectgarbage = collectgarbage -- scripts may lose it

local held, memories, listeners = 0, setmetatable({}, { __mode = "k" }), {}

--- Calls f whenever all that is remembered is forgotten: for whatever else keeps ops alive.
---@param f function
function memo.when_forgotten(f) listeners[#listeners + 1] = f end

--- Forgets all ops, and what keeps them alive.
function memo.forget()
  held = 0
  for memory in pairs(memories) do memory.leaves, memory.joints = {}, {} end
  for _, f in ipairs(listeners) do f() end
end

--- Counts ops that are held in memory; forgets everything if they are too many.
---@param count integer
function memo.hold(count)
  if held > MOST_OPS then
    memo.forget()
    if collectgarbage "count" > LARGE then collectgarbage() end
  end
  held = held + count
end

-- The positions of a strategy's axes: of experts, of state alone, which no block reads, and of all others.
local function places_of(s)
  local own = { [s.spread or false] = true, [s.expert_features or false] = true }
  local experts, others = {}, {}
  for _, axis in ipairs(s.axes) do
    local list = own[axis.name] and experts or not axes.cuts(axis, "state") and others or nil
    if list then list[#list + 1] = axis.name end
  end
  return experts, others
end

local function weak() return setmetatable({}, { __mode = "k" }) end

--- An empty memory of one layout: a model in one strategy, by some rules, with one attention and one tuning.
---@param s table      the strategy
---@param rules table
---@return table memory
function memo.new(s, rules)
  local experts, others = places_of(s)
  local memory = {
    experts = experts, others = others, by_stream = s.spread and rules.shards_divide_sequence, leaves = {},
    joints = {}, options = s.option_names, groups = { mixer = weak(), feed = weak(), layer = weak() }, known = weak(),
  }
  memories[memory] = true
  return memory
end

-- What a variant may say besides how layers are recomputed and offloaded, and what concerns the model's ends; and what
-- a precision says.
local CLASS <const> = { "mode", "context", "sequence_parallel", "dtype", "weight_dtype", "kv_dtype",
  "matrix_dtype", "state_dtype", "fused_activation", "fused_pointwise", "eager", "eager_ops", "norms",
  "grouped_kernels", "scatter_messages", "megatron_softmax", "overlap_shared_experts", "routing", "expert_calls",
  "delta", "part" }
local NARROW <const> = { "fused_dtype", "sent_element", "kept_element", "row_padding", "row_multiple", "fused_experts" }
local ENDS <const> = { "loss", "padded_vocabulary", "logits", "sampling" } -- which no layer reads
local RECOMPUTED <const> = { "recompute", "recompute_modules", "recompute_keep", "offload", "offload_modules",
  "cuda_graphs" }

local function words_of(share, names)
  local words = {}
  for i = 1, #names do words[i] = tostring(rawget(share, names[i])) end
  return table.concat(words, " ")
end

-- What a share says besides sizes, sequence, micro-batch, group, recomputation, offload and ends.
local function class_of(memory, share)
  local class = rawget(share, "class")
  if not class then
    class = words_of(share, CLASS) .. " " .. words_of(share, NARROW) .. " " .. words_of(share, memory.options)
    share.class = class
  end
  return class
end

--- The class of a variant's shares is found once. by: what decides it besides the memory.
---@param memory table
---@param by table
---@param share table
function memo.classify(memory, by, share)
  local class = memory.known[by] or class_of(memory, share)
  memory.known[by], share.class = class, class
end

-- Fields of a group that concern its layers' mixers, their MLPs or experts, or both.
local MIXER <const> = { "attention", "mamba", "delta", "window", "chosen", "reuses", "causal", "cross", "borrows" }
local FEED <const> = { "mlp", "ffn" }
local LAYER <const> = { "norms", "bare", "frozen", "stopped", "leading" }

--- The fields by which ops are remembered: a variant's and a group's. A spec compares them with what blocks read.
memo.fields = {
  class = table.move(CLASS, 1, #CLASS, 2, { "seq" }), narrow = NARROW, ends = ENDS, recomputed = RECOMPUTED,
  mixer = MIXER, feed = FEED, layer = LAYER,
}

local numbers, last = weak(), 0 -- of tables

local function number_of(one)
  if not one then return "" end
  if not numbers[one] then
    last = last + 1
    numbers[one] = last
  end
  return numbers[one]
end

local function add_fields(words, group, names)
  for _, name in ipairs(names) do words[#words + 1] = tostring(group[name]) end
end

-- What a group says that a block may read. Heads of its own are a table.
local function words_of_group(group, part)
  local words = {}
  add_fields(words, group, LAYER)
  if part ~= "feed" then
    add_fields(words, group, MIXER)
    words[#words + 1] = number_of(group.own)
  end
  if part ~= "mixer" then add_fields(words, group, FEED) end
  return table.concat(words, " ")
end

local function group_words(memory, group, part)
  if not group then return "" end
  local known = memory.groups[part or "layer"]
  known[group] = known[group] or words_of_group(group, part)
  return known[group]
end

-- The sizes of a list of axes, remembered in the share.
local function sizes_of(share, names)
  local known = rawget(share, names)
  if known then return known end
  local words = {}
  for i = 1, #names do words[i] = rawget(share, names[i]) end
  known = table.concat(words, " ")
  share[names] = known
  return known
end

-- What a block made for shares that differ in the micro-batch alone: lists of ops by the stream's tokens or by the
-- micro-batch, and the first two of these, `from` and `to`.
local function leaf_of(memory, block, share, group, plain)
  local said = block.unmarked or block
  local streams = memory.by_stream and share.sequence_parallel and said.by_stream and said.by_stream(share)
  local dense = said.dense
  if type(dense) == "function" then dense = dense(share) end
  local words = {
    class_of(memory, share), share.seq, plain and "" or words_of(share, RECOMPUTED),
    (said.part == "mixer" or said.part == "feed") and "" or words_of(share, ENDS),
    dense and "" or sizes_of(share, memory.experts), streams and "" or sizes_of(share, memory.others),
    group_words(memory, group, said.part),
  }
  local key = table.concat(words, "|")
  local leaves = memory.leaves[block] or {}
  memory.leaves[block] = leaves
  leaves[key] = leaves[key] or { by_stream = streams, lists = {} }
  return leaves[key]
end

-- Whether all that may change a block's ops is their full recomputation.
local function is_plain(share)
  return share.recompute ~= "selective" and not share.tuning and not share.cuda_graphs
    and not share.offload and not share.offload_modules
end

-- Appends what it takes to make a block's ops. full: they are recomputed; opens: the layer's first op is among them.
local function append(memory, block, model, share, jobs, group, full, opens)
  local plain = is_plain(share)
  if block.unmarked and plain then
    block, full, opens = block.unmarked, share.recompute == "full", block.opens
  end
  if block.pieces then
    for i, piece in ipairs(block.pieces(model, share)) do
      append(memory, piece.block, model, share, jobs, piece.group or group, full, opens and i == 1)
    end
    return
  end
  jobs[#jobs + 1] = {
    leaf = leaf_of(memory, block, share, group, plain), block = block, group = group, full = full, opens = opens,
    linear = (block.unmarked or block).linear,
  }
end

--- What it takes to make the ops of a block of the library for shares of one layer, variant and sizes, whatever the
--- micro-batch.
---@param memory table  of memo.new
---@param share table   of strategy.share
---@return table[] jobs  with the block's `name`
function memo.jobs(memory, block, model, share)
  local jobs = { name = block.name }
  append(memory, block, model, share, jobs, share.group)
  return jobs
end

local function key_of(leaf, share) return leaf.by_stream and share.stream or share.micro_batch end

-- What the job's block makes for this share.
local function ops_of(job, model, share)
  local leaf, block = job.leaf, job.block
  local key = key_of(leaf, share)
  local made = leaf.lists[key]
  if made then return made end
  local group = share.group
  share.group, share.block = job.group, block.name -- for messages
  made = block.build(model, share)
  share.group, made.name = group, block.name
  leaf.lists[key] = made
  if not leaf.from then leaf.from = key elseif not leaf.to then leaf.to = key end
  memo.hold(#made + 1)
  return made
end

-- Bytes of the layer's input that a job's block keeps under full recomputation.
local function kept_input(job, model, share) return job.opens and 2 * share:outer(model.hidden) or 0 end

-- The job's ops, recomputed if it says so.
local function list_of(job, model, share)
  local made = ops_of(job, model, share)
  return job.full and forms.recomputed(made, kept_input(job, model, share)) or made
end

--- The ops of a block, as block:ops returns them, in a list for each job.
---@param jobs table   of memo.jobs for such a share
---@param share table  the same but for its micro-batch
---@return table[] lists  with the block's `name`, for tperf/describe/layout/forms.lua alone
function memo.lists(jobs, model, share)
  local lists = { name = jobs.name }
  for i, job in ipairs(jobs) do lists[i] = list_of(job, model, share) end
  return lists
end

-- The block of a linear job on the line through those of the first two micro-batches; nil: it is not on it.
local function on_line(grid, job, model, share, sizes)
  local leaf = job.leaf
  local to, from = leaf.to, leaf.from
  if not to or not job.linear then return nil end
  local ahead, step = key_of(leaf, share) - from, to - from
  local steps = ahead // step
  if steps < 0 or steps * step ~= ahead or leaf.lists[from + ahead] then return nil end
  job.first = job.first or forms.block(grid, leaf.lists[from], sizes, memo.hold)
  job.second = job.second or forms.block(grid, leaf.lists[to], sizes, memo.hold)
  local made, copies = block_on_line(job.first, job.second, steps, job.full and kept_input(job, model, share))
  if made and copies > 0 then memo.hold(copies) end
  return made
end

--- The ops of a block, joined to the sizes of its axes, in a block for each job.
---@param grid userdata    of the strategy
---@param jobs table       of memo.jobs for such a share
---@param share table      the same but for its micro-batch
---@param sizes integer[]
---@return userdata[] blocks  with the block's `name`
function memo.blocks(grid, jobs, model, share, sizes)
  local list = { name = jobs.name }
  for i, job in ipairs(jobs) do
    list[i] = on_line(grid, job, model, share, sizes)
      or forms.block(grid, list_of(job, model, share), sizes, memo.hold)
  end
  return list
end

return memo
