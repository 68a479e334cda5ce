--- The memory of a GPU that an engine has for its cache: vLLM's num_gpu_blocks. docs/serving.md.
local check = require "tperf.base.check"
local kernels = require "tperf.describe.kernels"
local memo = require "tperf.base.memo"
local visible_memory = require "tperf.describe.machine.visible_memory"
local workload = require "tperf.describe.workload"
local strategy = require "tperf.describe.strategy"
local windowed = require "tperf.describe.model.windowed"
local ranks = require "tperf.question.serve.ranks"
local refusal = require "tperf.base.refusal"
local schedulers = require "tperf.describe.schedulers"
local serving = require "tperf.question.infer.deployment"
local units = require "tperf.base.units"

local memory = {}

local WHAT <const> = "tperf.serve"
local KEPT <const> = 256 -- deployments in the cache
local USUAL <const> = { batch = 32, prompt = 1024, generate = 256 } -- the load for which a placement is chosen

-- The placement: that of the order of ranks, or that with the least latency for a batch of usual requests.
local function usual_placement(p, c, shards)
  local usual = setmetatable({ batch = USUAL.batch }, { __index = c })
  p.o.prompt, p.o.generate = ranks.whole(USUAL.prompt, shards), USUAL.generate
  return (select(3, serving.evaluate(p, usual)))
end

-- Bytes on one GPU: weights, buffers of the largest step, the cache per token, and the state per request.
local function held_by(p, o)
  local c, shards = { pp = o.pp, dp = o.sharing, batch = 1, prefill_batch = 1 }, ranks.shards(o, p)
  for i, name in ipairs(p.strategy.axis_names) do c[name] = o.own[i] end
  c.parts = usual_placement(p, c, shards)
  p.o.generate = 1
  local function held(prompt)
    p.o.prompt = prompt
    return serving.evaluate(p, c)
  end
  local one, two = held(shards), held(2 * shards) -- prompts; the cache also holds their first output token
  local token = (two.memory.cache - one.memory.cache) / shards
  local largest = held(ranks.whole(o.engine.max_num_batched_tokens, shards))
  return {
    fast = c.parts, weights = largest.memory.weights,
    buffers = largest.memory.buffers + o.engine.reserved, token = token,
    request = math.max(one.memory.cache - (shards + 1) * token, 0),
    capacity = visible_memory(p.system),
    logits = kernels.of "memory".logit * o.engine.max_num_seqs * (p.model.classes or p.model.vocab)
      + o.engine.reserved,
  }
end

-- Bytes for the cache, by what the engine's memory_utilization is a part of.
local ROOMS = {
  all = function(m, part, runtime)
    return part * m.capacity - m.weights - math.max(m.buffers, m.logits) - runtime
  end,
  -- SGLang: of the memory that is free before weights are loaded; buffers use the rest
  static = function(m, part, runtime) return part * (m.capacity - runtime) - m.weights end,
  free = function(m, part, runtime) return part * (m.capacity - m.weights - m.buffers - runtime) end,
}

local known = memo.by_text(KEPT)

--- The memory of a deployment: bytes on the busiest GPU, with `token`, the cache per token there, and `fast`, the GPUs
--- of each axis in a fast domain.
---@param p table  a problem of tperf.question.infer.deployment, with `profile`
---@param o table  checked arguments of tperf.serve
function memory.of(p, o)
  local key = table.concat({ workload.signature(p.model), workload.signature(p.system), p.rules.name, ranks.key(p, o),
    o.pp, o.weight_dtype, p.weights and p.weights.key or "", o.kv_dtype, o.compute_dtype,
    o.state_dtype, o.engine.max_num_batched_tokens, o.engine.max_num_seqs, o.engine.reserved, p.placed.how,
    p.placed.orders and p.placed.orders[p.strategy].text or "" }, " ")
  return known(key, function() return held_by(p, o) end)
end

-- Bytes for the cache and for states: as given, or what is left.
local function room_of(m, p, o)
  if o.engine.kv_cache_memory then return o.engine.kv_cache_memory end
  local of = p.profile.engine
  local runtime = o.rank_gpus * o.ranks > 1 and of.runtime_parallel or of.runtime
  return ROOMS[of.memory](m, o.memory_utilization or of.memory_utilization, runtime)
end

local function no_room(m, p, what, fewer)
  local function bytes(n) return units.format(n, "bytes") end
  refusal.raise("%s: the model leaves no room for %s: weights of %s and buffers of %s per GPU, of %s; try more %s, a "
    .. "narrower weight_dtype, fewer max_num_batched_tokens%s", WHAT, what, bytes(m.weights),
    bytes(math.max(m.buffers, m.logits)), bytes(m.capacity), p.strategy.features or "GPUs", fewer or "")
end

-- The part of that room that states may take beside a cache of keys and values.
local function states_part(p)
  local ratio = p.profile.engine.mamba_full_memory_ratio
  return ratio / (1 + ratio)
