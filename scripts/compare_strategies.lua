-- Compares two strategies: the ratio of their training times wherever both fit.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "how much faster one strategy is than another, on every machine",
  model = "subramanian2024/gpt3_1T",
  systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200",
  domains = "4,8,64", gpus = "4..16384", batch = 4096, strategy = "tensor,summa", schedule = "1f1b",
  recompute = "none", rules = "default", software = "none",
}
local before, after = o.strategy[1], o.strategy[2]
if #o.strategy ~= 2 or before == after then error("two strategies are needed: --strategy tensor,summa", 0) end

local rows = tperf.sweep(o:question {
  top = 1, system = tperf.vary(o.systems), ["system.network.fast.domain"] = tperf.vary(o.domains),
  gpus = tperf.vary(o.gpus), strategy = tperf.vary(o.strategy),
})

local lines = {}
for _, group in ipairs(report.groups(rows, "system", "domain", "gpus")) do
  local first, second = group.rows[1], group.rows[2]
  lines[#lines + 1] = {
    machine = ("%s, %d"):format(report.short(group.system), group.domain), system = group.system,
    domain = group.domain, gpus = group.gpus, [before] = first.time, [after] = second.time,
    ratio = first.time and second.time and first.time / second.time,
  }
end

local wide, columns = report.pivot(lines, "gpus", "machine", "ratio", { format = "%.3f" })
report.print(wide, columns, {
  title = ("%s: time of %s / time of %s, %s"):format(o.model, before, after, report.software(rows)),
})
report.save("compare_strategies.csv", lines, { "system", "domain", "gpus", before, after, "ratio" })

local both = {}
for _, line in ipairs(lines) do both[#both + 1] = line.ratio and line or nil end
if #both > 0 then
  tperf.plot.lines({
    rows = both, x = { key = "gpus", title = "GPUs" }, series = "machine", logx = true,
    y = { key = "ratio", title = ("time of %s / time of %s"):format(before, after) },
    guides = { { y = 1, label = "equal" } },
    title = ("%s against %s, %s"):format(after, before, report.short(o.model)),
    subtitle = ("machines, with the size of their fast domain; above 1, %s is faster; %s"):format(after,
      report.software(rows)),
  }):save "compare_strategies.svg"
end
