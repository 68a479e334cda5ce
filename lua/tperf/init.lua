--- tperf: what scripts require. Re-exports, nothing else; each part is loaded when somebody reads it.
local closed = require "tperf.base.closed"
local lazy = require "tperf.base.lazy"
local neutral = require "tperf.base.entry.neutral"

-- Where the fields come from: a module, or a module and the name of its field behind a space.
local FIELDS = {
  anchor = "tperf.question.train.anchor of",
  architecture = "tperf.describe.arch",
  args = "tperf.input.args",
  ask = "tperf.door.ask answer",
  block = "tperf.describe.block public",
  calibrate = "tperf.measured.calibrate run",
  check = "tperf.report.near",
  collective = "tperf.question.collective time",
  cost = "tperf.question.cost",
  differ = "tperf.question.differ answers",
  fewest = "tperf.question.fewest run",
  grid = "tperf.question.sweep grid",
  halton = "tperf.question.sweep.sample halton",
  infer = "tperf.question.infer run",
  job = "tperf.question.job run",
  latin_hypercube = "tperf.question.sweep.sample latin_hypercube",
  layer = "tperf.question.layer ops",
  load_curve = "tperf.question.serve.curve run",
  linspace = "tperf.question.sweep linspace",
  logspace = "tperf.question.sweep logspace",
  model = "tperf.describe.model",
  op = "tperf.describe.op",
  plot = "tperf.plot",
  prepare = "tperf.question.prepare of",
  progress = "tperf.base.progress own",
  propagate = "tperf.question.uncertain propagate",
  read = "tperf.input.read",
  report = "tperf.report",
  rl = "tperf.question.rl run",
  rules = "tperf.describe.rules",
  saturation = "tperf.question.serve.saturation run",
  schedule = "tperf.question.schedule",
  schema = "tperf.question.schema",
  search = "tperf.question.search run",
  search_inference = "tperf.question.search.inference run",
  search_rl = "tperf.question.search.rl run",
  search_serving = "tperf.question.search.serving run",
  serve = "tperf.question.serve run",
  software = "tperf.describe.software",
  strategy = "tperf.question.strategy",
  sweep = "tperf.question.sweep run",
  system = "tperf.describe.system",
  train = "tperf.question.train run",
  uncertain = "tperf.question.uncertain input",
  units = "tperf.base.units",
  vary = "tperf.question.sweep vary",
  validate = "tperf.measured.validate run",
  version = "tperf.core version",
  why = "tperf.question.why of",
  zip = "tperf.question.sweep zip",
}
local IMPORT = {
  launch = "tperf.import.launch read",
  arguments = "tperf.import.launch.arguments of",
  network = "tperf.import.network read",
  rl = "tperf.import.rl read",
}

local PROTOTYPES = { architecture = true, block = true } -- what their objects leave out is looked for there

-- Makes a table of fields from these places, and closes it and them.
local function public(what, places)
  return closed(what, lazy.from({}, places, function(value, name)
    if type(value) ~= "table" then return value end
    neutral.methods(value)
    return PROTOTYPES[name] and value or closed(what .. "." .. name, value)
  end))
end

local tperf = public("tperf", FIELDS)
tperf.import = public("tperf.import", IMPORT)
return tperf
