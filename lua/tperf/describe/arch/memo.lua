--- What blocks of the library made, by the fields of the share that each reads: attention never reads the size of the
-- expert axis, so its ops for one size serve for the next. Which field a block reads next depends only on the values
-- that it has read, so the fields form a tree. Ops that are remembered are never changed again; recomputed ones are
-- copies. A layer's ops, joined to the sizes of its axes, are shared by all workloads that have them.
local core = require "tperf.core"

local memo = {}

local MOST_OPS <const> = 65536 -- in all; each takes two KiB

local held, generation = 0, 0

local function hold(count)
  if held > MOST_OPS then held, generation = 0, generation + 1 end
  held = held + count
end

--- A number that changes when all that is remembered is forgotten: whatever keeps ops alive must go with it.
---@return integer
function memo.generation() return generation end

--- An empty memory of one strategy's blocks for one model.
---@param s table  the strategy
function memo.new(s) return { strategy = s, generation = generation, trees = {} } end

-- The tree of fields of a block, or of another key.
local function tree_of(memory, key)
  if memory.generation ~= generation then memory.generation, memory.trees = generation, {} end
  local tree = memory.trees[key]
  if not tree then
    tree = {}
    memory.trees[key] = tree
  end
  return tree
end

local NONE <const> = {} -- stands for nil

-- A field's value as a key. Tables among them are a layer's group, the rules, a precision.
local function key_of(value)
  if value == nil then return NONE end
  if type(value) == "table" then return value.key or value.name end
  return value
end

-- What was made for this share; nil: nothing yet.
local function find(tree, share)
  while tree and tree.field do tree = tree.by[key_of(rawget(share, tree.field))] end
  return tree and tree.made
end

-- A proxy of the share that records in `reads` the fields that are read and in `keys` their values. What the strategy
-- itself provides is the same for all shares.
local function watched(share, reads, keys)
  local absent = {}
  return setmetatable({}, {
    __index = function(glass, field)
      if absent[field] then return nil end
      local value, provided = rawget(share, field), nil
      if value == nil then provided = share[field] end
      if provided == nil then
        reads[#reads + 1], keys[#keys + 1] = field, key_of(value)
        absent[field] = value == nil
      end
      if value == nil then value = provided end
      rawset(glass, field, value)
      return value
    end,
    __newindex = function(glass, field, value)
      share[field] = value
      rawset(glass, field, value)
    end,
  })
end

-- Keeps what was made where the fields lead; drops it if they were read in another order than before.
local function keep(tree, reads, keys, made)
  for i = 1, #reads do
    if tree.made then return end
    if not tree.field then tree.field, tree.by = reads[i], {} end
    if tree.field ~= reads[i] then return end
    local next_tree = tree.by[keys[i]]
    if not next_tree then
      next_tree = {}
      tree.by[keys[i]] = next_tree
    end
    tree = next_tree
  end
  if tree.field then return end
  tree.made = made
  hold(#made + 1)
end

local function build(block, model, share)
  share.block = block.name -- for messages
  local made = block.build(model, share)
  made.name = block.name
  return made
end

local function made_of(memory, block, model, share)
  local tree = tree_of(memory, block)
  local made = find(tree, share)
  if made then return made end
  local reads, keys = {}, {}
  made = build(block, model, watched(share, reads, keys))
  keep(tree, reads, keys, made)
  return made
end

-- Copies of a block's ops, all of them recomputed. saved: bytes of the layer's input, which the first one keeps.
local function recomputed(plain, saved)
  plain.recomputed = plain.recomputed or {}
  local made = plain.recomputed[saved]
  if made then return made end
  made = { name = plain.name }
  for i, one in ipairs(plain) do made[i] = one:recomputed(i == 1 and saved or 0) end
  plain.recomputed[saved] = made
  hold(#made)
  return made
end

-- Whether all that may change a block's ops is their full recomputation.
local function is_plain(share)
  return share.recompute ~= "selective" and not share.tuning and not share.offload and not share.offload_modules
end

--- The ops of a block of the library, as block:ops returns them.
---@param memory table  of memo.new
---@param share table   of strategy.share
---@return table ops  not to be changed
function memo.ops(memory, block, model, share)
  local inner = block.unmarked
  if not inner or not is_plain(share) then return made_of(memory, block, model, share) end
  local plain = made_of(memory, inner, model, share)
  if share.recompute == "none" then return plain end
  return recomputed(plain, block.opens and 2 * share:outer(model.hidden) or 0)
end

--- Several lists of ops as one.
---@param name string
---@param lists table[]
---@return table ops  the same table for the same lists
function memo.joint(memory, name, lists)
  local tree = tree_of(memory, name)
  for _, list in ipairs(lists) do
    tree[list] = tree[list] or {}
    tree = tree[list]
  end
  if not tree.made then
    local all = { name = name }
    for _, list in ipairs(lists) do table.move(list, 1, #list, #all + 1, all) end
    tree.made = all
  end
  return tree.made
end

-- The positions of the axes that have a bit in `axes`.
local function positions(axes)
  local list, i = {}, 1
  while axes > 0 do
    if axes & 1 == 1 then list[#list + 1] = i end
    axes, i = axes >> 1, i + 1
  end
  return list
end

--- A list of ops as a block of layers of these sizes (src/bind/describe/bind_workload.c).
---@param memory table
---@param ops table       of memo.ops
---@param sizes integer[]
---@return userdata block
function memo.block(memory, ops, sizes)
  local tree = ops.joined
  for _, position in ipairs(tree and tree.positions or {}) do tree = tree and tree[sizes[position]] end
  if tree and tree.block then return tree.block end
  local made, axes = core.block(memory.strategy.grid, sizes, ops)
  ops.joined = ops.joined or { positions = positions(axes) }
  tree = ops.joined
  for _, position in ipairs(ops.joined.positions) do
    local size = sizes[position]
    tree[size] = tree[size] or {}
    tree = tree[size]
  end
  tree.block = made
  hold(#ops)
  return made
end

return memo
