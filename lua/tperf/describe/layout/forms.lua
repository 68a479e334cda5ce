--- The forms of lists of remembered ops (tperf/describe/layout/memo.lua): of more tokens, recomputed, in fewer bits,
-- several as one, and joined to the sizes of a layer's axes. Each is made once from a list that is never changed, and
-- then remembered with it. A form's ops are copies; once they are joined, they go, and are made again where they are
-- needed.
local lazy = require "tperf.base.lazy"
local core = require "tperf.core"
local narrowed = lazy.module "tperf.describe.arch.narrowed"

local forms = {}

-- The ops of a list that may be a form.
local function filled(list)
  if #list == 0 and list.fill then list.fill(list) end
  return list
end

local function empty(list)
  for i = #list, list.fill and 1 or #list + 1, -1 do list[i] = nil end
end

--- A block's ops, all of them recomputed, which the core makes as it joins them. saved: bytes of the layer's input,
--- which the first one keeps.
---@param plain table  ops
---@param saved number
---@return table list  without the ops
function forms.recomputed(plain, saved)
  plain.recomputed = plain.recomputed or {}
  local list = plain.recomputed[saved]
  if not list then
    list = { name = plain.name, of = plain, saved = saved }
    plain.recomputed[saved] = list
  end
  return list
end

local function fill_narrowed(list)
  local of, r, made = filled(list.of), list.precision
  if r.parts then
    made = narrowed.stored(of, r.parts)
  else
    made, list.open = narrowed.block(of, r, list.after_norm)
  end
  table.move(made, 1, #made, 1, list)
  empty(of)
end

-- One list in a precision. known: the list's field for such lists.
local function in_precision(list, r, known, after_norm)
  local made = list[known] and list[known][r]
  if not made then
    made = { name = list.name, of = list, precision = r, fill = fill_narrowed, after_norm = after_norm }
    list[known] = list[known] or {}
    list[known][r] = made
    fill_narrowed(made)
  end
  return made
end

--- Several lists as one.
---@param tree table   of joints
---@param lists table  of memo.lists
---@return table ops  the same table for the same lists; not to be changed
function forms.joint(tree, lists)
  if #lists == 1 then return filled(lists[1]) end
  for _, list in ipairs(lists) do
    tree[list] = tree[list] or {}
    tree = tree[list]
  end
  if not tree.all then
    tree.all = { name = lists.name }
    for _, list in ipairs(lists) do
      table.move(filled(list), 1, #list, #tree.all + 1, tree.all)
      empty(list)
    end
  end
  return tree.all
end

-- Whether the ops up to a list's end end in a norm. before: those up to its beginning.
local function ends_in_norm(list, before)
  if list.ends == nil then
    local plain = list
    while plain.of do plain = plain.of end
    list.ends = #plain > 0 and (plain[#plain]:is_norm() and "in a norm" or "otherwise") or "before"
  end
  return list.ends == "in a norm" or list.ends == "before" and before
end

-- The list that a recomputed one is made of, or the list itself.
local function plain_of(list) return list.saved and list.of or list end

-- A list, recomputed if `list` is. The core recomputes what is narrowed already: narrowing takes much longer.
local function recomputed_as(list, narrow) return list.saved and forms.recomputed(narrow, list.saved) or narrow end

-- Those lists as one, in a precision.
local function joint_narrowed(joints, lists, r)
  local all = { name = lists.name }
  for i, list in ipairs(lists) do all[i] = plain_of(list) end
  return { name = lists.name, recomputed_as(lists[1], in_precision(forms.joint(joints, all), r, "narrowed", false)) }
end

--- The lists of a block in a precision. They become one where a product changes what an op of another list keeps. No
--- list begins with an adapter: these are in the list of their product.
---@param joints table  the tree of such lists
---@param lists table   of memo.lists, all of them recomputed or none
---@param r table       of precision.resolve or tperf.describe.stored
---@return table lists
function forms.narrowed(joints, lists, r)
  local made, after_norm, count = { name = lists.name }, false, #lists
  for i = 1, count do
    local list = lists[i]
    local one = in_precision(plain_of(list), r, after_norm and "behind_norm" or "narrowed", after_norm)
    if one.open and i < count then return joint_narrowed(joints, lists, r) end
    made[i], after_norm = recomputed_as(list, one), ends_in_norm(list, after_norm)
  end
  return made
end

-- The positions of the bits that are set, by bits.
local positions = setmetatable({}, { __index = function(known, bits)
  local list, rest, i = {}, bits, 1
  while rest ~= 0 do
    if rest & 1 == 1 then list[#list + 1] = i end
    rest, i = rest >> 1, i + 1
  end
  known[bits] = list
  return list
end })

local SIZE_BITS <const>, SIZES <const> = 31, 2 -- that a key of 64 bits has room for

-- The sizes at some positions, as a key.
local function key_of(at, sizes)
  local key = 0
  for i = 1, #at do
    key = i <= SIZES and key << SIZE_BITS | sizes[at[i]] or key .. " " .. sizes[at[i]]
  end
  return key
end

-- The block that a list was joined to for these sizes; nil: none.
local function joined_to(ops, sizes)
  local joined = ops.joined
  return joined and joined[key_of(joined.at, sizes)]
end

-- Remembers a block for sizes along the axes whose bits are set.
local function remember(ops, sizes, bits, made)
  local joined = ops.joined or { at = positions[bits] }
  ops.joined = joined
  joined[key_of(joined.at, sizes)] = made
end

--- A list of ops as a block of layers of these sizes (src/bind/describe/bind_workload.c).
---@param grid userdata   of the strategy
---@param ops table       of memo.lists or forms.narrowed
---@param sizes integer[]
---@param hold fun(ops: integer)  is called with the number of ops that a new block holds besides remembered ones
---@return userdata block
function forms.block(grid, ops, sizes, hold)
  local known = joined_to(ops, sizes)
  if known then return known end
  local of = ops.saved and ops.of or ops
  local source = ops.saved and (joined_to(of, sizes) or core.block(grid, sizes, filled(of))) or filled(of)
  local made, bits, copies = core.block(grid, sizes, source, ops.saved)
  remember(ops, sizes, bits, made)
  hold(copies + (of.fill and #of or 0))
  empty(of)
  return made
end

return forms
