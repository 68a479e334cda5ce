--- Timed matrix products: columns gpu, dtype, m, n, k, time_s (seconds).
local read = require "tperf.measured.read"

-- fp8_block: groups of 128 with their own scale; the tables time the quantising kernel with the product.
local DTYPES = { bf16 = "bf16", fp16 = "fp16", fp8 = "fp8", fp8_block = "fp8", nvfp4 = "fp4", tf32 = "tf32" }

local gemm = { name = "gemm", columns = { "m", "n", "k", "time_s", "dtype" } }

--- A case, or nil and why the row is left out.
function gemm.case(row)
  local dtype = DTYPES[row.dtype]
  if not dtype then return nil, read.unknown(row.dtype, "dtype") end
  local m, n, k = read.positive(row.m), read.positive(row.n), read.positive(row.k)
  local seconds = read.positive(row.time_s)
  if not (m and n and k and seconds) then return nil, "m, n, k or time_s is not a positive number" end
  -- Some sizes of one library's narrow products are badly tuned: a system can achieve the better of two libraries.
  local other = dtype ~= "bf16" and dtype ~= "fp16" and read.positive(row.time_alt_s)
  return {
    achieved = other and math.min(other, seconds) or seconds,
    gpu = row.gpu, dtype = dtype, blockwise = row.dtype == "fp8_block",
    m = m, n = n, k = k, measured = seconds, flops = 2 * m * n * k,
    source = ("GEMM %s, %s"):format(row.dtype, 2 * m * n * k >= 1e9 and "at least 1e9 FLOP" or "less than 1e9 FLOP"),
    label = ("%.15gx%.15gx%.15g"):format(m, n, k),
  }
end

--- Seconds predicted; nil and a reason if the system lacks a curve.
function gemm.predict(case, machine)
  local compute, memory = machine:kernel("gemm", case.dtype, 1, case.m, case.n, case.k)
  if not compute then return nil, "the system has no curve for " .. case.dtype .. " products" end
  return compute + memory
end

return gemm
