-- A custom strategy in plain Lua: DeepSpeed-Ulysses (arXiv 2309.14509; `--cp-comm-type a2a` in Megatron-LM), compared
-- with tensor parallelism and the built-in context parallelism for increasing sequence lengths.
--
-- As in strategy "context", cp GPUs share a sequence, and each has all weights of the layer. There, every GPU attends
-- with its part of the queries and gathers all keys and values. Here, an all-to-all exchanges a part of the sequence
-- with all heads for the whole sequence with a part of the heads, and a second one reverses that. Context moves
-- 2 kv_heads heads of every token to each GPU, Ulysses 2 (heads + kv_heads) / cp; but tp x cp cannot exceed the heads.
-- The strategy also serves: tperf.infer, tperf.serve and their searches accept its name.
local tperf = require "tperf"
local op = tperf.op

local o = tperf.args {
  summary = "Ulysses against context and tensor parallelism", model = "llama-3.1-8b", system = "h100-sxm", gpus = 64,
  { long = "seq", value = "N,...", kind = "integers", default = "8192,32768,131072,524288",
    help = "tokens per sequence" },
  { long = "batch-tokens", value = "N", kind = "integer", default = 4194304, help = "tokens per global batch" },
}

local context = tperf.strategy.of "context"
local ulysses = {
  name = "ulysses", extends = "context", summary = "tensor x context parallelism, all-to-all around attention",
}

-- The axes of context; cp must also divide the heads that tp leaves on a GPU.
ulysses.axes = {}
for i, axis in ipairs(context.axes) do ulysses.axes[i] = axis end
ulysses.axes[2] = {
  name = "cp", meaning = "Ulysses: the sequence, and in attention the heads",
  admits = function(m, p, rules)
    if m.heads // p.tp % p.cp ~= 0 then return false, "does not divide the heads that tp leaves" end
    return context.axes[2].admits(m, p, rules)
  end,
}

-- Attention's shape on a GPU: a part of the heads, all tokens. With fewer key and value heads than GPUs, several GPUs
-- get the same ones.
function ulysses.heads(p, heads, kv_heads)
  local projected = context.heads(p, heads, kv_heads)
  return {
    heads = projected.heads // p.cp, kv_heads = math.max(projected.kv_heads // p.cp, 1), queries = p.seq, shards = 1,
    projected = projected,
  }
end

-- One all-to-all of queries, keys and values before attention, one of its result after it, 16-bit numbers. When
-- decoding, every GPU has the whole token and attends with its own heads to its cached keys; results are gathered.
function ulysses.exchange(p, cut, shape)
  if p.cp == 1 then return {}, {} end
  local tokens = p.micro_batch * p.seq
  if p.mode == "decode" then
    local bytes = 2.0 * tokens * cut.heads * (shape.value_dim or shape.head_dim)
    local gather = op.collective {
      name = "gather-heads", kind = "all_gather", axis = "cp", bytes = bytes, share = true,
    }
    return {}, { gather }
  end
  local function all_to_all(name, width)
    return { op.collective { name = name, kind = "all_to_all", axis = "cp", bytes = 2.0 * tokens * width } }
  end
  local value = shape.value_dim or shape.head_dim
  return all_to_all("scatter-heads", cut.heads * shape.head_dim + cut.kv_heads * (shape.head_dim + value)),
    all_to_all("gather-heads", cut.heads * value)
end

tperf.strategy.define(ulysses)

local model = tperf.model(o.model)
local lines = {}
for _, seq in ipairs(o.seq) do
  for _, name in ipairs { "tensor", "context", "ulysses" } do
    local best = tperf.search {
      model = model:with { seq = seq, context = seq }, system = o.system, gpus = o.gpus,
      global_batch = math.max(o.batch_tokens // seq, 1), strategy = name, top = 1,
    }[1]
    lines[#lines + 1] = { seq = seq, strategy = name, found = best }
  end
end

tperf.report.print(lines, {
  { key = "seq", title = "sequence" }, { key = "strategy" },
  { key = function(line) return tperf.report.layout(line.found) end, title = "layout" },
  { key = "found.time", title = "iteration", unit = "s" },
  { key = "found.tokens_per_second", title = "tokens/s" },
  { key = "found.breakdown.tensor_comm", title = "in layers", unit = "s" },
  { key = "found.memory.total", title = "memory", unit = "bytes" },
  { key = "found.mfu", title = "MFU", unit = "%", digits = 3 },
}, { title = ("%s on %d GPUs, %s tokens an iteration"):format(o.model, o.gpus, o.batch_tokens) })
tperf.report.save("custom_strategy.csv", lines, {
  "seq", "strategy", "found.tp", "found.cp", "found.pp", "found.dp", "found.micro_batch", "found.time",
  "found.tokens_per_second", "found.mfu",
})
