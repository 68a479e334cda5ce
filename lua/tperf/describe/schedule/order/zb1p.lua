--- ZB-1P: 1F1B with the backward split; weight gradients fill the bubbles while every device keeps at most P
-- micro-batches (the handcrafted ZB-H1 of Qi et al. 2024, arXiv 2401.10241, in DeepSeek-V3's comparison).
local definition = {
  summary = "1f1b with weight gradients in the bubbles, at 1f1b's memory",
  stages_per_device = 1,
  placement = "block",
  least_microbatches = function(p) return p.devices - 1 end,

  order = function(s)
    local P, M = s.devices, s.microbatches
    for d = 1, P do
      local ahead, weights = math.min(P - d, M), 0
      local function weight()
        weights = weights + 1
        s:backward_weight(d, d, weights)
      end
      for mb = 1, ahead do s:forward(d, d, mb) end
      for mb = 1, M - ahead do
        s:forward(d, d, ahead + mb)
        s:backward_input(d, d, mb)
        if ahead + mb - weights >= P then weight() end
      end
      for mb = M - ahead + 1, M do
        s:backward_input(d, d, mb)
        weight()
      end
      while weights < M do weight() end
    end
  end,

  closed_form = function(p)
    local P, M = p.devices, p.microbatches
    if M < P then return nil end
    return { F = M + P - 1, D = M + P - 1, W = M - P + 1 }
  end,
  in_flight = function(p) return math.min(p.devices, p.microbatches) end,
}

return { definitions = { zb1p = definition } }
