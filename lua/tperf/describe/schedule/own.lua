--- Passes of a schedule's own kinds, such as an optimizer's step, a copy to the host or a filler: s:own and s:wait of
--- tperf.schedule.define. They run on the device itself, in its queue, or on a resource beside it that has a name.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"

local WHAT <const> = "tperf.schedule: s:own"
local MOST <const> = 1 << 31

local FIELDS <const> = {
  device = check.integer { min = 1, max = MOST }, kind = check.string(), time = check.number { min = 0 },
  resource = check.string { optional = true }, after = check.any { optional = true },
  microbatch = check.integer { min = 1, max = MOST, optional = true },
  stage = check.integer { min = 1, max = MOST, optional = true },
}

-- A pass, or a list of them, as a list.
local function listed(value, passes, what)
  if value == nil then return {} end
  local list = passes[value] and { value } or value
  if type(list) == "table" and list == value then argument.list(what, "passes", list) end
  for i, one in ipairs(type(list) == "table" and list or { list }) do
    if not passes[one] then
      check.fail("%s: pass %d must be what s:own or s:last returned, got %s", what, i, check.show(one))
    end
  end
  return list
end

local function check_device(s, device, what)
  if math.type(device) ~= "integer" or device < 1 or device > s.devices then
    check.fail("%s: the device must be from 1 to %d, got %s", what, s.devices, check.show(device))
  end
end

--- Adds the functions to what an order function gets.
---@param s table  devices …
---@param functions table  the core's
---@return table[] made  of each pass of its own kind, in the order in which they were added: its fields
return function(s, functions)
  local made, passes = {}, setmetatable({}, { __mode = "k" })
  local latest = {} -- by device and resource: the own pass added last
  local pending = {} -- by device: what its next pass waits for, of its own kind or not, and the queue's length so far

  local function wait(own, device, pass)
    if pass.own then functions.wait(own, device, pass.own) else functions.wait(own, device, pass.device, pass.at) end
  end

  function s.own(_, given)
    local o = check.record(WHAT, given, FIELDS)
    check_device(s, o.device, WHAT)
    if o.resource == "" or o.kind == "" then check.fail("%s: 'kind' and 'resource' must not be empty", WHAT) end
    local number = functions.own(o.device, o.time, o.resource == nil)
    local pass = { own = number }
    for _, one in ipairs(listed(o.after, passes, WHAT)) do wait(number, nil, one) end
    local lane = ("%d %s"):format(o.device, o.resource and "on " .. o.resource or "")
    local before, length = latest[lane], functions.length(o.device)
    if before then functions.wait(number, nil, before.own) end
    if not o.resource then -- in the device's queue: after the pass before it, and before the next one
      if length > 0 then functions.wait(number, nil, o.device, length) end
      local waits = pending[o.device]
      for _, one in ipairs(waits and waits.at == length and waits or {}) do wait(number, nil, one) end
      pending[o.device] = nil
      functions.wait(nil, o.device, number)
    end
    latest[lane], passes[pass] = pass, true
    made[number] = { device = o.device, kind = o.kind, resource = o.resource, microbatch = o.microbatch,
      stage = o.stage }
    return pass
  end

  function s.last(_, device)
    check_device(s, device, "tperf.schedule: s:last")
    local length = functions.length(device)
    if length == 0 then check.fail("tperf.schedule: s:last(%d): the device has no pass yet", device) end
    local pass = { device = device, at = length }
    passes[pass] = true
    return pass
  end

  function s.wait(_, device, what)
    check_device(s, device, "tperf.schedule: s:wait")
    if what == nil then check.fail "tperf.schedule: s:wait needs a device and a pass, or a list of passes" end
    local length, waits = functions.length(device), pending[device]
    if not waits or waits.at ~= length then
      waits = { at = length }
      pending[device] = waits
    end
    for _, one in ipairs(listed(what, passes, "tperf.schedule: s:wait")) do
      wait(nil, device, one)
      waits[#waits + 1] = one
    end
  end

  return made
end
