--- The tensors of a checkpoint's products and what they take in its files, one kind of module after the other: weights,
--- their scales, zero points and indices, as each method of quantisation writes them.
local groups = require "tperf.describe.model.groups"
local windowed = require "tperf.describe.model.windowed"

local tensors = {}

-- The names that a product may have in a layer, besides those of fused products.
local NAMES <const> = {
  q = "q_proj qkv_proj query_key_value c_attn wqkv W_pack", k = "k_proj qkv_proj query_key_value c_attn wqkv W_pack",
  v = "v_proj qkv_proj query_key_value c_attn wqkv W_pack", o = "o_proj out_proj dense c_proj wo",
  q_a = "q_a_proj fused_qkv_a_proj_with_mqa", q_b = "q_b_proj", kv_a = "kv_a_proj_with_mqa fused_qkv_a_proj_with_mqa",
  kv_b = "kv_b_proj", index_q = "indexer.wq_b", index_k = "indexer.wk", index_weights = "indexer.weights_proj",
  input = "in_proj in_proj_qkvz in_proj_qkv", z = "in_proj in_proj_qkvz in_proj_z",
  rates = "in_proj_ba in_proj_b in_proj_a", output = "out_proj",
  gate = "gate_proj gate_up_proj w1", up = "up_proj gate_up_proj w3 fc1 c_fc dense_h_to_4h",
  down = "down_proj w2 fc2 c_proj dense_4h_to_h", fc1_latent = "fc1_latent_proj", fc2_latent = "fc2_latent_proj",
  router = "gate router proj",
}

