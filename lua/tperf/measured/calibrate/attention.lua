--- The curves that timed kernels of attention determine, as those of tperf.calibrate.curves.
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local parts = require "tperf.measured.calibrate.parts"

local attention = {}

local HEAD_SIZES = { 64, 128, 192, 256, 512 }

-- The head sizes with at least ten cases.
local function head_sizes(cases)
  local counts, sizes = {}, {}
  for _, case in ipairs(cases) do counts[case.head_dim] = (counts[case.head_dim] or 0) + 1 end
  for _, size in ipairs(HEAD_SIZES) do
    if (counts[size] or 0) >= 10 then sizes[#sizes + 1] = size end
  end
  return sizes
end

-- FlashAttention-2 reaches at most 63 % of the peak backward and 73 % forward (arXiv 2307.08691, section 4).
local BACKWARD <const> = 0.86

-- Where curves of attention go: those of portable kernels have a place of their own, which is a new one each time.
local function place_of(system, portable)
  if not portable then return parts.compute_of(system) end
  local known, accelerator = system.accelerator.portable_attention or {}, system.accelerator
  accelerator.portable_attention = { source = known.source, attention = known.attention, decode = known.decode }
  return accelerator.portable_attention
end

local function name_of(kind, dtype, portable)
  return ("%s%s.%s"):format(portable and "portable_attention." or "", kind, dtype)
end

local TILE <const> = 16384 -- elements of a block of queries in SGLang's Triton kernels: 64 of 256, 32 of 512

-- portable: kernels that pass over the keys beyond a window, too.
local function prefill(dtype, cases, portable)
  local sizes = head_sizes(cases)
  if #sizes == 0 then return nil end
  local parameters = {
    { name = "setup", start = 8e-6, low = 1e-8, high = 1e-4 },
    { name = "keys", start = 128, low = 1, high = 2000 },
    { name = "longest", start = 0.5, low = 0, high = 2 },
  }
  if portable then
    parameters[4] = { name = "masked", start = 0.5, low = 1e-3, high = 1.5 }
  else
    parameters[4], parameters[5] = parts.SUSTAINED, parts.SUSTAINED_AFTER
  end
  for i, size in ipairs(sizes) do
    table.insert(parameters, i, { name = "efficiency" .. size, start = 0.6, low = 0.02, high = 1.5 })
  end
  return {
    name = name_of("attention", dtype, portable), cases = cases, parameters = parameters,
    scope = function(case) return portable or case.queries > 512 end,
    needs = "prefill of 1,024 to 16,384 tokens with few and with many heads, for each head size",
    install = function(system, v)
      local place = place_of(system, portable)
      place.attention = place.attention or {}
      local curve = {
        head_dim = {}, efficiency = {}, setup = v.setup, keys = v.keys, longest = v.longest,
        sustained = v.sustained or 1, sustained_after = v.sustained_after or 1e-3, backward = BACKWARD,
        masked = v.masked, tile = portable and TILE or nil,
      }
      for i, size in ipairs(sizes) do
        curve.head_dim[i], curve.efficiency[i] = size, v["efficiency" .. size]
      end
      place.attention[dtype] = curve
    end,
  }
end

local PIECES <const> = 8 -- of a cache at most: SGLang's triton_attention_num_kv_splits

local DECODE_NEEDS <const> = "decode steps of caches from 10 KB to 10 GB, of few and of many sequences"

-- Decoding time beyond the launch, from the bytes of the cache.
local function decode(dtype, cases)
  return {
    name = name_of("decode", dtype), cases = cases,
    parameters = {
      { name = "efficiency", start = 0.85, low = 0.05, high = 1 },
      { name = "setup", start = 5e-6, low = 1e-8, high = 1e-3 },
      { name = "block", start = 2e-6, low = 1e-8, high = 1e-4 },
      { name = "ramp", start = 1e-6, low = 1e-8, high = 1e-3 },
    },
    scope = function(case) return case.bytes >= 1e7 end, needs = DECODE_NEEDS,
    install = function(system, v)
      local compute = parts.compute_of(system)
      compute.decode = compute.decode or {}
      compute.decode[dtype] = { efficiency = v.efficiency, setup = v.setup, block = v.block, ramp = v.ramp }
    end,
  }
end

-- Portable kernels read the HBM as well as others; what a unit reads limits them, since they cut caches less.
local function portable_decode(dtype, cases)
  return {
    name = name_of("decode", dtype, true), cases = cases,
    parameters = {
      { name = "setup", start = 5e-6, low = 1e-8, high = 1e-3 },
      { name = "block", start = 2e-6, low = 1e-8, high = 1e-4 },
      { name = "whole", start = 1e10, low = 1e8, high = 1e12 },
    },
    scope = function(case) return case.bytes >= 1e7 end, needs = DECODE_NEEDS,
    install = function(system, v)
      local place, others = place_of(system, true), parts.compute_of(system).decode
      local fused = others and (others[dtype] or others.bf16)
      place.decode = place.decode or {}
      place.decode[dtype] = {
        efficiency = fused and fused.efficiency or 1, setup = v.setup, block = v.block, ramp = 0, whole = v.whole,
        pieces = PIECES,
      }
    end,
  }
end

local function is_decode(case) return case.kind == "decode" end

local function is_long_prefill(case) return case.kind == "causal_attention" and case.queries > 512 end

-- Portable kernels take windows as they take masks.
local function is_prefill(case) return case.kind == "causal_attention" or case.kind ~= "decode" and case.window end

--- Adds the curves of attention: of fused kernels, then of portable ones; prefill by the dtype of its products,
--- decoding by that of the cache.
---@param all table[]  cases of tperf.measured.kernel.attention
---@param add fun(curve: table?)
function attention.add(all, add)
  for _, portable in ipairs { false, true } do
    local cases = lists.where(all, function(case) return case.portable == portable end)
    local groups, names = fit.groups(lists.where(cases, portable and is_prefill or is_long_prefill), "dtype")
    table.sort(names)
    for _, dtype in ipairs(names) do add(prefill(dtype, groups[dtype], portable)) end
    groups, names = fit.groups(lists.where(cases, is_decode), "kv_dtype")
    table.sort(names)
    for _, dtype in ipairs(names) do add((portable and portable_decode or decode)(dtype, groups[dtype])) end
  end
end

return attention
