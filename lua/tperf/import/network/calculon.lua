--- The networks of a system of Calculon: a list, the smallest first, of bandwidth (GB/s), efficiency, size (GPUs) and
-- latency (s).
local calculon = { name = "Calculon" }

function calculon.recognises(_, content)
  local list = content and content.networks
  return type(list) == "table" and type(list[1]) == "table" and list[1].bandwidth ~= nil and list[1].size ~= nil
end

function calculon.read(_, content)
  local tiers = {}
  for i, one in ipairs(content.networks) do
    for _, name in ipairs { "bandwidth", "size" } do
      if type(one[name]) ~= "number" then return nil, ("'networks[%d].%s' must be a number"):format(i, name) end
    end
    if one.efficiency ~= nil and type(one.efficiency) ~= "number" then
      return nil, ("'networks[%d].efficiency' must be a number, not one for each size"):format(i)
    end
    tiers[i] = { name = ("network%d"):format(i), size = math.tointeger(one.size), bandwidth = one.bandwidth * 1e9,
      efficiency = one.efficiency, latency = one.latency, nics_per_gpu = i == 2 and 1 or nil }
  end
  local notes = { "a group larger than a network uses the next one alone in Calculon; here it uses both" }
  if #tiers == 1 then notes[2] = "one network: add a tier with nics_per_gpu for what lies beyond" end
  return tiers, notes
end

return calculon
