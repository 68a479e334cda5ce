--- Pipeline schedules: their definitions by name, built in or custom, and the results that need no simulation.
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"
local checked = lazy.module "tperf.describe.schedule.checked"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"
local refusal = require "tperf.base.refusal"
local repeated = lazy.module "tperf.describe.schedule.repeated"
local placements = require "tperf.describe.schedule.placement"
local proof = lazy.module "tperf.describe.schedule.proof"
local rule_sets = lazy.module "tperf.describe.schedule.rules"
local shapes = require "tperf.describe.schedule.shape"

local schedule = {}

local ORDERS <const> = "tperf.describe.schedule.order."

-- By public name, from the modules in order/, whose `definitions` are as schedule.define takes them. One that is called
-- like a schedule is read when that is asked for, the others when a name is none of those.
local definitions = {}

-- A definition, which nobody changes from now on.
local function kept(name, definition)
  return frozen.keep(definition, frozen.class(function(_, field)
    check.fail("schedule '%s' is never changed, so '%s' cannot be set; define another with tperf.schedule.define", name,
      tostring(field))
  end))
end

local function add(name, definition) definitions[name] = kept(name, definition) end

local built_in, unread = {}, {}
for _, module in ipairs(core.modules(ORDERS)) do unread[module] = true end

local function read(module)
  if not unread[module] then return end
  unread[module] = nil
  for name, definition in pairs(require(module).definitions) do
    add(name, definition)
    built_in[name] = true
  end
end

local function read_all()
  for _, module in ipairs(check.names(unread)) do read(module) end
end

-- The definition of this name; false: there is none.
local function known_as(name)
  if not definitions[name] then read(ORDERS .. name) end
  if not definitions[name] then read_all() end
  return definitions[name] or false
end

--- The names of all schedules, sorted.
---@return string[]
function schedule.names()
  read_all()
  return check.names(definitions)
end

local function choice(value, names, what)
  for _, name in ipairs(names) do
    if value == name then return value end
  end
  return nil, ("'%s' must be one of %s, got %s%s"):format(what, table.concat(names, ", "), check.show(value),
    check.suggest(value, names))
end

-- Schedules that run several times an iteration, by name; each keeps the definition that it was made of.
local several, count_of_several = {}, 0
local MOST_SEVERAL <const> = 1024 -- a sweep may try many

-- "NAME*N": the schedule NAME, N times an iteration. Not listed; nil if there is no such schedule.
local function repeated_of(name)
  local one, times = name:match "^([%w_%-]+)%*(%d+)$"
  local base, count = one and known_as(one), math.tointeger(tonumber(times))
  if not base or not count or count < 1 then return nil end
  local known = several[name]
  if not known or known.base ~= base then
    if count_of_several >= MOST_SEVERAL then several, count_of_several = {}, 0 end
    count_of_several = count_of_several + 1
    known = { base = base, definition = kept(name, repeated(name, base, count)) }
    several[name] = known
  end
  return known.definition
end

local function find(name) return type(name) == "string" and (known_as(name) or repeated_of(name)) end

--- Whether a script defined a schedule, or the one that runs several times.
---@param name string
---@return boolean
function schedule.is_own(name) return not schedule.is_built_in(name:match "^[^*]*") end

--- Whether there is a schedule of that name.
---@param name any
---@return boolean
function schedule.has(name) return find(name) and true or false end

--- Whether a schedule is built in, so that no script can define it anew.
function schedule.is_built_in(name) return known_as(name) and built_in[name] or false end

--- The definition of a schedule.
---@param name string  or "NAME*N": NAME, N times an iteration, each time with an equal part of its micro-batches
---@return table
function schedule.get(name)
  local definition = find(name)
  if not definition then check.fail("tperf.schedule: %s", select(2, choice(name, schedule.names(), "schedule"))) end
  return definition
end

local DEFINITION = {
  order = check.func(),
  summary = check.string { optional = true },
  stages_per_device = check.integer { min = 1, optional = true },
  placement = check.choice { check.names(placements), optional = true },
  refuse = check.func { optional = true },
  least_microbatches = check.func { optional = true },
  remedy = check.func { optional = true },
  grouped = check.boolean { optional = true },
  closed_form = check.func { optional = true },
  in_flight = check.func { optional = true },
}