end

-- The same of an architecture, as its ops say.
local function stated_kinds(p, own)
  local layers, count, size = {}, { whole = 0, windowed = 0, states = 0 }, nil
  for _, run in ipairs(p.plan.layout.runs) do layers[run[1]] = (layers[run[1]] or 0) + run[2] end
  for _, one in ipairs(serving.caches(p, own)) do
    local n, window = layers[one.section] or 1, one.most_tokens > 0 and math.ceil(one.most_tokens) or nil
    local kept = window and "windowed" or "whole"
    if one.state_bytes > 0 then count.states = count.states + n end
    if one.token_bytes > 0 then count[kept] = count[kept] + n end
    if window and size and size ~= window then return nil end
    size = window or size
  end
  return count, size
end

-- Layers by what they keep of a request: all tokens, those of a window, or a state; some keep two. And that window.
local function kinds_of(p, own)
  if p.model.architecture then return stated_kinds(p, own) end
  local laid, count, size = p.plan.layout, { whole = 0, windowed = 0, states = 0 }, nil
  for _, run in ipairs(laid.runs) do
    local group = laid.kinds[run[1]]
    local kept = group.window and "windowed" or "whole"
    if group.mamba or group.delta then count.states = count.states + run[2] end
    if group.attention ~= "none" then count[kept] = count[kept] + run[2] end
    if group.window and size and size ~= group.window then return nil end
    size = group.window or size
  end
  return count, size
end

local UNIT <const> = 16 -- tokens: blocks of attention are multiples of it
local EVEN <const> = 1.5 -- the most that kinds of layers differ in number for groups as large as the largest of them

-- Whether layers of different kinds have blocks of their own: as asked, or as the engine's release does for the family.
local function pools(p, engine)
  local own, family, only = p.profile.engine, p.model.family, nil
  if engine.pooled ~= nil then return engine.pooled end
  for _, name in ipairs(own.pooled_families) do only = only or name == family end
  for _, name in ipairs(own.unpooled_families) do if name == family then return false end end
  return own.pooled and (only or not own.pooled_families[1])
end

local function ceil(tokens, size) return (tokens + size - 1) // size end

-- Bytes of a token in a layer without a window and in one with it, and how many times the larger is the smaller one: 1
-- unless it is a multiple. vLLM gives layers of narrower tokens larger blocks, or pads theirs (its
-- unify_kv_cache_spec_page_size).
local function tokens_of(m, p, o, of)
  local kinds = p.model.heads and not p.model.mla and windowed.kinds(p.model) or {}
  local mean = m.token / (of.whole + of.windowed)
  if #kinds < 2 then return mean, mean, 1 end
  local share = strategy.share(p.strategy, p.model, 1, o.own, p.rules, { mode = "decode", sequence_parallel = false })
  local wide = {}
  for i, one in ipairs(kinds) do
    wide[i] = share:heads(one.heads, one.kv_heads).kv_heads * (one.head_dim + windowed.value_dim(one))
  end
  local each = m.token / (of.whole * wide[1] + of.windowed * wide[2])
  local large, small = math.max(wide[1], wide[2]), math.min(wide[1], wide[2])
  return each * wide[1], each * wide[2], large % small == 0 and large // small or 1
end

-- vLLM's groups of layers that share the pool (vllm/v1/core/kv_cache_utils.py): as large as the kind with the fewest
-- layers, or, if all are about as many, the most; a block holds block_size tokens of one group, or a state of each of
-- its layers, for which it grows.
local function shared(m, p, o, of, window)
  local fewest, most = math.huge, 0
  for _, count in pairs(of) do
    fewest, most = count > 0 and math.min(fewest, count) or fewest, math.max(most, count)
  end
  local size = most < EVEN * fewest and most or fewest
  local plain, own, times = tokens_of(m, p, o, of)
  local token, block_size = math.max(plain, own), o.engine.block_size
  if of.states > 0 then
    block_size = math.max(block_size, UNIT * math.ceil(m.request / of.states / (UNIT * token)))
  end
  local states, wholes, windowed_groups = ceil(of.states, size), ceil(of.whole, size), ceil(of.windowed, size)
  local large = times * block_size -- tokens in a block of the layers with narrow ones; others take `times` blocks each
  return {
    block_size = large, block_bytes = block_size * token * size, states = states,
    whole = wholes * (plain > own and times or 1) - 1, windowed = windowed_groups * (own > plain and times or 1),
    window_blocks = window and ceil(window - 1, large) + 1 or 0, apart = 0, window = 0,
    count = wholes + windowed_groups + states, least = block_size,
  }
end

local KEPT_WINDOWS <const> = 2 -- that a request has: blocks are given back once a window's tokens have passed

