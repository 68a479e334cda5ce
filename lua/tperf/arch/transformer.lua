--- The architecture that a model's description names: its layers as blocks, group by group, and both ends.
local attention = require "tperf.arch.attention"
local ends = require "tperf.arch.ends"
local mamba = require "tperf.arch.mamba"
local mla = require "tperf.arch.mla"
local mlp = require "tperf.arch.mlp"
local moe = require "tperf.arch.moe"
local mtp = require "tperf.arch.mtp"
local parallel = require "tperf.arch.parallel"

local transformer = {}

local mixers = { gqa = attention.block, mla = mla.block }
local feeds = { dense = mlp.block, experts = moe.block }

-- Attention and MLP side by side are one block; otherwise each is a sublayer.
local function blocks_of(m, group)
  if m.parallel_block and group.attention == "gqa" and group.mlp == "dense" then return { parallel } end
  local mixer = group.mamba and mamba.block or mixers[group.attention]
  local feed = feeds[group.mlp]
  local n = (mixer and 1 or 0) + (feed and 1 or 0)
  local blocks = {}
  if mixer then blocks[1] = mixer(n) end
  if feed then blocks[#blocks + 1] = feed(n, n) end
  return blocks
end

--- The blocks of every group of layers, in order: the model's groups, each with `blocks`.
function transformer.groups(m)
  local groups = m:groups()
  for _, group in ipairs(groups) do group.blocks = blocks_of(m, group) end
  return groups
end

transformer.first = { ends.embedding }

--- groups: the model's, with their blocks.
function transformer.last(m, groups)
  return { ends.head, m.mtp > 0 and mtp.block(groups[#groups]) or nil }
end

return transformer
