--- The stages of a device: name -> function(device, devices, stages) -> list of stages.
local function each(devices, stages, stage_of)
  local list = {}
  for chunk = 0, stages // devices - 1 do list[#list + 1] = stage_of(chunk) end
  return list
end

return {
  -- neighbouring stages together
  block = function(device, devices, stages)
    local chunks = stages // devices
    return each(devices, stages, function(chunk) return (device - 1) * chunks + chunk + 1 end)
  end,
  -- dealt out like cards
  round_robin = function(device, devices, stages)
    return each(devices, stages, function(chunk) return chunk * devices + device end)
  end,
  -- a stage and its mirror image: a V with two stages per device, two directions with one
  mirrored = function(device, _, stages)
    return { device, stages + 1 - device }
  end,
}