-- SGLang's two pools (model_runner_kv_cache_mixin.py): windowed layers keep `ratio` tokens for each of the others'.
local function apart(m, p, o, of, window)
  local ratio, size = o.engine.swa_full_tokens_ratio or p.profile.engine.swa_full_tokens_ratio, o.engine.block_size
  local plain, own = tokens_of(m, p, o, of)
  return {
    block_size = size, whole = 0, windowed = 1, window_blocks = KEPT_WINDOWS * ceil(window, size), states = 0,
    window = 0, count = 1, ratio = ratio,
    block_bytes = size * (plain * of.whole + own * ratio * of.windowed),
  }
end

-- All layers have a window: vLLM gives blocks before it back (SlidingWindowManager).
local function windows(m, window, engine)
  return { block_size = engine.block_size, block_bytes = engine.block_size * m.token, whole = 0, windowed = 0,
    window_blocks = 0, states = 0, apart = 0, window = window, count = 1 }
end

-- How an engine's layers share its blocks. nil: all keep all tokens, in blocks of one kind, as where engines send
-- caches to each other (vllm/config/vllm.py turns groups off for their connectors).
local function groups_of(m, p, o)
  local of, window = kinds_of(p, o.own)
  local engine, sends = o.engine, o.prefill ~= nil
  local pooled = schedulers.of(engine.scheduler).pools
  if not of or of.windowed + of.states == 0 then return nil end
  if of.whole == 0 then
    return pooled == "shared" and of.states == 0 and windows(m, window, engine) or nil
  end
  if not pools(p, engine) or sends and of.states == 0 then return nil end
  if pooled == "apart" then return of.states == 0 and apart(m, p, o, of, window) or nil end
  return pooled == "shared" and shared(m, p, o, of, window) or nil
end

-- The most requests that run at once, max_num_seqs or as many as there is room for states of; and the states' bytes.
-- SGLang's prefix cache keeps states, too: so many for each request that may run.
local function seats_of(m, p, o)
  local engine = o.engine
  if m.request == 0 then return engine.max_num_seqs, 0 end
  local slots = schedulers.of(engine.scheduler).keeps_states and engine.prefix_caching ~= false
    and p.profile.engine.mamba_states or 1
  local most = room_of(m, p, o) * (m.token > 0 and states_part(p) or 1) // (slots * m.request)
  if most < 1 then no_room(m, p, ("a request's state of %s"):format(units.format(m.request, "bytes"))) end
  local seats = math.tointeger(math.min(engine.max_num_seqs, most))
  return seats, (slots > 1 and most or seats) * slots * m.request
end

local function check_asked(engine)
  local scheduler = engine.scheduler
  local pooled = schedulers.of(scheduler).pools
  if engine.groups then check.fail("%s: 'engine.groups' follow from the model: leave them out", WHAT) end
  if engine.pooled and pooled == "nothing" then
    check.fail("%s: 'engine.pooled' is vLLM's and SGLang's, not %s's", WHAT, check.show(scheduler))
  end
  if engine.swa_full_tokens_ratio and pooled ~= "apart" then
    check.fail("%s: 'engine.swa_full_tokens_ratio' is SGLang's: it goes with software or scheduler = %s, got %s", WHAT,
      schedulers.with("pools", "apart"), check.show(scheduler))
  end
end

-- What an encoder read belongs to one request, whatever tokens others' prompts share with its own.
local function settle_encoders(p, engine)
  for _, kind in ipairs(p.plan.layout.kinds) do
    if kind.seq and not kind.rate then
      if engine.prefix_caching then
        refusal.raise("%s: 'engine.prefix_caching' finds equal tokens, and model '%s' has layers that encode something "
          .. "else for each request: leave it out", WHAT, p.model.name)
      end
      engine.prefix_caching = false
    end
  end
end

--- Sets what an engine's cache holds: the most requests that run at once (seats), block_size, the bytes of a block and
--- of states beside blocks, num_blocks (vLLM's num_gpu_blocks) if it is not given, and its groups of layers, or nil.
--- Without groups, layers with a window count as if they kept all tokens.
---@param m table  of memory.of
function memory.settle(m, p, o)
  local engine = o.engine
  check_asked(engine)
  settle_encoders(p, engine)
  local groups = groups_of(m, p, o)
  engine.groups, engine.seats, engine.states_bytes = groups, engine.max_num_seqs, 0
  if not groups then engine.seats, engine.states_bytes = seats_of(m, p, o) end
  engine.block_size = groups and groups.block_size or engine.block_size
  engine.block_bytes = groups and groups.block_bytes or engine.block_size * m.token
  if groups and groups.states > 0 and engine.prefix_caching == nil then engine.prefix_caching = false end
  if not engine.num_blocks and m.token > 0 then
    local blocks = (room_of(m, p, o) - engine.states_bytes) // engine.block_bytes
    if blocks < 2 then no_room(m, p, "a cache") end
    engine.num_blocks = math.tointeger(math.min(blocks, (1 << 31) - 2))
  end
  if groups and groups.ratio then
    groups.apart = math.max(1, math.floor(groups.ratio * (engine.num_blocks - 1)))
  end
end

return memory
