-- The ruggedness of the design space: at a fixed number of GPUs, some axes are held and the others swept. Each
-- configuration gets its fastest placement; those that do not fit are shown with the memory they would need, and
-- impossible ones with the reason.
local tperf = require "tperf"
local report = tperf.report

local strategies = { "tensor", "summa", "context" }
local o = tperf.args {
  summary = "all ways to split a model along some axes, the others held",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", gpus = 16384, batch = 4096, strategy = "tensor",
  rules = "default", software = "none",
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
  { long = "micro-batch", value = "N", kind = "integer", min = 1, default = 1, help = "samples per micro-batch" },
  { long = "tp", value = "N,...", kind = "integers", default = "8", help = "tensor parallelism: tensor, context" },
  { long = "tp1", value = "N,...", kind = "integers", default = "8", help = "rows of the grid: summa" },
  { long = "tp2", value = "N,...", kind = "integers", default = "4", help = "columns of the grid: summa" },
  { long = "cp", value = "N,...", kind = "integers", default = "4", help = "context parallelism: context" },
  { long = "pp", value = "N,...", kind = "integers", default = "1..128", help = "pipeline stages" },
  { long = "dp", value = "N,...", kind = "integers", help = "replicas (default: any)" },
}
if #o.strategy ~= 1 then error("one strategy is needed: " .. table.concat(strategies, ", "), 0) end

local network = tperf.model(o.model)
local axes = tperf.strategy.of(o.strategy[1]).axis_names

-- Every combination of the sizes.
local points = { {} }
local function cross(name, sizes)
  local longer = {}
  for _, point in ipairs(points) do
    for _, size in ipairs(sizes) do
      local copy = { [name] = size }
      for key, value in pairs(point) do copy[key] = value end
      longer[#longer + 1] = copy
    end
  end
  points = longer
end
for _, name in ipairs(axes) do
  if o[name] then cross(name, o[name]) end
end
cross("pp", o.pp)

if o.dp then -- only configurations with this many replicas
  cross("dp", o.dp)
  local whole = {}
  for _, point in ipairs(points) do
    local product = 1
    for _, size in pairs(point) do product = product * size end
    if product == o.gpus then whole[#whole + 1] = point end
  end
  if #whole == 0 then error(("no such configuration has %d GPUs"):format(o.gpus), 0) end
  points = whole
end

local rows = tperf.sweep {
  run = tperf.train, model = network, global_batch = o.batch, strategy = o.strategy[1], rules = o.rules,
  software = o.software,
  micro_batch = o.micro_batch, gpus = o.gpus, points,
  system = tperf.system(o.system):with { network = { fast = { domain = o.domain } } },
}
for i, row in ipairs(rows) do
  row.label = i <= 26 and string.char(64 + i) or tostring(i)
  row.strategy = o.strategy[1]
end

report.print(rows, report.present(rows, {
  { key = "label", title = "" }, { key = report.layout, title = "layout" },
  { key = report.placement, title = "within a domain" }, { key = "panels" },
  { key = "microbatches", title = "micro-batches" },
  { key = "memory.total", title = "memory", unit = "bytes" }, { key = "feasible", title = "fits" },
  { key = "time", title = "iteration", unit = "s" }, { key = "mfu", title = "MFU", unit = "%", digits = 3 },
  { key = function(row) return not row.time and row.reason or nil end, title = "" },
}), { title = ("Training %s on %s, %s"):format(o.model, o.system, report.software(rows)) })
report.save("sweep_parallel.csv", rows, report.configurations(rows, { "label", "feasible" }))
tperf.plot.configurations({
  rows = rows, x = { key = function(row) return row.feasible and row.label or ("(%s)"):format(row.label) end,
    title = "configuration, in brackets if it does not fit" },
  title = ("%s on %d x %s, strategy %s"):format(report.short(o.model), o.gpus, report.short(o.system), o.strategy[1]),
  subtitle = ("fast domain of %d GPUs, global batch %d; %s"):format(o.domain, o.batch, report.software(rows)),
}):save "sweep_parallel.svg"
