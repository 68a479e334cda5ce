--- Timed blocks of experts on one GPU, from routing to the sum, without communication: columns gpu, dtype,
--- distribution, tokens, hidden, moe_inter, experts, topk, tp, ep, gated, time_s (seconds).
local core = require "tperf.core"
local engine_machine = require "tperf.question.serve.machine"
local loads = require "tperf.measured.kernel.loads"
local read = require "tperf.measured.read"

local moe = { name = "moe", columns = { "tokens", "hidden", "moe_inter", "experts", "topk", "tp", "ep", "time_s" } }

-- What activations have, and weights where they have fewer bits.
local GATED <const> = { [""] = true, ["0"] = true, ["1"] = true }
local DTYPES = { bf16 = "bf16", fp16 = "bf16", fp8 = "fp8", fp8_block = "fp8", nvfp4 = "fp4", w4a16_mxfp4 = "bf16",
  w4a8_mxfp4_mxfp8 = "fp8" }
local WEIGHTS = { w4a16_mxfp4 = 0.5, w4a8_mxfp4_mxfp8 = 0.5 } -- bytes of one
local MOST <const> = 4096 -- experts; and GPUs that share them

local function sizes_of(row)
  local case = {}
  for _, name in ipairs { "tokens", "hidden", "moe_inter", "experts", "topk", "tp", "ep" } do
    case[name] = read.count(row[name])
    if not case[name] then return nil, name .. " is not a positive number" end
  end
  if case.experts > MOST or case.experts % case.ep ~= 0 or case.topk > case.experts then
    return nil, "ep does not divide the experts, or topk exceeds them"
  end
  return case
end

-- Widths of Nemotron 3's experts, which have no gate: TensorRT-LLM's rows say so, SGLang's do not, and would read
-- weights faster than the HBM.
local UNGATED <const> = { ["1856"] = true, ["2688"] = true, ["5120"] = true }

local function gates_of(row, sglang) return (row.gated == "0" or sglang and UNGATED[row.moe_inter]) and 1 or 2 end

-- Rows of the busiest GPU, and the number of its experts that have any.
local function load_of(case, distribution)
  local pairs_of = case.tokens * case.topk
  if distribution == "balanced" then
    local rows = math.max(pairs_of / case.ep, 1)
    return rows, math.min(case.experts // case.ep, rows)
  end
  local exponent = read.positive(distribution:match "^power_law_([%d.]+)$")
  if exponent and exponent ~= 1 and exponent < 10 then return loads.power_law(case, exponent) end
end

local function source_of(row, rows)
  local kernel = read.text(row.kernel_source)
  local family = kernel:find "trtllm_moe" and ", fused" or kernel:find "triton" and ", portable kernel (Triton)"
    or kernel:find "^sglang" and ", SGLang" or ""
  return ("experts %s%s, %s 16 rows each"):format(row.dtype, family, rows >= 16 and "at least" or "fewer than")
end

--- A case, or nil and why the row is left out.
function moe.case(row)
  local dtype, seconds = DTYPES[row.dtype], read.positive(row.time_s)
  if row.dtype:find "^int4" then return nil, "weights of 4 bits in integers, without a curve" end
  if not dtype then return nil, read.unknown(row.dtype, "dtype") end
  if not GATED[row.gated] then return nil, read.unknown(row.gated, "gated") end
  local case, reason = sizes_of(row)
  if not case then return nil, reason end
  if not seconds then return nil, "time_s is not a positive number" end
  case.rows, case.hit = load_of(case, read.text(row.distribution, "balanced"))
  if not case.rows then return nil, "a distribution of the tokens that is not known" end
  case.gpu, case.dtype, case.weight, case.measured = row.gpu, dtype, WEIGHTS[row.dtype], seconds
  local kernel = read.text(row.kernel_source)
  case.format, case.portable, case.sglang = row.dtype, kernel:find "triton" ~= nil, kernel:find "^sglang" ~= nil
  case.width = case.moe_inter / case.tp
  case.gates = gates_of(row, case.sglang)
  case.own = kernel:find "trtllm_moe" and "fused_experts"
    or case.portable and "portable_experts" or nil
  case.source = source_of(row, case.rows / case.hit)
  case.label = ("%d tokens, %d of %d experts %dx%d, tp %d, ep %d"):format(case.tokens, case.topk, case.experts,
    case.hidden, case.moe_inter, case.tp, case.ep)
  return case
end

-- Bytes of the read-write kernels: scores, choices, rows copied to their places, activation, rows added up.
local function streams(case)
  local rows, width = case.rows, case.gates * case.width
  return {
    4 * case.tokens * case.experts, 8 * case.tokens * case.topk, 4 * rows * case.hidden,
    2 * rows * (width + case.width), 2 * (rows + case.tokens) * case.hidden,
  }
end

local known = setmetatable({}, { __mode = "k" }) -- machines by the curve of experts' own kernels, and the dtype

local function own_machine(system, kernels, dtype)
  local machines = known[kernels] or {}
  known[kernels] = machines
  if not machines[dtype] then
    local experts, routing = engine_machine.experts(kernels, dtype)
    machines[dtype] = core.machine(system:with { accelerator = {
      compute_efficiency = { experts = experts }, routing = routing,
    } })
  end
  return machines[dtype]
end

--- Seconds predicted; nil and a reason if the system lacks a curve.
function moe.predict(case, machine, system)
  if not system.accelerator.routing then return nil, "the system has no curve for routing" end
  local kernels = case.own and system.accelerator[case.own]
  if kernels then machine = own_machine(system, kernels, case.dtype) end
  local each, seconds = case.rows / case.hit, machine:routing(case.tokens * case.topk)
  for _, product in ipairs { { case.gates * case.width, case.hidden }, { case.hidden, case.width } } do
    local compute, memory = machine:kernel("gemm", case.dtype, case.hit, each, product[1], product[2],
      nil, nil, case.weight, nil, true)
    if not compute then return nil, "the system has no curve for " .. case.dtype .. " products" end
    seconds = seconds + compute + memory
  end
  for _, bytes in ipairs(streams(case)) do seconds = seconds + machine:stream(bytes) end
  return seconds
end

return moe
