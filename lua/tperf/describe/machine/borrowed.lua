--- Fills what a system file leaves out with the curves of another system, which its `curves_of` names: the parts of a
-- peak, a bandwidth and a link that kernels and messages reach, and their latencies; and how many multiprocessors
-- kernels are cut for. Rates and other sizes are its own.
local next, type = next, type
local check = require "tperf.base.check"

local borrowed = {}

-- Fields to fill, and to which depth their parts may be given or left out one by one: of compute_efficiency each number
-- of the curve of a kind of kernel and a dtype, of a network each collective.
local ACCELERATOR <const> = { compute_efficiency = 3, launch = 0, units = 0, fused_experts = 0, portable_experts = 0,
  portable_attention = 3, routing = 0, unaligned = 1, converted = 0, chunkwise = 0, flash1 = 0, overlap_sms = 0 }
local HBM <const> = { efficiency = 0, scattered = 0, stream = 1 }
local LINK <const> = { efficiency = 1, latency = 0 }

local OF_THE_FIT <const> = { error = true, points = true } -- said where it was made

local function copy(value, of)
  if type(value) ~= "table" then return value end
  local result = {}
  for key, part in next, value do
    if not OF_THE_FIT[key] then result[key] = copy(part, of) end
  end
  if result.source then result.source = ("%s's: %s"):format(of, result.source) end
  return result
end

local function filled(own, others, depth, of)
  if own == nil then return copy(others, of) end
  if depth == 0 or type(own) ~= "table" or type(others) ~= "table" then return own end
  local result = {}
  for key, value in next, own do result[key] = value end
  for key, value in next, others do
    if key ~= "source" and not OF_THE_FIT[key] then result[key] = filled(own[key], value, depth - 1, of) end
  end
  return result
end

-- A copy of a record with the fields named in `fields` filled from another; anything else stays for the check.
local function with(record, name, others, fields, of)
  if type(record) ~= "table" or type(record[name]) ~= "table" then return end
  local result = {}
  for key, value in next, record[name] do result[key] = value end
  for key, depth in next, fields do result[key] = filled(result[key], others[key], depth, of) end
  record[name] = result
end

local borrowing = {}

--- The content of a system file with its missing curves.
---@param content any
---@param system fun(name: string): table  loads another system
---@return any content  a copy if anything was filled
function borrowed.fill(content, system)
  local of = type(content) == "table" and content.curves_of
  if type(of) ~= "string" then return content end
  if borrowing[of] then check.fail("tperf.system: 'curves_of': %s has its curves from itself", check.show(of)) end
  borrowing[of] = true
  local ok, others = check.attempt(system, of)
  borrowing[of] = nil
  if not ok then check.fail("%s", others) end
  local result = {}
  for key, value in next, content do result[key] = value end
  with(result, "accelerator", others.accelerator, ACCELERATOR, of)
  with(result.accelerator, "hbm", others.accelerator.hbm, HBM, of)
  with(result, "network", {}, {}, of)
  for _, link in next, { "fast", "slow" } do
    with(result.network, link, others.network[link], LINK, of)
  end
  return result
end

return borrowed
