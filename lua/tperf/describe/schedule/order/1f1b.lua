--- 1F1B (PipeDream-Flush): just enough forwards ahead to keep the last stage busy, then one forward, one backward
-- (Narayanan et al. 2021, arXiv 2006.09503).
local definition = {
  summary = "one forward, one backward",
  stages_per_device = 1,
  placement = "block",
  least_microbatches = function(p) return p.devices - 1 end,

  order = function(s)
    local M = s.microbatches
    for d = 1, s.devices do
      local ahead = math.min(s.devices - d, M)
      for mb = 1, ahead do s:forward(d, d, mb) end
      for mb = 1, M - ahead do
        s:forward(d, d, ahead + mb)
        s:backward(d, d, mb)
      end
      for mb = M - ahead + 1, M do s:backward(d, d, mb) end
    end
  end,

  closed_form = function(p)
    local P, M = p.devices, p.microbatches
    -- One round trip in and out; then every group of P micro-batches waits for another round trip, because only P are
    -- in flight.
    local trips = P - 1 + (M - 1) - (M + P - 2) // P
    return { F = M + P - 1, B = M + P - 1, p2p = P == 1 and 0 or 2 * trips }
  end,
  in_flight = function(p, device) return math.min(p.devices - device + 1, p.microbatches) end,
}

return { definitions = { ["1f1b"] = definition } }
