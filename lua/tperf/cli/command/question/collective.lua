local numbers = require "tperf.input.numbers"
local options = require "tperf.input.options"
local bandwidths = require "tperf.import.nccl_tests".bandwidths
local settings = require "tperf.cli.ask.settings"

local MOST_SIZES <const> = 1024

-- Parses "1MiB", or "1MiB..1GiB" (doubling up to the last), and adds the sizes in bytes.
local function add_sizes(sizes, text)
  local first, last = text:match "^(.-)%.%.(.+)$"
  local low, message = numbers.bytes(first or text)
  local high = low
  if low and last then high, message = numbers.bytes(last) end
  if not low or not high then return nil, message end
  if low < 0 or last and (low == 0 or high < low) then
    return nil, ("sizes such as 1MiB or 1MiB..1GiB are needed, got '%s'"):format(text)
  end
  repeat
    sizes[#sizes + 1] = low
    low = 2 * low
  until low > high or low == 0 or #sizes > MOST_SIZES
  return true
end

local KINDS = { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather", "all_to_all",
  "send" }

return {
  summary = "time of one collective operation",
  arguments = "KIND",
  from = { KINDS },
  details = [[
KIND is all_reduce, all_gather, reduce_scatter, broadcast, reduce, scatter, gather,
all_to_all or send. SIZE is the full vector (the gathered result, the unreduced input);
1MiB..8MiB is 1MiB,2MiB,4MiB,8MiB. algbw is SIZE / time; busbw is as in nccl-tests.
For example: tperf collective all_reduce -s h100-sxm -g 64 -n 1MiB..8GiB]],
  options = options.join({
    { long = "system", short = "s", value = "NAME", from = "systems files",
      help = "the system (`tperf list systems`, or a file)" },
    { long = "bytes", short = "n", value = "SIZE,...", kind = "list", help = "sizes, such as 1M,1G or 1MB (decimal)" },
    { long = "gpus", short = "g", value = "N", kind = "integer", help = "GPUs that take part" },
    { long = "fast", short = "f", value = "N", kind = "integer", help = "how many of them share one fast domain" },
    { long = "rules", value = "NAME", from = "rules", help = "modelling rules (`tperf list rules`)" },
    settings.option,
  }, options.formats),
  run = function(values, arguments)
    local kind = arguments[1]
    if not kind then return false, "KIND is missing" end
    if arguments[2] then return false, "collective takes one KIND" end
    local missing = options.missing(values, { "system", "bytes", "gpus" })
    if missing then return false, missing end
    local wrong = settings.apply(values, {})
    if wrong then return false, wrong end
    local system, rows = require "tperf.describe.system"(values.system), {}
    local sizes = {}
    for _, text in ipairs(values.bytes) do
      local ok, message = add_sizes(sizes, text)
      if not ok then return false, "--bytes: " .. message end
    end
    for i, bytes in ipairs(sizes) do
      local seconds = require "tperf.question.collective".time { system = system, kind = kind, bytes = bytes,
        gpus = values.gpus, fast = values.fast, rules = values.rules }
      rows[i] = { kind = kind, bytes = bytes, gpus = values.gpus, fast = values.fast, time = seconds }
      if seconds > 0 then
        rows[i].bandwidth, rows[i].bus_bandwidth = bandwidths(kind, values.gpus, bytes, seconds)
      end
    end
    require "tperf.cli.answer.table"(values, rows, {
      { key = "kind" }, { key = "bytes", unit = "bytes" }, { key = "gpus" }, { key = "fast" },
      { key = "time", unit = "s" }, { key = "bandwidth", title = "algbw", unit = "bytes/s" },
      { key = "bus_bandwidth", title = "busbw", unit = "bytes/s" },
    })
  end,
}
