--- V-Half and V-Min (Qi et al. 2024, arXiv 2405.15362): a V of two chunks per device whose building block, repeated
-- every six slots, keeps about a half or a third of 1F1B's activations. The block's passes, of equal length, are laid
-- out on a grid of slots, the gaps get weight gradients, and passes are then moved forward into free slots as far as
-- memory stays below the block's.
-- Passes on a stage (here: device) are of kinds 1..4: F down, F up, B down, B up; 5 is W, or 5 and 6 are W of B down
-- and of B up.
local mean = require "tperf.describe.schedule.costs".mean

local PERIOD = 6
local F_DOWN, B_DOWN, B_UP, W = 1, 3, 4, 5

local v_half = {}

-- Slots of micro-batch 1 on stage i (from 0) of P, by kind.
local function half_block(P, i)
  local gap = P % 2 == 0 and 3 or 0
  return { 2 * i, 3 * P - i - 2, 3 * P + gap + 2 * i - 1, 6 * P + gap - i - 2 }
end

local function min_block(P, i)
  local gap = P % 3 == 0 and 2 or 0
  return { i, 2 * P - i - 1, 2 * P + gap + i, 4 * P + gap - i - 1 }
end

local function last_slot(stage)
  local last = 0
  for kind = 1, #stage do
    for _, slot in ipairs(stage[kind]) do last = math.max(last, slot) end
  end
  return last
end

-- slot -> kind of the stage's passes.
local function occupancy(stage)
  local at = {}
  for kind = 1, #stage do
    for _, slot in ipairs(stage[kind]) do at[slot] = kind end
  end
  return at
end

-- Gives every backward a weight gradient in the next empty slot; one list of them, or one for each leg.
local function put_weights(stage, split)
  local last, at, pending = last_slot(stage), occupancy(stage), { 0, 0 }
  local lists = split and { {}, {} } or { {} }
  local function put(slot)
    local leg = pending[1] > 0 and 1 or 2
    if pending[leg] == 0 then return false end
    pending[leg] = pending[leg] - 1
    table.insert(lists[leg], slot)
    return true
  end
  for slot = 0, last do
    local kind = at[slot]
    if kind == B_DOWN or kind == B_UP then
      local leg = split and kind == B_UP and 2 or 1
      pending[leg] = pending[leg] + 1
    elseif not kind then
      put(slot)
    end
  end
  repeat last = last + 1 until not put(last)
  stage[W], stage[W + 1] = lists[1], lists[2]
end

local function drop_weights(stages)
  for _, stage in ipairs(stages) do stage[W], stage[W + 1] = nil, nil end
end

-- A stage's slots: at (slot -> kind), last, and before every slot the forwards held and the weight gradients pending.
-- Without weight gradients in the lists, an empty slot is taken to run a pending one.
local function new_track(stage, has_weights)
  return { at = occupancy(stage), last = last_slot(stage), has_weights = has_weights, held = {}, pending = {} }
end

-- Walks the slots after a change from `from` to `to`, as far as it has effects. When no more than `most` forwards are
-- held at once, remembers what is held and returns the peak met; else returns nil.
local function walk(track, from, to, most)
  local at, held, pending, peak = track.at, track.held[from] or 0, track.pending[from] or 0, 0
  local new_held, new_pending, slot = {}, {}, from
  while slot <= track.last and (slot <= to or held ~= track.held[slot] or pending ~= track.pending[slot]) do
    new_held[slot], new_pending[slot] = held, pending
    local kind = at[slot]
    if not kind then
      if not track.has_weights and pending > 0 then held, pending = held - 1, pending - 1 end
    elseif kind < B_DOWN then
      held = held + 1
      if held > most then return nil end
      peak = math.max(peak, held)
    elseif kind < W then
      pending = pending + 1
    else
      held = held - 1
    end
    slot = slot + 1
  end
  for t = from, slot - 1 do track.held[t], track.pending[t] = new_held[t], new_pending[t] end
  return peak
end

