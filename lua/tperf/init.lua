--- tperf: what scripts require. Re-exports, nothing else.
local tperf = {
  model = require "tperf.model",
  schedule = require "tperf.schedule",
  system = require "tperf.system",
  units = require "tperf.units",
  version = require "tperf.core".version,
}

return tperf
