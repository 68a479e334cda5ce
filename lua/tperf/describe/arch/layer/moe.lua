--- Mixture of experts (arXiv 2101.03961): a router sends each token to top_k of the experts, which are spread over an
-- axis of the strategy (p.spread: ep). One all-to-all over it takes the tokens there, another brings the results
-- back. Each expert is sharded over a second axis (p.expert_features: etp), like a dense MLP over tp. Both axes fold
-- over tp, cp and dp (arXiv 2504.14960). Shared experts (arXiv 2401.06066) process every token.
--   load   every GPU works as hard as the busiest: imbalance times the mean, in training by the kind of run
--          (experts/routing.lua); with a capacity factor, exactly its slots, filled or not (GShard, arXiv 2006.16668)
--   chance in inference, the busiest of several GPUs has by chance more experts with a token than the mean, and all
--          wait for it: of m normal numbers the largest is e(m) deviations above the mean, and each of a GPU's experts
--          has a token with the same probability, independently
--   reads  an expert's weights are read if it has any token: of E experts, each taken with k / E by each of n tokens,
--          E (1 - (1 - k / E)^n) on average; fewer where some are more popular (experts/popularity.lua)
--
-- In training, unfused kernels run between the products, as in Megatron-LM (moe_utils.py, token_dispatcher.py and
-- experts.py of its Core 0.14, dispatcher alltoall, without moe_router_fusion) and torchtitan (models/moe):
--   choice   the router's scores, one per token and expert: softmax or sigmoid in fp32, top-k, scattering the chosen
--            ones into a table and a byte map, the load-balancing loss
--   sort     rows arrive sorted by sender, but the products need them sorted by expert: every row is copied once more
--            after the first all-to-all and once more before the second
--   bias     the last product's bias times the row's weight, expert by expert
-- kernels/experts.yaml has their bytes.
-- Inference uses one fused kernel instead; its time is in system.accelerator.routing.
--
-- Saved: the norm's output once, for router, dispatch and shared experts; the scores in fp32; the experts' input;
-- the inputs of their activation and of their last product. The routing weights are applied before that product, so its
-- output need not be kept (as Megatron-LM does since its Core 0.12).
local block = require "tperf.describe.block"
local composite = require "tperf.describe.arch.composite"
local dispatch = require "tperf.describe.arch.experts.dispatch"
local divisors = require "tperf.base.divisors"
local refusal = require "tperf.base.refusal"
local kernels = require "tperf.describe.kernels"
local op = require "tperf.describe.op"
local padding = require "tperf.describe.arch.experts.padding"
local parts = require "tperf.describe.arch.layer.parts"
local popularity = require "tperf.describe.arch.experts.popularity"
local routing = require "tperf.describe.arch.experts.routing"
local scattered = require "tperf.describe.arch.experts.scattered"
local small = require "tperf.describe.arch.experts.small"

local moe = {}

local BYTES = 2

