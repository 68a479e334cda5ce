--- The architecture that a model's description names: the blocks of its layers, group by group, and of both ends.
local lazy = require "tperf.base.lazy"
local arrangement = require "tperf.describe.model.groups"
local attention = require "tperf.describe.arch.layer.attention"
local cross = lazy.module "tperf.describe.arch.layer.cross"
local delta = lazy.module "tperf.describe.arch.layer.delta"
local dit = lazy.module "tperf.describe.arch.layer.dit"
local ends = require "tperf.describe.arch.ends"
local mamba = lazy.module "tperf.describe.arch.layer.mamba"
local mamba1 = lazy.module "tperf.describe.arch.layer.mamba1"
local mla = lazy.module "tperf.describe.arch.layer.mla"
local mlp = require "tperf.describe.arch.layer.mlp"
local moe = lazy.module "tperf.describe.arch.layer.moe"
local mtp = lazy.module "tperf.describe.arch.layer.mtp"

local transformer = {}

local mixers = { gqa = attention, mla = mla }
local feeds = { dense = mlp, experts = moe }

local made = {} -- a module's blocks by their place in a layer: groups with the same block share its ops

-- The block of a module in this place. part: "mixer" reads nothing of the group's MLP or experts, "feed" nothing of its
-- attention.
local function block_of(module, i, n, part)
  made[module] = made[module] or {}
  local place = ("%d of %d"):format(i, n)
  local known = made[module][place]
  if known then return known end
  local one = module.block(i, n)
  one.part, one.linear, one.dense = part, not one.pieces, not one.pieces
  made[module][place] = one
  return one
end

local function mixer_of(m, group)
  if group.delta then return delta end
  if group.mamba and group.attention ~= "none" then return mamba.beside end
  if group.mamba then return m.mamba1 and mamba1 or mamba end
  return mixers[group.attention]
end

-- Attention and MLP side by side are one block; otherwise each is a sublayer.
local function blocks_of(m, group)
  if m.diffusion then return { dit.modulation, dit.attention, dit.mlp } end
  if m.parallel_block and group.attention == "gqa" and group.mlp == "dense" then
    return { (require "tperf.describe.arch.layer.parallel") }
  end
  local mixer = mixer_of(m, group)
  local feed = feeds[group.mlp]
  local n = (mixer and 1 or 0) + (group.cross and 1 or 0) + (feed and 1 or 0)
  local blocks = {}
  if mixer then blocks[1] = block_of(mixer, 1, n, "mixer") end
  if group.cross then blocks[2] = block_of(cross, 2, n) end
  if feed then blocks[#blocks + 1] = block_of(feed, n, n, "feed") end
  return blocks
end

--- The blocks of every group of layers, in order: the model's groups, each with `blocks`.
function transformer.groups(m)
  local groups = m:groups()
  for _, group in ipairs(groups) do group.blocks = blocks_of(m, group) end
  return groups
end

transformer.first = { ends.embedding }

--- The groups of one multi-token prediction module, with their blocks.
function transformer.module(m, groups)
  local module = arrangement.module(m, groups)
  for _, group in ipairs(module) do group.blocks = group.blocks or blocks_of(m, group) end
  return module
end

--- The blocks after the last layer. groups: the model's, with their blocks.
function transformer.last(m, groups)
  if m.mtp == 0 then return { ends.head } end
  return { ends.head, mtp.block(m, transformer.module(m, groups)) }
end

return transformer
