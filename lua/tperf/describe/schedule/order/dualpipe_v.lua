--- DualPipe-V: DualPipe folded, so that the stages go down the devices and back up.
local dualpipe = require "tperf.describe.schedule.order.dualpipe"

local definition = {
  summary = "dualpipe folded into a V",
  stages_per_device = 2,
  placement = "mirrored",

  refuse = function(p)
    local P, M = p.devices, p.microbatches
    if P % 2 ~= 0 then return ("needs an even number of devices, not %d"):format(P) end
    if M < 2 * P - 1 then return ("on %d devices needs at least %d micro-batches, not %d"):format(P, 2 * P - 1, M) end
  end,

  order = function(s)
    local P, M = s.devices, s.microbatches
    for d = 1, P do
      dualpipe.fill(s, d, { d, 1 }, { 2 * P + 1 - d, 1 }, P - d, d, M - 2 * P + d)
    end
  end,

  closed_form = function(p) return dualpipe.linear(p.devices, p.microbatches) end,
  in_flight = function(p, device)
    local P = p.devices
    return p.microbatches == 2 * P - 1 and device == 1 and 2 * P or 2 * P + 1
  end,
}

return { definitions = { dualpipe_v = definition } }