-- Iterates over all passes by slot, stage, kind and micro-batch: for slot, i, kind, mb in passes_of(stages) do … end.
-- They are sorted as whole numbers made of these, which is much faster than comparing tables.
local function passes_of(stages)
  local keys, P, M = {}, #stages, 2 * #stages[1][1] -- a merged list of weight gradients is twice as long
  for i, stage in ipairs(stages) do
    for kind = 1, #stage do
      for mb, slot in ipairs(stage[kind]) do keys[#keys + 1] = ((slot * P + i - 1) * 6 + kind - 1) * M + mb - 1 end
    end
  end
  table.sort(keys)
  local n = 0
  return function()
    n = n + 1
    local key = keys[n]
    if not key then return nil end
    local rest = key // M
    return rest // 6 // P, rest // 6 % P + 1, rest % 6 + 1, key % M + 1
  end
end

-- The stage whose pass of the same kind and micro-batch a pass waits for.
local function producer(stages, i, kind)
  if kind >= W then return nil end
  return stages[kind % 2 == 1 and i - 1 or i + 1]
end

-- Runs the passes in slot order as early as they can. Returns their starts, in the shape of `stages`, and the order on
-- every stage as { kind, micro-batch }.
local function squeeze(stages, costs, p2p)
  local starts, ends, clock, order = {}, {}, {}, {}
  for i, stage in ipairs(stages) do
    starts[i], ends[i], clock[i], order[i] = {}, {}, 0, {}
    for kind = 1, #stage do starts[i][kind], ends[i][kind] = {}, {} end
  end
  for _, i, kind, mb in passes_of(stages) do
    local start, from = clock[i], producer(ends, i, kind)
    if from then start = math.max(start, from[kind][mb] + p2p) end
    starts[i][kind][mb] = start
    clock[i] = start + costs[kind]
    ends[i][kind][mb] = clock[i]
    table.insert(order[i], { kind, mb })
  end
  return starts, order
end

-- The first slot a pass could move to: after all it waits for. `backwards`: slots of the stage's backwards so far.
local function first_slot(stages, i, kind, mb, backwards)
  local stage, slot = stages[i], -1
  local from = producer(stages, i, kind)
  if from then slot = math.max(slot, from[kind][mb]) end
  if kind > F_DOWN and kind < W then slot = math.max(slot, stage[kind - 1][mb]) end
  if kind == W then slot = math.max(slot, backwards[mb] or math.huge) end
  if mb > 1 then slot = math.max(slot, stage[kind][mb - 1]) end
  return slot + 1
end

local function insert_sorted(list, value)
  local i = #list
  while i > 0 and list[i] > value do i = i - 1 end
  table.insert(list, i + 1, value)
end

-- Moves passes to earlier free slots, outside the steady phase, within the peak of memory there is.
local function reorder(stages, microbatches, with_weights)
  local tracks, backwards, most = {}, {}, 0
  for i, stage in ipairs(stages) do
    if with_weights then put_weights(stage, false) end
    tracks[i], backwards[i] = new_track(stage, with_weights), {}
    most = math.max(most, walk(tracks[i], 0, tracks[i].last, math.huge))
  end
  local phase = 0
  for slot, i, kind, mb in passes_of(stages) do
    if phase == 0 and kind == B_UP and i == 1 then phase = 1 end
    if phase == 2 or phase == 0 and with_weights then
      local track, at = tracks[i], tracks[i].at
      at[slot] = nil
      for candidate = math.tointeger(first_slot(stages, i, kind, mb, backwards[i])) or slot, slot - 1 do
        if not at[candidate] then
          at[candidate] = kind
          if walk(track, candidate, slot, most) then
            slot = candidate
            break
          end
          at[candidate] = nil
        end
      end
      at[slot] = kind
      stages[i][kind][mb] = slot
    end
    if phase == 1 and kind == F_DOWN and mb == microbatches then phase = 2 end
    if kind == B_DOWN or kind == B_UP then insert_sorted(backwards[i], slot) end
  end
  if not with_weights then
    for _, stage in ipairs(stages) do put_weights(stage, false) end
  end
  local starts = squeeze(stages, { 1, 1, 1, 1, 1 }, 0)
  drop_weights(starts)
  return starts
end

function v_half.definition(summary, block)
  return {
    summary = summary,
    stages_per_device = 2,
    placement = "mirrored",

    order = function(s)
      local P, M, stages = s.devices, s.microbatches, {}
      for i = 1, P do
        stages[i] = {}
        for kind, slot in ipairs(block(P, i - 1)) do
          stages[i][kind] = {}
          for mb = 1, M do stages[i][kind][mb] = slot + PERIOD * (mb - 1) end
        end
      end
      stages = reorder(stages, M, true)
      stages = reorder(stages, M, false)
      for i = 1, P do put_weights(stages[i], true) end
      local f, b, w = mean(s.times.forward), mean(s.times.backward_input), mean(s.times.backward_weight)
      local _, order = squeeze(stages, { f, f, b, b, w, w }, s.p2p)
      for d = 1, P do
        local down, up = d, 2 * P + 1 - d
        for _, pass in ipairs(order[d]) do
          local kind, mb = pass[1], pass[2]
          if kind == 1 then s:forward(d, down, mb)
          elseif kind == 2 then s:forward(d, up, mb)
          elseif kind == 3 then s:backward_input(d, up, mb)
          elseif kind == 4 then s:backward_input(d, down, mb)
          else s:backward_weight(d, kind == 5 and up or down, mb)
          end
        end
      end
    end,
  }
end

v_half.half = v_half.definition("zero bubble on a V, at about half of 1f1b's memory", half_block)
v_half.min = v_half.definition("zero bubble on a V, at about a third of 1f1b's memory", min_block)

return v_half
