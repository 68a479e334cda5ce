-- Training speed against the global batch: with few samples per GPU, pipelines idle and gradient exchange dominates.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "training speed against the global batch",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", gpus = "1024,4096,16384", strategy = "tensor",
  schedule = false, recompute = false,
  rules = "default", software = "none",
  { long = "batches", value = "N,...", kind = "integers", default = "256..16384",
    help = "global batches, in sequences" },
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
}

local rows = tperf.sweep(o:question {
  top = 1, system = tperf.system(o.system):with { network = { fast = { domain = o.domain } } },
  gpus = tperf.vary(o.gpus), global_batch = tperf.vary(o.batches),
})
for _, row in ipairs(rows) do row.machine = ("%d GPUs"):format(row.gpus) end

report.print(rows, report.present(rows, {
  { key = "gpus", title = "GPUs" }, { key = "global_batch", title = "batch" },
  { key = report.layout, title = "layout" },
  { key = "micro_batch", title = "micro-batch" }, { key = "memory.total", title = "memory", unit = "bytes" },
  { key = "time", title = "iteration", unit = "s" }, { key = "tokens_per_second", unit = "tokens/s", title = "speed" },
  { key = "mfu", title = "MFU", unit = "%", digits = 3 },
  { key = function(row) return row.time and row.breakdown.bubble / row.time end, title = "bubble", unit = "%",
    digits = 3 },
}), { title = ("Training %s on %s, %s"):format(o.model, o.system, report.software(rows)) })
report.save("batch_size.csv", rows, report.configurations(rows, { "gpus", "global_batch" }))
local fitting = {}
for _, row in ipairs(rows) do fitting[#fitting + 1] = row.time and row or nil end
if #fitting > 0 then
  tperf.plot.lines({
    rows = fitting, x = { key = "global_batch", title = "global batch (sequences)" }, series = "machine", logx = true,
    y = { key = "mfu", title = "model FLOPs utilisation", unit = "%" }, ymin = 0,
    title = ("Batch size, %s on %s"):format(report.short(o.model), report.short(o.system)),
    subtitle = ("best configuration at each point; fast domain of %d GPUs; %s"):format(o.domain, report.software(rows)),
  }):save "batch_size.svg"
end
