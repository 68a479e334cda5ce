--- Timed kernels of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) and of its whole attention layers:
--- columns op, gpu, kv_dtype, gemm_dtype, batch, seq_q, kv_len, heads, time_s (seconds). Sizes are those of DeepSeek-V3
--- (arXiv 2412.19437, section 4.2), heads are per GPU.
local read = require "tperf.measured.read"

local mla = { name = "mla", columns = { "op", "kv_dtype", "gemm_dtype", "heads", "kv_len", "time_s" } }

local HIDDEN <const>, Q_RANK <const>, KV_RANK <const> = 7168, 1536, 512
local NOPE <const>, ROPE <const>, VALUE <const> = 128, 64, 128

local GEMM_DTYPES = { bf16 = "bf16", fp8 = "fp8", fp8_block = "fp8", nvfp4 = "fp4" }
local NAMES = {
  context = "latent attention, prefill", generation = "latent attention, decoding",
  bmm_pre = "products into the latent space", bmm_post = "products into the latent space",
  context_module = "layer of latent attention, prefill", generation_module = "layer of latent attention, decoding",
}

--- A case, or nil and why the row is left out.
function mla.case(row)
  if not NAMES[row.op] then return nil, "an op that is not known" end
  if not read.cache_bytes(row.kv_dtype) then return nil, read.unknown(row.kv_dtype, "kv_dtype") end
  local case = {
    gpu = row.gpu, op = row.op, measured = read.positive(row.time_s), batch = read.positive(row.batch),
    queries = read.positive(row.seq_q), keys = read.positive(row.kv_len), heads = read.positive(row.heads),
    narrow = row.kv_dtype == "fp8",
  }
  local product = row.op:find "^bmm"
  if not (case.measured and case.batch and case.queries and case.heads and (case.keys or product)) then
    return nil, "a size or time_s is not a positive number"
  end
  local dtype = product and row.dtype or read.text(row.gemm_dtype, "bf16")
  case.dtype = GEMM_DTYPES[dtype]
  if not case.dtype then return nil, read.unknown(dtype, product and "dtype" or "gemm_dtype") end
  if read.text(row.kernel_source):find "TRITON" then return nil, "portable kernels (Triton)" end
  case.source = ("%s, %s"):format(NAMES[row.op], product and dtype or (row.op:find "module" and dtype .. ", " or "")
    .. (case.narrow and "fp8 cache" or "bf16 cache"))
  case.label = ("%s %.15gx%.15g, %.15g keys, %.15g heads"):format(row.op, case.batch, case.queries, case.keys or 0,
    case.heads)
  return case
end

-- The kernels compute in the cache's dtype if the chip supports it.
local function prefill(case, machine)
  local function kernel(dtype)
    return machine:kernel("causal_attention", dtype, case.batch * case.heads, case.queries, case.keys,
      (NOPE + ROPE + VALUE) / 2)
  end
  local compute, memory = kernel(case.narrow and "fp8" or "bf16")
  if not compute then compute, memory = kernel "bf16" end
  if not compute then return nil end
  return compute + memory + machine:stream(2 * 2 * case.batch * case.queries * (KV_RANK + ROPE))
end

-- All heads read the same latent cache: keys over its full width, values over its larger part. A preceding kernel
-- rotates the queries and writes the new token.
local function decode(case, machine, system)
  local width, element = KV_RANK + ROPE, case.narrow and 1 or 2
  local cache = system.accelerator.cache
  local warm = cache and element * case.batch * case.keys * width <= cache.capacity
  local function kernel(dtype, wide)
    local shared = case.heads * (width + KV_RANK) / width * wide / element
    return machine:kernel("attention", dtype, case.batch * case.heads, 1, case.keys, (width + KV_RANK) / 2, shared,
      false, element, warm)
  end
  local compute, memory
  if case.narrow then compute, memory = kernel("fp8", 1) end
  if not compute then compute, memory = kernel("bf16", 2) end
  return compute and compute + memory + machine:stream(2 * 2 * case.batch * (case.heads + 1) * width)
end

-- Seconds of products { rows, output features, input features, count }.
local function products(case, machine, list, dtype)
  local seconds = 0
  for _, p in ipairs(list) do
    local compute, memory = machine:kernel("gemm", dtype or case.dtype, p[4] or 1, p[1], p[2], p[3])
    if not compute then return nil end
    seconds = seconds + compute + memory
  end
  return seconds
end

local kernels = { context = prefill, generation = decode }

function kernels.bmm_pre(case, machine)
  return products(case, machine, { { case.batch, KV_RANK, NOPE, case.heads } })
end

function kernels.bmm_post(case, machine)
  return products(case, machine, { { case.batch, VALUE, KV_RANK, case.heads } })
end

-- Projections, norms of both latents, rotary embeddings and the attention between them.
local function layer(case, machine, attention, absorbed)
  local rows = case.batch * case.queries
  local list = {
    { rows, Q_RANK + KV_RANK + ROPE, HIDDEN }, { rows, case.heads * (NOPE + ROPE), Q_RANK },
    { rows, HIDDEN, case.heads * VALUE },
  }
  if not absorbed then list[#list + 1] = { rows, case.heads * (NOPE + VALUE), KV_RANK } end
  local seconds = products(case, machine, list)
  local joined = absorbed and products(case, machine, {
    { rows, KV_RANK, NOPE, case.heads }, { rows, VALUE, KV_RANK, case.heads },
  }, "bf16") or 0
  if not (attention and seconds and joined) then return nil end
  for _, width in ipairs { Q_RANK, KV_RANK, case.heads * ROPE } do
    seconds = seconds + machine:stream(4 * rows * width)
  end
  return attention + seconds + joined
end

function kernels.context_module(case, machine) return layer(case, machine, prefill(case, machine)) end

function kernels.generation_module(case, machine, system)
  return layer(case, machine, decode(case, machine, system), true)
end

--- Seconds predicted; nil and a reason if the system lacks a curve.
function mla.predict(case, machine, system)
  local seconds = kernels[case.op](case, machine, system)
  if not seconds then return nil, "the system has no curve for these kernels" end
  return seconds
end

return mla
