-- What limits a training run: the machine with one property improved at a time, first with the same configuration,
-- then with the best configuration for the improved machine.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "which part of a machine, if it were better, would make training faster",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", gpus = 4096, batch = 4096, strategy = "tensor",
  schedule = false, recompute = false,
  rules = "default", software = "none",
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
  { long = "factor", value = "X", kind = "number", default = 2, help = "how much better" },
}
if not (o.factor > 1) then error("--factor must be above 1", 0) end

local base = tperf.system(o.system):with { network = { fast = { domain = o.domain } } }
local a, network = base.accelerator, base.network

local function faster(peaks)
  local changed = {}
  for dtype, peak in pairs(peaks) do changed[dtype] = type(peak) == "number" and peak * o.factor or nil end
  return changed
end
local better = {
  { "tensor FLOP/s", { accelerator = { tensor = faster(a.tensor) } } },
  { "vector FLOP/s", { accelerator = { vector = faster(a.vector) } } },
  { "launch latency", { accelerator = { launch = a.launch / o.factor } } },
  { "memory bandwidth", { accelerator = { hbm = { bandwidth = a.hbm.bandwidth * o.factor } } } },
  { "memory capacity", { accelerator = { hbm = { capacity = a.hbm.capacity * o.factor } } } },
  { "fast link bandwidth", { network = { fast = { bandwidth = network.fast.bandwidth * o.factor } } } },
  { "fast link latency", { network = { fast = { latency = network.fast.latency / o.factor } } } },
  { "fast domain size", { network = { fast = { domain = math.floor(o.domain * o.factor) } } } },
  { "slow link bandwidth", { network = { slow = { bandwidth = network.slow.bandwidth * o.factor } } } },
  { "slow link latency", { network = { slow = { latency = network.slow.latency / o.factor } } } },
}

local function search(machine)
  return tperf.search(o:question { system = machine, gpus = o.gpus, top = 1 })
end
local found = search(base)
local now = found[1] or error(found.reason, 0)

-- The same configuration on another machine: same sizes, placement and options.
local function same(machine)
  return tperf.train {
    model = o.model, system = machine, rules = o.rules, software = o.software, configuration = now,
  }
end

local rows = {}
for i, item in ipairs(better) do
  local machine = base:with(item[2])
  local best = search(machine)[1]
  rows[i] = { what = item[1], same = now.time / same(machine).time - 1, best = now.time / best.time - 1,
    time = best.time, layout = report.layout(best) }
end
table.sort(rows, function(x, y)
  if x.best ~= y.best then return x.best > y.best end
  return x.what < y.what
end)

print(("%s on %d GPUs of %s: %s, %s an iteration, software %s\n"):format(o.model, o.gpus, o.system, report.layout(now),
  tperf.units.format(now.time, "s"), now.software))
report.print(rows, {
  { key = "what", title = ("%g times better"):format(o.factor) },
  { key = "same", title = "faster as it is cut", unit = "%", digits = 3 },
  { key = "best", title = "faster when cut best", unit = "%", digits = 3 },
  { key = "layout", title = "best cut" },
})
report.save("bottlenecks.csv", rows, { "what", "same", "best", "time", "layout" })
tperf.plot.bars({
  rows = rows, x = { key = "what", title = ("%g times better"):format(o.factor) }, mode = "grouped",
  y = { { key = "same", title = "same configuration" }, { key = "best", title = "best configuration" } }, yunit = "%",
  ylabel = "faster training", width = 1100,
  title = ("What holds %s back on %d x %s"):format(report.short(o.model), o.gpus, report.short(o.system)),
  subtitle = ("%s; fast domain of %d GPUs, global batch %d; software %s"):format(report.layout(now), o.domain, o.batch,
    now.software),
}):save "bottlenecks.svg"
