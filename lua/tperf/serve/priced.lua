--- Steps of an engine from the price of its model's network: tables that the simulator looks up, made once for a
--- deployment. What sees all tokens of a step alike (products, norms, collectives) is priced by their number, the head
--- by the rows that are sampled, attention by each request's own length. docs/serving.md has the rules.
local check = require "tperf.check"
local profiles = require "tperf.serve.profiles"
local infer = require "tperf.infer"
local layout = require "tperf.layout"
local placement = require "tperf.placement"
local refusal = require "tperf.refusal"
local serving = require "tperf.serving"
local strategy = require "tperf.strategy"
local units = require "tperf.units"

local priced = {}

local WHAT <const> = "tperf.serve"
local GRAPH_TOKENS <const> = 512 -- the largest batch that vLLM captures a CUDA graph for
local KEPT <const> = 64 -- deployments
local LONGEST <const> = 1 << 17  -- keys that tables reach to; beyond, they go on straight
local FEW <const>, MANY <const> = 8, 16 -- chunks side by side, whose difference is what one more adds

local seconds = check.number { min = 0, max = 1, unit = "s", default = 0 }
local optional = { optional = true }

--- The fields of tperf.serve that say what is served and on what.
priced.schema = {
  model = check.any(optional), system = check.any(optional), rules = check.any(optional),
  tp = serving.size, pp = serving.size, ep = serving.size,
  weight_dtype = serving.schema.weight_dtype, kv_dtype = serving.schema.kv_dtype,
  compute_dtype = serving.schema.compute_dtype,
  memory_utilization = check.number { above = 0, max = 1, default = 0.9 },
  host = check.any(optional), gpu_hour = serving.schema.gpu_hour,
}

local host_schema = check.record_of { front_end = seconds, step = seconds, request = seconds, token = seconds }
local USUAL <const> = "vllm-0.15"

