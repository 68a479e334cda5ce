--- tperf: what scripts require. Re-exports, nothing else.
local tperf = {
  version = require "tperf.core".version,
}

return tperf
