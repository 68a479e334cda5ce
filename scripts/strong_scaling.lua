-- Strong scaling: training time against the number of GPUs at a fixed global batch, for every machine and strategy.
-- Writes every best configuration as CSV and, for each model and strategy, two figures: days of training with lines of
-- perfect scaling, and throughput per GPU relative to the first machine.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "training time against GPUs, for every machine and strategy",
  models = "subramanian2024/gpt3_1T,subramanian2024/vit_era5",
  systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200",
  domains = "4,8,64", gpus = "4..16384", batch = 4096, strategy = "tensor,summa,context", schedule = "1f1b",
  recompute = "none", tokens = false, top = 1,
  rules = "default", software = "none", cache = false,
  { long = "no-figures", help = "write only tables and CSV" },
}

local rows = tperf.sweep(o:question {
  model = tperf.vary(o.models), strategy = tperf.vary(o.strategy), system = tperf.vary(o.systems),
  ["system.network.fast.domain"] = tperf.vary(o.domains), gpus = tperf.vary(o.gpus),
})
for _, row in ipairs(rows) do
  row.machine = ("%s, %d"):format(report.short(row.system), row.domain)
  row.days = tperf.cost(row, { model = row.model, tokens = o.tokens }).days
end

local ranked = {}
for _, row in ipairs(rows) do
  for rank, c in ipairs(row.result) do
    local line = { model = row.model, system = row.system, domain = row.domain, rank = rank,
      days = tperf.cost(c, { model = row.model, tokens = o.tokens }).days }
    for name, value in pairs(c) do line[name] = line[name] or value end
    ranked[#ranked + 1] = line
  end
end
report.save("strong_scaling.csv", ranked, report.configurations(ranked, {
  "model", "strategy", "system", "domain", "gpus", "rank", "days",
}))

local function first(list)
  for _, row in ipairs(list) do
    if row.days then return row end
  end
end

local function figures(group, base)
  local name = ("strong_scaling-%s-%s"):format(report.short(group.model), group.strategy)
  local fitting = {}
  for _, row in ipairs(group.rows) do fitting[#fitting + 1] = row.days and row end
  local common = { rows = fitting, x = { key = "gpus", title = "GPUs" }, series = "machine", logx = true }
  local function plot(changes)
    for key, value in pairs(common) do changes[key] = value end
    return tperf.plot.lines(changes)
  end
  local guides = {}
  for i, factor in ipairs { 1, 4, 12 } do
    guides[i] = { f = function(gpus) return base.days * base.gpus / gpus / factor end,
      label = factor == 1 and "perfect scaling" or ("%d x as fast"):format(factor) }
  end
  plot({ y = { key = "days", title = "training time (days)" }, logy = true, guides = guides,
    title = ("Training %s, strategy %s"):format(report.short(group.model), group.strategy),
    subtitle = ("machines, with the size of their fast domain; dashed: perfect scaling of %s from %d GPUs; software %s")
      :format(base.machine, base.gpus, base.software),
  }):save(name .. "-days.svg")
  local unit = base.tokens_per_second_per_gpu
  plot({ y = { key = function(row) return row.tokens_per_second_per_gpu / unit end, title = "throughput per GPU" },
    ymin = 0,
    title = ("Throughput per GPU, %s, strategy %s"):format(report.short(group.model), group.strategy),
    subtitle = ("relative to %s with %d GPUs; global batch %d; software %s"):format(base.machine, base.gpus, o.batch,
      base.software),
  }):save(name .. "-throughput.svg")
end

for _, group in ipairs(report.groups(rows, "model", "strategy")) do
  local title = ("%s, strategy %s: days of training, %s"):format(group.model, group.strategy,
    report.software(group.rows))
  local base = first(group.rows)
  if base then
    local lines, columns = report.pivot(group.rows, "gpus", "machine", "days", { digits = 4 })
    report.print(lines, columns, { title = title })
    if not o.no_figures then figures(group, base) end
  else
    print(title .. "\n\nfits on none of the machines")
  end
  print()
end
