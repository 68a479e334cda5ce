local options = require "tperf.cli.options"
local units = require "tperf.units"

return {
  summary = "time of one collective operation",
  arguments = "KIND",
  details = [[
KIND is all_reduce, all_gather, reduce_scatter, broadcast, reduce, scatter, gather,
all_to_all or send. SIZE is the full vector (the gathered result, the unreduced input).]],
  options = options.join({
    { long = "system", short = "s", value = "NAME", help = "the system (`tperf list systems`, or a file)" },
    { long = "bytes", short = "n", value = "SIZE,...", kind = "list", help = "sizes, such as 1MiB,1GiB" },
    { long = "gpus", short = "g", value = "N", kind = "integer", help = "GPUs that take part" },
    { long = "fast", short = "f", value = "N", kind = "integer", help = "of these, how many share one fast domain" },
    { long = "rules", value = "NAME", help = "modelling rules (`tperf list rules`)" },
  }, options.formats),
  run = function(values, arguments)
    local kind = arguments[1]
    if not kind then return false, "KIND is missing" end
    if arguments[2] then return false, "collective takes one KIND" end
    for _, name in ipairs { "system", "bytes", "gpus" } do
      if not values[name] then return false, ("--%s is missing"):format(name) end
    end
    local tperf = require "tperf"
    local system, rows = tperf.system(values.system), {}
    for i, text in ipairs(values.bytes) do
      local bytes, message = units.parse(text, "bytes")
      if not bytes then return false, "--bytes: " .. message end
      local seconds = tperf.collective { system = system, kind = kind, bytes = bytes, gpus = values.gpus,
        fast = values.fast, rules = values.rules }
      rows[i] = { kind = kind, bytes = bytes, gpus = values.gpus, fast = values.fast, time = seconds,
        bandwidth = seconds > 0 and bytes / seconds or nil }
    end
    require "tperf.cli.table"(values, rows, {
      { key = "kind" }, { key = "bytes", unit = "bytes" }, { key = "gpus" }, { key = "fast" },
      { key = "time", unit = "s" }, { key = "bandwidth", unit = "bytes/s" },
    })
  end,
}
