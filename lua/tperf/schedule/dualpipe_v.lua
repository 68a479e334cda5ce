--- DualPipe-V: DualPipe folded, so that the stages go down the devices and back up.
local check = require "tperf.check"
local dualpipe = require "tperf.schedule.dualpipe"

return {
  summary = "dualpipe folded into a V",
  stages_per_device = 2,
  placement = "mirrored",

  order = function(s)
    local P, M = s.devices, s.microbatches
    if P % 2 ~= 0 then check.fail("tperf.schedule: dualpipe_v needs an even number of devices, not %d", P) end
    if M < 2 * P - 1 then
      check.fail("tperf.schedule: dualpipe_v on %d devices needs at least %d micro-batches, not %d", P, 2 * P - 1, M)
    end
    for d = 1, P do
      dualpipe.fill(s, d, { d, 1 }, { 2 * P + 1 - d, 1 }, P - d, d, M - 2 * P + d)
    end
  end,

  closed_form = function(p) return dualpipe.linear(p.devices, p.microbatches) end,
  in_flight = function(p) return 2 * p.devices + 1 end,
}
