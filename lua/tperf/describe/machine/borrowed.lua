--- Fills what a system file leaves out with the curves of another system, which its `curves_of` names: the parts of a
-- peak, a bandwidth and a link that kernels and messages reach, and their latencies; and how many multiprocessors
-- kernels are cut for. Rates and other sizes are its own.
local next, type = next, type
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"

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

local function copied(record)
  record = frozen.plain(record) -- a part of another system
  if type(record) ~= "table" then return record end
  local result = {}
  for key, value in next, record do result[key] = value end
  return result
end

-- A copy of a record with the fields named in `fields` filled from another; anything else stays for the check.
local function with(record, name, others, fields, of)
  local result = copied(type(record) == "table" and record[name])
  if type(result) ~= "table" then return end
  for key, depth in next, fields do result[key] = filled(result[key], others[key], depth, of) end
  record[name] = result
end

local borrowing = {}

-- The system whose curves something has: `of`, loaded; the message names it if it has its curves from itself.
local function lender(of, system)
  if borrowing[of] then check.fail("tperf.system: 'curves_of': %s has its curves from itself", check.show(of)) end
  borrowing[of] = true
  local ok, others = check.attempt(system, of)
  borrowing[of] = nil
  if not ok then check.fail("%s", others) end
  return others
end

local NONE <const> = "none" -- a network's `curves_of`: no system's

-- A network's curves are the system's, unless it names another system: a server's links say little about a GPU.
local function fill_link(network, name, of, system)
  local link = type(network) == "table" and type(network[name]) == "table" and network[name]
  if link and type(link.curves_of) == "string" then of = link.curves_of end
  if link and of and of ~= NONE then with(network, name, lender(of, system).network[name], LINK, of) end
end

--- The content of a system file with its missing curves.
---@param content any
---@param system fun(name: string): table  loads another system
---@return any content  a copy
function borrowed.fill(content, system)
  if type(content) ~= "table" then return content end
  local of, result = type(content.curves_of) == "string" and content.curves_of or nil, copied(content)
  if of then
    local others = lender(of, system).accelerator
    with(result, "accelerator", others, ACCELERATOR, of)
    with(result.accelerator, "hbm", others.hbm, HBM, of)
  end
  result.network = copied(content.network)
  for _, name in next, { "fast", "slow" } do fill_link(result.network, name, of, system) end
  return result
end

return borrowed
