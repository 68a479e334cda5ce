-- The effect of memory: days of training over the capacity and the bandwidth of a GPU's memory, on 896 machines by
-- default, each with every number of GPUs. The CSV has all of them; the figure shows one number of GPUs.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "training time over the capacity and the bandwidth of GPU memory",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", gpus = "4..16384", batch = 4096, strategy = "all",
  schedule = "1f1b", recompute = "none",
  tokens = false, rules = "default", software = "none", cache = false,
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
  { long = "capacities", value = "N", kind = "integer", min = 2, default = 32,
    help = "number of capacities, 80 GB to 1 TB" },
  { long = "bandwidths", value = "N", kind = "integer", min = 2, default = 28,
    help = "number of bandwidths, 0.5 to 16 TB/s" },
  { long = "figure-gpus", value = "N", kind = "integer",
    help = "GPUs in the figure (default 8192, or the last of --gpus)" },
}
local swept = {}
for _, gpus in ipairs(o.gpus) do swept[gpus] = true end
local figure_gpus = o.figure_gpus or swept[8192] and 8192 or o.gpus[#o.gpus]
if not swept[figure_gpus] then error(("--figure-gpus %d is not among --gpus"):format(figure_gpus), 0) end
local base = tperf.system(o.system):with { network = { fast = { domain = o.domain } } }

local rows = tperf.sweep(o:question {
  top = 1, system = base,
  ["system.accelerator.hbm.capacity"] = tperf.linspace(80e9, 1000e9, o.capacities),
  ["system.accelerator.hbm.bandwidth"] = tperf.linspace(500e9, 16000e9, o.bandwidths),
  gpus = tperf.vary(o.gpus),
})
local shown = {}
for _, row in ipairs(rows) do
  row.days = tperf.cost(row, { model = o.model, tokens = o.tokens }).days
  shown[#shown + 1] = row.gpus == figure_gpus and row or nil
end
report.save("sweep_memory.csv", rows, report.configurations(rows, { "capacity", "bandwidth", "gpus", "days" }))

local days = 0
for _, row in ipairs(shown) do days = days + (row.days or 0) end
if days == 0 then
  print(("Nothing fits on %d GPUs of any of these machines."):format(figure_gpus))
  return
end
local best, at = math.huge, nil
for _, row in ipairs(shown) do
  if row.days and row.days < best then best, at = row.days, row end
end
print(("%s on %d GPUs, software %s: %.4g days at best, from %s of memory at %s."):format(o.model, figure_gpus,
  at.software, best, tperf.units.format(at.capacity, "bytes"), tperf.units.format(at.bandwidth, "bytes/s")))
tperf.plot.contour({
  rows = shown, x = { key = "capacity", title = "memory", unit = "bytes" },
  y = { key = "bandwidth", title = "bandwidth", unit = "bytes/s" }, z = { key = "days", title = "training (days)" },
  logz = true, missing = "does not fit",
  marks = { { x = base.accelerator.hbm.capacity, y = base.accelerator.hbm.bandwidth, label = report.short(o.system) } },
  title = ("Days to train %s on %d GPUs"):format(report.short(o.model), figure_gpus),
  subtitle = ("%s with other memory; fast domain of %d GPUs, global batch %d; software %s"):format(
    report.short(o.system), o.domain, o.batch, at.software),
}):save "sweep_memory.svg"
