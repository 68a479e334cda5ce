--- The curves that timed kernels of attention determine, as those of tperf.calibrate.curves.
local core = require "tperf.core"
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local parts = require "tperf.measured.calibrate.parts"

local attention = {}

local HEAD_SIZES <const> = { 64, 96, 128, 160, 192, 256, 512 } -- 160: of latent attention, on average

-- The head sizes with enough cases.
local function head_sizes(cases, fewest)
  local counts, sizes = {}, {}
  for _, case in ipairs(cases) do counts[case.head_dim] = (counts[case.head_dim] or 0) + 1 end
  for _, size in ipairs(HEAD_SIZES) do
    if (counts[size] or 0) >= fewest then sizes[#sizes + 1] = size end
  end
  return sizes
end

-- Of a GPU whose backward passes were not timed: FlashAttention-2 reaches at most 63 % of the peak backward and 73 %
-- forward (arXiv 2307.08691, section 4).
local BACKWARD <const> = 0.86

-- Kernels with curves of their own: `field` of compute_efficiency or of `place`, the fewest cases of a head size.
-- Portable kernels pass over the keys beyond a window, too; their tiles have `tile` elements of a block of queries
-- (SGLang's in Triton: 64 of 256, 32 of 512). FlashAttention 2 does not slow the clock: an H200 was as fast after four
-- seconds of it.
local FUSED <const> = { field = "attention", fewest = 10, slows = true }
local PORTABLE <const> = { field = "attention", fewest = 10, place = "portable_attention", masks = true, tile = 16384 }
local FLASH2 <const> = { field = "flash2", fewest = 5 }

local function shallow(of)
  local copied = {}
  for key, value in pairs(of or {}) do copied[key] = value end
  return copied
end

-- Where a family's curves of all kinds go.
local function home_of(system, family)
  if not family.place then return parts.compute_of(system) end
  system.accelerator[family.place] = shallow(system.accelerator[family.place])
  return system.accelerator[family.place]
end

-- Where its curves of prefill go: a new table each time, which a machine with them is known by.
local function place_of(system, family)
  local home = home_of(system, family)
  home[family.field] = shallow(home[family.field])
  return home[family.field]
end

local function name_of(kind, dtype, family)
  return ("%s%s.%s"):format(family.place and family.place .. "." or "", kind, dtype)
end

-- A list with a number for each of `sizes` as one for other sizes.
local function resampled(sizes, list, wanted)
  if type(list) ~= "table" then return list end
  local result = {}
  for i, size in ipairs(wanted) do result[i] = core.at_size(sizes, list, size) end
  return result
end

local function prefill(dtype, cases, family)
  local sizes = head_sizes(cases, family.fewest)
  if #sizes == 0 then return nil end
  local parameters = {
    { name = "setup", start = 8e-6, low = 1e-8, high = 1e-4 },
    { name = "keys", start = 128, low = 1, high = 2000 },
    { name = "longest", start = 0.5, low = 0, high = 2 },
  }
  if family.masks then
    parameters[4] = { name = "masked", start = 0.5, low = 1e-3, high = 1.5 }
  elseif family.slows then
    parameters[4], parameters[5] = parts.SUSTAINED, parts.SUSTAINED_AFTER
  end
  for i, size in ipairs(sizes) do
    table.insert(parameters, i, { name = "efficiency" .. size, start = 0.6, low = 0.02, high = 1.5 })
  end
  return {
    name = name_of(family.field, dtype, family), cases = cases, parameters = parameters,
    scope = function(case) return family.masks or case.queries > 512 end,
    needs = "prefill of 1,024 to 16,384 tokens with few and with many heads, for each head size",
    install = function(system, v)
      local place = place_of(system, family)
      local known = place[dtype]
      local curve = {
        head_dim = {}, efficiency = {}, setup = v.setup, keys = v.keys, longest = v.longest,
        sustained = v.sustained or 1, sustained_after = v.sustained_after or 1e-3,
        backward = known and resampled(known.head_dim, known.backward, sizes) or BACKWARD,
        backward_keys = known and known.backward_keys, masked = v.masked, tile = family.tile,
      }
      for i, size in ipairs(sizes) do
        curve.head_dim[i], curve.efficiency[i] = size, v["efficiency" .. size]
      end
      place[dtype] = curve
    end,
  }
end

-- The sizes of both lists, in order.
local function union(some, others)
  local known, all = {}, {}
  for _, list in ipairs { some, others } do
    for _, size in ipairs(list) do
      if not known[size] then known[size], all[#all + 1] = true, size end
    end
  end
  table.sort(all)
  return all
end

local FEWEST_BACKWARD <const> = 3 -- cases of a head size: one number beside the forward pass's

-- The backward pass, beside the curve of the forward pass.
local function backward(dtype, cases, family)
  local sizes = head_sizes(cases, FEWEST_BACKWARD)
  if #sizes == 0 then return nil end
  local parameters = { { name = "backward_keys", start = 500, low = 1, high = 4000 } }
  for i, size in ipairs(sizes) do
    table.insert(parameters, i, { name = "backward" .. size, start = BACKWARD, low = 0.1, high = 2 })
  end
  return {
    name = "backward." .. name_of(family.field, dtype, family), cases = cases, parameters = parameters,
    scope = function() return true end,
    needs = "backward passes of 1,024 to 32,768 tokens, for each head size",
    install = function(trial, v)
      local place = place_of(trial, family)
      local curve = shallow(place[dtype])
      local list = {}
      for i, size in ipairs(sizes) do list[i] = v["backward" .. size] end
      local all = union(curve.head_dim, sizes)
      curve.efficiency = resampled(curve.head_dim, curve.efficiency, all)
      curve.head_dim, curve.backward, curve.backward_keys = all, resampled(sizes, list, all), v.backward_keys
      place[dtype] = curve
    end,
  }
end

local PIECES <const> = 8 -- of a cache at most: SGLang's triton_attention_num_kv_splits

local DECODE_NEEDS <const> = "decode steps of caches from 10 KB to 10 GB, of few and of many sequences"

-- Decoding time beyond the launch, from the bytes of the cache.
local function decode(dtype, cases)
  return {
    name = name_of("decode", dtype, FUSED), cases = cases,
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
    name = name_of("decode", dtype, PORTABLE), cases = cases,
    parameters = {
      { name = "setup", start = 5e-6, low = 1e-8, high = 1e-3 },
      { name = "block", start = 2e-6, low = 1e-8, high = 1e-4 },
      { name = "whole", start = 1e10, low = 1e8, high = 1e12 },
    },
    scope = function(case) return case.bytes >= 1e7 end, needs = DECODE_NEEDS,
    install = function(system, v)
      local place, others = home_of(system, PORTABLE), parts.compute_of(system).decode
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

-- Portable kernels take windows as they take masks.
local function is_prefill(case, family)
  if family.masks then return case.kind == "causal_attention" or case.kind ~= "decode" and case.window end
  return case.kind == "causal_attention" and case.queries > 512
end

local function family_of(case)
  return case.portable and PORTABLE or case.flash2 and FLASH2 or FUSED
end

--- Adds the curves of attention: of fused kernels, portable ones and FlashAttention 2; prefill by the dtype of its
--- products, decoding by that of the cache; and backward passes, where there is a curve of forward passes.
---@param all table[]  cases of tperf.measured.kernel.attention
---@param add fun(curve: table?)
---@param system table
function attention.add(all, add, system)
  local function add_each(cases, by, curve, family)
    local groups, names = fit.groups(cases, by)
    table.sort(names)
    for _, dtype in ipairs(names) do add(curve(dtype, groups[dtype], family)) end
    return groups
  end
  local compute = system.accelerator.compute_efficiency
  for _, family in ipairs { FUSED, PORTABLE, FLASH2 } do
    local function where(accept)
      return lists.where(all, function(case) return family_of(case) == family and accept(case) end)
    end
    local function is_forward(case) return not case.backward and is_prefill(case, family) end
    local fitted = add_each(where(is_forward), "dtype", prefill, family)
    add_each(where(is_decode), "kv_dtype", family == PORTABLE and portable_decode or decode, family)
    local known = type(compute) == "table" and compute[family.field] or {}
    add_each(where(function(case)
      return case.backward and is_prefill(case, family) and (fitted[case.dtype] or known[case.dtype])
    end), "dtype", backward, family)
  end
end

return attention
