--- ASTRA-sim's analytical network: lists by dimension, the innermost first, of topology (Ring, Switch, FullyConnected),
-- npus_count, bandwidth (GB/s of one link, one way) and latency (ns of one link).
local check = require "tperf.base.check"

local astra_sim = { name = "ASTRA-sim" }

function astra_sim.recognises(_, content)
  return content ~= nil and type(content.topology) == "table" and content.npus_count ~= nil
end

-- Links of a member, of a dimension of n.
local LINKS <const> = {
  Switch = function() return 1, "switch" end,
  FullyConnected = function(n) return n - 1, "all_to_all" end,
  Ring = function(n) return n > 2 and 2 or 1, "ring" end,
}

function astra_sim.read(_, content)
  local tiers, notes, size = {}, {}, 1
  local count = #content.topology
  for _, name in ipairs { "npus_count", "bandwidth", "latency" } do
    local list = content[name]
    if type(list) ~= "table" or #list ~= count then
      return nil, ("'%s' must be a list of %d, as 'topology' has dimensions"):format(name, count)
    end
    for i = 1, count do
      if type(list[i]) ~= "number" then return nil, ("'%s[%d]' must be a number"):format(name, i) end
    end
  end
  for i = 1, count do
    local kind, n = content.topology[i], content.npus_count[i]
    local links = LINKS[kind]
    if not links then return nil, ("unknown topology %s%s"):format(check.show(kind), check.suggest(kind, LINKS)) end
    local each, topology = links(n)
    size = size * n
    local tier = { name = ("dim%d"):format(i), size = math.tointeger(size), latency = content.latency[i] * 1e-9,
      bandwidth = each * content.bandwidth[i] * 1e9, efficiency = 1 }
    tier.topology = n > 2 and topology or "switch"
    if i == 2 then tier.nics_per_gpu = 1 end
    if i > 2 then
      notes[#notes + 1] = ("dim%d has links of its own in ASTRA-sim; here its bytes pass those of dim2, too"):format(i)
    end
    tiers[i] = tier
  end
  if count == 1 then notes[1] = "one dimension: add a tier with nics_per_gpu for what lies beyond" end
  return tiers, notes
end

return astra_sim
