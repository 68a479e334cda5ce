--- Time tables of an engine's steps, priced from its model's workload once for each deployment. Ops that treat all
--- tokens of a step alike (products, norms, collectives) are priced by the number of tokens, the head and sampling by
--- the number of sampled rows, attention by each request's own length. docs/serving.md has the rules.
local contexts = require "tperf.question.infer.contexts"
local core = require "tperf.core"
local groups = require "tperf.describe.model.groups"
local load = require "tperf.question.serve.load"
local memo = require "tperf.base.memo"
local workload = require "tperf.describe.workload"
local ranks = require "tperf.question.serve.ranks"
local refusal = require "tperf.base.refusal"
local serving = require "tperf.question.infer.deployment"
local whole = require "tperf.question.serve.whole"

local tables = {}

local WHAT <const> = "tperf.serve"
local KEPT <const> = 256 -- deployments in the cache
local LONGEST <const> = 1 << 17  -- keys that tables reach to; extrapolated linearly beyond
local LEAST_SEQS <const>, LEAST_TOKENS <const> = 128, 8192 -- that tables reach at least, so that engines share them
local SHORT <const>, WIDER <const> = 1 << 10, 4 -- keys that tables reach to if requests are short; else times this
local SLACK <const> = 64 -- keys beyond a request's own: its drafts, a step that was scheduled ahead
local AROUND <const> = 64 -- steps whose mean stands for one, if a script's blocks do not do the same in all
local MANY <const> = 32 -- concurrent chunks, enough to fill the GPU, to price what each adds to the first

