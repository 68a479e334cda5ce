--- Decoding by kernels that leave caches whole (FlashAttention 2), for the tables of steps. docs/serving.md has the
--- rules.
local strategy = require "tperf.describe.strategy"
local windowed = require "tperf.describe.model.windowed"

local whole = {}

local NONE <const> = { key = 0, each = 0, from = 0, late = 0 }

--- What the core needs to know of a deployment's kernels: tperf_whole_caches; from = 0 if kernels never cut caches.
---@param p table       a problem of tperf.question.infer.deployment, with the engine's system
---@param o table       checked arguments of tperf.serve
---@param layers number layers whose attention sees all keys
function whole.of(p, o, layers)
  local compute = p.system.accelerator.compute_efficiency
  local curve = type(compute) == "table" and compute.decode and compute.decode[o.kv_dtype]
  if not (curve and curve.whole and curve.whole > 0) or p.model.mla or layers == 0 then return NONE end
  local share = strategy.share(p.strategy, p.model, 1, o.own, p.rules, { mode = "decode", sequence_parallel = false })
  local cut = share:heads(p.model.heads, p.model.kv_heads)
  local units, kernels = p.system.accelerator.units, p.system.accelerator.whole_caches
  local key = layers * 2 * (p.model.head_dim + windowed.value_dim(p.model)) / curve.whole -- keys and values in 16 bits
  return { key = key, each = key * cut.heads / units,
    from = cut.heads > cut.kv_heads and units / cut.kv_heads * kernels.uncut or 0, late = kernels.late }
end

return whole
