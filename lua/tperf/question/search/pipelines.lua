--- The pipelines that a search tries: number of stages, distribution of the layers, and the schedule by its closed
--- form: a makespan is the busiest stage's work plus a bubble that is linear in one micro-batch's forward, backward and
--- weight-gradient times on a device (tperf/describe/schedule has those that do).
local core = require "tperf.core"
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local lazy = require "tperf.base.lazy"
local proof = lazy.module "tperf.describe.schedule.proof"
local refusal = require "tperf.base.refusal"
local schedule = require "tperf.describe.schedule"

local pipelines = {}

local UNLIMITED = 2.0 ^ 53 -- micro-batches in flight

local function has_closed_form(definition) return definition.closed_form and definition.in_flight and true or false end

--- Which schedules have a closed form: name -> boolean.
function pipelines.closed_forms(names)
  local has = {}
  for _, name in ipairs(names) do has[name] = has_closed_form(schedule.get(name)) end
  return has
end

--- The names of the schedules whose bubble and activations have a closed form, sorted.
function pipelines.schedules()
  local names = {}
  for _, name in ipairs(schedule.names()) do
    local definition = schedule.get(name)
    if has_closed_form(definition) then names[#names + 1] = name end
  end
  return names
end

-- A makespan in F, B, D, W and O as the passes of a device that runs each kind `work` times, and a bubble beyond them.
-- An overlapped pair O takes as long as its halves; what it hides is counted separately. If backward passes are split,
-- those that are not whole are, and the bubble is one of their halves.
local function beyond(form, work)
  local whole, o = (form.B or 0) + (form.O or 0), form.O or 0
  local split = (form.D or 0) > 0 and work - whole or 0
  return {
    forward = (form.F or 0) + o - work, backward = whole + (form.D or 0) - work,
    weight_grad = (form.W or 0) - split, split = split,
  }
end

-- If stages run in both directions, each device holds a stage and its mirror image, so every weight is kept twice.
local function weight_copies(name, definition, pp)
  local mirrored = definition.placement == "mirrored" and definition.stages_per_device == 1
    or not definition.placement and proof.is_mirrored(name, definition, pp)
  return mirrored and 2 or 1
end

-- Whether stages go down the devices and back up (a V).
local function is_folded(definition)
  return definition.placement == "mirrored" and definition.stages_per_device == 2
end

-- Whether the core knows which device runs which chunk: round-robin, or down the devices and back up.
local function is_placed(definition, chunks)
  local placement = definition.placement
  return placement == "round_robin" or placement == "block" and chunks == 1 or is_folded(definition)
end

-- The bubble for `microbatches`, in units of a whole device's times; nil without a closed form.
local function bubble_at(definition, pp, chunks, microbatches)
  local p = { devices = pp, stages = pp * chunks, microbatches = microbatches, rules = {} }
  if definition.refuse and definition.refuse(p) then return nil end
  local form = definition.closed_form(p)
  if not form then return nil end
  local more = beyond(form, microbatches * chunks)
  return {
    forward = more.forward / chunks, backward = more.backward / chunks, weight_grad = more.weight_grad / chunks,
    split = more.split, pairs = form.O or 0, ways = chunks > 1 and form.p2p or 0,
  }
end

-- The multiple and the minimum of the number of micro-batches for which the closed form holds.
local function demands(definition, pp, chunks)
  local runs = definition.runs or 1
  local multiple = runs * pp
  for _, n in ipairs { 1, 2 } do
    if bubble_at(definition, pp, chunks, runs * (4 * pp + n)) then multiple = runs * n break end
  end
  for microbatches = multiple, 8 * runs * pp, multiple do
    if bubble_at(definition, pp, chunks, microbatches) then return multiple, microbatches end
  end
  return multiple, nil
end

local MOST_COMPARED <const> = 1 << 17 -- passes of a simulation

-- Whether a script's closed form has the same bubble for any number of micro-batches, as the core reads it, and is what
-- the simulation says for the fewest. Otherwise the schedule is simulated.
local function is_linear(name, definition, pp, chunks, multiple, least)
  local many = bubble_at(definition, pp, chunks, 16 * pp * multiple)
  for _, microbatches in ipairs { least, least + multiple, 16 * pp * multiple + multiple } do
    local one = bubble_at(definition, pp, chunks, microbatches)
    for _, part in ipairs { "forward", "backward", "weight_grad" } do
      if not one or not many or math.abs(one[part] - many[part]) > 1e-9 * math.max(1, math.abs(many[part])) then
        return false
      end
    end
  end
  if 2 * pp * chunks * least > MOST_COMPARED then return true end
  return proof.compare(name, definition, pp, pp * chunks, least)
end

local function in_flight(definition, pp, chunks)
  local runs = definition.runs or 1
  local list, many = {}, { devices = pp, stages = pp * chunks, microbatches = 64 * pp * runs }
  for device = 1, pp do
    local n = definition.in_flight(many, device)
    list[device] = n >= many.microbatches // runs * chunks and UNLIMITED or n / chunks
  end
  return list
end

-- Micro-batches whose activations the head keeps. In the last of several chunks of a device, each runs backward before
-- the next one arrives, or while it arrives if passes of one chunk overlap: where stages are mirrored, those of a
-- device's two chunks do.
local function last_in_flight(list, several, overlapped)
  local n = list[#list]
  return several and n < UNLIMITED and (overlapped and 2 or 1) or n
end

-- For a schedule without a closed form the core only computes bounds: no bubble, and one micro-batch in flight.
local function describe_bound(one, name, definition, pp, chunks)
  one.bounds, one.weight_copies, one.folded = true, weight_copies(name, definition, pp), is_folded(definition)
  one.placed = is_placed(definition, chunks)
  for device = 1, pp do one.in_flight[device] = 1 end
  return one
end

-- A pipeline of one device: every forward pass except the first overlaps with the previous micro-batch's backward pass,
-- layer by layer. The first layer forward goes beside the last one backward, which then lets go of what it kept: one
-- layer more is kept (Megatron-Core's TransformerModelChunkSchedulePlan.run; the head's backward pass comes before).
local function describe_alone(one, layers)
  one.pairs, one.pairs_each, one.in_flight = -1, 1, { 1 + 1 / layers }
  return one
end

-- One pipeline; nil if the schedule has a closed form, but not for these sizes.
---@param options table  alone_overlaps, bounds: see pipelines.make
local function describe(name, number, pp, chunks, options)
  local one = {
    pp = pp, virtual_stages = chunks, schedule = number, bubble_forward = 0, bubble_backward = 0,
    bubble_weight_grad = 0, split = 0, split_each = 0, pairs = 0, pairs_each = 0, ways = 0,
    min_microbatches = 1, microbatch_multiple = 1, weight_copies = 1, in_flight = { 1 }, last_in_flight = 1,
    bounds = false, open = false, placed = true, folded = false,
  }
  if pp == 1 then return options.alone_overlaps and describe_alone(one, options.layers) or one end
  local definition = schedule.get(name)
  if options.bounds or not has_closed_form(definition) then
    return describe_bound(one, name, definition, pp, chunks)
  end
  local multiple, least = demands(definition, pp, chunks)
  if not least then return nil end
  if schedule.is_own(name) and not is_linear(name, definition, pp, chunks, multiple, least) then
    return describe_bound(one, name, definition, pp, chunks)
  end
  local many, more = 16 * pp * multiple, 17 * pp * multiple
  local bubble, next_bubble = bubble_at(definition, pp, chunks, many), bubble_at(definition, pp, chunks, more)
  one.bubble_forward, one.bubble_backward = bubble.forward, bubble.backward
  one.bubble_weight_grad, one.ways = bubble.weight_grad, bubble.ways
  for _, count in ipairs { "pairs", "split" } do -- linear in the micro-batches
    local each = (next_bubble[count] - bubble[count]) / (more - many)
    one[count], one[count .. "_each"] = bubble[count] - each * many, each
  end
  one.min_microbatches, one.microbatch_multiple = least, multiple
  one.weight_copies, one.folded = weight_copies(name, definition, pp), is_folded(definition)
  one.placed = is_placed(definition, chunks)
  one.in_flight = in_flight(definition, pp, chunks)
  one.last_in_flight = last_in_flight(one.in_flight, chunks > 1 or one.weight_copies > 1,
    bubble.pairs > 0 and definition.placement ~= "mirrored")
  return one
end

-- The chunks per device that a schedule allows: its own number, or the wanted ones from 2 on if it interleaves.
local function chunks_of(definition, wanted)
  if definition.stages_per_device then return { definition.stages_per_device } end
  if not definition.placement then return { 1 } end
  local list = {}
  for _, chunks in ipairs(wanted) do
    if chunks > 1 then list[#list + 1] = chunks end
  end
  return list
end

--- Whether one of these schedules may put several chunks on a device.
function pipelines.may_interleave(names)
  for _, name in ipairs(names) do
    local definition = schedule.get(name)
    if definition.placement and definition.stages_per_device ~= 1 then return true end
  end
  return false
end

--- Refuses numbers of chunks per device that none of these schedules allows.
---@param names string[]  schedules
---@param wanted integer[]?
function pipelines.check_chunks(names, wanted)
  for _, chunks in ipairs(wanted or {}) do
    local taken = chunks == 1
    for _, name in ipairs(names) do
      local own = schedule.get(name).stages_per_device
      taken = taken or not own or own == chunks
    end
    if not taken then
      refusal.raise("'virtual_stages' = %d wants a schedule that interleaves, such as interleaved_1f1b, not %s", chunks,
        table.concat(names, ", "))
    end
  end
end

-- The most stages that these layers fill: the first and last may hold only the embedding and the head.
local function most_stages(layers, has_ends) return has_ends and layers + 2 or layers end

-- How uneven chunks may be, as a part of the layers: in every round a device that finishes early waits for one with an
-- extra layer. Below this, spec/rerank_spec.lua finds the closed form within 1 % of the simulation.
local UNEVEN <const> = 0.1

-- How much more uneven they may be, as a part of their mean time, because their layers are of different kinds. Below
-- this, spec/unequal_chunks_spec.lua finds the closed form within 3 %.
local UNEQUAL <const> = 0.03

-- Whether so many chunks have nearly equal numbers of layers. dealt: how many each has; nil: as evenly as they divide.
local function is_even(layers, chunks, dealt)
  local most = dealt and math.max(table.unpack(dealt)) or (layers + chunks - 1) // chunks
  return most * chunks < (1 + UNEVEN) * layers
end

local function make(options)
  local list, described, all_closed = {}, {}, true
  local function add(name, number, pp, chunks)
    local layers = options.deal and options.deal(pp, chunks)
    local even = chunks == 1 or is_even(options.layers, pp * chunks, layers or nil)
    if options.deal then
      if layers == nil then return end
    elseif pp * chunks > most_stages(options.layers, options.has_ends and chunks > 1) then
      return
    elseif options.even and not even and not schedule.get(name).stages_per_device then
      return
    end
    local one = describe(name, number, pp, chunks, options)
    if not one then return end
    local closed = pp == 1 or even and not one.bounds
    one.layers, one.open = layers or nil, not closed
    list[#list + 1] = one
    described[#list] = {
      pp = pp, virtual_stages = chunks, schedule = name, closed = closed,
      min_microbatches = one.min_microbatches, microbatch_multiple = one.microbatch_multiple,
    }
    all_closed = all_closed and closed
  end
  for _, pp in ipairs(options.pps) do
    if pp == 1 then
      add(options.schedules[1], 1, 1, 1)
    else
      for number, name in ipairs(options.schedules) do
        for _, chunks in ipairs(chunks_of(schedule.get(name), options.virtual_stages)) do
          add(name, number, pp, chunks)
        end
      end
    end
  end
  local own, unequal = core.pipelines(options.runs, options.has_ends, list, options.picked, options.work, UNEQUAL)
  for i, is_unequal in ipairs(unequal or {}) do
    if is_unequal then described[i].closed, all_closed = false, false end
  end
  return own, described, all_closed
end

local MOST_MADE <const> = 64 -- in the cache
local made, count = {}, 0
-- The options that decide the pipelines, as a cache key; nil if a function deals the layers out.
local function key_of(options)
  if options.deal then return nil end
  local words = {
    options.layers, tostring(options.has_ends), tostring(options.even), tostring(options.alone_overlaps),
    tostring(options.bounds), table.concat(options.pps, " "), table.concat(options.virtual_stages, " "),
  }
  for _, name in ipairs(options.schedules) do words[#words + 1] = ("%s %p"):format(name, schedule.get(name)) end
  local picked = options.picked or {}
  words[#words + 1] = ("%s %s"):format(picked.first, picked.every)
  for _, run in ipairs(options.runs) do words[#words + 1] = run[1] .. " " .. run[2] end
  for _, work in ipairs(options.work or {}) do words[#words + 1] = ("%.6g"):format(work) end
  return table.concat(words, ",")
end

--- All pipelines of a search.
---@param options table  pps = list of sizes, schedules = list of names, virtual_stages = list, layers, runs = list of
---  { kind, layers }, has_ends, even = of any number of chunks only those with nearly equal layers; deal: of
---  pipeline_layout.of; work: of a layer of each kind, if there are several; alone_overlaps: if pp is 1, the passes
---  of neighbouring micro-batches overlap; bounds: without closed forms; picked: see tperf.describe.arch.recompute
---@return userdata made, table described, boolean closed  the core's pipelines; { pp, virtual_stages, schedule = name,
---  closed, min_microbatches, microbatch_multiple } of each; whether closed forms say what all of them take, or nearly
function pipelines.make(options)
  local key = key_of(options)
  local known = key and made[key]
  if not known then
    known = { make(options) }
    known.of = {} -- keeps the definitions alive: the key holds their addresses
    for i, name in ipairs(options.schedules) do known.of[i] = schedule.get(name) end
    if count == MOST_MADE then made, count = {}, 0 end
    if key then made[key], count = known, count + 1 end
  end
  return known[1], known[2], known[3]
end

--- Why a schedule has no pipeline of these sizes.
---@param name string  the schedule
---@param pp integer
---@param wanted integer?  chunks per device; nil for any
---@param layers integer
---@return string
function pipelines.why_none(name, pp, wanted, layers)
  local definition = schedule.get(name)
  local least = definition.stages_per_device or 2
  local chunks = definition.stages_per_device or wanted or least
  if chunks < least then
    return ("schedule '%s' interleaves: 'virtual_stages' must be at least 2, got %d"):format(name, chunks)
  end
  if not wanted and not definition.stages_per_device and pp * chunks <= most_stages(layers, true) then
    return ("schedule '%s' deals %d layers out to pp = %d devices evenly in no number of chunks tried; give "
      .. "'virtual_stages'"):format(name, layers, pp)
  elseif pp * chunks <= most_stages(layers, chunks > 1) then
    return ("schedule '%s' has no closed form for pp = %d"):format(name, pp)
  end
  local most = layers // pp
  local remedy = not definition.stages_per_device and most >= least and ("'virtual_stages' up to %d fits"):format(most)
    or ("pp up to %d fits"):format(layers // least)
  return ("schedule '%s' puts %d chunks of layers on each of pp = %d devices, %d in all, more than the model's %d "
    .. "layers; %s"):format(name, chunks, pp, chunks * pp, layers, remedy)
end

--- The schedule names of a search's `schedule` argument: a name, a list, or "any" that has a closed form.
function pipelines.names(value)
  if value == "any" then return pipelines.schedules() end
  local list, seen = {}, {}
  if type(value) == "table" then argument.list("tperf.search", "schedule", value) end
  for _, name in ipairs(type(value) == "table" and value or { value }) do
    if name ~= name or not seen[name] then list[#list + 1] = name end
    if name == name then seen[name] = true end
  end
  if list[1] == nil then check.fail("'schedule' must be a name or a list of names, got %s", check.show(value)) end
  for _, name in ipairs(list) do
    if not schedule.has(name) then
      local all = schedule.names()
      check.fail("unknown schedule %s%s; a search can take: %s", check.show(name), check.suggest(name, all),
        table.concat(all, ", "))
    end
  end
  return list
end

return pipelines
