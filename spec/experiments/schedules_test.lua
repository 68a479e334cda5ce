-- Experiments with pipeline schedules, written from docs/schedules.md and docs/scripting.md, against a simulator of our
-- own, brute force and closed forms.
local simulator = require "simulator"
local tperf = require "tperf"
local near = tperf.check.near

local EXACT <const> = 1e-12

local function fixed(value) return function() return value end end

-- 1. GPipe and 1F1B with stages that differ and links that take time.
for _, shape in ipairs { { 2, 3 }, { 4, 9 }, { 5, 5 }, { 8, 20 } } do
  local devices, microbatches = table.unpack(shape)
  local random = simulator.random(devices)
  local f, b, gpipe = {}, {}, {}
  for d = 1, devices do f[d], b[d] = 0.5 + random(), 1 + random() end
  for d = 1, devices do
    gpipe[d] = {}
    for m = 1, microbatches do gpipe[d][m] = { "F", d, m } end
    for m = 1, microbatches do gpipe[d][microbatches + m] = { "B", d, microbatches + 1 - m } end
  end
  local o = { stages = devices, send = fixed(0.3),
    time = function(_, kind, stage) return kind == "F" and f[stage] or b[stage] end }
  for name, queues in pairs { gpipe = gpipe, ["1f1b"] = simulator.one_f_one_b(devices, microbatches) } do
    local t = tperf.schedule { schedule = name, devices = devices, microbatches = microbatches, p2p = 0.3,
      times = { forward = f, backward = b } }
    local makespan, passes, busy = simulator.run(queues, o)
    near(t.makespan, makespan, EXACT)
    near(t.busy_time, busy, EXACT)
    local last = t:op { type = "backward", stage = 1, microbatch = microbatches }
    near(last.stop, passes["B1/" .. microbatches].stop, EXACT)
  end
end

-- 2. Schedules of one's own: a hundred orders drawn at random, with backwards in halves.
do
  local random, order = simulator.random(7), nil
  tperf.schedule.define("drawn", function(s)
    for device, queue in ipairs(order) do
      for _, pass in ipairs(queue) do
        local kind, stage, m = table.unpack(pass)
        if kind == "F" then s:forward(device, stage, m) end
        if kind == "D" then s:backward_input(device, stage, m) end
        if kind == "W" then s:backward_weight(device, stage, m) end
      end
    end
  end)
  for draw = 1, 100 do
    local devices, microbatches = 2 + draw % 4, 1 + draw % 5
    order = {}
    local done, left = {}, 3 * devices * microbatches
    for d = 1, devices do order[d] = {} end
    while left > 0 do -- passes in some order in which each may run once those before it have
      local d, m, kind = 1 + math.floor(random() * devices), 1 + math.floor(random() * microbatches),
      ({ "F", "D", "W" })[
        1 + math.floor(random() * 3)]
      local function has(k, stage) return done[k .. stage .. "/" .. m] end
      local may = kind == "F" and (d == 1 or has("F", d - 1)) or kind == "D" and has("F",
        d) and (d == devices or has("D", d + 1))
        or kind == "W" and has("D", d)
      if may and not has(kind, d) then
        done[kind .. d .. "/" .. m], left = true, left - 1
        table.insert(order[d], { kind, d, m })
      end
    end
    local time = { F = 1, D = 0.9 + random(), W = 0.3 + random() }
    local t = tperf.schedule { schedule = "drawn", devices = devices, microbatches = microbatches, p2p = 0.17,
      times = { forward = time.F, backward_input = time.D, backward_weight = time.W } }
    local makespan, _, busy = simulator.run(order, { stages = devices, send = fixed(0.17),
      time = function(_, kind) return time[kind] end })
    near(t.makespan, makespan, EXACT)
    near(t.busy_time, busy, EXACT)
  end
end

-- 3. Unequal micro-batches, a slow device, links of their own.
do
  local scale, speed, links = { 1, 2, 0.5, 1, 3, 1 }, { 1, 0.8, 1, 1.25 }, { 0.1, 0.5, 0.2 }
  local t = tperf.schedule { schedule = "1f1b", devices = 4, microbatches = 6, times = { forward = 1, backward = 2 },
    microbatch_scale = scale, speed = speed, p2p = links }
  near(t.makespan, (simulator.run(simulator.one_f_one_b(4, 6), { stages = 4,
    send = function(from, to) return links[math.min(from, to)] end,
    time = function(device, kind, _, m) return (kind == "F" and 1 or 2) * scale[m] / speed[device] end })), EXACT)
end

