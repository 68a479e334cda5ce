--- What the functions of a custom schedule say, compared with the simulation of its order: its closed form, the
--- micro-batches that a device holds, and the stages that devices run.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"
local rule_sets = require "tperf.describe.schedule.rules"
local simulated = require "tperf.describe.schedule.simulated"

local proof = {}

-- Times for which a closed form is exact (schedule.closed_form): no weight gradient longer than an input gradient, none
-- of them longer than a forward, pairs between the longer half and the sum.
local CASES <const> = {
  { F = 1, D = 0.75, W = 0.5, B = 1.25, O = 2, p2p = 0 },
  { F = 1, D = 1, W = 1, B = 2, O = 3, p2p = 0 },
  { F = 1, D = 0.75, W = 0.5, B = 1.25, O = 2, p2p = 0.25 },
}

local function simulate(name, definition, shape, times)
  local s = { schedule = name, devices = shape.devices, stages = shape.stages, microbatches = shape.microbatches,
    rules = rule_sets.default, p2p = times.p2p, times = { forward = times.F, backward_input = times.D,
      backward_weight = times.W, overlapped = times.O } }
  local functions, summary = simulated(s, definition)
  return summary, functions, s
end

local function differ(a, b) return math.abs(a - b) > 1e-9 * math.max(math.abs(a), math.abs(b)) end

local function words(shape)
  return ("%d devices, %d stages and %d micro-batches"):format(shape.devices, shape.stages, shape.microbatches)
end

local function compare_form(name, form, summary, shape, times)
  local sum = 0.0
  for kind, count in pairs(form) do sum = sum + count * times[kind] end
  if not differ(sum, summary.makespan) then return end
  check.fail("schedule '%s': closed_form gives a makespan of %.10g for %s, its simulation takes %.10g (F = %g, "
    .. "D = %g, W = %g, B = %g, O = %g, p2p = %g)", name, sum, words(shape), summary.makespan, times.F, times.D,
    times.W, times.B, times.O, times.p2p)
end

local function compare_held(name, definition, summary, shape)
  for device = 1, shape.devices do
    local held = definition.in_flight(shape, device)
    if held and held ~= summary.peak_activations[device] then
      check.fail("schedule '%s': in_flight gives %d for device %d of %s, its simulation holds %d", name, held, device,
        words(shape), summary.peak_activations[device])
    end
  end
end

-- A shape as a definition's functions take it.
local function shape_of(devices, stages, microbatches)
  return { devices = devices, stages = stages, microbatches = microbatches, rules = rule_sets.default }
end

local function is_refused(definition, shape) return definition.refuse and definition.refuse(shape) and true or false end

--- Compares a definition's functions with the simulation of one shape, which its `refuse` accepts.
---@param name string
---@param definition table  checked, with closed_form or in_flight
---@param devices integer
---@param stages integer
---@param microbatches integer
---@return boolean simulated  false: the order does not run for this shape
---@return string? message    why not
function proof.compare(name, definition, devices, stages, microbatches)
  local shape = shape_of(devices, stages, microbatches)
  if is_refused(definition, shape) then return false end
  local form = definition.closed_form and definition.closed_form(shape)
  for i, times in ipairs(CASES) do
    if times.p2p == 0 or form and form.p2p then
      local ok, summary = pcall(simulate, name, definition, shape, times)
      if not ok then return false, summary end
      if form then compare_form(name, form, summary, shape, times) end
      if i == 1 and definition.in_flight then compare_held(name, definition, summary, shape) end
    end
  end
  return true
end

local DEVICES <const>, MOST_ROUNDS <const> = { 2, 3, 4, 6 }, 4

--- Refuses a definition whose closed form or in_flight differ from its simulation at a small shape.
---@param name string
---@param definition table  checked
function proof.check(name, definition)
  if not (definition.closed_form or definition.in_flight) then return end
  local any, problem = false, nil
  for _, devices in ipairs(DEVICES) do
    local own = definition.stages_per_device
    for chunks = own or 1, own or definition.placement and 3 or 1 do
      for microbatches = 1, MOST_ROUNDS * devices do
        local done, message = proof.compare(name, definition, devices, devices * chunks, microbatches)
        any, problem = any or done, problem or message
      end
    end
  end
  if any then return end
  check.fail("schedule '%s': closed_form and in_flight are compared with the simulation of small shapes, of which none "
    .. "of 2 to 6 devices runs%s", name, problem and (": " .. tostring(problem)) or "")
end

-- The stages that each device runs, by device and in ascending order, for the first number of micro-batches for which
-- the order runs; nil if there is none.
local function stages_of(name, definition, devices)
  for _, microbatches in ipairs { 2 * devices, 4 * devices, devices, 1 } do
    local shape = shape_of(devices, devices, microbatches)
    local ok, _, functions = pcall(function()
      if is_refused(definition, shape) then refusal.raise "refused" end
      return simulate(name, definition, shape, CASES[1])
    end)
    if ok then
      local all = {}
      for device = 1, devices do
        local seen, list, position = {}, {}, 1
        local _, stage = functions.at(device, position)
        while stage do
          if not seen[stage] then seen[stage], list[#list + 1] = true, stage end
          position = position + 1
          _, stage = functions.at(device, position)
        end
        table.sort(list)
        all[device] = list
      end
      return all
    end
  end
  return nil
end

--- Whether a schedule without a stated placement, of as many stages as devices, runs in both directions: each device
--- holds a stage and its mirror image. Raises if devices run other stages than their own, whose weights nothing prices.
---@param name string
---@param definition table
---@param devices integer
---@return boolean
function proof.is_mirrored(name, definition, devices)
  local all = stages_of(name, definition, devices)
  if not all then return false end
  local own, mirrored = true, true
  for device, list in ipairs(all) do
    local first, last = math.min(device, devices + 1 - device), math.max(device, devices + 1 - device)
    own = own and #list == 1 and list[1] == device
    mirrored = mirrored and list[1] == first and list[#list] == last and #list == (first == last and 1 or 2)
  end
  if own or mirrored then return mirrored and not own end
  for device, list in ipairs(all) do
    if not (#list == 1 and list[1] == device) then
      refusal.raise("schedule '%s' runs stages %s on device %d of %d: the memory of a model is priced for a stage on "
        .. "each device, for a stage and its mirror image (placement = \"mirrored\", stages_per_device = 1 or 2), or "
        .. "for chunks (placement = \"round_robin\")", name, table.concat(list, ", "), device, devices)
    end
  end
end

return proof
