-- The cost of a training run: days, GPU-hours, dollars and energy for several machines and numbers of GPUs, and the
-- Pareto front, on which no other choice is both faster and cheaper.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "time, money and energy of a training run",
  model = "gpt3-175b", systems = "a100-sxm-80gb,h100-sxm,h200-sxm,b200-sxm", gpus = "128..8192", batch = 1536,
  strategy = "tensor", schedule = false, recompute = false, tokens = 300e9, rules = "default", software = false,
  { long = "prices", value = "N,...", kind = "list", default = "1.5,2.5,3.5,5",
    help = "dollars per GPU-hour, one for each system (yours to set: they change by the month)" },
}
if #o.prices ~= #o.systems then
  error(("as many prices as systems are needed, in the same order: --prices has %d, --systems %d"):format(#o.prices,
    #o.systems), 0)
end

local price = {}
for i, text in ipairs(o.prices) do
  price[o.systems[i]] = tonumber(text) or error(("'%s' is no price"):format(text), 0)
end

local rows = tperf.sweep(o:question { top = 1, system = tperf.vary(o.systems), gpus = tperf.vary(o.gpus) })
local fitting, machines = {}, {}
for _, name in ipairs(o.systems) do machines[name] = tperf.system(name) end
for _, row in ipairs(rows) do
  local machine, dollars = machines[row.system], price[row.system]
  for name, value in pairs(tperf.cost(row, { tokens = o.tokens, system = machine, price = dollars })) do
    row[name] = value
  end
  fitting[#fitting + 1] = row.days and row or nil
end

report.print(rows, report.present(rows, {
  { key = "system" }, { key = "gpus", title = "GPUs" },
  { key = report.layout, title = "layout" },
  { key = "mfu", title = "MFU", unit = "%", digits = 3 }, { key = "days", title = "days" },
  { key = "gpu_hours", title = "GPU-hours", digits = 3 }, { key = "dollars", title = "cost", unit = "$" },
  { key = function(row) return row.energy and row.energy / 3.6e9 end, title = "MWh", digits = 3 },
}), { title = ("Training %s on %g billion tokens, %s; energy at the boards' power limits"):format(o.model,
    o.tokens / 1e9, report.software(rows)) })
report.save("cost.csv", rows, report.configurations(rows, {
  "system", "gpus", "days", "gpu_hours", "dollars", "energy",
}))
if #fitting > 0 then
  tperf.plot.scatter({
    rows = fitting, x = { key = "days", title = "training (days)" },
    y = { key = "dollars", title = "cost", unit = "$" }, series = "system", label = "gpus",
    pareto = { x = "min", y = "min" }, logx = true,
    title = ("Training %s: days and dollars"):format(report.short(o.model)),
    subtitle = ("labels: GPUs, of those that no other beats in both; at $%s per GPU-hour; %s"):format(
      table.concat(o.prices, ", $"), report.software(rows)),
  }):save "cost.svg"
end
