-- Schedules of unequal micro-batches, on devices of unequal speed, over unequal links, against a simulator of its own.
local tperf = require "tperf"

local function refuses(text, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok, "not refused: " .. text)
  assert.truthy(message:find(text, 1, true), message)
end

-- Starts and stops by relaxing every dependency until nothing changes: of the queue, and of the neighbouring stage.
-- cost(op, device), link(from, to).
local function relax(t, cost, link)
  local ops, index = {}, {}
  for d = 1, t.devices do
    local before
    for _, op in t:queue(d) do
      local one = { device = d, type = op.type, stage = op.stage, microbatch = op.microbatch, start = 0,
        before = before, expected = op.start }
      ops[#ops + 1], before = one, one
      index[("%s %d %d"):format(op.type == "backward_input" and "backward" or op.type, op.stage, op.microbatch)] = one
    end
  end
  local changed = true
  while changed do
    changed = false
    for _, one in ipairs(ops) do
      local start = 0
      local function after(other, gap)
        if other then start = math.max(start, other.start + cost(other, other.device) + gap) end
      end
      after(one.before, 0)
      local from = one.type == "forward" and index[("forward %d %d"):format(one.stage - 1, one.microbatch)]
        or one.type ~= "backward_weight" and one.type ~= "forward"
        and index[("backward %d %d"):format(one.stage + 1, one.microbatch)] or nil
      if from then after(from, from.device == one.device and 0 or link(from.device, one.device)) end
      if start > one.start then one.start, changed = start, true end
    end
  end
  return ops
end

describe("tperf.schedule of unequal parts", function()
  it("is what an independent simulator says", function()
    local state = 12345
    local function random()
      state = (state * 1103515245 + 12345) % 2147483648
      return state / 2147483648
    end
    for _, name in ipairs { "1f1b", "gpipe", "zb1p", "interleaved_1f1b" } do
      for devices = 2, 4 do
        local M, scale, speed, links = 2 * devices, {}, {}, {}
        for _, pass in ipairs { "forward", "backward", "backward_input", "backward_weight" } do
          scale[pass] = {}
          for m = 1, M do scale[pass][m] = 0.5 + random() end
        end
        for d = 1, devices do
          speed[d], links[d] = 0.5 + random(), {}
          for other = 1, devices do links[d][other] = random() end
        end
        local times = { forward = 1, backward_input = 0.9, backward_weight = 0.6 }
        local t = tperf.schedule { schedule = name, devices = devices, microbatches = M, times = times, p2p = links,
          speed = speed, microbatch_scale = scale }
        local whole = { forward = 1, backward = 1.5, backward_input = 0.9, backward_weight = 0.6 }
        local last = 0
        local function cost(op, device) return whole[op.type] * scale[op.type][op.microbatch] / speed[device] end
        for _, op in ipairs(relax(t, cost, function(a, b) return links[a][b] end)) do
          assert.near(op.start, op.expected, 1e-9, name)
          last = math.max(last, op.start + cost(op, op.device))
        end
        assert.near(last, t.makespan, 1e-9, name)
      end
    end
  end)

  it("has the closed form of 1F1B where one device is slow", function()
    -- A device of half the speed among equal ones is busy from its first forward on: P = 2, M micro-batches, F + B = 3.
    local t = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 8, times = { forward = 1, backward = 2 },
      speed = { 1, 0.5 } }
    assert.near(1 + 8 * 6 + 2, t.makespan, 1e-12) -- the first forward on 1, all on 2, the last backward on 1
    local plain = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 8,
      times = { forward = { 1, 2 }, backward = { 2, 4 } } }
    assert.equal(plain.makespan, t.makespan)
  end)

  it("slices a sequence, whose later slices take longer and hold as much", function()
    -- one device: the sum of all; memory: forwards of gpipe hold all slices at once
    local t = tperf.schedule { schedule = "gpipe", devices = 1, microbatches = 4, times = { forward = 1, backward = 2 },
      microbatch_scale = { forward = { 1, 2, 3, 4 }, backward = { 1, 2, 3, 4 }, memory = { 1, 1, 2, 2 } } }
    assert.near(10 + 20, t.makespan, 1e-12)
    assert.near(6, t.peak_memory[1], 1e-12)
    local most = 0
    for _, point in ipairs(t:memory(1)) do most = math.max(most, point.memory) end
    assert.near(6, most, 1e-12)
  end)

  it("charges links of their own", function()
    local function span(p2p)
      return tperf.schedule { schedule = "gpipe", devices = 3, microbatches = 1, times = { forward = 1, backward = 2 },
        p2p = p2p }.makespan
    end
    assert.near(9 + 2 * (0.5 + 3), span { 0.5, 3 }, 1e-12) -- 1 to 2 and 2 to 3, there and back
    assert.near(9 + 0.5 + 3 + 1 + 7, span { { [2] = 0.5 }, { [1] = 7, [3] = 3 }, { [2] = 1 } }, 1e-12)
    assert.near(span(0.25), span { 0.25, 0.25 }, 1e-12)
    refuses("'p2p' has no time from device 2 to device 3", span, { 0.5 })
    refuses("'p2p[4]': there are only 3 devices", span, { 1, 1, 1, 1 })
    refuses("'p2p[1]' must be a number of at least 0, got -1", span, { -1, 1 })
    refuses("'p2p' must be", span, "fast")
  end)

  it("refuses factors that are none", function()
    local function asked(changes)
      local a = { schedule = "1f1b", devices = 2, microbatches = 4 }
      for name, value in pairs(changes) do a[name] = value end
      return a
    end
    refuses("'speed' has 1 numbers, and there are 2 devices", tperf.schedule, asked { speed = { 1 } })
    refuses("'speed[2]' must be a number above 0, got 0", tperf.schedule, asked { speed = { 1, 0 } })
    refuses("'microbatch_scale' has 3 numbers, and there are 4 micro-batches", tperf.schedule,
      asked { microbatch_scale = { 1, 1, 1 } })
    refuses("unknown field 'microbatch_scale.forwards' (did you mean 'forward'?)", tperf.schedule,
      asked { microbatch_scale = { forwards = { 1, 1, 1, 1 } } })
    refuses("'speed' must be a table, got 2", tperf.schedule, asked { speed = 2 })
  end)
end)
