-- The best configuration for each number of GPUs: its layout, its memory, and the breakdown of its time.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "the best configuration of a model on a machine, for each number of GPUs",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", gpus = "128..16384", batch = 4096,
  strategy = "tensor", schedule = false, recompute = false, rules = "default",
  software = "none",
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
}

local rows = tperf.sweep(o:question {
  top = 1, system = tperf.system(o.system):with { network = { fast = { domain = o.domain } } },
  gpus = tperf.vary(o.gpus),
})
local fitting = {}
for _, row in ipairs(rows) do fitting[#fitting + 1] = row.feasible and row or nil end

report.print(rows, report.present(rows, {
  { key = "gpus", title = "GPUs" }, { key = "strategy" },
  { key = report.layout, title = "layout" },
  { key = report.placement, title = "within a domain" }, { key = "micro_batch", title = "micro-batch" },
  { key = "panels" },
  { key = "memory.total", title = "memory", unit = "bytes" }, { key = "time", title = "iteration", unit = "s" },
  { key = "mfu", title = "MFU", unit = "%", digits = 3 },
}), { title = ("Training %s on %s, %s"):format(o.model, o.system, report.software(rows)) })
report.save("best_configuration.csv", rows, report.configurations(rows, { "gpus" }))
if #fitting > 0 then
  tperf.plot.configurations({
    rows = fitting, x = { key = "gpus", title = "GPUs" },
    title = ("Best configurations of %s on %s"):format(report.short(o.model), report.short(o.system)),
    subtitle = ("fast domain of %d GPUs, global batch %d; %s"):format(o.domain, o.batch, report.software(rows)),
  }):save "best_configuration.svg"
end
