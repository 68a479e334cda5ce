--- tperf: what scripts require. Re-exports, nothing else.
local tperf = {
  model = require "tperf.model",
  system = require "tperf.system",
  units = require "tperf.units",
  version = require "tperf.core".version,
  schedule = require "tperf.schedule",
}

return tperf
