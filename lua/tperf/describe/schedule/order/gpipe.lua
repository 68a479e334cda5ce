--- GPipe: all forwards, then all backwards (Huang et al. 2019, arXiv 1811.06965).
local definition = {
  summary = "all forwards, then all backwards",
  stages_per_device = 1,
  placement = "block",

  order = function(s)
    for d = 1, s.devices do
      for mb = 1, s.microbatches do s:forward(d, d, mb) end
      for mb = s.microbatches, 1, -1 do s:backward(d, d, mb) end
    end
  end,

  closed_form = function(p)
    local n = p.microbatches + p.devices - 1
    return { F = n, B = n, p2p = 2 * (p.devices - 1) }
  end,
  in_flight = function(p) return p.microbatches end,
}

return { definitions = { gpipe = definition } }
