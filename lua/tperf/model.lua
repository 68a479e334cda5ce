--- tperf.model: the network being trained or served. `schema` below is the whole format of models/*.yaml.
local check = require "tperf.check"
local resource = require "tperf.resource"

local function size(options)
  local o = { min = 1, max = 1 << 31 }
  for key, value in pairs(options or {}) do o[key] = value end
  return check.integer(o)
end

local schema = {
  name = check.string(),
  source = check.string { optional = true }, -- where the numbers come from
  layers = size(),
  hidden = size(),
  heads = size(),
  kv_heads = size { optional = true }, -- heads of keys and values; else heads
  head_dim = size { optional = true }, -- else hidden // heads
  ffn = size { optional = true }, -- width between the matrices of the MLP; else 4 hidden
  gated = check.boolean { default = false }, -- the MLP has three matrices (SwiGLU) instead of two
  activation = check.choice { { "gelu", "relu", "silu" }, default = "gelu" },
  norm = check.choice { { "layernorm", "rmsnorm" }, default = "layernorm" },
  seq = size(), -- tokens of a sequence
  vocab = size { optional = true }, -- else there are no embeddings
  tied_embeddings = check.boolean { default = false }, -- the output uses the input's matrix
  positions = check.choice { { "learned", "rotary", "alibi", "none" }, default = "none" },
}

-- Fields that follow others when absent, live, so that :with { hidden = … } changes them too.
local derived = {
  kv_heads = function(model) return model.heads end,
  head_dim = function(model) return model.hidden // model.heads end,
  ffn = function(model) return 4 * model.hidden end,
}

local function derive(model, field)
  return derived[field] and derived[field](model)
end

local function finish(model)
  if model.head_dim == 0 then
    return string.format("'heads' (%d) is more than 'hidden' (%d): give 'head_dim'", model.heads, model.hidden), "heads"
  end
  if model.heads % model.kv_heads ~= 0 then
    return string.format("'heads' (%d) must be a multiple of 'kv_heads' (%d)", model.heads, model.kv_heads), "kv_heads"
  end
end

return resource.constructor {
  what = "tperf.model", kind = "models", schema = schema, derive = derive, finish = finish,
}
