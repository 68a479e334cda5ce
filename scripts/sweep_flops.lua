-- From one generation of GPUs to the next and beyond: memory (capacity and bandwidth together) against compute (tensor
-- and vector peaks together), interpolated between existing machines; 220 machines by default.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "training time over memory and compute, from one generation of GPUs to the next",
  model = "subramanian2024/gpt3_1T",
  systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200,subramanian2024/B200-next",
  gpus = 8192, batch = 4096, strategy = "all", schedule = "1f1b",
  recompute = "none", tokens = false, rules = "default", software = "none", cache = false,
  { long = "network", value = "NAME", default = "subramanian2024/B200", help = "the system whose network all use" },
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
  { long = "memory-steps", value = "N", kind = "integer", default = 3, help = "memory steps between systems" },
  { long = "flops-steps", value = "N", kind = "integer", default = 7, help = "compute steps between systems" },
}
if #o.systems < 2 then error("at least two systems are needed", 0) end

local machines = {}
for i, name in ipairs(o.systems) do machines[i] = tperf.system(name) end

-- The values of a field along all the machines, with `steps` from each to the next.
local function through(steps, get)
  local values = {}
  for i = 1, #machines - 1 do
    local a, b = get(machines[i].accelerator), get(machines[i + 1].accelerator)
    for k = 0, steps - 1 do values[#values + 1] = a + (b - a) * k / steps end
  end
  values[#values + 1] = get(machines[#machines].accelerator)
  return values
end

local rows = tperf.sweep(o:question {
  top = 1, gpus = o.gpus, system = tperf.system(o.network):with { network = { fast = { domain = o.domain } } },
  tperf.zip {
    ["system.accelerator.hbm.capacity"] = through(o.memory_steps, function(a) return a.hbm.capacity end),
    ["system.accelerator.hbm.bandwidth"] = through(o.memory_steps, function(a) return a.hbm.bandwidth end),
  },
  tperf.zip {
    ["system.accelerator.tensor.fp16"] = through(o.flops_steps, function(a) return a.tensor.fp16 end),
    ["system.accelerator.vector.fp16"] = through(o.flops_steps, function(a) return a.vector.fp16 end),
    ["system.accelerator.vector.fp32"] = through(o.flops_steps, function(a) return a.vector.fp32 end),
  },
})
local found = false
for _, row in ipairs(rows) do
  row.days = tperf.cost(row, { model = o.model, tokens = o.tokens }).days
  found = found or row.days ~= nil
end
report.save("sweep_flops.csv", rows, report.configurations(rows, {
  "capacity", "bandwidth", "tensor.fp16", "vector.fp16", "vector.fp32", "gpus", "days",
}))
if not found then
  print(("Nothing fits on %d GPUs of any of these machines."):format(o.gpus))
  return
end

local marks, lines = {}, {}
for i, machine in ipairs(machines) do
  local a = machine.accelerator
  marks[i] = { x = a.hbm.capacity, y = a.tensor.fp16, label = report.short(machine.name) }
  for _, row in ipairs(rows) do
    if row.capacity == a.hbm.capacity and row["tensor.fp16"] == a.tensor.fp16 then
      lines[#lines + 1] = { machine = report.short(machine.name), memory = row.capacity, bandwidth = row.bandwidth,
        peak = row["tensor.fp16"], days = row.days }
    end
  end
end
report.print(lines, {
  { key = "machine", title = "memory and compute of" }, { key = "memory", unit = "bytes" },
  { key = "bandwidth", unit = "bytes/s" }, { key = "peak", unit = "FLOP/s" }, { key = "days" },
}, { title = ("Training %s on %d GPUs, %s"):format(o.model, o.gpus, report.software(rows)) })
tperf.plot.contour({
  rows = rows, x = { key = "capacity", title = "memory", unit = "bytes" },
  x2 = { key = "bandwidth", title = "bandwidth", unit = "bytes/s" },
  y = { key = "tensor.fp16", title = "tensor peak", unit = "FLOP/s" }, z = { key = "days", title = "training (days)" },
  logz = true, missing = "does not fit", marks = marks,
  title = ("Days to train %s on %d GPUs"):format(report.short(o.model), o.gpus),
  subtitle = ("network of %s, fast domain of %d GPUs, global batch %d; %s"):format(report.short(o.network), o.domain,
    o.batch, report.software(rows)),
}):save "sweep_flops.svg"
