--- Networks of more than two tiers: `network.tiers`, an ordered list from the innermost out, in place of `network.fast`
-- and `network.slow`. GPUs have ports to two of them: to the first, and NICs to the one with `nics_per_gpu`. These two
-- make `fast` and `slow`, which most of the library reads; the others are uplinks (include/tperf/system.h).
local next, type = next, type
local check = require "tperf.base.check"
local frozen = require "tperf.base.object.frozen"

local tiers = {}

-- Fields of the two tiers that GPUs have ports to: fast and slow have them, too.
local FAST <const> = { "source", "name", "curves_of", "bandwidth", "efficiency", "latency", "start", "host_gpus",
  "axes", "reduces", "degraded" }
local SLOW <const> = { "source", "name", "curves_of", "bandwidth", "efficiency", "latency", "chain", "nics_per_gpu",
  "degraded" }

-- The place of the tier with NICs; nil if there is none.
local function with_nics(list)
  for i = 1, #list do
    if type(list[i]) == "table" and list[i].nics_per_gpu ~= nil then return i end
  end
end

local function port_fault(at, count)
  if at and at > 1 and count == 1 then return end
  return "'network.tiers': one tier must have 'nics_per_gpu', the GPUs' ports beyond a domain, and not the first"
end

-- What makes a list no network, before its fields are checked; nil if nothing does.
local function unordered(list)
  local count = 0
  for i = 1, #list do
    local one = list[i]
    if type(one) ~= "table" then return end -- for the check
    if one.nics_per_gpu ~= nil then count = count + 1 end
    if i < #list and one.size == nil then
      local missing = "'network.tiers[%d].size' is missing: the GPUs that '%s' joins; only the last tier may join all"
      return missing:format(i, tostring(one.name))
    end
    if one.bandwidth == nil and (i == 1 or one.nics_per_gpu ~= nil) then
      return ("'network.tiers[%d].bandwidth' is missing"):format(i)
    end
  end
  return port_fault(with_nics(list), count)
end

local function copied(record)
  local copy = {}
  for key, value in next, frozen.plain(record) do copy[key] = value end
  return copy
end

-- Sets the fields of fast or slow that a tier gives.
local function give(into, tier, fields)
  for i = 1, #fields do
    local name = fields[i]
    if tier[name] ~= nil then into[name] = tier[name] end
  end
  return into
end

local function is_list(value) return type(value) == "table" and rawlen(value) > 0 end

-- The axis of a ring of what a tier joins: as many as close it.
local function ring_of(tier, inward)
  local units = math.type(tier.size) == "integer" and tier.size // (inward and inward.size or 1)
  return units and units >= 2 and { units } or nil
end

-- Sets fast and slow of a network from its tiers; anything wrong stays for the check.
local function derive(network)
  local list = network.tiers
  local at = with_nics(list)
  if not at or at == 1 or type(list[1]) ~= "table" or type(list[at - 1]) ~= "table" then return end
  for i = 1, #list do
    if type(list[i]) == "table" and list[i].topology == "ring" then
      list[i] = copied(list[i])
      list[i].axes = ring_of(list[i], list[i - 1])
    end
  end
  network.fast = give(copied(network.fast or {}), list[1], FAST)
  network.fast.domain = list[at - 1].size
  network.fast.mesh = list[1].topology == "all_to_all" or nil
  network.slow = give(copied(network.slow or {}), list[at], SLOW)
end

--- The content of a system file, with fast and slow where it has tiers.
---@param content any
---@return any content  a copy, if it has tiers
function tiers.spell(content)
  local network = type(content) == "table" and frozen.plain(content.network)
  if type(network) ~= "table" or network.tiers == nil then return content end
  if network.fast ~= nil or network.slow ~= nil then
    check.fail "tperf.system: 'network.tiers' stands in place of 'network.fast' and 'network.slow': give one of the two"
  end
  local result = copied(content)
  result.network = copied(network)
  local list = frozen.plain(network.tiers)
  if not is_list(list) then return result end
  local message = unordered(list)
  if message then check.fail("tperf.system: %s", message) end
  result.network.tiers = {}
  for i = 1, #list do
    local tier = frozen.plain(list[i])
    result.network.tiers[i] = type(tier) == "table" and copied(tier) or tier
  end
  derive(result.network)
  return result
end

--- A network's fields as a file gives them: what was changed in fast and slow, which its tiers made, goes back to
--- these.
---@param network table  modifiable
---@return table network
function tiers.given(network)
  local list = network.tiers
  if not list then return network end
  give(list[1], network.fast, FAST)
  give(list[with_nics(list)], network.slow, SLOW)
  network.fast, network.slow = nil, nil
  return network
end

local function names_of(list)
  local names = {}
  for i = 1, #list do names[i] = ("'%s'"):format(list[i].name) end
  return table.concat(names, ", ")
end

