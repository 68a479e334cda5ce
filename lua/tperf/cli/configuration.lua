--- What `search` and `train` share: the question's options, and the columns of a configuration.
local options = require "tperf.cli.options"

local configuration = {}

configuration.options = {
  { long = "system", short = "s", value = "NAME", help = "the system (`tperf list systems`, or a file)" },
  { long = "gpus", short = "g", value = "N", kind = "integer", help = "GPUs" },
  { long = "batch", short = "b", value = "N", kind = "integer", help = "global batch, in sequences" },
  { long = "seq", value = "N", kind = "integer", help = "sequence length (default: the model's)" },
  { long = "rules", value = "NAME", help = "modelling rules (`tperf list rules`)" },
}

configuration.columns = {
  { key = "strategy" }, { key = "tp" }, { key = "tp1" }, { key = "tp2" }, { key = "cp" }, { key = "ep" },
  { key = "pp" }, { key = "dp" }, { key = "micro_batch" }, { key = "panels" }, { key = "schedule" },
  { key = "time", unit = "s" }, { key = "tokens_per_second", title = "tokens/s" },
  { key = "mfu", unit = "%" }, { key = "memory.total", title = "memory", unit = "bytes" }, { key = "feasible" },
}

--- The options of a command: the shared ones, its own, and the formats.
function configuration.options_with(own)
  return options.join(configuration.options, own, options.formats)
end

--- Which of the named options is missing, as a message; nil when none is.
function configuration.missing(values, arguments, names)
  if not arguments[1] then return "MODEL is missing" end
  if arguments[2] then return ("one MODEL is needed, got '%s' too"):format(arguments[2]) end
  for _, name in ipairs(names) do
    if values[name] == nil then return ("--%s is missing"):format((name:gsub("_", "-"))) end
  end
end

return configuration