-- Adds a product n_in -> n_out to a list, `count` times in a layer.
local function add(list, part, leaf, n_in, n_out, count)
  list[#list + 1] = { part = part, leaf = leaf, n_in = n_in, n_out = n_out, count = count or 1 }
end

local function gqa(m, list)
  local value = windowed.value_dim(m)
  local gate = m.attention_gate == "head" and m.heads or m.attention_gate and m.heads * value or 0
  add(list, "attention", "q", m.hidden, m.heads * m.head_dim + gate)
  add(list, "attention", "k", m.hidden, m.kv_heads * m.head_dim)
  if not m.tied_values then add(list, "attention", "v", m.hidden, m.kv_heads * value) end
  add(list, "attention", "o", m.heads * value, m.hidden)
end

local function mla(m, group, list)
  local a, s = m.mla, m.sparse
  local width = m.heads * (a.nope_dim + a.rope_dim)
  if a.q_rank then add(list, "attention", "q_a", m.hidden, a.q_rank) end
  add(list, "attention", a.q_rank and "q_b" or "q", a.q_rank or m.hidden, width)
  add(list, "attention", "kv_a", m.hidden, a.kv_rank + a.rope_dim)
  add(list, "attention", "kv_b", a.kv_rank, m.heads * (a.nope_dim + a.v_dim))
  add(list, "attention", "o", m.heads * a.v_dim, m.hidden)
  if not s or group.reuses then return end
  add(list, "attention", "index_q", a.q_rank, s.heads * s.head_dim)
  add(list, "attention", "index_k", m.hidden, s.head_dim)
  add(list, "attention", "index_weights", m.hidden, s.heads)
end

local function recurrent(m, group, list)
  local d, s = m.delta, m.mamba
  if group.delta and not (d.decay_rank or d.gate_rank) then
    local values = d.value_heads * d.value_dim
    add(list, "recurrent", "input", m.hidden, 2 * d.heads * d.key_dim + values)
    add(list, "recurrent", "z", m.hidden, values)
    add(list, "recurrent", "rates", m.hidden, 2 * d.value_heads)
    add(list, "recurrent", "output", values, m.hidden)
  elseif group.mamba and s then
    local inner = s.heads * s.head_dim
    add(list, "recurrent", "input", m.hidden, 2 * inner + 2 * s.groups * s.state + s.heads)
    add(list, "recurrent", "output", inner, m.hidden)
  end
end

local function mlp(m, list, part, width, hidden, count)
  if m.gated then add(list, part, "gate", hidden, width, count) end
  add(list, part, "up", hidden, width, count)
  add(list, part, "down", width, hidden, count)
end

-- The products of a layer, of those parts that methods quantise; nil: it has others, of which nothing is known here.
local function products(m, group)
  local list, e = {}, m.experts
  if group.attention == "gqa" then gqa(windowed.view(m, group), list) end
  if group.attention == "mla" then mla(m, group, list) end
  if group.mamba or group.delta then
    local before = #list
    recurrent(m, group, list)
    if #list == before then return nil end
  end
  if group.mlp == "dense" then mlp(m, list, "mlp", m.ffn, m.hidden) end
  if group.mlp == "experts" then
    mlp(m, list, "experts", e.ffn, e.latent or m.hidden, e.count)
    add(list, "router", "router", m.hidden, e.count + e.zero)
    if e.shared > 0 then mlp(m, list, "shared_experts", e.shared * (e.shared_ffn or e.ffn), m.hidden) end
    if e.latent then
      add(list, "latents", "fc1_latent", m.hidden, e.latent)
      add(list, "latents", "fc2_latent", e.latent, m.hidden)
    end
  end
  return list
end

local function up(n, by) return (n + by - 1) // by end

-- Bytes of one module in a format, with what the method stores beside its weights.
local SIZES <const> = {
  fp8 = function(n_in, n_out, rules) return n_in * n_out + (rules.row_scale or 0) * n_out end,
  ["fp8-block"] = function(n_in, n_out) return n_in * n_out + 4 * up(n_in, 128) * up(n_out, 128) end,
  mxfp8 = function(n_in, n_out) return (n_in + up(n_in, 32)) * n_out end,
  mxfp4 = function(n_in, n_out) return (up(n_in, 2) + up(n_in, 32)) * n_out end,
  nvfp4 = function(n_in, n_out) return (up(n_in, 2) + up(n_in, 16)) * n_out + 8 end, -- two scales of the tensors
  int8 = function(n_in, n_out, rules) return n_in * n_out + (rules.row_scale or 2) * n_out end,
}

-- Integers in groups along the input: scales, zeros of as many bits, GPTQ's index of every input feature.
local function integers(f, n_in, n_out, rules)
  local size = n_in * n_out * f.bits / 8 + (rules.index or 0) * n_in + (rules.shape or 0)
  if not f.group then return size + (rules.row_scale or f.scale or 2) * n_out end
  local sets = up(n_in, f.group) * n_out
  return size + sets * ((f.scale or 2) + (f.zero_points and f.bits / 8 or 0))
end

--- Bytes that a product's weights take.
---@param format string|table|false  a name or { bits, group, zero_points, scale }; false: not quantised
---@param rules table  wide: bytes of weights that are not; index, row_scale: bytes per input and output feature;
---   shape: bytes of a product's shape; routers: whether they are quantised as other products
function tensors.bytes(format, n_in, n_out, rules)
  if not format then return rules.wide * n_in * n_out end
  if type(format) == "table" then return integers(format, n_in, n_out, rules) end
  return SIZES[format](n_in, n_out, rules)
end

-- The format of a product in a layer: the one that differs from the usual one among its names and holders. Routers stay
-- wide unless a list names them, or the method quantises them as other products; those with biases of scores are no
-- products of MLX's.
local function format_of(one, layer, holders, usual, value_of, plain)
  local names = NAMES[one.leaf]
  for holder in holders:gmatch "%S+" do
    for name in names:gmatch "%S+" do
      local value, fault = value_of(("layers.%d.%s.%s"):format(layer, holder, name), layer)
      if fault then return nil, fault end
      if value ~= usual then return value end
    end
  end
  return (one.part ~= "router" or plain) and usual
end

local function shown(format)
  if type(format) ~= "table" then return format or "16 bits" end
  return ("int%d%s"):format(format.bits, format.group and ("/%d"):format(format.group) or "")
end

-- Adds a product of one layer to the row of its kind.
local function collect(rows, one, value, rules)
  local format = value and value[1]
  local key = ("%s.%s %d x %d %s"):format(one.part, one.leaf, one.n_out, one.n_in, shown(format))
  local row = rows[key]
  if not row then
    row = { part = one.part, tensor = one.leaf, rows = one.n_out, columns = one.n_in, format = shown(format), count = 0,
      bytes = 0, order = rows.n }
    rows[key], rows.n = row, rows.n + 1
  end
  row.count = row.count + one.count
  row.bytes = row.bytes + one.count * tensors.bytes(format, one.n_in, one.n_out, rules)
end

--- The kinds of products of a checkpoint's layers: { part, tensor, rows, columns, format, count, bytes }, in order.
---@param m table  a model
---@param holders fun(part: string): string  the modules that may hold a part's products
---@param usual any  the value of products that no list names: { format } or false
---@param value_of fun(name: string, layer: integer): any, string?
---@param rules table  see tensors.bytes
---@return table[]? rows
---@return string? fault
function tensors.of(m, holders, usual, value_of, rules)
  local rows, plain = { n = 1 }, rules.routers == true and not (m.experts and m.experts.router_bias)
  for _, group in ipairs(groups.of(m)) do
    local list = products(m, group)
    if not list then return nil, "recurrent layers" end
    for layer = group.first - 1, group.first + group.count - 2 do
      for _, one in ipairs(list) do
        local value, fault = format_of(one, layer, holders(one.part), usual, value_of, plain)
        if value == nil then return nil, fault end
        if value or one.part ~= "router" then collect(rows, one, value, rules) end
      end
    end
  end
  rows.n = nil
  local sorted = {}
  for _, row in pairs(rows) do sorted[#sorted + 1] = row end
  table.sort(sorted, function(a, b) return a.order < b.order end)
  for _, row in ipairs(sorted) do row.order = nil end
  return sorted
end

return tensors
