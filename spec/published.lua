-- Shared by specs about the published solver (arXiv 2410.00273): its machines and models, and comparison of numbers.
local tperf = require "tperf"

local published = {}

published.strategy = {
  ["1d"] = "tensor", ["2d"] = "summa", ["2d-seqp"] = "context", tp1d = "tensor", ["tp+cp"] = "context", summa = "summa",
}
published.kind = {
  allreduce = "all_reduce", allgather = "all_gather", reducescatter = "reduce_scatter", broadcast = "broadcast",
  reduce = "reduce", p2p = "send", all_reduce = "all_reduce", all_gather = "all_gather",
}

--- One of its systems with a fast domain of that many GPUs, and NICs per GPU.
function published.system(name, domain, nics)
  return tperf.system("subramanian2024/" .. name):with {
    network = { fast = { domain = tonumber(domain) }, slow = { nics_per_gpu = tonumber(nics) or 1 } },
  }
end

-- Shapes of no shipped model.
local odd = {
  odd1 = { name = "odd1", layers = 30, hidden = 7680, ffn = 30720, heads = 60, seq = 3000 },
  odd2 = { name = "odd2", layers = 40, hidden = 5120, ffn = 13824, heads = 40, seq = 4095 },
}

function published.model(name) return odd[name] or "subramanian2024/" .. name end

--- Raises unless got is within rtol (1e-9) of expected, relative to the larger of |expected| and scale.
function published.near(expected, got, what, rtol, scale)
  local want, have = tonumber(expected), tonumber(got)
  local close = want and have and math.abs(have - want) <= (rtol or 1e-9) * math.max(math.abs(want), scale or 0)
  if not close then -- also a NaN
    error(("%s: expected %s, got %s"):format(what or "value", tostring(expected), tostring(got)), 2)
  end
end

return published
