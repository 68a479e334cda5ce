--- A checkpoint's size, how long writing it takes, and how long that stops the work.
local check = require "tperf.base.check"
local units = require "tperf.base.units"

local checkpoint = {}

local function seconds(options) return check.number { min = 0, max = 1e12, unit = "s", optional = options } end
local function rate() return check.number { above = 0, max = 1e18, unit = "bytes/s", optional = true } end

--- The field `checkpoint` of tperf.cost.
checkpoint.schema = {
  interval = check.number { above = 0, max = 1e12, unit = "s", optional = true }, -- of work between saves; else best
  steps = check.integer { min = 1, max = 1 << 53, optional = true }, -- the interval in iterations
  size = check.number { above = 0, max = 1e24, unit = "bytes", optional = true }, -- else weights and optimizer state
  bandwidth = rate(), -- of each GPU to the store
  store = rate(), -- of the whole store
  write = seconds(true), -- in place of size over bandwidth
  async = check.boolean { default = false }, -- written in the background: only the copy to the host stops the work
  copy = rate(), -- of each GPU to its host
  block = seconds(true), -- in place of size over `copy`
  load = seconds(true), -- on a restart; else as long as `write`
}

local function fail(...) check.fail("tperf.cost: 'checkpoint': " .. select(1, ...), select(2, ...)) end

local function size_of(c, o)
  local size = o.size or c.checkpoint_bytes
  if not size then
    fail "how large is it? Give size, or a configuration of tperf.train or tperf.search, which knows"
  end
  return size
end

-- Seconds to write: every GPU writes its shard once, limited by its own bandwidth and its share of the store's.
local function written(c, o)
  if o.write then return o.write end
  if not (o.bandwidth or o.store) then
    fail("the time to write is missing: give bandwidth (bytes/s of each GPU), store (bytes/s of the whole store) or "
      .. "write (s)")
  end
  local size = size_of(c, o)
  return math.max(o.bandwidth and size / c.gpus / o.bandwidth or 0, o.store and size / o.store or 0)
end

local function blocked(c, o, write)
  if not o.async then
    if o.block or o.copy then
      fail("'%s' is of a checkpoint that is written behind the work: give async = true, too", o.block and "block"
        or "copy")
    end
    return write
  end
  if o.block then return o.block end
  if not o.copy then
    fail "async: how long does the copy to the host stop the work? Give copy (bytes/s of each GPU) or block (s)"
  end
  return size_of(c, o) / c.gpus / o.copy
end

--- The times of a checkpoint.
---@param c table  a configuration: gpus, checkpoint_bytes, time
---@param o table  checked by checkpoint.schema
---@return table   { bytes, async, write, block, load, lag: seconds until it counts, interval: as asked for }
---@return number least  the shortest feasible interval, in seconds
function checkpoint.of(c, o)
  local write = written(c, o)
  local block = blocked(c, o, write)
  local one = {
    bytes = o.size or c.checkpoint_bytes, write = write, block = block, async = o.async, load = o.load or write,
    lag = o.async and write or 0.0, interval = o.interval,
  }
  local least = one.lag
  if o.interval and o.steps then fail "'interval' and 'steps' say the same: give one of them" end
  if o.steps then
    if not c.time then fail "'steps' needs a configuration that knows the time of an iteration; give 'interval'" end
    one.interval = o.steps * c.time
  end
  if one.interval and one.interval < least then
    fail("the interval of %s is shorter than the %s that writing a checkpoint takes", units.format(one.interval, "s"),
      units.format(write, "s"))
  end
  if block == 0 and not one.interval then
    fail "a checkpoint that takes no time has no best interval: give 'interval', or 'write'"
  end
  return one, least
end

return checkpoint
