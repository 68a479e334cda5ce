--- Per-layer inference state on one GPU: keys and values, latents, or Mamba states.
local delta = require "tperf.describe.arch.layer.delta"
local fitting = require "tperf.describe.strategy.fitting"

local mamba1 = require "tperf.describe.arch.layer.mamba1"
local windowed = require "tperf.describe.model.windowed"

local cache = {}

-- Keys and values per token. Latents are replicated over tp; GPUs that shard the keys each hold part of the tokens.
local function elements(m, p, group)
  if group.attention == "none" then return 0 end
  local one = windowed.view(m, group)
  local cut = p:heads(one.heads, one.kv_heads)
  local width = cut.kv_heads * (one.head_dim + windowed.value_dim(one))
  if group.attention == "mla" then -- replicated over tp, as are an indexer's keys
    width = m.mla.kv_rank + m.mla.rope_dim + (m.sparse and not group.reuses and m.sparse.head_dim or 0)
  end
  return width / (cut.key_shards or 1)
end

-- Bytes: the scan's state and the last inputs of the convolution.
local function state(m, p, group)
  if group.delta then return delta.state_bytes(m, p) end
  if not group.mamba then return 0 end
  if m.mamba1 then return mamba1.state_bytes(m, p) end
  local s, n = m.mamba, p[p.features]
  local heads, groups = fitting.split(p, s.heads, n, p.features, "heads"), fitting.replicated(p, s.groups, n, "groups")
  return 1.0 * fitting.state_element(p) * heads * s.head_dim * s.state
    + 2.0 * (s.conv - 1) * (heads * s.head_dim + 2 * groups * s.state)
end

--- The cache of one layer of the group, for one sequence.
---@param m table  a model
---@param p table  a share, see tperf.strategy
---@param group tperf.layer_group
---@return table cache  elements (of keys and values, per token), tokens (the most it keeps; nil: all), state_bytes
---   (independent of the length)
function cache.of(m, p, group)
  return {
    elements = elements(m, p, group), tokens = group.window, state_bytes = state(m, p, group),
  }
end

return cache