--- Adds a schedule: a function(s) that fills the queues in order, or a table with that function as `order`. It calls
--    s:forward(device, stage, microbatch), s:backward(…), s:backward_input(…), s:backward_weight(…),
--    s:overlapped(device, forward_stage, forward_microbatch, backward_stage, backward_microbatch);
--    s:hold(device, stage) declares where a stage may run (default: anywhere);
--    s:own { device =, kind =, time =, resource =, after =, stage =, microbatch = } adds a pass of another kind, as an
--    "optimizer" or "offload", in the unit of the times, and returns it. With a `resource`, a name such as "nic" or
--    "host", it runs beside the device, after the one before it there; without, in the device's queue. It starts when
--    the passes in `after` have ended: one or a list of what s:own and s:last(device), the last pass of the device's
--    queue so far, return;
--    s:wait(device, passes): the device's next pass starts when these have ended;
-- and reads
--    s.devices, s.stages, s.microbatches, s.group_size, s.times, s.p2p, s.memory, s.memory_limit, s.rules
---@param name string
---@param definition function|table
--  order               function(s), as above
--  summary             one line for lists
--  stages_per_device   the only number of stages per device that is allowed
--  placement           the stages that each device holds, of P devices: "block", neighbours (device 1 of 2 has 1 and 2
--                      of 4); "round_robin", chunks (1 and 3); "mirrored", a stage and its mirror image (1 and 4): with
--                      stages_per_device = 1 both directions of a bidirectional pipeline, with 2 a V. Without it an
--                      order may run any stage anywhere, or where it calls s:hold; with a model's memory it runs one
--                      stage on each device, or a stage and its mirror image
--  refuse              function(s): why a shape is impossible ("needs …"), or nil
--  remedy              function(s): how to avoid a deadlock
--  least_microbatches  function(s): the minimum, enforced only if the rules say so
--  grouped             true: takes group_size
--  closed_form         function(p), see tperf.schedule.closed_form
--  in_flight           function(p, device), see tperf.schedule.in_flight. Both are compared with the simulation of
--                      shapes of 2 to 6 devices, and refused where they differ
function schedule.define(name, definition)
  if type(name) ~= "string" or not name:find "^[%w_%-]+$" then
    check.fail("tperf.schedule.define: the name must be letters, digits, _ and -, got %s", check.show(name))
  end
  if schedule.is_built_in(name) then
    check.fail("tperf.schedule.define: '%s' is built in; choose another name", name)
  end
  if definitions[name] then
    check.fail("tperf.schedule.define: '%s' is defined already, and answers about it would change; choose another name",
      name)
  end
  if type(definition) == "function" then definition = { order = definition, grouped = true } end
  definition = checked(name, check.record("tperf.schedule.define", definition, DEFINITION))
  definition.own_passes = true -- its order function has s:own and s:wait
  proof.check(name, definition)
  add(name, definition)
end

local function refuse(format, ...) refusal.raise("tperf.schedule: " .. format, ...) end

schedule.default_stages = shapes.default_stages

local MOST = (1 << 31) - 1 -- the core counts in int

--- The fields of a shape.
schedule.shape = {
  schedule = check.any(),
  devices = check.integer { min = 1, max = MOST },
  stages = check.integer { min = 1, max = MOST, optional = true },
  microbatches = check.integer { min = 1, max = MOST },
  group_size = check.integer { min = 1, max = MOST, optional = true },
}

local SHAPE = { device = check.integer { min = 1, optional = true } }
for name, checker in pairs(schedule.shape) do SHAPE[name] = checker end

local function shape(arguments, what)
  local p = check.record("tperf.schedule." .. what, arguments, SHAPE)
  local definition = schedule.get(p.schedule)
  p.rules = rule_sets.default
  shapes.check(p, definition)
  return p, definition
end

--- The makespan as a sum of times of one stage, { F=, B=, D=, W=, O=, p2p= }, by the default rules. It is exact if all
-- stages are alike, no input or weight gradient takes longer than a forward, no weight gradient longer than an input
-- gradient, and an overlapped pair no less than either half nor more than both; without a coefficient for p2p only
-- if p2p is 0, and interleaved only if p2p is no longer than a pass of a chunk. nil: there is no closed form for the
-- shape.
---@param arguments table
--  schedule, devices, stages, microbatches, group_size   as in tperf.schedule
--  device   not used here
---@return table|nil
function schedule.closed_form(arguments)
  local p, definition = shape(arguments, "closed_form")
  return definition.closed_form and definition.closed_form(p) or nil
end

--- The most micro-batches of one stage whose activations a device holds at once; nil if there is no formula.
---@param arguments table
--  schedule, devices, stages, microbatches, group_size   as in tperf.schedule
--  device   which device, from 1
---@return integer|nil
function schedule.in_flight(arguments)
  local p, definition = shape(arguments, "in_flight")
  if not p.device or p.device > p.devices then refuse("'device' must be from 1 to %d", p.devices) end
  return definition.in_flight and definition.in_flight(p, p.device) or nil
end

return schedule