-- { low, … high }: a geometric grid with this factor, rounded up to whole numbers.
local function grid(low, high, factor)
  local list, x = { low }, low
  while list[#list] < high do
    x = x * factor
    local n = math.min(math.ceil(x), high)
    if n > list[#list] then list[#list + 1] = n end
  end
  return list
end

-- The values of an axis up to the first that is `reach` at least. Within them, tables are what the whole axis gives.
local function up_to(axis, reach)
  local n = 1
  while n < #axis and axis[n] < reach do n = n + 1 end
  return table.move(axis, 1, n, 1, {})
end

-- The next power of two, so that similar deployments share tables.
local function rounded(n)
  local power = 1
  while power < n do power = power * 2 end
  return power
end

-- The batch sizes for which vLLM captures CUDA graphs (vllm/config: 1, 2, 4, then in steps of 8, from 256 of 16).
local function graphs_of(most)
  local list = {}
  for _, n in ipairs { 1, 2, 4 } do
    if n <= most then list[#list + 1] = n end
  end
  for n = 8, math.min(most, 255), 8 do list[#list + 1] = n end
  for n = 256, most, 16 do list[#list + 1] = n end
  return list
end

-- The contexts by which it is told which ops depend on the context: consecutive ones, then ever longer ones.
local TRIED <const> = { 64, 1 << 17 }

-- The counts of a section's ops at a context, by block and name.
local function counts_at(step, section, context, on, fast)
  local counts = {}
  for _, row in ipairs(step(context):ops(section, on, fast)) do
    local name, pass = row.block .. " " .. row.name, row.forward
    counts[name] = ("%s %.17g %.17g %.17g %.17g"):format(counts[name] or "", pass.time, pass.bytes, pass.tensor_flops,
      pass.vector_flops)
  end
  return counts
end

-- The ops of a script's blocks whose counts change with the context, whether it says so (`by_keys`) or not.
local function varying_ops(kinds, step, on, fast)
  local varying = {}
  local function compare(section, first, context)
    local counts = counts_at(step, section, context, on, fast)
    for name, count in pairs(counts) do
      if first[name] ~= count then varying[name] = true end
    end
    for name in pairs(first) do
      if not counts[name] then varying[name] = true end
    end
  end
  for section = 1, kinds do
    local first, context = counts_at(step, section, 0, on, fast), 1
    while context <= TRIED[2] do
      compare(section, first, context)
      context = context < TRIED[1] and context + 1 or context * 2
    end
  end
  return varying
end

local BENDS <const>, LOOKED <const> = 64, 1 << 13 -- the most that an axis takes, of as many keys

local DENOMINATOR <const> = 64 -- the largest of a rate

-- Tokens after which every layer has a whole number of its own; 1 if its tokens are the model's, or come at no ratio of
-- small numbers.
local function stride_of(kinds)
  for stride = 1, DENOMINATOR do
    local all = true
    for _, kind in ipairs(kinds) do
      local own = stride * (kind.rate or 1)
      all = all and math.abs(own - math.floor(own + 0.5)) < 1e-9
    end
    if all then return stride end
  end
  return 1
end

-- The numbers of keys at which the counts of a script's blocks bend; nil: too many to follow. Where layers have fewer
-- tokens of their own, they have one more after every stride.
local function bends_of(step, stride)
  local function keys(i) return (i - 1) * stride + 1 end
  local list = contexts.of(1, LOOKED // stride, function(i) return step(keys(i)) end)
  for i = 1, #list do list[i] = keys(list[i]) end
  return #list <= BENDS and list or nil
end

-- An object that lays out workloads of a shape and sums a section: seconds of its ops, of attention apart, kernels.
local function pricer(p, o, fast)
  local laid, shards, variants = p.plan.layout, ranks.shards(o, p), {}
  local on = core.platform(p.system, p.rules, p.software, true)
  local self = { kinds = laid.kinds, layers = {}, shards = shards, stride = stride_of(laid.kinds) }
  for _, run in ipairs(laid.runs) do self.layers[run[1]] = (self.layers[run[1]] or 0) + run[2] end
  local steps = {} -- by batch, of a script's blocks
  local function step(batch, context)
    steps[batch] = steps[batch] or laid.steps(o.own, batch, serving.variant(p.strategy, o, "decode", 1, 0))
    return steps[batch](context)
  end
  function self.workload(mode, batch, seq, context, part)
    if mode == "prefill" then seq = ranks.whole(seq, shards) end
    if laid.steps and part == "attention" then part = nil end -- what they call so need not be all that reads keys
    if laid.steps and mode == "decode" and seq == 1 and not part then return step(batch, context) end
    local key = table.concat({ mode, seq, context, part }, " ") -- of batches of every size
    local variant = variants[key]
    if not variant then
      variant = serving.variant(p.strategy, o, mode, seq, context)
      variant.part, variants[key] = part, variant
    end
    return laid.workload(o.own, batch, variant)
  end
  function self.section(laid_out, number)
    return laid_out:served(number, on, fast, 1, self.varying)
  end
  if laid.steps then
    self.varying = varying_ops(#laid.kinds, function(n) return step(1, n) end, on, fast)
    self.bends = bends_of(function(keys) return step(1, keys - 1) end, self.stride)
  end
  return self
end

-- Whether a kind of layer encodes something of its own length, once, when a prompt begins.
local function encodes(kind) return kind.seq and not kind.rate end

-- Number of kernels of all layers, which the host launches one by one if no CUDA graph holds them.
local function all_launches(price)
  local laid_out, sum = price.workload("prefill", 1, 1024, 0), 0
  for kind, group in ipairs(price.kinds) do
    local _, _, launches = price.section(laid_out, kind)
    if not encodes(group) then sum = sum + (price.layers[kind] or 0) * launches end
  end
  return sum
end

-- Seconds of everything except attention and head, by the tokens of a step.
local function tokens_line(price, mode, axis)
  local line = { x = axis, y = {} }
  for i, n in ipairs(axis) do
    local laid_out = mode == "decode" and price.workload(mode, n, 1, 0) or price.workload(mode, 1, n, 0)
    local sum = price.section(laid_out, #price.kinds + 1)
    for kind, group in ipairs(price.kinds) do
      if not encodes(group) then sum = sum + (price.layers[kind] or 0) * price.section(laid_out, kind) end
    end
    line.y[i] = sum
  end
  return line
end

-- Seconds of the layers that encode, attention too, by the number of prompts that begin; nil: there are none.
local function encoders_line(price, axis)
  local line, any = { x = axis, y = {} }, false
  for i, n in ipairs(axis) do
    local laid_out, sum = price.workload("prefill", n, 1, 0), 0
    for kind, group in ipairs(price.kinds) do
      if encodes(group) then
        local rest, attention = price.section(laid_out, kind)
        sum, any = sum + (price.layers[kind] or 0) * (rest + attention), true
      end
    end
    if not any then return nil end
    line.y[i] = sum
  end
  return line
end

-- Seconds of the final norm, the head and sampling, by the number of rows.
local function rows_line(price, axis, more)
  local line = { x = axis, y = {} }
  for i, n in ipairs(axis) do
    line.y[i] = more + price.section(price.workload("decode", n, 1, 0, "last"), #price.kinds + 2)
  end
  return line
end

-- Attention of the layers with this window (false: layers without one; nil: all layers).
local function attention_of(price, mode, batch, seq, context, window)
  local laid_out, sum, any = price.workload(mode, batch, seq, context, "attention"), 0, false
  for kind, group in ipairs(price.kinds) do
    local own = group.window or false
    if (window == nil or own == window) and not encodes(group) then
      local _, attention = price.section(laid_out, kind)
      sum, any = sum + (price.layers[kind] or 0) * attention, any or attention > 0
    end
  end
  return sum, any
end

-- A table of value(x, y) over both axes; nil if value never charges anything.
local function surface(x, y, value)
  local s, used = { x = x, y = y, z = {} }, false
  for _, a in ipairs(x) do
    for _, b in ipairs(y) do
      local seconds_of, any = value(a, b)
      s.z[#s.z + 1], used = seconds_of, used or any
    end
  end
  return used and s or nil
end

local function window_of(kinds)
  local window = 0
  for _, kind in ipairs(kinds) do
    if kind.window and window ~= 0 and kind.window ~= window then
      refusal.raise("%s: layers with windows of %d and of %d keys in one model are not simulated yet", WHAT, window,
        kind.window)
    end
    window = kind.window or window
  end
  return window
end

-- Layers whose fused attention sees all keys.
local function layers_without_window(price)
  local laid_out, layers = price.workload("decode", 1, 1, 1024, "attention"), 0
  for kind, group in ipairs(price.kinds) do
    local _, _, _, attention = price.section(laid_out, kind)
    if attention > 0 and not group.window and not encodes(group) then layers = layers + (price.layers[kind] or 0) end
  end
  return layers
end

-- The mean of a step's attention with about n keys, so that what is done in some steps only counts in all.
local function around(price, batch, n, of)
  local sum, used, half = 0, false, math.min(AROUND // 2, n - 1)
  local low, high = n - half, math.max(n + half - 1, n)
  for keys = low, high do
    local seconds_of, any = attention_of(price, "decode", batch, 1, keys - 1, of)
    sum, used = sum + seconds_of, used or any
  end
  return sum / (high - low + 1), used
end

-- The numbers of keys of the table of decodes: a script's blocks may bend where they like.
local function keys_of(price, longest)
  local stride, list, seen = price.stride, {}, {}
  for _, n in ipairs(grid(16, longest, price.varying and not price.bends and 2 ^ 0.5 or 2)) do
    n = (n + stride - 2) // stride * stride + 1
    if not seen[n] then list[#list + 1], seen[n] = n, true end
  end
  for _, bend in ipairs(price.bends or {}) do
    for n = bend, bend + stride, stride do -- times may leap where counts bend: an op that does nothing is not launched
      if n > 16 and n < longest and not seen[n] then list[#list + 1], seen[n] = n, true end
    end
  end
  table.sort(list)
  return list
end

local function add_attention(t, price, p, o, seqs, most, longest, reach)
  local batches, keys = grid(1, seqs, 2), up_to(keys_of(price, longest), reach)
  local window, rough = t.more.window, price.varying and not price.bends
  local function decodes(of)
    return function(batch, n)
      if rough then return around(price, batch, n, of) end
      return attention_of(price, "decode", batch, 1, n - 1, of)
    end
  end
  t.decode = surface(batches, keys, decodes(false))
  t.whole = whole.of(p, o, layers_without_window(price))
  if window > 0 then t.decode_window = surface(batches, grid(1, window, 2), decodes(window)) end
  local chunks, before = up_to(grid(1, most, 2 ^ 0.5), reach), up_to(grid(16, longest, 4), reach)
  table.insert(before, 1, 0)
  t.chunk = surface(chunks, before, function(n, c) return attention_of(price, "prefill", 1, n, c) end)
  local point = 0
  t.chunk_among = t.chunk and surface(chunks, before, function(n, c)
    point = point + 1
    return math.max(attention_of(price, "prefill", MANY, n, c) - t.chunk.z[point], 0) / (MANY - 1), true
  end)
end

-- Whether layers have other tokens than the step.
local function has_own_sequences(kinds)
  for _, kind in ipairs(kinds) do
    if kind.seq then return true end
  end
  return false
end

local function made_of(p, o, fast, seqs, most, longest, reach)
  local price, drafts = pricer(p, o, fast), o.engine.speculation and o.engine.speculation.tokens or 0
  local axis = graphs_of(math.max(math.min(most, p.profile.engine.graph_tokens), 1)) -- tables reach from one token
  local wider = grid(axis[#axis], most, 2 ^ 0.25)
  table.move(wider, 2, #wider, #axis + 1, axis)
  local t = { more = { window = window_of(price.kinds), launches = all_launches(price) } }
  t.decode_tokens = tokens_line(price, "decode", axis)
  local m = p.model
  local alike = price.shards == 1 and not (m.mla or groups.recur(m) or has_own_sequences(price.kinds))
  t.prefill_tokens = alike and t.decode_tokens or tokens_line(price, "prefill", axis)
  t.rows = rows_line(price, grid(1, math.min(most, seqs * (1 + drafts)), 2 ^ 0.25),
    o.sampler == "top_p" and p.profile.engine.sampler_entry * (m.classes or m.vocab) or 0)
  t.encoders = encoders_line(price, grid(1, seqs, 2))
  add_attention(t, price, p, o, seqs, most, longest, reach)
  return t
end

-- The terms of an engine's profile that tables depend on: those of kernels, none of the host.
local function kernels_of(profile)
  local e = profile.engine
  return ("%d %.17g %.17g %.17g %.17g %.17g %.17g %s %s %s"):format(e.graph_tokens, profile.compute,
    profile.attention, profile.memory, profile.comm, profile.comm_setup, e.sampler_entry, e.sampler, e.delta,
    e.compiled)
end

-- Keys that no request of the load has so many of, rounded so that similar loads share tables.
local function reach_of(o, drafts, longest)
  local most, reach = load.longest(o) or math.huge, SHORT
  while reach < longest and reach < most + drafts + SLACK do reach = WIDER * reach end
  return math.min(reach, longest)
end

local known = memo.by_text(KEPT) -- by everything that decides the tables

--- The tables of a deployment, as a shallow copy whose fields may be replaced.
---@param p table    a problem of tperf.question.infer.deployment, with `software` and `profile`
---@param o table    checked arguments of tperf.serve
---@param fast table GPUs of each axis in a fast domain
function tables.of(p, o, fast)
  local engine = o.engine
  local seqs = math.max(rounded(engine.max_num_seqs), LEAST_SEQS)
  local most = math.max(rounded(engine.max_num_batched_tokens), LEAST_TOKENS)
  local longest = math.min(rounded(math.min(p.model.context or LONGEST, engine.max_model_len)), LONGEST)
  local drafts = engine.speculation and engine.speculation.tokens or 0
  local reach = reach_of(o, drafts, longest)
  local key = table.concat({ workload.signature(p.model), workload.signature(p.system), p.rules.name, ranks.key(p, o),
    o.weight_dtype, p.weights and p.weights.key or "", o.kv_dtype, o.compute_dtype, o.sampling, o.state_dtype,
    kernels_of(p.profile), seqs, most, longest, reach, drafts }, " ")
  local t = {}
  for name, value in pairs(known(key, function() return made_of(p, o, fast, seqs, most, longest, reach) end)) do
    t[name] = value
  end
  local captured = engine.max_cudagraph_capture_size or math.min(2 * engine.max_num_seqs,
    p.profile.engine.graph_tokens)
  t.graphs = graphs_of(math.min(captured, engine.max_num_batched_tokens))
  return t
end

return tables
