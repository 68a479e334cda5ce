--- DeepSeek-V4 from Hugging Face files. Structure and names are those of transformers' DeepseekV4 classes:
--    streams     each layer works on hc_mult residual streams: before a sublayer one product of all of them gives the
--                weights of their sum, after it those of their mixture (manifold-constrained hyper-connections)
--    attention   one head of keys, which are the values, too, and the last sliding_window of them; from q_lora_rank
--                features the queries; the output goes through o_groups products of o_lora_rank features
--    compressed  layers with a ratio r also attend to one key for every r tokens, a weighted mean by two products; with
--                r = 4 an indexer chooses index_topk of these, by keys of its own
--    experts     in every layer; in the first num_hash_layers a table by token chooses them
-- Attention to compressed keys is a kernel of its own here. The modules for multi-token prediction are left out, as in
-- the transformers library.
local attention = require "tperf.describe.arch.layer.attention"
local block = require "tperf.describe.block"
local bytes_of = require "tperf.core".op.bytes
local check = require "tperf.base.check"
local composed = require "tperf.describe.arch.composed"
local ends = require "tperf.describe.arch.ends"
local fitting = require "tperf.describe.strategy.fitting"
local moe = require "tperf.describe.arch.layer.moe"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.model.hf.parts"
local pieces = require "tperf.describe.arch.layer.parts"

local types = {}

local BYTES <const>, SCORE_BYTES <const> = 2, 4
local CHOOSING <const> = 4 -- the ratio of layers with an indexer

-- Vector work over the streams: `read` and `written` are bytes for each of their elements.
local function over_streams(m, p, o, name, parameters, flops, moved)
  return op.elementwise {
    name = name, elements = p:outer(o.streams * m.hidden), parameters = parameters, dtype = p.dtype,
    forward_flops = flops, backward_flops = 2 * flops, forward_bytes = moved, backward_bytes = 2 * moved,
    saved_bytes = BYTES, parameter_grad = p.sequence_parallel and p.features or nil,
  }
end

-- The weights of the sum of the streams and of their mixture, and that sum.
local function gathered(m, p, o, name)
  local mix = (2 + o.streams) * o.streams
  return {
    p:replicated { name = name .. "-mix", n_in = o.streams * m.hidden, n_out = mix },
    over_streams(m, p, o, name .. "-sum", mix + 3, 2 + 2 * o.iterations * mix / m.hidden, BYTES * (1 + 1 / o.streams)),
  }
end

-- The streams mixed, and the sublayer's output added to each.
local function spread(m, p, o, name)
  return { over_streams(m, p, o, name .. "-streams", 0, 2 * o.streams + 2, BYTES * (2 + 1 / o.streams)) }
end

local function beside(p, name, n_in, n_out)
  return p:replicated { name = name, n_in = n_in, n_out = n_out, input_kept_elsewhere = true }
end

-- Weighted means of r tokens each: two products, a bias for every place in a window, and a norm. Windows of layers that
-- choose overlap, and have two halves.
local function compressed(m, p, name, ratio, width)
  local whole = (ratio == CHOOSING and 2 or 1) * width
  return {
    beside(p, name .. "-kv", m.hidden, whole), beside(p, name .. "-gate", m.hidden, whole),
    op.elementwise {
      name = name .. "-pool", elements = p:outer(whole), parameters = ratio * whole + width, dtype = p.dtype,
      forward_flops = 8, backward_flops = 16, forward_bytes = 2 * BYTES, backward_bytes = 4 * BYTES,
      saved_bytes = 2 * BYTES, parameter_grad = p.sequence_parallel and p.features or nil,
    },
  }
end

-- Compressed keys that a query may see, on average over its sequence.
local function visible(p, ratio)
  local tokens = p.mode == "decode" and p.context + p.seq or p.context + p.seq / 2
  return tokens / ratio
end

local function keep(p, one, width, ratio)
  if p.mode == "decode" then
    one:keep { token = bytes_of("op.attention", p.kv_dtype or "bf16") * p.micro_batch * width / ratio }
  end
  return one
end

