-- A custom pipeline schedule, compared with the built-in ones.
--   tperf run scripts/custom_schedule.lua [PAGE.html]
--
-- "Eager 1F1B": 1F1B runs as few forward passes ahead as keep the last stage busy. If sending takes time, that is too
-- few: every group of micro-batches waits for a round trip. This schedule runs twice as many ahead and costs memory.
local tperf = require "tperf"

if arg[1] and not arg[1]:find "^%-" then table.insert(arg, 1, "--page") end -- PAGE.html alone
local o = tperf.args {
  summary = "a custom pipeline schedule beside the built-in ones",
  { long = "page", value = "PAGE.html", help = "write one page that compares all" },
}

tperf.schedule.define("eager_1f1b", function(s)
  for device = 1, s.devices do
    local stage = device -- one stage per device
    local ahead = math.min(2 * (s.devices - device), s.microbatches)
    for microbatch = 1, ahead do s:forward(device, stage, microbatch) end
    for microbatch = 1, s.microbatches do
      if ahead + microbatch <= s.microbatches then s:forward(device, stage, ahead + microbatch) end
      s:backward(device, stage, microbatch)
    end
  end
end)

local timelines = {}
for i, name in ipairs { "gpipe", "1f1b", "eager_1f1b", "zb_h1", "zb_h2" } do
  timelines[i] = tperf.schedule {
    schedule = name, devices = 8, microbatches = 32,
    times = { forward = 1.0, backward_input = 1.0, backward_weight = 1.0 }, -- any unit, the same for all
    p2p = 0.1, -- from one stage to the next
  }
end

print(("%-12s %10s %8s %12s"):format("schedule", "makespan", "bubble", "peak memory"))
for _, t in ipairs(timelines) do
  print(("%-12s %10.1f %6.1f %% %12g"):format(t.schedule, t.makespan, 100 * t.bubble_rate,
    math.max(table.unpack(t.peak_memory))))
end

-- A mistake in a schedule raises an error that names the wrong pass, or the devices that wait for each other.
tperf.schedule.define("too_late", function(s)
  for microbatch = 1, s.microbatches do
    s:forward(1, 1, microbatch)
    s:backward(1, 1, microbatch)
  end
  for microbatch = s.microbatches, 1, -1 do -- last micro-batch first: device 1 never gets that far
    s:forward(2, 2, microbatch)
    s:backward(2, 2, microbatch)
  end
end)
local ok, message = pcall(tperf.schedule, { schedule = "too_late", devices = 2, microbatches = 2 })
print(not ok and "\n" .. message)

if o.page then
  timelines[1]:save(o.page, { with = { table.unpack(timelines, 2) }, title = "Eager 1F1B" })
end
