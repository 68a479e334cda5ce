-- Schedules against the published programs: samples of their output in spec/data/schedules.
local tperf = require "tperf"
local csv = require "csv"
local sha256 = require "tperf.core".file.sha256
local yaml = require "tperf.core".yaml

local NAME = { interleave = "interleaved_1f1b", ["1f1b_interleave_overlap"] = "interleaved_1f1b_overlap" }
local PASS = { backward_D = "backward_input", backward_W = "backward_weight",
  overlapped_forward_backward = "overlapped" }

local function numbers(text)
  local list = {}
  for v in text:gmatch "[^;]+" do list[#list + 1] = tonumber(v) end
  return #list > 1 and list or list[1]
end

-- The program's times: numbers, or maps by 0-based stage.
local function times(json)
  if json == "" then return nil end
  local out = {}
  for name, value in pairs(assert(yaml(json, "times"))) do
    local converted = value
    if type(value) == "table" then
      converted = {}
      for stage, time in pairs(value) do converted[math.tointeger(stage) + 1] = time end
    end
    out[PASS[name] or name] = converted
  end
  return out
end

local function close(expected, got, what)
  expected = tonumber(expected)
  if math.abs(got - expected) > 1e-12 * math.max(1, math.abs(expected)) then
    error(("%s: expected %.17g, got %.17g"):format(what, expected, got), 0)
  end
end

describe("rules pp-visualization", function()
  local timelines, rows = {}, csv.rows "spec/data/schedules/simulated.csv"

  local function simulate(row)
    return tperf.schedule {
      schedule = NAME[row.strategy] or row.strategy, rules = "pp-visualization",
      devices = tonumber(row.num_devices), stages = tonumber(row.num_stages), microbatches = tonumber(row.num_batches),
      group_size = tonumber(row.group_size), p2p = tonumber(row.p2p_latency), times = times(row.op_times_json),
    }
  end

  it("gives the program's makespan, bubble and busy times", function()
    local compared = 0
    for _, row in ipairs(rows) do
      if row.status == "ok" then
        local t = simulate(row)
        timelines[row.run_id] = t
        close(row.makespan, t.makespan, row.run_id .. " makespan")
        close(row.bubble_rate_overall, t.bubble_rate, row.run_id .. " bubble")
        local d = 0
        for busy in row.device_busy_time:gmatch "[^;]+" do
          d = d + 1
          close(busy, t.busy_time[d], row.run_id .. " busy")
        end
        assert.equal(t.devices, d)
        compared = compared + 1
      end
    end
    assert.is_true(compared > 200)
  end)

  it("gives the program's start and stop of every pass", function()
    for _, row in ipairs(csv.rows "spec/data/schedules/ops.csv") do
      local op = timelines[row.run_id]:op {
        device = row.device + 1, stage = row.stage + 1, microbatch = row.microbatch + 1,
        type = PASS[row.type] or row.type,
      }
      assert.is_table(op)
      close(row.start, op.start, row.run_id)
      close(row["end"], op.stop, row.run_id)
    end
  end)

  it("refuses with a reason where the program refuses or hangs", function()
    for _, row in ipairs(rows) do
      if row.status ~= "ok" then
        local ok, message = pcall(simulate, row)
        assert.is_false(ok)
        assert.truthy(message:find("tperf.schedule: ", 1, true))
        assert.equal(row.status == "deadlock", message:find("deadlock: device", 1, true) ~= nil)
      end
    end
  end)
end)

describe("rules zero-bubble", function()
  local LETTER = { forward = "F", backward_input = "B", backward_weight = "W" }

  local function order(t)
    local devices = {}
    for d = 1, t.devices do
      local ops = {}
      for i, op in t:queue(d) do
        ops[i] = ("%s%d.%d"):format(LETTER[op.type], op.microbatch - 1, op.stage > t.devices and 1 or 0)
      end
      devices[d] = table.concat(ops, " ")
    end
    return table.concat(devices, "|")
  end

  for _, row in ipairs(csv.rows "spec/data/schedules/zero_bubble.csv") do
    it(("orders %s %s as the program does, or refuses it"):format(row.scheduler, row.row_id), function()
      local ok, t = pcall(tperf.schedule, {
        schedule = row.scheduler, rules = "zero-bubble",
        devices = tonumber(row.stages), microbatches = tonumber(row.micro), p2p = tonumber(row.cost_comm),
        times = { forward = numbers(row.cost_f), backward_input = numbers(row.cost_b),
          backward_weight = numbers(row.cost_w) },
        memory = { forward = numbers(row.mem_f), backward_input = numbers(row.mem_b),
          backward_weight = numbers(row.mem_w) },
        memory_limit = numbers(row.mem_limit),
      })
      assert.equal(row.status == "ok", ok)
      if not ok then
        assert.truthy(t:find("'memory_limit' of", 1, true))
        return
      end
      assert.equal(row.order_sha256_12, sha256(order(t)):sub(1, 12))
      close(row.makespan_abs, t.makespan, "makespan")
      close(row.longest_stage_time, t.longest_stage_time, "longest stage")
      close(row.bubble_rate, t.bubble_rate, "bubble")
      local d = 0
      for peak in row.peak_mem_per_stage:gmatch "[^;]+" do
        d = d + 1
        close(peak, t.peak_memory[d], "peak memory")
      end
    end)
  end
end)
