--- What blocks of the library made, by the fields of the share that each reads: attention never reads the size of the
-- expert axis, so its ops for one size serve for the next. Which field a block reads next depends only on the values
-- that it has read, so the fields form a tree. Ops that are remembered are never changed again; recomputed ones are
-- copies. A layer's ops, joined to the sizes of its axes, are shared by all workloads that have them.
local axes = require "tperf.describe.strategy.axes"
local core = require "tperf.core"

local memo = {}

local MOST_OPS <const> = 49152 -- in all; each takes two KiB

local held, memories, listeners = 0, setmetatable({}, { __mode = "k" }), {}

--- Calls f whenever all that is remembered is forgotten: for whatever else keeps ops alive.
---@param f function
function memo.when_forgotten(f) listeners[#listeners + 1] = f end

local function forget()
  held = 0
  for memory in pairs(memories) do memory.classes, memory.joints, memory.series = {}, {}, nil end
  for _, f in ipairs(listeners) do f() end
end

local function hold(count)
  if held > MOST_OPS then forget() end
  held = held + count
end

-- Fields of shares that are the same in all of one layout, besides the axes of other strategies; and those that a
-- variant of it fixes, besides the strategy's options: shares that agree in the latter are of one class.
local LAYOUT <const> = { "rules", "attention", "tuning", "exchange" }
local VARIANT <const> = { "mode", "seq", "sequence_parallel", "dtype", "weight_dtype", "kv_dtype", "matrix_dtype",
  "precision", "loss", "fused_activation", "recompute_modules", "offload_modules",
  "overlap_shared_experts", "cuda_graphs", "part" }

--- An empty memory of one layout: a model in one strategy, by some rules, with one attention and one tuning. Its
--- `series` is its owner's, and forgotten with the rest.
---@param s table  the strategy
---@return table memory
function memo.new(s)
  local variant, fixed = table.move(VARIANT, 1, #VARIANT, 1, {}), {}
  table.move(s.option_names, 1, #s.option_names, #variant + 1, variant)
  local foreign = {}
  for _, name in ipairs((axes.words())) do foreign[#foreign + 1] = not s.index[name] and name or nil end
  for _, name in ipairs(variant) do fixed[name] = true end
  for _, name in ipairs(LAYOUT) do fixed[name] = true end
  local memory = {
    strategy = s, variant = variant, fixed = fixed, foreign = foreign, classes = {}, joints = {},
  }
  memories[memory] = true
  return memory
end

local function class_of(memory, share)
  local name = rawget(share, "class")
  if not name then
    local words, variant = {}, memory.variant
    for i = 1, #variant do
      local value = rawget(share, variant[i])
      words[i] = tostring(type(value) == "table" and value.key or value)
    end
    name = table.concat(words, " ")
    share.class = name
  end
  local class = memory.classes[name]
  if not class then
    class = { trees = {} }
    memory.classes[name] = class
  end
  return class
end

-- Keys of a tree's node, besides values of its field; and a value that stands for nil.
local FIELD <const>, MADE <const>, NONE <const> = {}, {}, {}

-- What was made for this share; nil: nothing yet.
local function find(tree, share)
  local field = tree[FIELD]
  while field do
    local value = rawget(share, field)
    if value == nil then value = NONE end
    tree = tree[value]
    if not tree then return nil end
    field = tree[FIELD]
  end
  return tree[MADE]
end

-- A proxy of the watch's share that lists the fields that are read, in `fields`, and their values. Those that are the
-- same in the whole class are not listed, and stay in the proxy. Sizes of axes that the strategy lacks are false.
local function proxy_of(memory, watch)
  local absent, fixed, own = watch.absent, memory.fixed, {}
  for _, name in ipairs(memory.foreign) do own[name] = false end
  return setmetatable(own, {
    __index = function(proxy, field)
      if absent[field] then return nil end
      local share = watch.share
      local value = rawget(share, field)
      local same = fixed[field]
      if value == nil then
        value = share[field] -- the strategy's
        same = same or value ~= nil
      end
      if not same then
        local count = watch.count + 1
        watch.count, watch.fields[count] = count, field
        watch.values[count] = value == nil and NONE or value
      end
      if value == nil then absent[field] = true end
      rawset(proxy, field, value)
      return value
    end,
    __newindex = function(proxy, field, value) -- the share is for other blocks, too
      watch.written[#watch.written + 1] = field
      rawset(proxy, field, value)
    end,
  })
end

-- The class's watch, for this share. It is the caller's until `release`: after an error, another is made.
local function acquire(memory, class, share)
  local watch = class.watch
  if not watch then
    watch = { fields = {}, values = {}, written = {}, absent = {} }
    watch.proxy = proxy_of(memory, watch)
  end
  class.watch, watch.share, watch.count = nil, share, 0
  return watch
end

local function release(class, watch)
  local proxy, absent, fields, written = watch.proxy, watch.absent, watch.fields, watch.written
  for i = 1, watch.count do
    local field = fields[i]
    absent[field] = nil
    rawset(proxy, field, nil)
  end
  for i = #written, 1, -1 do
    rawset(proxy, written[i], nil)
    written[i] = nil
  end
  class.watch, watch.share = watch, nil
end

-- Keeps what was made where the watched fields lead; drops it if they were read in another order than before.
local function keep(tree, watch, made)
  for i = 1, watch.count do
    local field, value = watch.fields[i], watch.values[i]
    if tree[MADE] or tree[FIELD] and tree[FIELD] ~= field then return end
    tree[FIELD] = field
    local after = tree[value]
    if not after then
      after = {}
      tree[value] = after
    end
    tree = after
  end
  if tree[FIELD] then return end
  tree[MADE] = made
  hold(#made + 1)
end

local function made_of(memory, job, model, share)
  local tree, block = job.tree, job.block
  local made = find(tree, share)
  if made then return made end
  local watch = acquire(memory, job.class, share)
  share.block = block.name -- for messages
  rawset(watch.proxy, "block", block.name)
  made = block.build(model, watch.proxy)
  made.name = block.name
  keep(tree, watch, made)
  release(job.class, watch)
  return made
end

-- A list for copies of a block's ops, all of them recomputed, which `filled` makes. saved: bytes of the layer's input,
-- which the first one keeps.
local function recomputed(plain, saved)
  plain.recomputed = plain.recomputed or {}
  local list = plain.recomputed[saved]
  if not list then
    list = { name = plain.name, plain = plain, saved = saved }
    plain.recomputed[saved] = list
  end
  return list
end

local function filled(list)
  local plain = list.plain
  for i = #list + 1, plain and #plain or 0 do list[i] = plain[i]:recomputed(i == 1 and list.saved or 0) end
  return list
end

-- Whether all that may change a block's ops is their full recomputation.
local function is_plain(share)
  return share.recompute ~= "selective" and not share.tuning and not share.cuda_graphs
    and not share.offload and not share.offload_modules
end

-- Appends what it takes to make a block's ops. full: they are recomputed; opens: the layer's first op is among them.
local function append(class, block, model, share, jobs, group, full, opens)
  if block.unmarked and is_plain(share) then
    block, full, opens = block.unmarked, share.recompute == "full", block.opens
  end
  if block.pieces then
    for i, piece in ipairs(block.pieces(model, share)) do
      append(class, piece.block, model, share, jobs, piece.group or group, full, opens and i == 1)
    end
    return
  end
  local tree = class.trees[block]
  if not tree then
    tree = {}
    class.trees[block] = tree
  end
  jobs[#jobs + 1] = { block = block, class = class, tree = tree, group = group, full = full, opens = opens }
end

--- What it takes to make the ops of a block of the library for shares of one layer, variant and sizes, whatever the
--- micro-batch.
---@param memory table  of memo.new
---@param share table   of strategy.share
---@return table[] jobs  with the block's `name`
function memo.jobs(memory, block, model, share)
  local jobs = { name = block.name }
  append(class_of(memory, share), block, model, share, jobs, share.group)
  return jobs
end

--- The ops of a block, as block:ops returns them, in a list for each job.
---@param jobs table   of memo.jobs for such a share
---@param share table
---@return table[] lists  with the block's `name`, for memo.joint and memo.block alone
function memo.lists(memory, jobs, model, share)
  local lists, group = { name = jobs.name }, share.group
  for i = 1, #jobs do
    local job = jobs[i]
    share.group = job.group
    local made = made_of(memory, job, model, share)
    lists[i] = job.full and recomputed(made, job.opens and 2 * share:outer(model.hidden) or 0) or made
  end
  share.group = group
  return lists
end

--- Several lists of ops as one.
---@param lists table  of memo.lists
---@return table ops  the same table for the same lists; not to be changed
function memo.joint(memory, lists)
  if #lists == 1 then return filled(lists[1]) end
  local tree = memory.joints
  for _, list in ipairs(lists) do
    tree[list] = tree[list] or {}
    tree = tree[list]
  end
  if not tree[MADE] then
    local all = { name = lists.name }
    for _, list in ipairs(lists) do table.move(filled(list), 1, #list, #all + 1, all) end
    tree[MADE] = all
  end
  return tree[MADE]
end

-- The positions of the bits that are set.
local function positions(bits)
  local list, i = {}, 1
  while bits > 0 do
    if bits & 1 == 1 then list[#list + 1] = i end
    bits, i = bits >> 1, i + 1
  end
  return list
end

--- A list of ops as a block of layers of these sizes (src/bind/describe/bind_workload.c).
---@param memory table
---@param ops table       of memo.lists or memo.joint, or made of these
---@param sizes integer[]
---@return userdata block
function memo.block(memory, ops, sizes)
  local joined = ops.joined
  local tree, at = joined, joined and joined.positions or {}
  for i = 1, #at do tree = tree and tree[sizes[at[i]]] end
  if tree and tree.block then return tree.block end
  local made, bits = core.block(memory.strategy.grid, sizes, filled(ops))
  joined = joined or { positions = positions(bits) }
  ops.joined, tree = joined, joined
  for _, position in ipairs(joined.positions) do
    local size = sizes[position]
    tree[size] = tree[size] or {}
    tree = tree[size]
  end
  tree.block = made
  hold(#ops)
  for i = #ops, ops.plain and 1 or #ops + 1, -1 do ops[i] = nil end -- the copies are made again where they are needed
  return made
end

return memo
