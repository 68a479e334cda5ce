--- Reads the timers that Megatron-LM prints (--timing-log-level 1 or 2; --timing-log-option max, minmax or all), and
--- the
-- time of an iteration, from a log. Values are averaged over iterations, without the first.
local check = require "tperf.base.check"
local text_file = require "tperf.input.text"

local timers = {}

local function add(list, name, low, high)
  local one = list[name] or { count = 0, low = 0, high = 0, first = { low, high } }
  one.count, one.low, one.high, list[name] = one.count + 1, one.low + low, one.high + high, one
end

-- { min, max } in seconds, without the first iteration, which warms up.
local function mean(one)
  if one.count == 1 then return { one.low * 1e-3, one.high * 1e-3 } end
  local n = one.count - 1
  return { (one.low - one.first[1]) / n * 1e-3, (one.high - one.first[2]) / n * 1e-3 }
end

--- Whether a text is a log of Megatron-LM with timers.
function timers.recognise(text)
  return text:find "time across ranks %(ms%)" ~= nil or text:find "times across ranks %(ms%)" ~= nil
    or text:find "elapsed time per iteration %(ms%)" ~= nil
end

--- The timers of a log: name -> { min, max } over the ranks, in seconds; `iteration` is the time of an iteration.
---@param text string
---@return table
function timers.parse(text)
  local list, current, low, high = {}, nil, nil, nil
  local function flush()
    if current and low then add(list, current, low, high) end
    current, low, high = nil, nil, nil
  end
  for line in text:gmatch "[^\n]+" do
    local whole = line:match "elapsed time per iteration %(ms%): *([%d.]+)"
    if whole then add(list, "iteration", tonumber(whole), tonumber(whole)) end
    local name, a, b = line:match "^%s+([%w%-]+) %.*: *%(([%d.]+), ([%d.]+)%)"
    local one, alone = line:match "^%s+([%w%-]+) %.*: *([%d.]+)%s*$"
    local of_all, rank = line:match "^%s+([%w%-]+):%s*$", line:match "^%s+rank +%d+: *([%d.]+)"
    if name and tonumber(a) and tonumber(b) then
      add(list, name, tonumber(a), tonumber(b))
    elseif one and tonumber(alone) then
      add(list, one, tonumber(alone), tonumber(alone))
    elseif of_all then
      flush()
      current = of_all
    elseif current and tonumber(rank) then
      low, high = math.min(low or math.huge, tonumber(rank)), math.max(high or 0, tonumber(rank))
    else
      flush()
    end
  end
  flush()
  local found = {}
  for name, one in pairs(list) do found[name] = mean(one) end
  return found
end

---@param path string
---@return table  as timers.parse returns it
function timers.read(path)
  local found = timers.parse(text_file.read(path))
  if next(found) == nil then check.fail("%s: has no timers of Megatron-LM (--timing-log-level 1)", path) end
  return found
end

return timers
