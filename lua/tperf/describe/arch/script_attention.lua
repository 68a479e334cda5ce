--- share:attention { … } of a script's blocks: the built-in sequence of kernels between the projections of queries,
--- keys and values and the one of the output. It follows the question in all that the built-in layers follow it: ring
--- and all-to-all, separate kernels, packed documents, shards of the keys in decoding, the dtypes of the cache and of
--- the products.
local attention = require "tperf.describe.arch.layer.attention"
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"

local size = check.integer { min = 1, max = 1 << 31 }
local some = check.integer { min = 1, max = 1 << 31, optional = true }
local schema = {
  name = check.string { optional = true }, heads = size, kv_heads = some, head_dim = size, value_dim = some,
  causal = check.boolean { optional = true }, window = some, keys = some, dropout = check.boolean { default = false },
  sinks = check.boolean { default = false }, values_in_keys = check.boolean { default = false },
  shared_as = check.string { optional = true }, keeps = check.any { optional = true },
}

-- Whether the first op is the one whose cache and weights are said.
local function mark(ops, o)
  for _, one in ipairs(ops) do
    local _, _, _, keys = one:kept()
    if keys > 0 then
      if o.keeps ~= nil then one:keep(o.keeps) end
      if o.shared_as then one:share_as(o.shared_as) end
      o = {}
    end
  end
  return ops
end

---@param p table  the share
---@param given table
---   name               of the fused kernel ("attention")
---   heads, kv_heads    of the whole layer; kv_heads: default heads
---   head_dim, value_dim   features of a head's query and key; of its value (head_dim)
---   causal             default: as the model
---   window             the last keys that a query sees (all)
---   keys               of another sequence (default: the cached tokens and the sequence's own)
---   dropout, sinks     of the scores, in training; one learned score a head
---   values_in_keys     values are part of the keys
---   keeps              as in op.attention
---@return table[] ops
return function(p, given)
  local o = check.record("share:attention", given, schema)
  local m, cut = frozen.plain(p.model), p:heads(o.heads, o.kv_heads)
  local causal = o.causal
  if causal == nil then causal = m.causal end
  local view = setmetatable({
    sparse = false, heads = o.heads, dropout = o.dropout, attention_sinks = o.sinks, causal = causal,
    packing = causal and not o.keys and m.packing or false,
  }, { __index = m })
  return mark(attention.kernels(view, p, cut, {
    kv_heads = cut.kv_heads, head_dim = o.head_dim, value_dim = o.value_dim, window = o.window or false,
    name = o.name, values_in_keys = o.values_in_keys or nil, keys = o.keys, causal = causal,
  }), o)
end
