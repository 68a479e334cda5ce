--- Low-rank adapters beside the products of layers (LoRA, arXiv 2106.09685): Y = X W + alpha / r (X A) B, with A of
-- n_in x r and B of r x n_out, as separate ops; and frozen weights of 4 bits (QLoRA, arXiv 2305.14314) or 8
-- (LLM.int8(), arXiv 2208.07339). A share's `tuning` (tperf/describe/tuning.lua) names the products.
--
-- Sharded over tp as in Megatron-Bridge's ParallelLinearAdapter: beside a column product, A is sharded by columns if
-- tp divides the rank, its result is gathered, and B is sharded by columns; beside a row product, A is sharded by rows,
-- its result all-reduced, B is sharded by columns, and B's result is gathered (`a2a`: exchanged by all-to-all). A's
-- input is whole, like the gathered input of the column product, and A keeps it whole.
-- Kernels: both products; alpha / r times the result; the sum; in the backward pass the sum of the input's gradients.
local op = require "tperf.describe.op"

local adapters = {}

local BYTES <const> = 2

-- Bytes of a 4-bit weight with its scale after double quantisation: 0.127 bits (arXiv 2305.14314, section 3).
adapters.NF4 = (4 + 0.127) / 8

local weak = { __mode = "k" }
local beside = setmetatable({}, weak)    -- op -> { before = ops, after = ops }, consumed by adapters.expand
local quantised = setmetatable({}, weak) -- products with fewer bits -> bytes per weight

local function linear(o, given)
  if not o.experts then return op.linear(given) end
  given.experts, given.active, given.bias_grad = o.experts, o.active, nil
  return op.grouped_linear(given)
end