-- The indexer: keys of its own for every r tokens, whose products with narrow queries one kernel sums and another
-- selects from.
local function indexer(m, p, o, cut, ratio)
  local i, rows = o.index, 1.0 * p.micro_batch * cut.queries
  local ops = compressed(m, p, "index", ratio, i.width)
  local scored = rows * visible(p, ratio)
  local products = 2.0 * i.heads * i.width * scored
  local read = BYTES * (rows * i.heads * i.width + p.micro_batch * i.width * (p.context + p.seq) / ratio)
  pieces.append(ops, { beside(p, "index-q", o.q_rank, i.heads * i.width), beside(p, "index-w", m.hidden, i.heads) })
  ops[#ops + 1] = keep(p, op.custom {
    name = "index-scores", dtype = p.dtype, by_keys = true, saved_bytes = BYTES * rows * i.heads * (i.width + 1),
    forward = { tensor_flops = products, vector_flops = 3 * i.heads * scored, bytes = read + SCORE_BYTES * scored },
    backward = { tensor_flops = 3 * products, bytes = 2 * (read + SCORE_BYTES * scored) },
  }, i.width, ratio)
  ops[#ops + 1] = op.custom {
    name = "index-select", dtype = p.dtype, by_keys = true,
    forward = { vector_flops = 2 * scored, bytes = SCORE_BYTES * (scored + rows * i.top_k) },
  }
  return ops
end

-- Attention to compressed keys: all that a query may see, or those that the indexer chose.
local function to_compressed(p, o, cut, ratio, width)
  local rows, seen = 1.0 * p.micro_batch * cut.queries, visible(p, ratio)
  if ratio == CHOOSING then seen = math.min(seen, o.index.top_k) end
  local element = bytes_of("op.attention", p.kv_dtype or "bf16")
  local keys = p.mode == "decode" and seen or math.max(seen, (p.context + p.seq) / ratio)
  local flops = 4.0 * rows * cut.heads * width * seen
  local bytes = element * p.micro_batch * width * keys + 2 * BYTES * rows * cut.heads * width
  return keep(p, op.custom {
    name = "compressed", dtype = p.dtype, by_keys = true, saved_bytes = BYTES * rows * cut.heads * width,
    forward = { tensor_flops = flops, bytes = bytes }, backward = { tensor_flops = 2.5 * flops, bytes = 2 * bytes },
  }, width, ratio)
end

