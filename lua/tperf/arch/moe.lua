--- Mixture of experts (arXiv 2101.03961): a router sends each token to top_k of the experts, which p.ep GPUs share;
-- an all-to-all over "ep" takes the tokens there, another brings the results back. Each expert is cut by tp like a
-- dense MLP. Shared experts (arXiv 2401.06066) meet every token.
--   load   every GPU works as hard as the busiest: imbalance times the mean; with a capacity factor, exactly its slots,
--          filled or not (GShard, arXiv 2006.16668)
--   reads  an expert's weights are read if it has any token: of E experts, each taken with k / E by each of n tokens,
--          E (1 - (1 - k / E)^n) on average
--
-- Saved: the norm's output once, for router, dispatch and shared experts; the scores in fp32; what each expert gets;
-- the inputs of its activation and of its last product. The weights of the sum are applied before that product, so its
-- output need not be kept (as Megatron-LM does since its Core 0.12).
local block = require "tperf.block"
local check = require "tperf.check"
local op = require "tperf.op"
local parts = require "tperf.arch.parts"

local moe = {}

local BYTES = 2

-- Rows for the experts of one GPU, after dispatch; and how many of these experts have any.
local function load(m, p)
  local e = m.experts
  local rows = math.ceil(1.0 * p:outer_tokens() * e.top_k * (e.capacity_factor or e.imbalance))
  local tokens = 1.0 * p:inner_tokens() * p.ep -- that choose among all experts
  return rows, (e.count / p.ep) * (1 - (1 - e.top_k / e.count) ^ tokens)
end

-- Copies every row to its places (or back, adding up), and exchanges them over ep.
local function exchange(m, p, name, rows, routed)
  local bytes = BYTES * 1.0 * m.hidden
  local function pass()
    return {
      bytes = bytes * (p:outer_tokens() + rows), vector_flops = 1.0 * rows * m.hidden,
      comms = p.ep > 1 and { { kind = "all_to_all", axis = "ep", bytes = bytes * rows } } or {},
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

-- Where every GPU has the whole stream, partial sums are all-reduced once, after they have come back: by the shared
-- experts' last product, or on their own.
local function inside(m, p)
  local e, summed_later = m.experts, not p.sequence_parallel
  if e.count % p.ep ~= 0 then
    check.fail("block 'moe': the %d experts are not divided by ep = %d", e.count, p.ep)
  end
  local rows, active = load(m, p)
  local ops = {
    p:router { name = "router", width = m.hidden, experts = e.count, top_k = e.top_k, bias = e.router_bias },
    exchange(m, p, "dispatch", rows, rows),
  }
  parts.append(ops, parts.mlp(m, p, e.ffn, {
    rows = rows, experts = e.count // p.ep, active = active, gathered = summed_later, partial = summed_later,
  }))
  ops[#ops + 1] = exchange(m, p, "combine", rows)
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
