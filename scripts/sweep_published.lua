-- The published machines: the best ways to train a model on 4 to 16384 GPUs, with fast domains of different sizes
-- (arXiv 2410.00273, whose model and machines these are), and what a larger domain buys.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "the best ways to train a model on the published machines, by the size of their fast domains",
  model = "subramanian2024/gpt3_1T", systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200",
  domains = "4,8,64", gpus = "4..16384", batch = 4096, software = "none", strategy = "tensor", schedule = false,
  recompute = false, tokens = false, top = 1, rules = "default",
}

local rows = tperf.sweep(o:question {
  system = tperf.vary(o.systems), ["system.network.fast.domain"] = tperf.vary(o.domains), gpus = tperf.vary(o.gpus),
})

-- One line for each of the best configurations, or for a machine without one.
local lines = {}
for _, row in ipairs(rows) do
  for rank = 1, math.max(1, #row.result) do
    local c = row.result[rank] or { reason = row.reason }
    local line = { system = row.system, domain = row.domain, gpus = row.gpus, rank = rank }
    for name, value in pairs(c) do line[name] = line[name] or value end
    line.training_time = tperf.cost(c, { model = o.model, tokens = o.tokens }).seconds
    line.days = line.training_time and line.training_time / (24 * 3600)
    lines[#lines + 1] = line
  end
end

for _, group in ipairs(report.groups(lines, "system")) do
  report.print(group.rows, { "domain", { key = "gpus", title = "GPUs" }, { key = report.layout, title = "layout" },
    { key = "memory.total", title = "memory", unit = "bytes" }, { key = "mfu", title = "MFU", unit = "%", digits = 3 },
    { key = "days", format = "%.1f" } }, { title = group.system })
  print()
end
report.save("sweep_published.csv", lines, report.configurations(lines, {
  "system", "domain", "gpus", "rank", "training_time",
}))

-- In words, the mean over the numbers of GPUs that both the smallest and the largest domain can train on.
for _, system in ipairs(report.groups(rows, "system")) do
  local sum, count = 0, 0
  for _, size in ipairs(report.groups(system.rows, "gpus")) do
    local small, large = size.rows[1].time, size.rows[#size.rows].time
    if small and large then sum, count = sum + math.log(small / large), count + 1 end
  end
  local gain = count > 0 and ("domains of %d instead of %d GPUs make training %.2f times as fast."):format(
    o.domains[#o.domains], o.domains[1], math.exp(sum / count))
  print(("On %s, %s"):format(system.system, gain or "no number of GPUs can train the model in both."))
end
