--- The forms of lists of remembered ops (tperf/describe/arch/memo.lua): recomputed, in fewer bits, several as one, and
-- joined to the sizes of a layer's axes. Each is made once from a list that is never changed, and then remembered with
-- it. A form's ops are copies; once they are joined, they go, and are made again where they are needed.
local adapters = require "tperf.describe.strategy.adapters"
local core = require "tperf.core"
local narrowed = require "tperf.describe.arch.narrowed"

local forms = {}

-- The ops of a list that may be a form.
local function filled(list)
  if #list == 0 and list.fill then list.fill(list) end
  return list
end

local function empty(list)
  for i = #list, list.fill and 1 or #list + 1, -1 do list[i] = nil end
end

local function fill_recomputed(list)
  for i, one in ipairs(list.of) do list[i] = one:recomputed(i == 1 and list.saved or 0) end
end

--- A block's ops, all of them recomputed. saved: bytes of the layer's input, which the first one keeps.
---@param plain table  ops
---@param saved number
---@return table ops
function forms.recomputed(plain, saved)
  plain.recomputed = plain.recomputed or {}
  local list = plain.recomputed[saved]
  if not list then
    list = { name = plain.name, of = plain, saved = saved, fill = fill_recomputed }
    plain.recomputed[saved] = list
  end
  return list
end

local function fill_narrowed(list)
  local of, r, made = filled(list.of), list.precision, nil
  if r.stored then
    made = narrowed.stored(of, r.stored, r.products)
  else
    made, list.open = narrowed.block(of, r, list.after_norm, list.before_adapter)
  end
  table.move(made, 1, #made, 1, list)
  empty(of)
end

-- One list in a precision.
local function in_precision(list, r, after_norm, before_adapter)
  local key = (after_norm and 1 or 0) + (before_adapter and 2 or 0)
  list.narrowed = list.narrowed or {}
  local of_precision = list.narrowed[r]
  if not of_precision then
    of_precision = {}
    list.narrowed[r] = of_precision
  end
  local made = of_precision[key]
  if not made then
    made = { name = list.name, of = list, precision = r, fill = fill_narrowed, after_norm = after_norm,
      before_adapter = before_adapter }
    of_precision[key] = made
    fill_narrowed(made)
  end
  return made
end

-- Several lists as one: the same table for the same lists.
local function joint(tree, lists)
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

-- Whether a list ends in a norm, and whether it begins with an adapter; nil: it has no ops.
local function edges_of(list)
  local plain = list
  while plain.of do plain = plain.of end
  if #plain == 0 then return nil end
  if plain.ends == nil then plain.ends, plain.begins = plain[#plain]:is_norm(), adapters.is(plain[1]) end
  return plain.ends, plain.begins
end

-- The next list after the i-th that has ops begins with an adapter.
local function adapter_follows(lists, i)
  for k = i + 1, #lists do
    local ends, begins = edges_of(lists[k])
    if ends ~= nil then return begins end
  end
  return false
end

--- The lists of a block in a precision. They become one where a product changes what an op of another list keeps.
---@param joints table  the tree of such lists
---@param lists table   of memo.lists
---@param r table       of precision.resolve or precision.stored
---@return table lists
function forms.narrowed(joints, lists, r)
  local made, after_norm = { name = lists.name }, false
  for i, list in ipairs(lists) do
    made[i] = in_precision(list, r, after_norm, adapter_follows(lists, i))
    if made[i].open and i < #lists then
      return { name = lists.name, in_precision(joint(joints, lists), r, false, false) }
    end
    local ends = edges_of(list)
    if ends ~= nil then after_norm = ends end
  end
  return made
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
---@param grid userdata   of the strategy
---@param ops table       of memo.lists or forms.narrowed
---@param sizes integer[]
---@param hold fun(ops: integer)  is called with the number of ops of a block that is made
---@return userdata block
function forms.block(grid, ops, sizes, hold)
  local joined = ops.joined
  local tree, at = joined, joined and joined.positions or {}
  for i = 1, #at do tree = tree and tree[sizes[at[i]]] end
  if tree and tree.block then return tree.block end
  local made, bits = core.block(grid, sizes, filled(ops))
  joined = joined or { positions = positions(bits) }
  ops.joined, tree = joined, joined
  for _, position in ipairs(joined.positions) do
    local size = sizes[position]
    tree[size] = tree[size] or {}
    tree = tree[size]
  end
  tree.block = made
  hold(#ops)
  empty(ops)
  return made
end

return forms
