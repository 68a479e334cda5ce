--- What one layer remembers between tokens in inference, on one GPU: keys and values, latents, or Mamba states.
local delta = require "tperf.describe.arch.layer.delta"
local fitting = require "tperf.describe.strategy.fitting"

local mamba1 = require "tperf.describe.arch.layer.mamba1"

local cache = {}

-- Latents are the same on every GPU of tp. GPUs that share keys out have a part of the tokens each.
local function elements(m, p, group)
  if group.attention == "none" then return 0 end
  local cut = p:heads(m.heads, m.kv_heads)
  local width = 2 * cut.kv_heads * m.head_dim
  if group.attention == "mla" then -- the same on every GPU of tp, as are an indexer's keys
    width = m.mla.kv_rank + m.mla.rope_dim + (m.sparse and m.sparse.head_dim or 0)
  end
  return width / (cut.key_shards or 1)
end

-- The scan's state in fp32, and the last inputs of the convolution.
local function state(m, p, group)
  if group.delta then return delta.state_bytes(m, p) end
  if not group.mamba then return 0 end
  if m.mamba1 then return mamba1.state_bytes(m, p) end
  local s, n = m.mamba, p[p.features]
  local heads, groups = fitting.split(p, s.heads, n, p.features, "heads"), fitting.replicated(p, s.groups, n, "groups")
  return 4.0 * heads * s.head_dim * s.state + 2.0 * (s.conv - 1) * (heads * s.head_dim + 2 * groups * s.state)
end

--- One layer of the group, for one sequence.
---@param m table  a model
---@param p table  a share, see tperf.strategy
---@param group tperf.layer_group
---@return table cache  elements (of keys and values, for each token), tokens (the most it keeps; nil: all of them),
---  state_bytes (whatever the length)
function cache.of(m, p, group)
  return {
    elements = elements(m, p, group), tokens = group.window, state_bytes = state(m, p, group),
  }
end

return cache
