--- tperf: what scripts require. Re-exports, nothing else.
local closed = require "tperf.closed"
local sweep = require "tperf.sweep"

local tperf = {
  architecture = require "tperf.arch",
  args = require "tperf.args",
  block = require "tperf.block",
  calibrate = require "tperf.calibrate".run,
  collective = require "tperf.collective".time,
  cost = require "tperf.cost",
  fewest = require "tperf.fewest".run,
  grid = sweep.grid,
  import = { launch = require "tperf.import.launch".read, arguments = require "tperf.import.launch.arguments".of },
  infer = require "tperf.infer".run,
  layer = require "tperf.layer".ops,
  load_curve = require "tperf.serve.curve".run,
  linspace = sweep.linspace,
  logspace = sweep.logspace,
  model = require "tperf.model",
  op = require "tperf.op",
  plot = require "tperf.plot",
  report = require "tperf.report",
  rules = require "tperf.rules",
  saturation = require "tperf.serve.saturation".run,
  schedule = require "tperf.schedule",
  search = require "tperf.search".run,
  search_inference = require "tperf.search_inference".run,
  search_serving = require "tperf.search_serving".run,
  serve = require "tperf.serve".run,
  software = require "tperf.software",
  strategy = require "tperf.strategy",
  sweep = sweep.run,
  system = require "tperf.system",
  train = require "tperf.train".run,
  units = require "tperf.units",
  vary = sweep.vary,
  validate = require "tperf.validate".run,
  version = require "tperf.core".version,
  zip = sweep.zip,
}

for name, value in pairs(tperf) do
  local prototype = name == "architecture" or name == "block" -- what their objects leave out is looked for there
  if type(value) == "table" and not prototype then closed("tperf." .. name, value) end
end

return closed("tperf", tperf)