-- Changes the tier of a name.
local function change(list, name, fields)
  for i = 1, #list do
    if list[i].name == name then
      if type(fields) ~= "table" then
        check.fail("tperf.system:with: 'network.tiers.%s' has fields; name one: network.tiers.%s.FIELD", name, name)
      end
      list[i] = copied(list[i])
      for key, value in next, frozen.plain(fields) do list[i][key] = value end
      return
    end
  end
  check.fail("tperf.system:with: no tier is called '%s'; the network has %s", check.show(name), names_of(list))
end

-- Changes a port's own tier by the fields of fast or slow.
local function change_port(list, at, changes, fields)
  for i = 1, #fields do
    local name = fields[i]
    if changes[name] ~= nil then change(list, list[at].name, { [name] = changes[name] }) end
  end
end

--- Applies changes of a network to its tiers, by their names: { spine = { degraded = 0.5 } }. In a network of two,
--- which are called fast and slow, to these.
---@param content table  with the changes merged
---@param changes table
---@param before table   the system as it was
function tiers.merged(content, changes, before)
  local changed = frozen.plain(changes.network)
  if type(changed) ~= "table" then return end
  local named, old = frozen.plain(changed.tiers), before.network.tiers
  if is_list(named) then -- another network
    if changed.fast ~= nil or changed.slow ~= nil then
      check.fail "tperf.system:with: 'network.tiers' as a list stands in place of 'network.fast' and 'network.slow'"
    end
    local spelt = tiers.spell { network = { source = content.network.source, tiers = named } }
    content.network = spelt.network
    return
  end
  if not old then
    content.network.tiers = nil
    for name, fields in next, named or {} do
      if (name ~= "fast" and name ~= "slow") or type(fields) ~= "table" then
        check.fail("tperf.system:with: 'network.tiers.%s': the network has the tiers 'fast' and 'slow', with fields",
          tostring(name))
      end
      content.network[name] = copied(content.network[name])
      for key, value in next, frozen.plain(fields) do content.network[name][key] = value end
    end
    return
  end
  content.network.tiers = {}
  for i = 1, #old do content.network.tiers[i] = old[i] end
  local list = content.network.tiers
  for name, fields in next, named or {} do change(list, name, fields) end
  local at = with_nics(list)
  if not at or at == 1 then return end
  local fast, slow = frozen.plain(changed.fast), frozen.plain(changed.slow)
  if type(fast) == "table" then
    change_port(list, 1, fast, FAST)
    if fast.domain ~= nil then change(list, list[at - 1].name, { size = fast.domain }) end
  end
  if type(slow) == "table" then change_port(list, at, slow, SLOW) end
  derive(content.network)
end

local UPLINKS_ONLY <const> = { "oversubscription", "shared" }
local PORTS_ONLY <const> = { "curves_of", "chain", "start", "reduces", "host_gpus" }
local LINKED <const> = { ring = true, torus = true, all_to_all = true } -- without a switch

local function fault_of(list, i, at)
  local tier, path = list[i], ("network.tiers[%d]"):format(i)
  local has_port = i == 1 or i == at
  for _, field in ipairs(has_port and UPLINKS_ONLY or PORTS_ONLY) do
    if tier[field] ~= nil and tier[field] ~= false and not (field == "shared" and tier.shared == true) then
      return ("'%s.%s' is for %s, not for '%s'"):format(path, field,
        has_port and "a tier of uplinks" or "a tier that GPUs have ports to", tier.name)
    end
  end
  if not has_port and type(tier.efficiency) == "table" then
    return ("'%s.efficiency' of a tier of uplinks must be a number: curves are of GPUs' ports"):format(path)
  end
  local kind = tier.topology
  if kind == "torus" and not tier.axes then return ("'%s.axes' is missing: a torus has axes"):format(path) end
  if tier.axes and kind ~= "torus" and kind ~= "ring" then return ("'%s.axes' is for topology: torus"):format(path) end
  if LINKED[kind] and not tier.size then
    return ("'%s.size' is missing: how many are joined tells a %s's links"):format(path, kind)
  end
  if not has_port and tier.bandwidth and tier.oversubscription then
    return ("'%s' gives its bandwidth and its oversubscription: give one"):format(path)
  end
  local inward = i > 1 and list[i - 1].size or 1
  if tier.size and tier.size % inward ~= 0 then
    return ("'%s.size' = %d is no multiple of the %d GPUs of '%s'"):format(path, tier.size, inward, list[i - 1].name)
  end
end

--- What is wrong with a network's tiers, each of which is valid; nil if nothing is.
---@param list table[]?
---@return string? message
---@return string? path
function tiers.fault(list)
  if not list then return end
  local message = unordered(list)
  if message then return message, "network.tiers" end
  local at, known = with_nics(list), {}
  for i = 1, #list do
    if known[list[i].name] then
      return ("'network.tiers[%d].name': two tiers are called '%s'"):format(i, list[i].name), "network.tiers"
    end
    known[list[i].name] = true
  end
  for i = 1, #list do
    message = fault_of(list, i, at)
    if message then return message, ("network.tiers[%d]"):format(i) end
  end
end

return tiers