-- alpha / r times the result is written (unless the product's kernel does so), read with the product's result, and the
-- sum is written; backward, the gradient is read, scaled and written, and the input's two gradients are read and their
-- sum written. Numbers are per GPU.
local function join(name, dtype, scaled, summed, inputs)
  return op.custom {
    name = name, dtype = dtype, forward = { vector_flops = scaled + summed, bytes = BYTES * (2 * scaled + 3 * summed) },
    backward = { vector_flops = scaled + inputs, bytes = BYTES * (2 * scaled + 3 * inputs) },
    repeated_bytes = BYTES * (scaled + summed),
  }
end

-- Brings B's sharded result, n_out wide in all, to where the row product's result is.
local function spread(p, name, given, n_out, axis)
  local whole = BYTES * 1.0 * given.tokens * n_out
  if p.tuning.peft.a2a then
    return op.collective { name = name, kind = "all_to_all", axis = axis, bytes = whole / p[axis] }
  end
  local gather = { comms = { { kind = "all_gather", axis = axis, bytes = whole } } }
  return op.custom { name = name, dtype = p.dtype, forward = gather, backward = p.sequence_parallel and gather or nil }
end

-- The shards of an adapter: A and B on this GPU, A's collective, rows and width of the sum.
local function cut_of(p, o, given, cut, n_out)
  local axis = p.features
  local n, rank = p[axis] or 1, p.tuning.peft.rank
  if cut == "column" then
    local divides = rank % n == 0
    return {
      rank = divides and rank // n or rank, n_out = n_out, meet = n > 1 and divides and "all_gather" or nil,
      axis = axis, elements = 1.0 * given.tokens * n_out, wide = n_out,
    }
  elseif cut == "row" then
    local divides = not o.experts and n_out % n == 0
    local rows = p.sequence_parallel and given.tokens / n or given.tokens
    return {
      rank = rank, n_out = divides and n_out // n or n_out, meet = n > 1 and "all_reduce" or nil, axis = axis,
      elements = 1.0 * (o.experts and given.tokens or rows) * n_out, wide = n_out, spread = n > 1 and divides,
    }
  end
  return { rank = rank, n_out = n_out, elements = 1.0 * given.tokens * n_out, wide = n_out }
end

-- Appends one adapter for a product with n_out results.
local function adapter(list, p, o, given, cut, name, n_out)
  local peft, c = p.tuning.peft, cut_of(p, o, given, cut, n_out)
  local function add(one) list[#list + 1] = one end
  if peft.dropout > 0 then
    add(op.dropout { name = name .. "-drop", elements = 1.0 * given.tokens * given.n_in, dtype = p.dtype })
  end
  add(linear(o, {
    name = name .. "-A", tokens = given.tokens, n_in = given.n_in, n_out = c.rank, dtype = p.dtype,
    parameter_grad = given.parameter_grad, input_kept_elsewhere = #list > 0 and peft.dropout == 0,
  }))
  if c.meet then
    add(op.collective {
      name = name .. "-low", kind = c.meet, axis = c.axis, bytes = BYTES * 1.0 * given.tokens * peft.rank,
    })
  end
  add(linear(o, {
    name = name .. "-B", tokens = given.tokens, n_in = peft.rank, n_out = c.n_out, dtype = p.dtype,
    parameter_grad = given.parameter_grad,
  }))
  if c.spread then add(spread(p, name .. "-spread", given, c.wide, c.axis)) end
  local scaled = peft.fused and 0 or 1.0 * given.tokens * c.n_out
  add(join(name .. "-sum", p.dtype, scaled, c.elements, 1.0 * given.tokens * given.n_in))
end

-- The adapters of a product, one for each requested part.
local function adapters_of(p, o, given, cut)
  local peft = p.tuning.peft
  local products = o.experts and peft.expert_products or peft.products
  local wanted = products[o.name:match "fc[12]$" or o.name]
  if not wanted or p.referring or p.group.frozen then return {} end
  local list = {}
  if wanted == true or not o.parts then
    adapter(list, p, o, given, cut, o.name, given.n_out)
    return list
  end
  local all = 0
  for _, width in pairs(o.parts) do all = all + width end
  for _, part in ipairs { "q", "k", "v", "gate", "up" } do
    local width = wanted[part] and o.parts[part]
    if width then adapter(list, p, o, given, cut, o.name .. "-" .. part, given.n_out * width // all) end
  end
  return list
end

-- Bytes of a weight in 8 bits: a scale in fp32 for each of the weight's rows, of n_in.
local function int8(given) return 1 + 4 / given.n_in end

-- Weights are read and written in 16 bits before each pass.
local function dequantise(o, given, bytes)
  local weights = 1.0 * given.n_in * given.n_out * (o.active or o.experts or 1)
  local function pass() return { vector_flops = 2 * weights, bytes = (bytes + BYTES) * weights } end
  return op.custom {
    name = o.name .. "-16bit", dtype = given.dtype, forward = pass(), backward = pass(),
    repeated_bytes = bytes * weights,
  }
end

-- LLM.int8() (bitsandbytes 0.45 and later, autograd/_functions.py: MatMul8bitLt). Forward, the largest number of each
-- row of activations is sought, the rows are written in 8 bits, and results of 32 bits are written and read again.
-- Backward, weights are copied to 16 bits, and a second kernel scales them.
local function around_int8(o, given)
  local n_in, n_out = 1.0 * given.tokens * given.n_in, 1.0 * given.tokens * given.n_out
  local weights = 1.0 * given.n_in * given.n_out
  return op.custom {
    name = o.name .. "-8bit", dtype = given.dtype,
    forward = { vector_flops = 2 * n_in + n_out, bytes = (2 * BYTES + 1) * n_in + 8 * n_out },
    backward = { vector_flops = 2 * weights, bytes = (int8(given) + 3 * BYTES) * weights },
    repeated_bytes = (2 * BYTES + 1) * n_in + 8 * n_out,
  }
end

-- Bits of a product's frozen weights.
local function bits_of(peft, experts)
  if peft.kind ~= "qlora" then return 16 end
  return experts and peft.expert_bits or peft.bits
end

--- Records the ops that run beside a layer's product. Returns the product.
---@param p table      one GPU's share
---@param o table      the fields given to share:column, share:row …
---@param given table  the fields of the product's op
---@param cut "column"|"row"|"replicated"
---@param base userdata  that op
function adapters.attach(p, o, given, cut, base)
  local t = p.tuning
  if not (t and t.peft and p.group and cut) then return base end
  local after = adapters_of(p, o, given, cut)
  for _, one in ipairs(after) do one:add() end
  local bits, before = bits_of(t.peft, o.experts), {}
  if bits < 16 then
    quantised[base] = bits == 4 and adapters.NF4 or int8(given)
    before[1] = bits == 8 and not o.experts and around_int8(o, given) or dequantise(o, given, quantised[base])
  end
  beside[base] = { before = before, after = after }
  return base
end

--- The ops with their adapters inserted, as a new list.
function adapters.expand(ops)
  local list = {}
  for _, one in ipairs(ops) do
    local other = beside[one]
    beside[one] = nil
    table.move(other and other.before or {}, 1, other and #other.before or 0, #list + 1, list)
    list[#list + 1] = one
    table.move(other and other.after or {}, 1, other and #other.after or 0, #list + 1, list)
  end
  return list
end

local function copies(ops)
  local list = {}
  for i, one in ipairs(ops) do list[i] = one:copy() end
  return list
end

--- A copy of an op, beside which run copies of what runs beside the op.
function adapters.copy(one)
  local copy, other = one:copy(), beside[one]
  quantised[copy] = quantised[one]
  beside[copy] = other and { before = copies(other.before), after = copies(other.after) }
  return copy
end

--- Whether an op belongs to an adapter, and so is trained.
function adapters.is(one) return one:is_added() end

--- Bytes per frozen parameter of an op, if they differ from the op's.
function adapters.element(one) return quantised[one] end

return adapters