-- The placement of the experts on the GPUs of a share.
--   cut       GPUs that shard each expert
--   sharing   GPUs with the same tokens that divide the rows of these (if the stream is not sharded by tokens: those of
--             tp beyond `cut`): each works only for its own experts, and copies of an expert each for a part of rows
--   copies    of each expert among them
--   replicas  GPUs with different tokens that the experts are spread over
local function spread(m, p)
  local gpus = dispatch.gpus(p)
  local cut = p[p.expert_features] or p[p.features] or 1
  if m.experts.count % gpus ~= 0 then
    refusal.raise("block 'moe': the %d experts are not divided by %s = %d", m.experts.count, p.spread, gpus)
  end
  if p.sequence_parallel then return { cut = cut, sharing = 1, copies = 1, replicas = gpus } end
  local tp = p[p.features] or 1
  if math.max(tp, cut) % math.min(tp, cut) ~= 0 then
    refusal.raise("block 'moe': %s = %d neither divides %s = %d nor is divided by it, as where each GPU has the whole "
      .. "stream it must", p.expert_features, cut, p.features, tp)
  end
  local sharing = math.max(tp // cut, 1)
  local spread_over = divisors.gcd(gpus, sharing)
  return { cut = cut, sharing = sharing, copies = sharing // spread_over, replicas = gpus // spread_over }
end

-- Replicas whose tokens are gathered, for experts sharded over more GPUs than replicate the stream.
local function gathered(p)
  if p.sequence_parallel then return 1 end
  local tp = p[p.features] or 1
  return math.max((p[p.expert_features] or tp) // tp, 1)
end

-- The experts that have a token on the busiest of `gpus`, from the mean; each holds `held`.
local function busiest(mean, held, gpus)
  return math.min(mean + routing.largest(gpus) * math.sqrt(math.max(mean * (1 - mean / held), 0)), held)
end

-- Rows for the experts of one GPU after dispatch, and the number of these experts that have any.
local function load(m, p, lie)
  local e, mine = m.experts, 1.0 * p:outer_tokens() * gathered(p)
  local gpus = dispatch.gpus(p)
  local rows = math.ceil(mine * e.top_k * routing.load(m, p, gpus) / lie.sharing + padding.sent(m, p, mine, lie))
  -- that choose among all experts
  local tokens = mine * (p.sequence_parallel and lie.cut or 1) * lie.replicas / lie.copies
  local active = popularity.touched(e.count, e.top_k, e.skew, tokens) / gpus
  return rows, p.mode == "train" and active or busiest(active, e.count / gpus, gpus)
end

-- Gathers, before an expert's first product, the rows of all GPUs that shard the expert: Megatron-Core's dispatcher
-- does this, and its grouped products do not communicate (moe/token_dispatcher.py, dispatch_postprocess;
-- explicit_expert_comm in extensions/transformer_engine.py). A GPU that holds the whole stream already has all rows.
local function gather_rows(m, p, rows, lie)
  if not p.sequence_parallel or lie.cut == 1 then return {} end
  return {
    op.collective {
      name = "gather-rows", kind = "all_gather", axis = p.expert_features or p.features,
      bytes = BYTES * 1.0 * m.hidden * rows * lie.cut,
    },
  }
end

-- Gathers the tokens of several replicas for experts sharded over all their GPUs; reduce-scatters the sums on the way
-- back.
local function meet(m, p, name, kind)
  local replicas = gathered(p)
  if replicas == 1 then return {} end
  return {
    op.collective {
      name = name, kind = kind, axis = p.expert_features,
      bytes = BYTES * 1.0 * m.hidden * p:outer_tokens() * replicas,
    },
  }
end

local function choice(m, p)
  if p.mode ~= "train" then return {} end
  local bytes = kernels.of "experts".choice
  return {
    op.elementwise({
      name = "choice", elements = 1.0 * p:outer_tokens() * (m.experts.count + m.experts.zero), dtype = p.dtype,
      forward_flops = 2, backward_flops = 2,
      forward_bytes = bytes.forward, backward_bytes = bytes.backward, saved_bytes = 0,
    }):belong "moe_router",
  }
end

local function bias(m, p, rows)
  if p.mode ~= "train" or not m.biases.mlp then return {} end
  local bytes = kernels.of "experts".bias
  return {
    scattered(op.elementwise {
      name = "bias", elements = 1.0 * p:inner_tokens(rows) * m.hidden, dtype = p.dtype, forward_flops = 2,
      backward_flops = 3, forward_bytes = bytes.forward, backward_bytes = bytes.backward, saved_bytes = 0,
      repeated_bytes = bytes.forward - bytes.held,
    }, p.fused_experts),
  }
end

-- Bytes per number sent to experts: tokens and, in the backward pass, gradients of their results. The other direction
-- adds up in 16 bits (DeepSeek-V3, arXiv 2412.19437, section 3.3.3).
local function sent_element(p) return p.sent_element or BYTES end

-- Copies every row to its places (or back, adding up) and exchanges the rows by the share's dispatcher
-- (tperf/describe/arch/experts/dispatch.lua). routed: pairs of a token and an expert to sort; nil on the way back.
-- beside: the op that the exchange runs beside; nil: everything waits for it.
local function exchange(m, p, name, rows, lie, routed, beside)
  local function way(there)
    local element = there and sent_element(p) or BYTES
    local w = dispatch.way(m, p, there, rows, lie, element)
    if element < BYTES then w.bytes = w.bytes + (BYTES + element) * p:outer_tokens() * m.hidden end -- to quantise
    return w
  end
  local travels = lie.replicas > 1
  local function pass(w)
    local comms = travels and not beside and { w.comm } or {}
    return { bytes = w.bytes, vector_flops = 1.0 * rows * m.hidden, comms = comms }
  end
  local forward, backward = way(routed ~= nil), way(routed == nil)
  for kind, w in pairs(travels and beside and { forward = forward, backward = backward } or {}) do
    local c = w.comm
    beside:communicate(kind, c.kind, c.axis, c.bytes, c.share, true, c.once, c.exchanges)
  end
  return scattered(op.custom {
    name = name, dtype = p.dtype, forward = pass(forward), backward = pass(backward), routed = routed,
    repeated_bytes = forward.repeated_bytes,
  }, p.fused_experts):launches(routed and kernels.of "experts".sorts or 0)
end

-- The ops of the shared experts.
local function shared(m, p)
  local e, ops = m.experts, {}
  local pieces = m.biases.mlp and e.shared or math.min(e.shared, 1) -- without biases, one wide MLP
  for i = 1, pieces do
    local width = (e.shared_ffn or e.ffn) * (e.shared // pieces)
    local name = pieces > 1 and ("shared-%d-"):format(i) or "shared-"
    parts.append(ops, parts.module("shared_experts", parts.mlp(m, p, width, { input_kept_elsewhere = true }, name)))
  end
  if e.shared_gate then
    ops[#ops + 1] = p:replicated { name = "shared-gate", n_in = m.hidden, n_out = 1, input_kept_elsewhere = true }
    parts.append(ops, small.gated_sum(m, p))
  end
  return ops
end

-- The same share with its products sharded over the experts' own axis.
local function of_experts(p)
  return p[p.expert_features] and setmetatable({ features = p.expert_features }, { __index = p }) or p
end

-- The same model, as wide as the latent that its routed experts work in.
local function narrowed(m)
  return m.experts.latent and setmetatable({ hidden = m.experts.latent }, { __index = m }) or m
end

local function route(m, p)
  local e, ops = m.experts, meet(m, p, "gather-tokens", "all_gather")
  parts.append(ops, small.router(m, p))
  parts.append(ops, choice(m, p))
  if e.latent then
    ops[#ops + 1] = p:replicated { name = "latent-in", n_in = m.hidden, n_out = e.latent, input_kept_elsewhere = true }
  end
  return ops
end

-- A grouped product is one for each of the GPU's experts, which the call of one module launches one after the other
-- (TransformerEngine's GroupedLinear, whose C++ loops over them). Kernels of all experts at once are one call:
-- fused_experts, and stacks with grouped_kernels. A loop of Python also picks each expert's tokens, activates, weighs
-- and adds, by calls of PyTorch alone, and twice as often backward (expert_calls).
local function launched(p, mlp, experts)
  local each = p.mode == "train" and p.expert_calls or 0
  if each > 0 then
    mlp[1]:calls(each * experts, 2 * each * experts):loop()
  elseif p.mode == "train" and not (p.fused_experts or p.grouped_kernels) then
    mlp[1]:calls(experts):loop()
    mlp[3]:calls(experts):loop()
  end
  return mlp
end

-- The routed experts' products on the rows that were dispatched, padded for narrow products.
local function routed(m, p, rows, active, lie)
  local own, summed_later, padded = of_experts(p), not p.sequence_parallel, padding.rows(m, p, rows, active, lie)
  local ops = parts.append(gather_rows(m, p, rows, lie), padding.copy(m, own, "pad", rows, padded))
  local held = m.experts.count // dispatch.gpus(p)
  local mlp = launched(p, parts.mlp(m, own, m.experts.ffn, {
    rows = padded, experts = held, active = active, gathered = summed_later, partial = summed_later,
    fused = p.fused_experts,
  }), held)
  mlp[1]:belong "expert_fc1"
  scattered(mlp[2]:belong "moe_act", p.fused_experts)
  parts.append(ops, mlp)
  parts.append(ops, padding.copy(m, own, "unpad", rows, padded))
  return parts.append(ops, bias(m, own, rows))
end

-- With overlap_shared_experts the shared experts' first product runs beside the dispatch, and their last beside the
-- combine (Megatron-LM, shared_experts.py).
local function work(m, p)
  local lie, narrow, overlaps = spread(m, p), narrowed(m), p.overlap_shared_experts and true
  local rows, active = load(m, p, lie)
  local beside = overlaps and shared(m, p) or {}
  local ops = { exchange(narrow, p, "dispatch", rows, lie, rows, overlaps and beside[1]) }
  table.move(beside, 1, 2, #ops + 1, ops)
  parts.append(ops, routed(narrow, p, rows, active, lie))
  table.move(beside, 3, #beside, #ops + 1, ops)
  ops[#ops + 1] = exchange(narrow, p, "combine", rows, lie, nil, overlaps and beside[3])
  return ops
end

-- If every GPU holds the whole stream, partial sums are all-reduced once, after the combine: by the shared experts'
-- last product or by a separate collective.
local function finish(m, p)
  local e, ops = m.experts, {}
  if e.latent then ops[1] = p:replicated { name = "latent-out", n_in = e.latent, n_out = m.hidden } end
  parts.append(ops, meet(m, p, "scatter-sums", "reduce_scatter"))
  parts.append(ops, small.returned(m, p))
  if not p.overlap_shared_experts then parts.append(ops, shared(m, p)) end
  if not p.sequence_parallel and e.shared == 0 then
    ops[#ops + 1] = op.collective {
      name = "sum", kind = "all_reduce", axis = p.features, bytes = BYTES * p:outer(m.hidden),
    }
  end
  return ops
end

local function piece_of(build, reads) return { block = block("moe", build, reads) } end

-- Where each GPU has the whole stream, tokens are gathered for experts that are cut over more GPUs (gathered).
local function is_dense(p) return p.sequence_parallel end

-- Rows are whole, and experts without a token are not read: the counts are not linear. Shared ones are cut over tp.
local experts = piece_of(function(m, p) return parts.module("moe", work(m, p)) end, {
  part = "feed", by_stream = function(p) return not p.overlap_shared_experts end,
})

--- The block of experts, i-th of the layer's n sublayers. One piece of it alone depends on where the experts are.
function moe.block(i, n)
  local pieces = {
    piece_of(function(m, p)
      local opening = parts.module("moe_router", parts.opening(m, p, i, n, "mlp_norm"))
      return parts.append(opening, parts.module("moe", route(m, p)))
    end, { dense = is_dense, part = "feed", linear = true }),
    experts,
    piece_of(function(m, p)
      return parts.append(parts.module("moe", finish(m, p)), parts.closing(m, p, i, n))
    end, { dense = is_dense, part = "feed", linear = true }),
  }
  return composite("moe", function() return pieces end)
end

return moe
