--- tperf: what scripts require. Re-exports, nothing else.
local tperf = {
  block = require "tperf.block",
  collective = require "tperf.collective".time,
  layer = require "tperf.layer".ops,
  model = require "tperf.model",
  schedule = require "tperf.schedule",
  op = require "tperf.op",
  plot = require "tperf.plot",
  report = require "tperf.report",
  rules = require "tperf.rules",
  search = require "tperf.search".run,
  strategy = require "tperf.strategy",
  system = require "tperf.system",
  train = require "tperf.train".run,
  units = require "tperf.units",
  version = require "tperf.core".version,
}

return tperf
