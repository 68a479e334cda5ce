--- Timed attention kernels, prefill, encoder and decoding, and the backward passes of the first two: columns phase,
--- attn_dtype, kv_dtype, batch, seq_q, kv_len, heads, kv_heads, head_dim, window, time_s (seconds).
local core = require "tperf.core"
local engine_machine = require "tperf.question.serve.machine"
local read = require "tperf.measured.read"

local attention = { name = "attention", columns = { "phase", "seq_q", "kv_len", "heads", "head_dim", "time_s" } }

local DTYPES <const> = { bf16 = true, fp16 = true, fp8 = true }
local KINDS = { context = "causal_attention", encoder = "attention", generation = "decode",
  context_backward = "causal_attention", encoder_backward = "attention" }
local NAMES = { causal_attention = "causal attention", attention = "full attention", decode = "decoding attention" }
local LONG <const> = 1e7 -- bytes of keys and values, below which launches and latencies dominate decoding

-- Bytes of keys, values, queries and results together.
local function bytes_of(case)
  local groups, d = case.batch * case.kv_heads, case.head_dim
  return 2 * case.kv_element * groups * case.keys * d + 4 * case.batch * case.heads * case.queries * d
end

local function source_of(case)
  local decode = case.kind == "decode"
  local dtype = decode and case.kv_dtype or case.dtype
  return ("%s %s%s%s%s, %s"):format(case.window and not decode and "windowed attention" or NAMES[case.kind], dtype,
    case.backward and ", backward" or "",
    decode and case.window and ", window" or "",
    case.portable and ", portable kernel (Triton)" or case.flash2 and ", FlashAttention 2" or "",
    decode and (case.bytes >= LONG and "at least 10 MB" or "less than 10 MB")
      or (case.queries > 512 and "over 512 tokens" or "up to 512 tokens"))
end

-- Applies a window: average keys per query (as in include/tperf/op.h).
local function narrow(case, window)
  case.window = window
  if case.kind == "decode" then
    case.keys = window
    return
  end
  window = math.min(window, case.queries)
  local seen = window * (window + 1) / 2 + (case.queries - window) * window
  case.kind, case.seen = "attention", math.min(seen / case.queries + math.min(case.queries, 128) / 2, case.keys)
  case.masked = math.max((case.queries + 1) / 2 - case.seen, 0)
end

--- A case, or nil and why the row is left out.
function attention.case(row)
  local kind = KINDS[row.phase]
  if not kind then return nil, "a phase that is neither context, encoder, generation nor a backward pass" end
  local kernel = read.text(row.kernel_source)
  local case = {
    gpu = row.gpu, kind = kind, dtype = read.text(row.attn_dtype, "bf16"),
    kv_element = read.cache_bytes(row.kv_dtype),
    backward = row.phase:find "backward" ~= nil, portable = kernel:find "triton" ~= nil,
    flash2 = kernel:find "flash2" ~= nil, alone = kernel:find "^torch_" ~= nil,
    measured = read.positive(row.time_s), batch = read.count(row.batch), queries = read.count(row.seq_q),
    keys = read.count(row.kv_len), heads = read.count(row.heads),
    kv_heads = read.count(row.kv_heads) or read.count(row.heads), head_dim = read.count(row.head_dim),
  }
  if not DTYPES[case.dtype] then return nil, read.unknown(case.dtype, "attn_dtype") end
  if not case.kv_element then return nil, read.unknown(row.kv_dtype, "kv_dtype") end
  if row.window ~= "" and not tonumber(row.window) then return nil, read.unknown(row.window, "window") end
  if not (case.measured and case.batch and case.queries and case.keys and case.heads and case.head_dim) then
    return nil, "a size or time_s is not a positive number"
  end
  if case.kv_heads > case.heads then return nil, "more key-value heads than heads" end
  if kind == "decode" and case.queries ~= 1 then return nil, "a decode step of several queries" end
  case.label = ("%.15gx%.15g heads %.15g/%.15g of %.15g"):format(case.batch, case.queries, case.heads, case.kv_heads,
    case.head_dim)
  local window = tonumber(row.window) or 0
  if window > 0 and window < case.keys then
    if kind == "context" and case.keys ~= case.queries then return nil, "a window over earlier tokens" end
    narrow(case, window)
  end
  case.bytes, case.kv_dtype = bytes_of(case), case.kv_element == 1 and "fp8" or "bf16"
  case.source = source_of(case)
  return case
end

-- The prefill tables of engines also time writing keys and values to the cache: they are read and written once.
local function cache_write(case, system)
  if case.alone or case.backward or case.kind ~= "causal_attention" and not case.window then return 0 end
  local hbm = system.accelerator.hbm
  local bytes = 2 * 2 * 2 * case.batch * case.keys * case.kv_heads * case.head_dim
  return bytes / (hbm.bandwidth * hbm.efficiency)
end

-- The decoding tables read the same keys and values repeatedly.
local function decode_time(case, machine, system)
  local compute = system.accelerator.compute_efficiency
  if type(compute) ~= "table" or not compute.decode then return nil, "the system has no curve for decoding" end
  local cache = system.accelerator.cache
  local exact, memory = machine:kernel("attention", case.dtype, case.batch * case.heads, 1, case.keys, case.head_dim,
    case.heads / case.kv_heads * 2 / case.kv_element, false, case.kv_element, cache and case.bytes <= cache.capacity)
  if not exact then return nil, "the system has no curve for decoding" end
  return exact + memory
end

local known = setmetatable({}, { __mode = "k" }) -- systems and machines by the curves of other kernels

-- The system and machine as kernels other than the fastest fused ones have them: portable ones, FlashAttention 2.
local function with_kernels(system, curves, changes)
  if not known[curves] then
    local changed = system:with { accelerator = { compute_efficiency = changes(curves) } }
    known[curves] = { changed, core.machine(changed) }
  end
  return table.unpack(known[curves])
end

local function in_place(curves) return { attention = curves } end

--- Seconds predicted; nil and a reason if the system lacks a curve.
function attention.predict(case, machine, system)
  local curves = system.accelerator.compute_efficiency
  local portable = case.portable and system.accelerator.portable_attention
  local flash2 = case.flash2 and type(curves) == "table" and curves.flash2
  if portable then
    system, machine = with_kernels(system, portable, engine_machine.attention)
  elseif flash2 then
    system, machine = with_kernels(system, flash2, in_place)
  end
  if case.kind == "decode" then return decode_time(case, machine, system) end
  local compute, memory = machine:kernel(case.kind, case.dtype, case.batch * case.heads, case.queries,
    case.seen or case.keys, case.head_dim, case.heads / case.kv_heads, case.backward, nil, false, false, case.masked)
  if not compute then return nil, "the system has no curve for " .. case.dtype .. " attention" end
  return compute + memory + cache_write(case, system)
end

return attention
