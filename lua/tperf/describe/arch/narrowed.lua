--- The ops of a layer whose products with weights run in fewer bits (tperf.describe.precision names the formats). Extra
-- kernels precede each such product:
--   NAME-amax     if the scale is computed from the tensor: reads it once
--   NAME-cast     forward: reads X in 16 bits, writes it by rows and, if that copy is kept, by columns. Backward: the
--                 same for Y's gradient, plus whatever X still needs: a transposition of the gathered copy, or a second
--                 quantisation of an input kept in 16 bits
--   NAME-weight   if copies of weights do not live across micro-batches: W, for each pass, or its other copy alone
-- After a norm whose kernel quantises (some recipes), the norm writes no 16-bit output and the cast reads none; not if
-- an adapter beside the product reads that output, which is then also gathered over tp in 16 bits, for both
-- (Megatron-Bridge and NeMo set TransformerEngine's return_layernorm_output and return_layernorm_output_gathered).
-- Adapters themselves are other classes' products, and stay in 16 bits. No other fusion is assumed: an activation
-- writes 16 bits, and the cast reads them. The cast keeps the input. Attention keeps its own output, which otherwise
-- the next product would keep.
local adapters = require "tperf.describe.strategy.adapters"
local core = require "tperf.core".op
local scattered = require "tperf.describe.arch.experts.scattered"

local narrowed = {}

local WIDE <const> = 2      -- bytes per number
local TWELVE <const> = 1.5  -- bytes per number in E5M6
local FLOPS <const> = 2     -- per number: scaled and rounded, or compared
local MULTIPLE <const> = 16 -- of both features in 8-bit products (cuBLAS, Transformer Engine); others stay wide

-- Numbers of X and of Y's gradient that this GPU quantises: before gathering, if gathers carry the narrow format.
-- shared: an adapter needs X gathered in 16 bits, which is quantised after that, as is the GPU's own shard of it.
local function numbers(shape, r, shared)
  local narrow = r.tensor_gather == "narrow"
  local input = narrow and shape.kept or shape.rows
  if shared and narrow and shape.kept ~= shape.rows then input = shape.rows + shape.kept end
  return {
    input = input * shape.n_in, kept = shape.kept * shape.n_in,
    gradient = (narrow and shape.scattered or shape.rows) * shape.n_out,
    input_gathered = narrow and not shared and shape.kept ~= shape.rows and shape.rows * shape.n_in or 0,
    gradient_gathered = narrow and shape.scattered ~= shape.rows and shape.rows * shape.n_out or 0,
  }
end

-- Bytes to write the copy by columns: with the first copy or, if both share one scale, from the gathered tensor.
local function column_bytes(r, made, gathered)
  if r.columns == "own" then return (r.number + (r.column_scales and 2 * WIDE or 0)) * made end
  if r.columns == "none" then return 0 end
  return gathered > 0 and 2 * r.number * gathered or r.number * made
end

-- The call that multiplies also launches these (TransformerEngine's module/linear.py, torchao's Float8Linear).
local function of(shape, name, o)
  o.name = (shape.name .. name):sub(1, 23)
  local made = core.custom(o):join()
  if shape.recomputed then made:recompute(0) end
  return made
end

-- Of the rows that are multiplied: an expert's, or the stream's.
local function of_rows(shape, r, name, o)
  local made = of(shape, name, o)
  return shape.expert and scattered(made, r.fused_experts) or made
end

local function amax(shape, r, n)
  return of_rows(shape, r, "-amax", {
    forward_vector_flops = FLOPS * n.input, forward_bytes = WIDE * n.input,
    backward_vector_flops = FLOPS * n.gradient, backward_bytes = WIDE * n.gradient,
  })
end

-- Bytes per number to make the copy by rows; came: the tensor came with it, and is read for that by columns alone.
local function row_bytes(r, came, unread)
  if came then return r.columns == "none" and 0 or r.number end
  return (unread and 0 or WIDE) + r.number
end

-- elsewhere: attention keeps X in 12 bits, from which the backward pass makes the copy by columns.
-- unread: which of both tensors the fused kernel that makes it quantises, "input" or "gradient"; nil: neither.
-- came: which of both was quantised before it travelled to the experts.
local function cast(shape, r, n, behind_norm, elsewhere, unread, came)
  local forward = row_bytes(r, came == "input", unread == "input") * n.input
  local backward = row_bytes(r, came == "gradient", unread == "gradient") * n.gradient
  local narrow_dw = r.weight_grad == "narrow" and not shape.frozen -- frozen weights have no gradient
  local saved, again = 0, r.column_scales and WIDE or 0
  local turned = r.columns == "transposed" and n.input_gathered > 0 -- X's second copy, made once X is gathered again
  if r.inputs == "narrow" and not shape.frozen then
    local columns = column_bytes(r, n.input, n.input_gathered)
    forward, backward = forward + (turned and 0 or columns), backward + (turned and columns or 0)
    saved = not elsewhere and r.number * n.kept or 0
    if elsewhere then backward = backward + (TWELVE + r.number) * n.input end
  elseif narrow_dw then
    backward = backward + (WIDE + r.number + again) * n.input
  end
  local with_norm = behind_norm and r.norms_quantise and r.inputs == "narrow"
  if with_norm then forward = math.max(forward - 2 * WIDE * n.input, 0) end
  if narrow_dw then backward = backward + column_bytes(r, n.gradient, n.gradient_gathered) end
  local transform = narrow_dw and 2 * (r.hadamard or 0) or 0
  local made = of_rows(shape, r, "-cast", {
    forward_tensor_flops = transform * n.input, forward_vector_flops = FLOPS * n.input, forward_bytes = forward,
    backward_tensor_flops = transform * n.gradient, backward_vector_flops = FLOPS * n.gradient,
    backward_bytes = backward, saved_bytes = saved,
  })
  if with_norm then made:fuse() end
  if shape.frozen and shape.stopped then return made:stop() end
  if shape.offloaded then return made:offload(false) end
  local kept = shape.saved + shape.again -- of the 16-bit input, part of which may be recomputed for the backward pass
  return kept > 0 and not shape.recomputed and made:again(saved * shape.again / kept) or made
end

-- Quantises weights for every pass, from the gathered ones; those kept narrow are turned for every backward pass.
local function weight_cast(shape, r)
  if r.cached then return nil end
  local weights, forward, backward = shape.used * shape.n_in * shape.n_out, 0, 0
  if r.gather == "bf16" and r.parameters == "bf16" then
    forward = (WIDE + r.weight + (r.measured and WIDE or 0)) * weights
    backward = (WIDE + r.weight + (r.column_scales and WIDE or 0)) * weights
  elseif r.columns == "transposed" then
    backward = 2 * r.weight * weights
  end
  if backward == 0 then return nil end
  return of(shape, "-weight", {
    forward_vector_flops = forward > 0 and FLOPS * weights or 0, forward_bytes = forward,
    backward_vector_flops = FLOPS * weights, backward_bytes = backward,
  })
end

-- Bytes per weight: as stored, of further copies, gathered by replicas, and moved once per iteration to make the
-- copies. Parameters with separate scales by columns are gathered in 16 bits (Megatron-LM's
-- reuse_grad_buf_for_mxfp8_param_ag) or as both copies, which takes as many bytes; blocks of 128 x 128 are the same by
-- rows and by columns. Parameters of one scale whose copies do not live across micro-batches are stored once
-- (Megatron-Core's disable_parameter_transpose_cache): the other copy is made of them.
local function weights_of(r)
  local square = r.weight_block == r.block and r.own_columns
  if r.parameters == "bf16" then
    local gathered = r.gather == "narrow" and not square and r.weight or WIDE
    if not r.cached then return WIDE, 0, gathered, 0 end
    return WIDE, r.copies * r.weight, gathered, WIDE + (r.measured and WIDE or 0) + r.copies * r.weight
  end
  local copies = not r.cached and r.columns == "transposed" and 1 or r.copies
  local held = copies * r.weight
  if square then return held, 0, WIDE, WIDE + held end
  return held, 0, r.weight, copies > 1 and 2 * r.weight or 0
end

local function product(one, r, frozen, shared)
  local held, copies, gathered, step = weights_of(r)
  local narrow = r.tensor_gather == "narrow"
  return one:narrowed {
    dtype = r.dtype, number = r.number, weight = r.weight, held = held, copies = copies, gathered = gathered,
    step = step,
    gather = narrow and not shared and r.number / WIDE or 0,
    grad_gather = narrow and (r.columns == "own" and 2 or 1) * r.number / WIDE or 0,
    keeps = frozen or r.inputs == "bf16", made = true, wide_weight_grad = r.weight_grad == "bf16",
  }
end

local function runs_in(shape, r)
  if not shape or shape.weights == 0 or shape.rows == 0 or shape.own_format then return false end
  if shape.n_in % MULTIPLE ~= 0 or shape.n_out % MULTIPLE ~= 0 then return false end
  return r.products == "all" or shape.expert == (r.products == "experts")
end

-- If a narrowed product no longer keeps attention's 16-bit output, attention keeps it, unless an op between them does:
-- in 16 bits, or in 12 for both (arXiv 2412.19437, section 3.3.3). Returns whether it is kept for both.
local function keep_output(list, attention, shape, r)
  if not attention or r.inputs ~= "narrow" then return false end
  for i = attention + 1, #list do
    if list[i]:keeps() > 0 then return false end
  end
  local shared = r.attention_output == "e5m6"
  local kept = shape.saved + shape.again + shape.on_host -- without the recipe
  list[attention] = list[attention]:keeping(kept * (shared and TWELVE / WIDE or 1))
  return shared
end

-- Tokens, and the gradients of their results, that travel in 8 bits are quantised before (arXiv 2412.19437, section
-- 3.3.3): what the experts' first product reads, and the gradient that their last one does.
local function came_of(one, shape, r)
  if not (r.dispatch == "fp8" and shape.expert) then return nil end
  return one:belongs "expert_fc1" and "input" or "gradient"
end

-- Between fused products of experts, nothing in 16 bits is read to be quantised: not what the activation makes of the
-- first product's output, nor the gradient of that output.
local function unread_of(one, shape, r)
  if not (r.fused_experts and shape.expert) then return nil end
  return one:belongs "expert_fc1" and "gradient" or "input"
end

-- Whether no op after this one keeps anything.
local function keeps_last(list, i)
  for k = i + 1, #list do
    if list[k]:keeps() > 0 then return false end
  end
  return true
end

--- The ops of a block, or of a piece of one, with its narrowed products expanded into several kernels.
---@param ops table  from block:ops; not changed
---@param r table    from precision.resolve
---@param after_norm boolean?  a norm precedes a piece
---@return table ops, boolean open  true: a following product may change what the piece's attention keeps
function narrowed.block(ops, r, after_norm)
  local list, attention = { name = ops.name }, nil
  for i, one in ipairs(ops) do
    local shape = one:product()
    if runs_in(shape, r) and not adapters.is(one) then
      local elsewhere = not shape.frozen and keep_output(list, attention, shape, r)
      local behind_norm = after_norm
      if i > 1 then behind_norm = ops[i - 1]:is_norm() end
      local shared = behind_norm and ops[i + 1] ~= nil and adapters.is(ops[i + 1])
      local n = numbers(shape, r, shared)
      if r.measured then list[#list + 1] = amax(shape, r, n) end
      list[#list + 1] = cast(shape, r, n, behind_norm and not shared, elsewhere, unread_of(one, shape, r),
        came_of(one, shape, r))
      list[#list + 1] = weight_cast(shape, r)
      list[#list + 1] = product(one, r, shape.frozen, shared)
      attention = nil
    else
      list[#list + 1] = one
      if one:has_output() then attention = #list end
    end
  end
  return list, attention ~= nil and keeps_last(list, attention)
end

local RECURRENT <const> = { mamba = true, delta = true, conv = true }

--- The part of a layer (tperf.describe.stored) whose weights a product has; nil: always in 16 bits.
---@param block string  its block's name
---@param one table     the op
---@param shape table   of one:product()
---@return string?
function narrowed.part_of(block, one, shape)
  if shape.expert then return "experts" end
  if one:belongs "shared_experts" then return "shared_experts" end
  if block == "moe" then return shape.name:find "^latent" and "latents" or nil end
  if shape.name:find "fc%d$" then return "mlp" end
  return RECURRENT[block] and not one:belongs "attn_proj" and not one:belongs "qkv_linear" and "recurrent"
    or "attention"
end

-- The same, or the end of a model whose table an op has.
local function stored_part(block, one, shape)
  if shape then
    if block == "head" or block == "embedding" then return shape.name == "head" and "head" or nil end
    return shape.weights > 0 and narrowed.part_of(block, one, shape) or nil
  end
  return block == "embedding" and one:counts().name == "table" and "table" or nil
end

--- The ops of a block in a serving engine: its weights are stored, and its products multiply, as `parts` says.
---@param parts table<string, { bytes: number, products: string }>  by part; absent: 16 bits
function narrowed.stored(ops, parts)
  local list = { name = ops.name }
  for i, one in ipairs(ops) do
    local shape = one:product()
    local part = stored_part(ops.name, one, shape)
    local own = part and not (shape and shape.own_format) and parts[part]
    list[i] = own and one:narrowed { dtype = own.products, weight = own.bytes, held = own.bytes, keeps = true } or one
  end
  return list
end

return narrowed
