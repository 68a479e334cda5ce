--- Timed attention kernels, prefill and encoder: columns phase, attn_dtype, batch, seq_q, kv_len, heads, kv_heads,
--- head_dim, window, time_s (seconds).
local read = require "tperf.measured.read"

local attention = { name = "attention", columns = { "phase", "seq_q", "kv_len", "heads", "head_dim", "time_s" } }

local KINDS = { context = "causal_attention", encoder = "attention" }

local function source_of(row, causal, tokens)
  local kernel = row.kernel_source or ""
  return ("%s attention %s%s, %s"):format(causal and "causal" or "full", row.attn_dtype or "bf16",
    kernel:find "triton" and ", portable kernel (Triton)" or "",
    tokens > 512 and "over 512 tokens" or "up to 512 tokens")
end

--- A case, or nil and why the row is left out.
function attention.case(row)
  local kind = KINDS[row.phase]
  if not kind then return nil, "decoding is memory-bound, without a curve" end
  local case = {
    gpu = row.gpu, kind = kind, dtype = row.attn_dtype or "bf16",
    portable = (row.kernel_source or ""):find "triton" ~= nil,
    measured = read.positive(row.time_s), batch = read.positive(row.batch), queries = read.positive(row.seq_q),
    keys = read.positive(row.kv_len), heads = read.positive(row.heads),
    kv_heads = read.positive(row.kv_heads) or read.positive(row.heads), head_dim = read.positive(row.head_dim),
  }
  if not (case.measured and case.batch and case.queries and case.keys and case.heads and case.head_dim) then
    return nil, "a size or time_s is not a positive number"
  end
  local window = tonumber(row.window) or 0
  if window > 0 and window < case.keys then return nil, "a window that is narrower than the sequence" end
  case.source = source_of(row, kind == "causal_attention", case.queries)
  case.label = ("%.15gx%.15g heads %.15g/%.15g of %.15g"):format(case.batch, case.queries, case.heads, case.kv_heads,
    case.head_dim)
  return case
end

-- The tables of prefill time the write of keys and values to their cache along with the kernel: read and written once.
local function cache_write(case, system)
  if case.kind ~= "causal_attention" then return 0 end
  local hbm = system.accelerator.hbm
  local bytes = 2 * 2 * 2 * case.batch * case.keys * case.kv_heads * case.head_dim
  return bytes / (hbm.bandwidth * hbm.efficiency)
end

--- Seconds predicted; nil and a reason when the system cannot.
function attention.predict(case, machine, system)
  local compute, memory = machine:kernel(case.kind, case.dtype, case.batch * case.heads, case.queries, case.keys,
    case.head_dim, case.heads / case.kv_heads)
  if not compute then return nil, "the system has no curve for " .. case.dtype .. " attention" end
  return compute + memory + cache_write(case, system)
end

return attention
