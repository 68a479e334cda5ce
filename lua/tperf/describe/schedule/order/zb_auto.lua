--- The memory-limited zero-bubble scheduler of Qi et al. 2024 (arXiv 2401.10241): a greedy order, one forward and one
-- backward per stage and round, weight gradients put where they fit into the bubbles or free memory; the best of
-- eight variants. ZB-H1 and ZB-H2 are its memory limits of P and 2P micro-batches.
local check = require "tperf.base.check"

-- Planning state of one stage: counts of passes, clock, memory, bubble so far, ends of passes, order.
local function new_stage()
  return { F = 0, B = 0, W = 0, clock = 0.0, memory = 0.0, bubble = 0.0, end_F = {}, end_B = {}, order = {} }
end

-- p: stages (P), microbatches (M), cost and memory { F=, B=, W= } lists by stage, p2p, limit by stage.
-- variant: { allow_bubble, prioritize_b, greedy }. Returns the stages and the longest stage time.
local function plan(p, variant)
  local P, M, cost, memory, p2p, limit = p.stages, p.microbatches, p.cost, p.memory, p.p2p, p.limit
  local stages, largest_bubble = {}, 0.0
  for j = 1, P do stages[j] = new_stage() end

  local function put(j, pass)
    local s, c = stages[j], cost[pass][j]
    local fin = s.clock + c
    local from = pass == "F" and stages[j - 1] or pass == "B" and stages[j + 1]
    if from then fin = math.max(fin, from["end_" .. pass][s[pass] + 1] + p2p + c) end
    if s.F > 0 then s.bubble = s.bubble + (fin - (s.clock + c)) end
    largest_bubble = math.max(largest_bubble, s.bubble) -- bubbles only grow
    s.clock, s.memory = fin, s.memory + memory[pass][j]
    s[pass] = s[pass] + 1
    if pass ~= "W" then s["end_" .. pass][s[pass]] = fin end
    s.order[#s.order + 1] = pass
  end

  local function fit(j, change)
    local s = stages[j]
    while s.memory + change > limit[j] do
      if s.W >= s.B then
        check.fail("tperf.schedule: 'memory_limit' of %.15g on device %d is too little for the schedule: it holds "
          .. "%.15g and needs %.15g more", limit[j], j, s.memory, change)
      end
      put(j, "W")
    end
  end

  -- Weight gradients into the time until `arrival`.
  local function fill(j, arrival)
    local s = stages[j]
    while s.W < s.B and s.clock + cost.W[j] <= arrival do put(j, "W") end
    if s.W < s.B and s.clock < arrival then
      if arrival - s.clock > largest_bubble - s.bubble or variant.greedy then put(j, "W") end
    end
  end

  -- How many forwards beyond the first each stage runs before its first backward.
  local function warm_up()
    for j = 1, P do put(j, "F") end
    local extra, arrival = {}, nil
    for j = P, 1, -1 do
      local s = stages[j]
      extra[j] = 0
      local clock, held = s.clock, s.memory
      while j < P and s.F + extra[j] < M and held + memory.F[j] <= limit[j] do
        local late
        if variant.allow_bubble then late = clock + cost.F[j] > arrival + p2p else late = clock >= arrival + p2p end
        if late then break end
        clock, held, extra[j] = clock + cost.F[j], held + memory.F[j], extra[j] + 1
      end
      arrival = (j == P and clock or math.max(clock, arrival + p2p)) + cost.B[j]
    end
    for j = 2, P do
      while extra[j] > 0 and extra[j] >= extra[j - 1] and stages[j].F + extra[j] < M do extra[j] = extra[j] - 1 end
    end
    for j = 1, P do
      for _ = 1, extra[j] do put(j, "F") end
    end
    for j = P, 1, -1 do put(j, "B") end
  end

  -- Should stage j run a forward in this round?
  local function needs_forward(j)
    local s, after = stages[j], stages[j + 1]
    if s.F == M then return false end
    if not (after and variant.prioritize_b and s.F >= after.F + 2) then return true end
    local next_b = after.clock + cost.F[j + 1] + cost.B[j + 1] + p2p
    if s.clock >= next_b then return false end
    local weights, held, pending = 0.0, s.memory + memory.F[j], s.B - s.W
    while held > limit[j] and pending > 0 do
      weights, held, pending = weights + cost.W[j], held + memory.W[j], pending - 1
    end
    if s.clock + cost.F[j] + weights <= next_b then return true end
    return next_b - s.clock > largest_bubble - s.bubble
  end

  warm_up()
  for i = 2, M do
    local needs = {}
    for j = 1, P do needs[j] = needs_forward(j) end
    for j = P - 1, 1, -1 do needs[j] = needs[j] and needs[j + 1] end
    for j = 1, P do
      if needs[j] then
        fit(j, memory.F[j])
        if j > 1 then fill(j, stages[j - 1].end_F[stages[j].F + 1] + p2p) end
        put(j, "F")
      end
    end
    for j = P, 1, -1 do
      local s = stages[j]
      fit(j, memory.B[j])
      if j < P then fill(j, stages[j + 1].end_B[i] + p2p) end
      if j == 1 and s.F == M then
        while s.W < s.B do put(j, "W") end
      end
      put(j, "B")
    end
  end
  local longest = 0.0
  for j = 1, P do
    while stages[j].W < M do put(j, "W") end
    longest = math.max(longest, stages[j].clock - stages[j].end_F[1] + cost.F[j])
  end
  return stages, longest
end

local zb_auto = {}

--- The schedule with a limit of limit(s, device) when the caller gives none.
function zb_auto.definition(summary, limit)
  return {
    summary = summary,
    stages_per_device = 1,
    placement = "block",
    order = function(s)
      local p = {
        stages = s.stages, microbatches = s.microbatches, p2p = s.p2p, limit = s.memory_limit or {},
        cost = { F = s.times.forward, B = s.times.backward_input, W = s.times.backward_weight },
        memory = { F = s.memory.forward, B = s.memory.backward_input, W = s.memory.backward_weight },
      }
      for d = 1, s.devices do p.limit[d] = p.limit[d] or limit(s, d) end
      local best, least
      for variant = 0, 7 do
        local stages, longest = plan(p, {
          allow_bubble = variant & 4 == 0, prioritize_b = variant & 2 == 0, greedy = variant & 1 == 0,
        })
        if not least or longest < least then best, least = stages, longest end
      end
      local put = { F = s.forward, B = s.backward_input, W = s.backward_weight }
      for d = 1, s.devices do
        local count = { F = 0, B = 0, W = 0 }
        for _, pass in ipairs(best[d].order) do
          count[pass] = count[pass] + 1
          put[pass](s, d, d, count[pass])
        end
      end
    end,
  }
end

zb_auto.unlimited = zb_auto.definition("zero bubble within a memory limit",
  function(s, d) return 3 * s.microbatches * s.memory.forward[d] end)
zb_auto.h1 = zb_auto.definition("zb_auto at 1f1b's memory",
  function(s, d) return s.devices * s.memory.forward[d] end)
zb_auto.h2 = zb_auto.definition("zb_auto at twice 1f1b's memory",
  function(s, d) return 2 * s.devices * s.memory.forward[d] end)

return zb_auto
