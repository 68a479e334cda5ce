--- 1F1B with every steady forward overlapped with a backward, which needs twice as many forwards ahead.
local definition = {
  summary = "1f1b with forward and backward overlapped",
  stages_per_device = 1,
  placement = "block",
  least_microbatches = function(p) return 2 * p.devices - 1 end,

  order = function(s)
    local M = s.microbatches
    for d = 1, s.devices do
      local ahead = math.min(2 * (s.devices - d) + 1, M)
      for mb = 1, ahead do s:forward(d, d, mb) end
      for mb = 1, M - ahead do s:overlapped(d, d, ahead + mb, d, mb) end
      for mb = M - ahead + 1, M do s:backward(d, d, mb) end
    end
  end,

  closed_form = function(p)
    if p.microbatches < 2 * p.devices - 1 then return nil end
    local P, M = p.devices, p.microbatches
    return { F = P, B = P, O = M - 1, p2p = P == 1 and 0 or 2 * (P - 1 + M // 2 - 1) }
  end,
  in_flight = function(p, device) return math.min(2 * (p.devices - device + 1), p.microbatches) end,
}

return { definitions = { ["1f1b_overlap"] = definition } }