-- The kernels between the projections.
local function kernels(m, p, o, cut, ratio)
  local ops = attention.kernels(m, p, cut, { kv_heads = 1, head_dim = m.head_dim, value_dim = m.head_dim,
    values_in_keys = true, window = o.window })
  if ratio > 0 then ops[#ops + 1] = to_compressed(p, o, cut, ratio, m.head_dim) end
  return ops
end

local function queries(m, p, o, made)
  return {
    p:replicated { name = "q-down", n_in = m.hidden, n_out = o.q_rank },
    pieces.norm(m, p, "q-norm", o.q_rank),
    p:column { name = "q-up", n_in = o.q_rank, local_out = made.heads * m.head_dim },
    pieces.head_norm(m, p, "q-head-norm", p.micro_batch * made.queries * made.heads, m.head_dim, true),
    beside(p, "kv", m.hidden, m.head_dim), pieces.norm(m, p, "kv-norm", m.head_dim),
    attention.rotary(p, made, made.heads + 1, o.rope),
  }
end

-- Each group of heads into o.out_rank features, and all of these into the stream.
local function output(m, p, o)
  local n = p[p.features] or 1
  local groups = fitting.split(p, o.groups, n, p.features, "o_groups")
  return {
    op.linear {
      name = "o-down", tokens = p:inner_tokens(), n_in = m.heads * m.head_dim // o.groups, n_out = groups * o.out_rank,
      dtype = p.dtype, weight_dtype = p.weight_dtype, matrix_dtype = p.matrix_dtype,
    },
    p:row { name = "proj", n_in = o.groups * o.out_rank, n_out = m.hidden }:belong "attn_proj",
  }
end

-- The attention sublayer of layers with a ratio; 0: with the window alone.
local function attending(o, ratio)
  return block("attention", function(m, p)
    local cut = p:heads(m.heads, 1)
    if p.part == "attention" then return kernels(m, p, o, cut, ratio) end
    local ops = gathered(m, p, o, "hc")
    pieces.append(ops, { pieces.norm(m, p, "norm") })
    pieces.append(ops, queries(m, p, o, cut.projected or cut))
    if ratio > 0 then pieces.append(ops, compressed(m, p, "compress", ratio, m.head_dim)) end
    if ratio == CHOOSING then pieces.append(ops, indexer(m, p, o, cut, ratio)) end
    pieces.append(ops, kernels(m, p, o, cut, ratio))
    pieces.append(ops, output(m, p, o))
    return pieces.append(ops, spread(m, p, o, "hc"))
  end)
end

-- The experts; hashed: a table with a row of them for every token chooses, and the router has no bias.
local function feeding(o, hashed)
  local inner = moe.block(2, 2)
  return block("moe", function(m, p)
    if p.part == "attention" then return {} end
    local ops, seen = gathered(m, p, o, "hc"), m
    if hashed then
      local e = setmetatable({ router_bias = false }, { __index = m.experts })
      seen = setmetatable({ experts = e }, { __index = m })
      ops[#ops + 1] = op.elementwise {
        name = "hash", elements = p:outer(m.experts.top_k), parameters = m.vocab * m.experts.top_k, dtype = p.dtype,
        forward_flops = 0, backward_flops = 0, forward_bytes = 8, backward_bytes = 0, saved_bytes = 0,
      }
    end
    pieces.append(ops, inner.build(seen, p))
    return pieces.append(ops, spread(m, p, o, "hc"))
  end)
end

-- Before the last norm, the weighted sum of the streams.
local function last_sum(o)
  return block("streams", function(m, p)
    return {
      p:replicated { name = "mix", n_in = o.streams * m.hidden, n_out = o.streams },
      over_streams(m, p, o, "sum", o.streams + 1, 2, BYTES * (1 + 1 / o.streams)),
    }
  end)
end

local RATIOS <const> = { sliding_attention = 0, compressed_sparse_attention = 4, heavily_compressed_attention = 128 }

-- The ratio of every layer: a list of kinds, or of ratios, which goes on to the modules for multi-token prediction.
local function ratios_of(c, layers)
  local key = c:has "layer_types|compress_ratios"
  local listed, ratios = key and c:table(key), {}
  c:ignore "layer_types|compress_ratios"
  for i = 1, layers do
    local one = listed and listed[i]
    if not listed then one = (i <= 2 or i % 2 == 1) and 128 or 4 end
    ratios[i] = RATIOS[one] or (one == 0 or one == 4 or one == 128) and one
      or c:fail(key, "[%d] = %s is not a ratio of 0, 4 or 128", i, check.show(one))
  end
  return ratios
end

-- Which layers choose experts by a table: the first num_hash_layers, or by a list.
local function hashed_of(c, layers)
  local listed, first, set = c:table "mlp_layer_types", c:count("num_hash_layers", 3, 0), {}
  for i = 1, layers do
    local kind = listed and listed[i]
    if listed and kind ~= "hash_moe" and kind ~= "moe" then
      c:fail("mlp_layer_types", "[%d] = %s is not hash_moe or moe", i, check.show(kind))
    end
    if listed then set[i] = kind == "hash_moe" else set[i] = i <= first end
  end
  return set
end

local function settings(c)
  return {
    streams = c:count("hc_mult", 4), iterations = c:count("hc_sinkhorn_iters", 20),
    q_rank = c:count("q_lora_rank", 1024),
    groups = c:count("o_groups", 8), out_rank = c:count("o_lora_rank", 1024), window = c:count("sliding_window", 128),
    rope = c:count("qk_rope_head_dim", 64),
    index = { heads = c:count("index_n_heads", 64), width = c:count("index_head_dim", 128),
      top_k = c:count("index_topk", 512) },
  }
end

local function layers_of(m, o, ratios, hashed)
  local mixers, feeds, list = {}, { [true] = feeding(o, true), [false] = feeding(o, false) }, {}
  for i, ratio in ipairs(ratios) do
    mixers[ratio] = mixers[ratio] or attending(o, ratio)
    list[i] = {
      kind = "moe", attention = "gqa", mlp = "experts", norms = 2, width = o.streams * m.hidden,
      blocks = { mixers[ratio], feeds[hashed[i]] },
    }
  end
  return list
end

function types.deepseek_v4(c)
  c:note("deepseek_v4", "no run of it was compared with the prices of its kernels, each counted by itself")
  c:ignore("num_nextn_predict_layers", "modules for multi-token prediction are left out")
  c:ignore "compress_rope_theta|expert_dtype|hc_eps|num_key_value_heads|intermediate_size"
  parts.only(c, { attention_bias = false, mlp_bias = false })
  local m = parts.decoder(c)
  m.kv_heads, m.head_dim, m.seq = 1, c:count("head_dim", 512), c:count(parts.keys.seq)
  m.norm, m.positions, m.gated, m.biases, m.attention_sinks = "rmsnorm", "rotary", true, false, true
  m.tied_embeddings, m.activation = parts.tied(c, false), parts.activation(c, "silu")
  m.experts = {
    count = c:count("n_routed_experts|num_local_experts", 256), top_k = c:count("num_experts_per_tok", 6),
    ffn = c:count("moe_intermediate_size", 2048), shared = c:count("n_shared_experts", 1, 0), router_bias = true,
  }
  m.ffn = m.experts.ffn
  local o = settings(c)
  m.architecture = composed.of("deepseek_v4", layers_of(m, o, ratios_of(c, m.layers), hashed_of(c, m.layers)), nil,
    { last_sum(o), ends.head })
  return m
end

return types
