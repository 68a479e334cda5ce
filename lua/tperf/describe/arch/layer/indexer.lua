--- The indexer of sparse attention (DeepSeek-V3.2, arXiv 2512.02556, section 2.1): a few narrow heads score every pair
-- of a query and an earlier token, sum_h w_h relu(q_h . k), and each query keeps the top_k. It is replicated over tp,
-- because all GPUs need the same choice. Its queries come from the queries' latent.
--
-- Saved: the inputs of its projections; queries, keys and weights. The scores are computed again.
local bytes_of = require "tperf.core".op.bytes
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local indexer = {}

local BYTES <const>, SCORE_BYTES <const> = 2, 4

-- The number of pairs of a query on this GPU and a token that it may see.
local function pairs_of(m, p, cut)
  local keys = p.context + p.seq
  local seen = m.causal and p.mode ~= "decode" and p.context + p.seq / 2 or keys
  return 1.0 * p.micro_batch * cut.queries * seen
end

-- One kernel writes the scores, another reads them and selects.
local function scores(m, p, cut)
  local s, rows, scored = m.sparse, 1.0 * p.micro_batch * cut.queries, pairs_of(m, p, cut)
  local products, weighing = 2.0 * s.heads * s.head_dim * scored, 3.0 * s.heads * scored
  local keys = 1.0 * p.micro_batch * (p.context + p.seq) * s.head_dim
  local read = BYTES * (rows * s.heads * s.head_dim + keys)
  local kept = BYTES * rows * (s.heads * s.head_dim + s.head_dim + s.heads)
  local once, twice = read + SCORE_BYTES * scored, 2 * (read + SCORE_BYTES * scored)
  return {
    op.custom {
      name = "index-scores", dtype = p.dtype, saved_bytes = kept, by_keys = true,
      forward = { tensor_flops = products, vector_flops = weighing, bytes = once },
      backward = { tensor_flops = 3 * products, vector_flops = 3 * weighing, bytes = twice },
    },
    op.custom {
      name = "select", dtype = p.dtype, by_keys = true,
      forward = { vector_flops = 2 * scored, bytes = SCORE_BYTES * (scored + rows * s.top_k) },
    },
  }
end

-- A kernel of a serving engine that reads and writes `elements` once each, in bytes.
local function pass(p, name, elements, read, written, flops)
  return op.elementwise {
    name = name, elements = elements, dtype = p.dtype, forward_flops = flops, backward_flops = 0,
    forward_bytes = read + written, backward_bytes = 0, saved_bytes = 0,
  }
end

-- What engines launch between the projections and the scores, which they compute in 8 bits: rotation of queries and
-- keys together, a Hadamard transform and a quantisation of each (the keys' stores them), and the weights times the
-- queries' scales. SGLang's and vLLM's releases until the spring of 2026 have them as kernels of their own; later ones
-- fuse them (SGLang's pull requests 24324 and 27705, vLLM's 38928). chooses: without it only keys are needed.
local function between(m, p, cut, chooses)
  local s, rows = m.sparse, 1.0 * p.micro_batch * cut.queries
  local queries, keys, steps = rows * s.heads * s.head_dim, rows * s.head_dim, math.log(s.head_dim, 2)
  local ops = {
    op.rotary { elements = rows * ((chooses and s.heads or 0) + 1) * m.mla.rope_dim, dtype = p.dtype },
    pass(p, "index-k-hadamard", keys, BYTES, BYTES, steps), pass(p, "index-k-cast", keys, BYTES, 1, 2),
  }
  if p.mode == "decode" then
    local element = bytes_of("op.attention", p.kv_dtype or "bf16")
    ops[#ops]:keep { token = element * p.micro_batch * s.head_dim / (cut.key_shards or 1) }
  end
  return chooses and parts.append(ops, {
    pass(p, "index-q-hadamard", queries, BYTES, BYTES, steps), pass(p, "index-q-cast", queries, BYTES, 1, 2),
    pass(p, "index-q-scale", rows * s.heads, BYTES + SCORE_BYTES, SCORE_BYTES, 2),
  }) or ops
end

-- Queries from the latent, keys, and the heads' weights.
local function projections(m, p)
  local s = m.sparse
  return {
    p:replicated {
      name = "index-q", n_in = m.mla.q_rank, n_out = s.heads * s.head_dim, input_kept_elsewhere = true,
    },
    p:replicated { name = "index-k", n_in = m.hidden, n_out = s.head_dim, input_kept_elsewhere = true },
    op.norm {
      name = "index-norm", tokens = p:outer_tokens(), width = s.head_dim, parameters = 2 * s.head_dim, dtype = p.dtype,
      parameter_grad = p.sequence_parallel and p.features or nil,
    },
    p:replicated { name = "index-weights", n_in = m.hidden, n_out = s.heads, input_kept_elsewhere = true },
  }
end

-- Whether there is a choice to make: prompts of up to top_k tokens take all of them.
local function may_choose(m, p) return p.mode ~= "prefill" or p.context + p.seq > m.sparse.top_k end

--- The ops of the indexer, placed before the attention that uses its choice. cut: p:heads(…).
function indexer.ops(m, p, cut)
  local s, chooses = m.sparse, may_choose(m, p)
  local ops = projections(m, p)
  if p.sequence_parallel then -- every GPU selects for all rows
    ops[#ops + 1] = op.collective {
      name = "index-rows", kind = "all_gather", axis = p.features, share = true,
      bytes = 1.0 * BYTES * p:outer_tokens() * (s.heads * s.head_dim + s.head_dim + s.heads),
    }
  end
  if p.mode ~= "train" then parts.append(ops, between(m, p, cut, chooses)) end
  return chooses and parts.append(ops, scores(m, p, cut)) or ops
end

return indexer
