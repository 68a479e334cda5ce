-- A layer from scratch: grouped-query attention and a gated MLP, split as in Megatron-LM, as ops. Then compares
-- multi-head, grouped-query and multi-query attention: the gain from sharing keys and values in training and serving.
local tperf = require "tperf"
local op = tperf.op

local o = tperf.args {
  summary = "multi-head against grouped-query against multi-query attention", system = "h100-sxm", gpus = 64,
  batch = 128, software = false,
}

local attention = tperf.block("attention", function(m, p)
  local rows, shard = p.micro_batch * p.seq, p.micro_batch * p.seq // p.tp
  local heads, kv, d = m.heads // p.tp, math.max(m.kv_heads // p.tp, 1), m.head_dim
  return {
    op.norm { tokens = shard, width = m.hidden, root_mean_square = true, parameter_grad = "tp" },
    op.linear { name = "qkv", tokens = rows, shard = shard, n_in = m.hidden, n_out = (heads + 2 * kv) * d,
      gather = "tp", input_grad = "tp", overlap = true },
    op.rotary { elements = 1.0 * rows * (heads + kv) * d },
    op.attention { batch = p.micro_batch, heads = heads, kv_heads = kv, seq = p.seq, head_dim = d, causal = true },
    op.linear { name = "proj", tokens = rows, n_in = heads * d, n_out = m.hidden, reduce_scatter = "tp",
      output_grad = "tp" },
    op.residual { elements = 1.0 * shard * m.hidden },
  }
end)

local mlp = tperf.block("mlp", function(m, p)
  local rows, shard, width = p.micro_batch * p.seq, p.micro_batch * p.seq // p.tp, m.ffn // p.tp
  return {
    op.norm { tokens = shard, width = m.hidden, root_mean_square = true, parameter_grad = "tp" },
    op.linear { name = "fc1", tokens = rows, shard = shard, n_in = m.hidden, n_out = 2 * width,
      gather = "tp", input_grad = "tp", overlap = true },
    op.activation { kind = "silu", gated = true, elements = 1.0 * rows * width },
    op.linear { name = "fc2", tokens = rows, n_in = width, n_out = m.hidden, reduce_scatter = "tp",
      output_grad = "tp" },
    op.residual { elements = 1.0 * shard * m.hidden },
  }
end)

local mine = tperf.architecture { name = "gqa", layer = { attention, mlp } }

local lines = {}
for _, case in ipairs { { "multi-head", 64 }, { "grouped-query", 8 }, { "multi-query", 1 } } do
  local model = tperf.model "llama-3.1-70b":with { kv_heads = case[2] }
  local function best(m)
    return tperf.search {
      model = m, system = o.system, gpus = o.gpus, global_batch = o.batch, strategy = "tensor", top = 1,
      software = o.software,
    }[1]
  end
  local own, built_in = best(model:with { architecture = mine }), best(model)
  lines[#lines + 1] = {
    attention = case[1], kv_heads = case[2], parameters = model:parameters().total, found = own, built_in = built_in,
    cache = 2 * 2 * model.layers * case[2] * model.head_dim, -- bytes of keys and values for one token
  }
end

tperf.report.print(lines, {
  { key = "attention" }, { key = "kv_heads", title = "key-value heads" }, { key = "parameters" },
  { key = function(line) return tperf.report.layout(line.found) end, title = "layout" },
  { key = "found.memory.total", title = "memory", unit = "bytes" },
  { key = "found.time", title = "iteration", unit = "s" }, { key = "built_in.time", title = "built in", unit = "s" },
  { key = "found.mfu", title = "MFU", unit = "%", digits = 3 },
  { key = "cache", title = "cache a token", unit = "bytes" },
}, { title = ("Llama 3.1 70B with other attention, %d sequences on %d GPUs, software %s"):format(o.batch, o.gpus,
  lines[1].found.software) })
