--- tperf: what scripts require. Re-exports, nothing else.
local closed = require "tperf.base.closed"
local sweep = require "tperf.question.sweep"

local tperf = {
  architecture = require "tperf.describe.arch",
  args = require "tperf.input.args",
  block = require "tperf.describe.block",
  calibrate = require "tperf.measured.calibrate".run,
  collective = require "tperf.question.collective".time,
  cost = require "tperf.question.cost",
  fewest = require "tperf.question.fewest".run,
  grid = sweep.grid,
  import = { launch = require "tperf.import.launch".read, arguments = require "tperf.import.launch.arguments".of },
  infer = require "tperf.question.infer".run,
  layer = require "tperf.question.layer".ops,
  load_curve = require "tperf.question.serve.curve".run,
  linspace = sweep.linspace,
  logspace = sweep.logspace,
  model = require "tperf.describe.model",
  op = require "tperf.describe.op",
  plot = require "tperf.plot",
  report = require "tperf.report",
  rules = require "tperf.describe.rules",
  saturation = require "tperf.question.serve.saturation".run,
  schedule = require "tperf.question.schedule",
  search = require "tperf.question.search".run,
  search_inference = require "tperf.question.search.inference".run,
  search_serving = require "tperf.question.search.serving".run,
  serve = require "tperf.question.serve".run,
  software = require "tperf.describe.software",
  strategy = require "tperf.describe.strategy.public",
  sweep = sweep.run,
  system = require "tperf.describe.system",
  train = require "tperf.question.train".run,
  units = require "tperf.base.units",
  vary = sweep.vary,
  validate = require "tperf.measured.validate".run,
  version = require "tperf.core".version,
  zip = sweep.zip,
}

for name, value in pairs(tperf) do
  local prototype = name == "architecture" or name == "block" -- what their objects leave out is looked for there
  if type(value) == "table" and not prototype then closed("tperf." .. name, value) end
end

return closed("tperf", tperf)