-- What the host adds: a profile's name, or a table.
local function host_of(host)
  if type(host) == "table" then return check.record(WHAT, { host = host }, { host = host_schema }).host end
  local profile = profiles[host or USUAL]
  if not profile then
    local names = {}
    for name in pairs(profiles) do names[#names + 1] = name end
    table.sort(names)
    check.fail("%s: 'host' must be { front_end =, step =, request =, token = } in seconds, or the name of a profile "
      .. "(%s), got %s", WHAT, table.concat(names, ", "), check.show(host))
  end
  return profile
end

local tensor = strategy.of "tensor"

local function check_sizes(p, o)
  for _, axis in ipairs(tensor.axes) do
    local reason = (o[axis.name] or 1) > 1 and infer.refusal(p, axis, o)
    if reason then refusal.raise("%s: '%s' = %d %s", WHAT, axis.name, o[axis.name], reason) end
  end
  if o.pp > 1 then
    refusal.raise("%s: 'pp' = %d: batches that follow each other through pipeline stages are not simulated yet", WHAT,
      o.pp)
  end
  local sharing = placement.sharing(p.strategy, serving.own_sizes(p, { tp = o.tp, ep = o.ep }))
  if o.replicas % sharing ~= 0 then
    refusal.raise("%s: 'replicas' = %d must be a multiple of the %d that 'ep' = %d spreads experts over", WHAT,
      o.replicas, sharing, o.ep)
  end
end

-- { low, … high }, each `factor` times the one before, rounded up to whole numbers.
local function grid(low, high, factor)
  local list, x = { low }, low
  while list[#list] < high do
    x = x * factor
    local n = math.min(math.ceil(x), high)
    if n > list[#list] then list[#list + 1] = n end
  end
  return list
end

-- vLLM's sizes of captured batches (vllm/config: 1, 2, 4, eights to 256, sixteens from there).
local function graphs_of(engine)
  local most = math.min(GRAPH_TOKENS, 2 * engine.max_num_seqs, engine.max_num_batched_tokens)
  local list = {}
  for _, n in ipairs { 1, 2, 4 } do
    if n <= most then list[#list + 1] = n end
  end
  for n = 8, math.min(most, 255), 8 do list[#list + 1] = n end
  for n = 256, most, 16 do list[#list + 1] = n end
  return list
end

-- What grows with the keys: an indexer scores and selects before sparse attention.
local ATTENTION = { attention = true, ["index-scores"] = true, select = true }

-- What prices networks: networks of a shape, and the seconds of a section's ops, attention's apart.
local function pricer(p, o, fast)
  local sizes, laid = serving.own_sizes(p, { tp = o.tp, ep = o.ep }), p.plan.layout
  local self = { kinds = laid.kinds, layers = {} }
  for _, run in ipairs(laid.runs) do self.layers[run[1]] = (self.layers[run[1]] or 0) + run[2] end
  function self.network(mode, batch, seq, context)
    return laid.network(sizes, batch, serving.variant(o, mode, seq, context))
  end
  function self.section(network, number)
    local attention, others = 0, 0
    for _, op in ipairs(network:ops(number, p.system, p.rules, fast, 1, true)) do
      if ATTENTION[op.name] then
        attention = attention + op.forward.time
      else
        others = others + op.forward.time
      end
    end
    return others, attention
  end
  return self
end

-- Seconds of everything but attention and head, in a step of so many tokens.
local function tokens_line(price, mode, axis)
  local line = { x = axis, y = {} }
  for i, n in ipairs(axis) do
    local network = mode == "decode" and price.network(mode, n, 1, 0) or price.network(mode, 1, n, 0)
    local sum = price.section(network, #price.kinds + 1)
    for kind = 1, #price.kinds do sum = sum + (price.layers[kind] or 0) * price.section(network, kind) end
    line.y[i] = sum
  end
  return line
end

local function rows_line(price, axis)
  local line = { x = axis, y = {} }
  for i, n in ipairs(axis) do line.y[i] = price.section(price.network("decode", n, 1, 0), #price.kinds + 2) end
  return line
end

-- Attention of the layers whose window it is (false: of those without).
local function attention_of(price, network, window)
  local sum, any = 0, false
  for kind, group in ipairs(price.kinds) do
    local own = group.window or false
    if window == nil or own == window then
      local _, attention = price.section(network, kind)
      sum, any = sum + (price.layers[kind] or 0) * attention, any or attention > 0
    end
  end
  return sum, any
end

-- value(x, y) over both axes; nil where nothing is ever charged.
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

local function add_attention(t, price, engine, longest)
  local batches, keys = grid(1, engine.max_num_seqs, 2), grid(16, longest, 2)
  local window = t.more.window
  local function decodes(of)
    return function(batch, n) return attention_of(price, price.network("decode", batch, 1, n - 1), of) end
  end
  t.decode = surface(batches, keys, decodes(false))
  if window > 0 then t.decode_window = surface(batches, grid(1, window, 2), decodes(window)) end
  local chunks, before = grid(1, engine.max_num_batched_tokens, 2 ^ 0.5), grid(16, longest, 4)
  table.insert(before, 1, 0)
  t.chunk = surface(chunks, before, function(n, c) return attention_of(price, price.network("prefill", 1, n, c)) end)
  t.chunk_among = t.chunk and surface(chunks, before, function(n, c)
    local few = attention_of(price, price.network("prefill", FEW, n, c))
    local many = attention_of(price, price.network("prefill", MANY, n, c))
    return math.max(many - few, 0) / (MANY - FEW), true
  end)
end

local function tables_of(p, o, fast)
  local engine, price = o.engine, pricer(p, o, fast)
  local most, graphs = engine.max_num_batched_tokens, graphs_of(engine)
  local drafts = engine.speculation and engine.speculation.tokens or 0
  local axis = table.move(graphs, 1, #graphs, 1, {})
  local wider = grid(axis[#axis], most, 2 ^ 0.25)
  table.move(wider, 2, #wider, #axis + 1, axis)
  local t = { graphs = graphs, more = { window = window_of(price.kinds) } }
  t.decode_tokens = tokens_line(price, "decode", axis)
  local m = p.model
  local alike = not (m.mla or m.mamba or m.mamba1 or m.delta)
  t.prefill_tokens = alike and t.decode_tokens or tokens_line(price, "prefill", axis)
  t.rows = rows_line(price, grid(1, math.min(most, engine.max_num_seqs * (1 + drafts)), 2 ^ 0.25))
  add_attention(t, price, engine, math.min(p.model.context or LONGEST, engine.max_model_len, LONGEST))
  return t
end

-- Bytes on one GPU: weights and buffers of the largest step; the cache of a token, and what a request has besides.
local function memory_of(p, o, fast)
  local c = { tp = o.tp, ep = o.ep, pp = 1, dp = placement.sharing(p.strategy, serving.own_sizes(p, { tp = o.tp, ep = o.ep })), batch = 1, prefill_batch = 1 }
  p.o.generate = 1
  local function held(prompt)
    p.o.prompt = prompt
    return serving.evaluate(p, c)
  end
  local two, three = held(1), held(2)
  local token = three.memory.cache - two.memory.cache
  local largest = held(o.engine.max_num_batched_tokens)
  table.move(largest.placement, 1, #largest.placement, 1, fast)
  return {
    weights = largest.memory.weights, buffers = largest.memory.buffers, token = token,
    request = math.max(two.memory.cache - 2 * token, 0), capacity = largest.memory.capacity,
  }
end

-- vLLM's num_gpu_blocks: what weights, buffers and states leave of the memory, in blocks. Layers with a window are
-- counted as if they kept all: their blocks are not pooled with the others' here.
local function blocks_of(m, engine)
  local room = m.capacity - m.weights - m.buffers - engine.max_num_seqs * m.request
  if m.token == 0 then return nil end
  local blocks = room // (engine.block_size * m.token)
  if blocks < 2 then
    local function bytes(n) return units.format(n, "bytes") end
    refusal.raise("%s: the model leaves no room for a cache: weights of %s and buffers of %s per GPU, of %s; try more "
      .. "tp, a narrower weight_dtype, fewer max_num_batched_tokens", WHAT, bytes(m.weights), bytes(m.buffers),
      bytes(m.capacity))
  end
  return math.tointeger(math.min(blocks, (1 << 31) - 2))
end

local known, count = {}, 0 -- by all that decides them

--- The tables of the engine's steps, for the core; sets what the model decides about the engine: max_model_len and
--- num_blocks; what the host adds; `machine`, the system; and `memory`, bytes
--- on a GPU.
---@param o table  checked arguments of tperf.serve
---@return table steps
function priced.steps(o)
  o.host = host_of(o.host)
  local engine = o.engine
  local p = serving.problem(WHAT, {
    model = o.model, system = o.system, rules = o.rules, attention = "flash", prompt = 1, generate = 1,
    weight_dtype = o.weight_dtype, kv_dtype = o.kv_dtype, compute_dtype = o.compute_dtype, sequence_parallel = false,
    reserve = 1 - o.memory_utilization,
  })
  check_sizes(p, o)
  o.machine = p.system
  if p.model.context then engine.max_model_len = math.min(engine.max_model_len, p.model.context) end
  engine.max_num_batched_tokens = math.min(engine.max_num_batched_tokens, 1 << 20)
  local fast = {}
  local memory = memory_of(p, o, fast)
  engine.num_blocks = engine.num_blocks or blocks_of(memory, engine)
  o.memory = memory
  local drafts = engine.speculation and engine.speculation.tokens or 0
  local key = table.concat({ layout.signature(p.model), layout.signature(p.system), p.rules.name, o.tp, o.ep,
    o.weight_dtype, o.kv_dtype, o.compute_dtype,
    engine.max_num_seqs, engine.max_num_batched_tokens, engine.max_model_len, drafts }, " ")
  if not known[key] then
    if count >= KEPT then known, count = {}, 0 end
    known[key], count = tables_of(p, o, fast), count + 1
  end
  local made, t = known[key], {}
  for name, value in pairs(made) do t[name] = value end
  t.more = { window = made.more.window, step = o.host.step, request = o.host.request, token = o.host.token }
  return t
end

return priced
