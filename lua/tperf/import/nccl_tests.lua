--- Reads logs of nccl-tests and rccl-tests (all_reduce_perf and the others) as printed, with both bandwidths:
-- algbw = size / time; busbw = algbw x a factor by collective, which makes it comparable with the link's speed
-- (PERFORMANCE.md of nccl-tests). Size is that of the larger buffer, time the out-of-place one.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"

local nccl_tests = {}

local MOST <const> = 1e18 -- beyond any size, time (µs) or bandwidth (GB/s)

-- Program or column name -> collective of tperf.collective.
local kinds = {
  all_reduce = "all_reduce", all_gather = "all_gather", reduce_scatter = "reduce_scatter",
  alltoall = "all_to_all", all_to_all = "all_to_all", broadcast = "broadcast", reduce = "reduce",
  scatter = "scatter", gather = "gather", sendrecv = "send",
}

--- The collective for a name of nccl-tests, or nil.
function nccl_tests.kind(name)
  return kinds[name]
end

--- The ratio busbw / algbw of a collective among n GPUs.
---@param kind string  a collective of tperf.collective
---@param gpus integer
---@return number
function nccl_tests.bus_factor(kind, gpus)
  if kind == "all_reduce" then return 2 * (gpus - 1) / gpus end
  if kind == "broadcast" or kind == "reduce" or kind == "send" then return 1 end
  return (gpus - 1) / gpus
end

--- The algorithm and bus bandwidths, in bytes/s, of a collective that took `seconds`.
function nccl_tests.bandwidths(kind, gpus, bytes, seconds)
  local algorithm = bytes / seconds
  return algorithm, algorithm * nccl_tests.bus_factor(kind, gpus)
end

-- Parses "1048576 262144 float sum -1 45.2 23.2 40.6 0 …": size, count, type, [redop], [root], time, algbw, busbw, then
-- the in-place figures. Old versions print no root, and no redop unless the collective reduces.
local function measurement(line)
  local bytes, dtype, rest = line:match "^%s*(%d+)%s+%d+%s+(%a%w*)%s+(.*)$"
  if not bytes then return nil end
  local reduction, root = rest:match "^(%a+)%s+", nil -- redop, or "none"
  rest = rest:gsub("^%a+%s+", "")
  if rest:find "^%-?%d+%s+[%d.]+%s+[%d.]+%s+[%d.]+" and tonumber(rest:match "^%-?%d+") <= 0 then
    root = tonumber(rest:match "^%-?%d+")
    rest = rest:gsub("^%-?%d+%s+", "")
  end
  local time, algorithm, bus = rest:match "^([%d.]+)%s+([%d.]+)%s+([%d.]+)"
  time, algorithm, bus, bytes = tonumber(time), tonumber(algorithm), tonumber(bus), tonumber(bytes)
  if not (time and algorithm and bus) or time <= 0 or bytes <= 0 then return nil end
  if math.max(time, algorithm, bus, bytes) >= MOST then return nil end
  return {
    bytes = bytes, dtype = dtype, microseconds = time, seconds = time * 1e-6,
    algorithm = algorithm * 1e9, bus = bus * 1e9,
    reduces = reduction ~= nil and reduction ~= "none", rooted = root ~= nil and root >= 0,
  }
end

-- Names of programs, longest first, because "all_reduce_perf" contains "reduce_perf".
local programs = check.names(kinds)
table.sort(programs, function(a, b) return #a > #b or #a == #b and a < b end)

local function header_kind(text)
  for _, name in ipairs(programs) do
    if text:find(name .. "_perf", 1, true) then return kinds[name] end
  end
end

-- The number of ranks that a log lists ("#  Rank  0 Group …"), the number of their hosts, and the first one's GPU.
local function ranks_of(text)
  local ranks, hosts, n_hosts, gpu = 0, {}, 0, nil
  for line in text:gmatch "[^\r\n]+" do
    local host = line:find "#%s+Rank%s+%d" and line:match "%son%s+(%S+)%s+device" -- two patterns: one would backtrack
    if host then ranks, gpu = ranks + 1, gpu or line:match "%sdevice%s+%d+%s+%[[^%]]*%]%s+(%S.*)$" end
    if host and not hosts[host] then hosts[host], n_hosts = true, n_hosts + 1 end
  end
  return ranks, n_hosts, gpu
end

--- Whether a file that starts with this text is a log of nccl-tests.
---@param text string
---@return boolean
function nccl_tests.recognise(text)
  return text:find "^#%s" ~= nil or text:find "\n#%s+out%-of%-place" ~= nil or text:find "\n#%s+size%s+count" ~= nil
end

-- The collective that a file is named after, such as "logs/all_reduce-8.txt".
local function name_kind(name)
  for _, program in ipairs(programs) do
    if roots.last(name):sub(1, #program) == program then return kinds[program] end
  end
end

-- The collective, inferred from the log's columns and bus factor, if only one fits.
local function kind_of_columns(rows, gpus)
  local last = rows[#rows]
  local ratio = last.bus / last.algorithm
  local function has(kind) return math.abs(ratio - nccl_tests.bus_factor(kind, gpus)) < 0.02 end
  if not last.reduces then return gpus > 2 and has "all_reduce" and "all_reduce" or nil end
  if last.rooted then return has "reduce" and "reduce" or nil end
  return has "all_reduce" and "all_reduce" or has "reduce_scatter" and "reduce_scatter" or nil
end

--- The measurements in a log.
---@param text string
---@param name string    for messages
---@param given table?   { kind =, gpus =, nodes = }, for what the log does not say
---@return table[] cases { kind, gpu (its name), gpus, nodes, bytes, seconds, microseconds, algorithm, bus }; the
--- others in SI units
function nccl_tests.parse(text, name, given)
  given = given or {}
  local rows = {}
  for line in text:gmatch "[^\r\n]+" do
    local row = not line:find "^%s*#" and measurement(line)
    if row then rows[#rows + 1] = row end
  end
  if #rows == 0 then
    check.fail("%s: no line of nccl-tests measurements (size, count, type, …, time, algbw, busbw)", name)
  end
  local ranks, hosts, gpu = ranks_of(text)
  local gpus = given.gpus or ranks > 0 and ranks
  if not gpus then check.fail("%s: the log lists no ranks; say how many GPUs took part", name) end
  local kind = given.kind or header_kind(text) or header_kind(name) or kind_of_columns(rows, gpus) or name_kind(name)
  if not kind then
    check.fail("%s: the log does not say which collective it is of; call the file so, such as all_gather.log", name)
  end
  for _, row in ipairs(rows) do
    row.kind, row.gpu, row.gpus, row.nodes = kind, gpu, gpus, given.nodes or math.max(hosts, 1)
    row.reduces, row.rooted = nil, nil
    local expected = row.algorithm * nccl_tests.bus_factor(kind, gpus)
    if row.bus > 1e9 and math.abs(row.bus / expected - 1) > 0.05 then
      check.fail("%s: a bus bandwidth of %g GB/s at an algorithm bandwidth of %g GB/s is no %s among %d GPUs", name,
        row.bus / 1e9, row.algorithm / 1e9, kind, gpus)
    end
  end
  return rows
end

return nccl_tests
