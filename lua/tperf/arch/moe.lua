--- Mixture of experts (arXiv 2101.03961): a router sends each token to top_k of the experts, which p.ep GPUs share;
-- an all-to-all over "ep" takes the tokens there, another brings the results back. Each expert is cut by tp like a
-- dense MLP, or stays whole on one of tp x ep GPUs (Megatron-LM's expert-tensor-parallel size of 1), which takes one
-- all-to-all over "tp" more. Shared experts (arXiv 2401.06066) meet every token.
--   load   every GPU works as hard as the busiest: imbalance times the mean; with a capacity factor, exactly its slots,
--          filled or not (GShard, arXiv 2006.16668)
--   reads  an expert's weights are read if it has any token: of E experts, each taken with k / E by each of n tokens,
--          E (1 - (1 - k / E)^n) on average
--
-- Saved: the norm's output once, for router, dispatch and shared experts; the scores in fp32; what each expert gets;
-- the inputs of its activation and of its last product. The weights of the sum are applied before that product, so its
-- output need not be kept (as Megatron-LM does since its Core 0.12).
local block = require "tperf.block"
local refusal = require "tperf.refusal"
local op = require "tperf.op"
local parts = require "tperf.arch.parts"

local moe = {}

local BYTES = 2

-- GPUs of the tensor-parallel axis over which experts are spread whole: where each holds its part of the stream.
local function spread(m, p)
  return m.experts.whole and p.sequence_parallel and p.tp or 1
end

-- Rows for the experts of one GPU, after dispatch; and how many of these experts have any.
local function load(m, p)
  local e = m.experts
  local rows = math.ceil(1.0 * p:outer_tokens() * e.top_k * (e.capacity_factor or e.imbalance))
  local tokens = 1.0 * p:inner_tokens() * p.ep -- that choose among all experts
  return rows, (e.count / (p.ep * spread(m, p))) * (1 - (1 - e.top_k / e.count) ^ tokens)
end

-- Copies every row to its places (or back, adding up), and exchanges them over ep.
local function exchange(m, p, name, rows, routed)
  local bytes = BYTES * 1.0 * m.hidden
  local function pass()
    local comms = {}
    for _, axis in ipairs { { "ep", p.ep }, { p.features, spread(m, p) } } do
      if axis[2] > 1 then comms[#comms + 1] = { kind = "all_to_all", axis = axis[1], bytes = bytes * rows } end
    end
    return {
      bytes = bytes * (p:outer_tokens() + rows), vector_flops = 1.0 * rows * m.hidden,
      comms = comms,
    }
  end
  return op.custom { name = name, dtype = p.dtype, forward = pass(), backward = pass(), routed = routed }
end

local function shared(m, p, ops)
  local e = m.experts
  local pieces = m.biases.mlp and e.shared or math.min(e.shared, 1) -- without biases, one wide MLP
  for i = 1, pieces do
    local width = (e.shared_ffn or e.ffn) * (e.shared // pieces)
    local name = pieces > 1 and ("shared-%d-"):format(i) or "shared-"
    parts.append(ops, parts.mlp(m, p, width, { input_kept_elsewhere = true }, name))
  end
  if e.shared_gate then
    ops[#ops + 1] = p:replicated { name = "shared-gate", n_in = m.hidden, n_out = 1, input_kept_elsewhere = true }
  end
end

-- The same share of the work with features that nothing cuts.
local function uncut(p)
  local share = {}
  for name, value in next, p do share[name] = value end
  share.tp = 1
  return setmetatable(share, getmetatable(p))
end

-- The same model, as wide as the latent that its routed experts work in.
local function narrowed(m)
  return m.experts.latent and setmetatable({ hidden = m.experts.latent }, { __index = m }) or m
end

-- Where every GPU has the whole stream, partial sums are all-reduced once, after they have come back: by the shared
-- experts' last product, or on their own.
local function inside(m, p)
  local e, summed_later = m.experts, not p.sequence_parallel
  local gpus = p.ep * spread(m, p)
  if e.count % gpus ~= 0 then
    refusal.raise("block 'moe': the %d experts are not divided by %s = %d", e.count,
      gpus > p.ep and "ep x tp" or "ep", gpus)
  end
  local rows, active = load(m, p)
  local ops, narrow = {
    p:router { name = "router", width = m.hidden, experts = e.count, top_k = e.top_k, bias = e.router_bias },
  }, narrowed(m)
  if e.latent then
    ops[2] = p:replicated { name = "latent-in", n_in = m.hidden, n_out = e.latent, input_kept_elsewhere = true }
  end
  ops[#ops + 1] = exchange(narrow, p, "dispatch", rows, rows)
  local alone = summed_later or gpus > p.ep -- no exchange with the GPUs that cut the stream's other products
  parts.append(ops, parts.mlp(narrow, gpus > p.ep and uncut(p) or p, e.ffn, {
    rows = rows, experts = e.count // gpus, active = active, gathered = alone, partial = alone,
  }))
  ops[#ops + 1] = exchange(narrow, p, "combine", rows)
  if e.latent then ops[#ops + 1] = p:replicated { name = "latent-out", n_in = e.latent, n_out = m.hidden } end
  shared(m, p, ops)
  if summed_later and e.shared == 0 then
    ops[#ops + 1] = op.collective {
      name = "sum", kind = "all_reduce", axis = p.features, bytes = BYTES * p:outer(m.hidden),
    }
  end
  return ops
end

--- The block of experts, the i-th of the layer's n sublayers.
function moe.block(i, n)
  return block("moe", function(m, p) return parts.sublayer(m, p, i, n, inside(m, p)) end)
end

return moe
