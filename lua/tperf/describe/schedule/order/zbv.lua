--- ZB-V (Qi et al., arXiv 2401.10241 v2 and 2405.15362): zero bubble on a V, two chunks per device, within 1F1B's
-- memory. Passes are F and B on two legs: F1 goes down the devices (chunk 1) and F2 back up (chunk 2); B1 goes
-- down (chunk 2) and B2 back up (chunk 1). The best of four variants, each refined by the bubbles it left.
local check = require "tperf.base.check"
local costs = require "tperf.describe.schedule.costs"
local mean = costs.mean

local KINDS = { "F1", "F2", "B1", "B2" }
local BEFORE = { F2 = "F1", B1 = "F2", B2 = "B1" }
local UP = { F2 = true, B2 = true } -- fed by the next stage; the others by the one before

-- p: stages (P), microbatches (M), f, b, w, mF, mB, mW, p2p, limit. fill_b, fill_f: variant. approved: bubbles by
-- stage. Returns the stages and their largest bubble.
local function plan(p, fill_b, fill_f, approved)
  local P, M, p2p, limit = p.stages, p.microbatches, p.p2p, p.limit
  local cost = { F1 = p.f, F2 = p.f, B1 = p.b, B2 = p.b, W = p.w }
  local memory = { F1 = p.mF, F2 = p.mF, B1 = p.mB, B2 = p.mB, W = p.mW }
  local largest_bubble = 0.0
  local most_approved = costs.most(approved)
  local stages = {}
  for i = 1, P do
    stages[i] = { clock = 0.0, memory = 0.0, bubble = 0.0, order = {}, weights = {}, taken = 0 }
    for _, kind in ipairs(KINDS) do stages[i][kind], stages[i]["end_" .. kind] = 0, {} end
  end

  local function neighbour(i, kind)
    return stages[UP[kind] and i + 1 or i - 1]
  end

  local function put(i, kind, weight)
    local s, c = stages[i], cost[kind]
    local fin = s.clock + c
    local before, from = BEFORE[kind], kind ~= "W" and neighbour(i, kind)
    local mb = weight and weight[2] or s[kind] + 1
    local arrival = from and from["end_" .. kind][mb]
    if s.memory + memory[kind] > limit then
      check.fail("tperf.schedule: zbv does not fit 'memory_limit' of %.15g on device %d", limit, i)
    end
    if from and not arrival or before and not s["end_" .. before][mb] then
      check.fail("tperf.schedule: zbv finds no order within 'memory_limit' of %.15g: %s of micro-batch %d on device "
        .. "%d would come before what it needs", limit, kind:sub(1, 1) == "F" and "forward" or "backward", mb, i)
    end
    if arrival then fin = math.max(fin, arrival + p2p + c) end
    if s.F1 > 0 then s.bubble = s.bubble + (fin - (s.clock + c)) end
    largest_bubble = math.max(largest_bubble, s.bubble) -- bubbles only grow
    s.clock, s.memory = fin, s.memory + memory[kind]
    s.order[#s.order + 1] = { weight and "W" .. weight[1] or kind, mb }
    if weight then return end
    s[kind], s["end_" .. kind][mb] = mb, fin
    if kind == "B1" or kind == "B2" then s.weights[#s.weights + 1] = { kind:sub(2), mb } end
  end

  local function pending(s) return #s.weights - s.taken end
  local function put_weight(i)
    local s = stages[i]
    if pending(s) == 0 then
      check.fail("tperf.schedule: zbv does not fit 'memory_limit' of %.15g on device %d", limit, i)
    end
    s.taken = s.taken + 1
    put(i, "W", s.weights[s.taken])
  end

  local function allowed_bubble(i)
    return math.max(largest_bubble, most_approved - approved[i])
  end

  -- Weight gradients into the time until the pass can start.
  local function fill(i, kind)
    local s, from = stages[i], neighbour(i, kind)
    if not from then return end
    local arrival = (from["end_" .. kind][s[kind] + 1] or -1.0) + p2p
    while pending(s) > 0 and arrival >= s.clock + p.w do put_weight(i) end
    if pending(s) > 0 and arrival - s.clock > allowed_bubble(i) - s.bubble then
      if kind == "B2" or kind == "B1" and fill_b or kind:sub(1, 1) == "F" and fill_f then put_weight(i) end
    end
  end

  local function warm_up()
    for i = 1, P do put(i, "F1") end
    for i = P, 1, -1 do
      local s = stages[i]
      if i < P then
        local arrival = stages[i + 1].end_F2[1] + p2p
        while s.memory + p.mF * (2 + 2 * (i - 1)) <= limit and s.clock + p.f <= arrival and s.F1 < M do
          for j = 1, i do put(j, "F1") end
        end
      end
      put(i, "F2")
    end
    local kind = "F1"
    for i = 2, P do
      local s, before = stages[i], stages[i - 1]
      while s.F1 + s.F2 < before.F1 + before.F2 or s.F2 <= before.F2 and before.F2 < M do
        for j = P, i, -1 do
          if stages[j][kind] < M then put(j, kind) end
        end
        kind = kind == "F1" and "F2" or "F1"
      end
    end
  end

  local function backwards()
    local second, first = {}, {}
    for i = 1, P do
      local s, after = stages[i], stages[i + 1]
      if s.B2 < s.B1 and (not after or after.end_B2[s.B2 + 1] or s.B1 == M) then
        table.insert(second, 1, i)
      else
        first[#first + 1] = i
      end
    end
    for _, i in ipairs(second) do fill(i, "B2") put(i, "B2") end
    for _, i in ipairs(first) do fill(i, "B1") put(i, "B1") end
  end

  local function forward_kind(i)
    local s = stages[i]
    if s.F2 >= s.F1 then return "F1" end
    if i == P or stages[i + 1].end_F2[s.F2 + 1] then return "F2" end
    if s.F1 < M and (i == 1 or stages[i - 1].end_F1[s.F1 + 1]) then return "F1" end
  end

  warm_up()
  for _ = 1, 2 * M do
    for i = 1, P do
      while stages[i].memory + p.mB > limit do put_weight(i) end
    end
    backwards()
    for i = 1, P do
      local kind = stages[i].F2 < M and forward_kind(i)
      if kind then
        while stages[i].memory + p.mF > limit do put_weight(i) end
        fill(i, kind)
        put(i, kind)
      end
    end
  end
  local bubbles = {}
  for i = 1, P do
    while pending(stages[i]) > 0 do put_weight(i) end
    bubbles[i] = stages[i].bubble
  end
  if most_approved < 0 or largest_bubble < most_approved then
    local refined, smaller = plan(p, fill_b, fill_f, bubbles)
    if smaller < largest_bubble then return refined, smaller end
  end
  return stages, largest_bubble
end

return {
  summary = "zero bubble on a V, at 1f1b's memory",
  stages_per_device = 2,
  placement = "mirrored",

  order = function(s)
    local P = s.devices
    local p = {
      stages = P, microbatches = s.microbatches, p2p = s.p2p,
      f = mean(s.times.forward), b = mean(s.times.backward_input), w = mean(s.times.backward_weight),
      mF = mean(s.memory.forward), mB = mean(s.memory.backward_input), mW = mean(s.memory.backward_weight),
    }
    p.limit = 2 * P * p.mF
    if s.memory_limit then
      p.limit = math.huge
      for _, limit in ipairs(s.memory_limit) do p.limit = math.min(p.limit, limit) end
    end
    local best, least
    for variant = 0, 3 do
      local approved = {}
      for i = 1, P do approved[i] = -1.0 end
      local stages, largest = plan(p, variant & 2 == 0, variant & 1 == 0, approved)
      if not least or largest < least then best, least = stages, largest end
    end
    for d = 1, P do
      local down, up = d, 2 * P + 1 - d
      for _, op in ipairs(best[d].order) do
        local kind, mb = op[1], op[2]
        if kind == "F1" then s:forward(d, down, mb)
        elseif kind == "F2" then s:forward(d, up, mb)
        elseif kind == "B1" then s:backward_input(d, up, mb)
        elseif kind == "B2" then s:backward_input(d, down, mb)
        else s:backward_weight(d, kind == "W1" and up or down, mb)
        end
      end
    end
  end,
}
