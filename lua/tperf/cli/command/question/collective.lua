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

local COLUMNS <const> = {
  { key = "kind" }, { key = "bytes", unit = "bytes" }, { key = "gpus" }, { key = "fast" },
  { key = "time", unit = "s" }, { key = "bandwidth", title = "algbw", unit = "bytes/s" },
  { key = "bus_bandwidth", title = "busbw", unit = "bytes/s" },
}

local TIER_COLUMNS <const> = {
  { key = "kind" }, { key = "bytes", unit = "bytes" }, { key = "gpus" }, { key = "time", unit = "s" },
  { key = "algorithm", wide = 1 }, { key = "tier" }, { key = "tier_bytes", title = "a GPU's", unit = "bytes" },
  { key = "tier_time", title = "alone", unit = "s" },
}

-- Splits "all_reduce,all_gather".
local function kinds_of(text)
  local list = {}
  for kind in text:gmatch "[^,]+" do list[#list + 1] = kind end
  return list
end

-- A row for each tier that a collective passes, and one for what is left of its time: start and ramp.
local function add_tiers(rows, row, passed)
  local longest = 0
  for i, one in ipairs(passed) do
    rows[#rows + 1] = { kind = row.kind, bytes = row.bytes, gpus = row.gpus, time = i == 1 and row.time or nil,
      algorithm = i == 1 and row.algorithm or nil, tier = one.name, tier_bytes = one.bytes, tier_time = one.time }
    longest = math.max(longest, one.time)
  end
  rows[#rows + 1] = { kind = row.kind, bytes = row.bytes, gpus = row.gpus, tier = "start, ramp",
    tier_time = math.max(row.time - longest, 0) }
end

local function draw(rows, file)
  local points = {}
  for _, row in ipairs(rows) do
    if row.time > 0 and row.bytes > 0 then
      points[#points + 1] = { bytes = row.bytes, time = row.time,
        of = ("%s, %d GPUs"):format(row.kind:gsub("_", "-"), row.gpus) }
    end
  end
  require "tperf.plot.lines" { rows = points, x = "bytes", y = "time", series = "of", logx = true, logy = true,
    xunit = "bytes", yunit = "s" }:save(file)
end

return {
  summary = "time of collective operations",
  arguments = "KIND,...",
  from = { KINDS },
  example = [[
tperf collective all_reduce -s h100-sxm -g 64 -n 1MiB..8GiB
tperf collective all_reduce,all_gather -s h100-sxm -g 8..64 --plot x.svg]],
  details = [[
KIND is all_reduce, all_gather, reduce_scatter, broadcast, reduce, scatter, gather,
all_to_all or send. SIZE is the full vector (the gathered result, the unreduced input);
1MiB..8MiB is 1MiB,2MiB,4MiB,8MiB. algbw is SIZE / time; busbw is as in nccl-tests.
--tiers prints what passes each tier of the network: a GPU's bytes through its part, and
how long they take alone; the longest, with start and ramp, is about the time.]],
  options = options.join({
    { long = "system", short = "s", value = "NAME", from = "systems files",
      help = "the system (`tperf list systems`, or a file)" },
    { long = "bytes", short = "n", value = "SIZE,...", kind = "list", help = "sizes, such as 1M,1G or 1MB (decimal)" },
    { long = "gpus", short = "g", value = "N,...", kind = "integers", help = "GPUs that take part, such as 8,64" },
    { long = "fast", short = "f", value = "N", kind = "integer", help = "how many of them share one fast domain" },
    { long = "algorithm", value = "NAME", help = "ring, tree, switch or another, whatever a library would choose" },
    { long = "rules", value = "NAME", from = "rules", help = "modelling rules (`tperf list rules`)" },
    { long = "tiers", help = "print what passes each tier of the network" },
    { long = "plot", value = "FILE", writes = "plot", help = "draw times over sizes (.svg, .png, .pdf, .txt)" },
    settings.option,
  }, options.formats),
  run = function(values, arguments)
    if not arguments[1] then return false, "KIND is missing" end
    if arguments[2] then return false, "collective takes one KIND, or several with commas" end
    local missing = options.missing(values, { "system", "bytes", "gpus" })
    if missing then return false, missing end
    local wrong = settings.apply(values, {})
    if wrong then return false, wrong end
    local system, rows, by_tier = require "tperf.describe.system"(values.system), {}, {}
    local sizes = {}
    for _, text in ipairs(values.bytes) do
      local ok, message = add_sizes(sizes, text)
      if not ok then return false, "--bytes: " .. message end
    end
    local time = require "tperf.question.collective".time
    local function add(kind, gpus, bytes)
      local seconds, tiers, algorithm = time { system = system, kind = kind, bytes = bytes, gpus = gpus,
        fast = values.fast, rules = values.rules, algorithm = values.algorithm, tiers = true }
      local row = { kind = kind, bytes = bytes, gpus = gpus, fast = values.fast, time = seconds }
      if seconds > 0 then row.bandwidth, row.bus_bandwidth = bandwidths(kind, gpus, bytes, seconds) end
      if values.tiers then
        row.tiers, row.algorithm = tiers, algorithm
        add_tiers(by_tier, row, tiers)
      end
      rows[#rows + 1] = row
    end
    for _, kind in ipairs(kinds_of(arguments[1])) do
      for _, gpus in ipairs(values.gpus) do
        for _, bytes in ipairs(sizes) do add(kind, gpus, bytes) end
      end
    end
    if values.plot then draw(rows, values.plot) end
    local lists_tiers = values.tiers and not values.json
    require "tperf.cli.answer.table"(values, lists_tiers and by_tier or rows, lists_tiers and TIER_COLUMNS or COLUMNS)
  end,
}