-- 4. Interleaved stages on a loop of devices, in Megatron's order, by the simulator.
for _, shape in ipairs { { 2, 2, 4 }, { 4, 2, 8 }, { 4, 3, 8 } } do
  local devices, chunks, microbatches = table.unpack(shape)
  local queues, total = {}, chunks * microbatches
  local function unit(i, forward) -- the stage and micro-batch of the i-th pass of device d (from 0)
    local group, within = i // (devices * chunks), i % (devices * chunks)
    local chunk = within // devices
    return forward and chunk or chunks - 1 - chunk, group * devices + within % devices + 1
  end
  for d = 1, devices do
    local queue, ahead = {}, math.min(2 * (devices - d) + (chunks - 1) * devices, total)
    local function add(kind, i)
      local chunk, m = unit(i, kind == "F")
      queue[#queue + 1] = { kind, chunk * devices + d, m }
    end
    for i = 0, ahead - 1 do add("F", i) end
    for i = 0, total - 1 do
      if ahead + i < total then add("F", ahead + i) end
      add("B", i)
    end
    queues[d] = queue
  end
  local t = tperf.schedule { schedule = "interleaved_1f1b", devices = devices, stages = chunks * devices,
    microbatches = microbatches, times = { forward = 1, backward = 2 } }
  near(t.makespan, (simulator.run(queues, { stages = chunks * devices, send = fixed(0),
    time = function(_, kind) return kind == "F" and 1 or 2 end })), EXACT)
  near(t.makespan, (microbatches * chunks + devices - 1) * 3, EXACT)
end

-- 5. The bubble by its definition, and the makespan of a schedule run several times.
for _, name in ipairs { "gpipe", "1f1b", "zb_h1", "zbv" } do
  local t = tperf.schedule { schedule = name, devices = 4, microbatches = 12 }
  local busy = 0
  for _, seconds in ipairs(t.busy_time) do busy = busy + seconds end
  near(t.bubble_rate, t.makespan / (busy / 4) - 1, 1e-9)
end
near(tperf.schedule { schedule = "1f1b*3", devices = 4, microbatches = 24 }.makespan,
  3 * tperf.schedule { schedule = "1f1b", devices = 4, microbatches = 8 }.makespan, EXACT)

-- 6. Memory, pass by pass: 3 units kept by a forward, 1 given back by the first half of its backward.
do
  local o = { schedule = "zb_h1", devices = 4, microbatches = 8,
    times = { forward = 1, backward_input = 1, backward_weight = 1 },
    memory = { forward = 3, backward_input = -1, backward_weight = -2 } }
  local t = tperf.schedule(o)
  for device = 1, 4 do
    local held, most = 0, 0
    for _, pass in t:queue(device) do
      held = held + o.memory[pass.type]
      most = math.max(most, held)
    end
    near(t.peak_memory[device], most, EXACT)
    near(held, 0)
  end
end

-- 7. No order of two devices and three micro-batches beats 1F1B when both halves take as long: by brute force.
do
  local function merges(f, b, limit)
    local all = {}
    local function grow(list, nf, nb)
      if nf == f and nb == b then all[#all + 1] = table.move(list, 1, #list, 1, {}) end
      if nf < f then
        list[#list + 1] = "F"
        grow(list, nf + 1, nb)
        list[#list] = nil
      end
      if nb < nf and nb < b and nf - nb <= limit then
        list[#list + 1] = "B"
        grow(list, nf, nb + 1)
        list[#list] = nil
      end
    end
    grow({}, 0, 0)
    return all
  end
  local best, chosen = math.huge, nil
  tperf.schedule.define("tried", function(s)
    for device, letters in ipairs(chosen) do
      local count = { F = 0, B = 0 }
      for _, letter in ipairs(letters) do
        count[letter] = count[letter] + 1
        s[letter == "F" and "forward" or "backward"](s, device, device, count[letter])
      end
    end
  end)
  for _, first in ipairs(merges(3, 3, 9)) do
    for _, second in ipairs(merges(3, 3, 9)) do
      chosen = { first, second }
      local ok, t = pcall(tperf.schedule,
        { schedule = "tried", devices = 2, microbatches = 3, times = { forward = 1, backward = 2 } })
      if ok then best = math.min(best, t.makespan) end
    end
  end
  near(best, (3 + 2 - 1) * 3, EXACT)
end

-- 8. Chimera's two directions: every device holds two stages of the model, one for each direction.
do
  tperf.schedule.define("two_ways", function(s)
    local half = s.microbatches // 2
    for device = 1, s.devices do
      local other = s.devices + 1 - device
      for m = 1, half do
        s:forward(device, device, m)
        s:forward(device, other, half + m)
      end
      for m = 1, half do
        s:backward(device, device, m)
        s:backward(device, other, half + m)
      end
    end
  end)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 16, tp = 2, pp = 4, dp = 2,
    software = "none" }
  local function weights(name)
    q.schedule = name
    return tperf.train(q).memory.weights
  end
  local m = tperf.model "llama-3.1-8b"
  local stage, table_bytes = 2 * m:parameters().groups[1].layer_total * 8 / 2, 2 * m:parameters().embedding / 2
  near(weights "1f1b", stage + table_bytes, 0.01)
  near(weights "two_ways", 2 * stage + 2 * table_bytes, 0.01) -- the table and the head
end

-- 9. Closed forms that are wrong do not pass.
tperf.check.raises("closed_form gives a makespan of 2.25", function()
  tperf.schedule.define("fast", {
    order = function(s)
      for d = 1, s.devices do
        for m = 1, s.microbatches do s:forward(d, d, m) end
        for m = 1, s.microbatches do s:backward(d, d, m) end
      end
    end,
    closed_form = function(s) return { F = s.microbatches, B = s.microbatches } end,
  })
end)

-- 10. A deadlock names its devices.
tperf.schedule.define("crossed", function(s)
  for device = 1, 2 do
    for m = device == 1 and 1 or s.microbatches, device == 1 and s.microbatches or 1, device == 1 and 1 or -1 do
      s:forward(device, device, m)
      s:backward(device, device, m)
    end
  end
end)
tperf.check.raises("device 1", tperf.schedule, { schedule = "crossed", devices = 2, microbatches = 2 })
