-- Measured and modelled time of a collective against the message size, from a table of measurements
-- (docs/accuracy.md lists its columns).
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "measured and modelled time of a collective against its message",
  systems = "a100-sxm-80gb,h200-sxm", gpus = "8,16", rules = "default",
  { long = "file", value = "FILE", default = "spec/data/measured/collectives.csv", help = "measurements" },
  { long = "least", value = "N", kind = "integer", min = 1, default = 8, help = "fewest measurements per curve" },
  { long = "kind", value = "NAME", default = "all_reduce", help = "the collective" },
}

local place, wanted = {}, {}
for i, name in ipairs(o.systems) do place[name] = i end
for _, gpus in ipairs(o.gpus) do wanted[gpus] = true end

local rows = {}
for _, case in ipairs(tperf.validate { file = o.file, rules = o.rules }.cases) do
  if case.kind == o.kind and place[case.system] and wanted[case.gpus] then
    rows[#rows + 1] = {
      system = case.system, gpus = case.gpus, nodes = case.nodes, bytes = case.bytes, measured = case.measured,
      modelled = case.predicted, error = case.predicted / case.measured - 1, source = case.row.source,
      network = case.inter,
    }
  end
end
if #rows == 0 then error(("%s has no %s of these systems and numbers of GPUs"):format(o.file, o.kind), 0) end
table.sort(rows, function(x, y)
  if x.system ~= y.system then return place[x.system] < place[y.system] end
  if x.gpus ~= y.gpus then return x.gpus < y.gpus end
  if x.network ~= y.network then return x.network < y.network end
  if x.bytes ~= y.bytes then return x.bytes < y.bytes end
  return x.measured < y.measured
end)

local summary, curves, named = {}, {}, {}
for _, group in ipairs(report.groups(rows, "system", "gpus", "network")) do
  local name, errors = ("%d x %s"):format(group.gpus, group.system), {}
  name = named[name] and ("%s, %s"):format(name, group.network) or name
  named[name] = true
  for _, row in ipairs(group.rows) do errors[#errors + 1] = math.abs(row.error) end
  table.sort(errors)
  summary[#summary + 1] = { group = name, rows = #errors, median = errors[(#errors + 1) // 2],
    worst = errors[#errors] }
  for _, what in ipairs { "measured", "modelled" } do
    for _, same in ipairs(#errors >= o.least and report.groups(group.rows, "bytes") or {}) do
      local sum = 0 -- of what several sources measured: the mean
      for _, row in ipairs(same.rows) do sum = sum + row[what] end
      curves[#curves + 1] = { bytes = same.bytes, time = sum / #same.rows, curve = ("%s, %s"):format(name, what) }
    end
  end
end
report.print(summary, {
  { key = "group", title = "GPUs" }, "rows", { key = "median", title = "median error", unit = "%", digits = 3 },
  { key = "worst", title = "worst", unit = "%", digits = 3 },
}, { title = ("%s: modelled against measured"):format(o.kind) })
report.save("collectives.csv", rows, {
  "system", "network", "gpus", "nodes", "bytes", "measured", "modelled", "error", "source",
})
if #curves == 0 then return end
tperf.plot.lines({
  rows = curves, x = { key = "bytes", title = "vector", unit = "bytes" },
  y = { key = "time", title = "time", unit = "s" }, series = "curve", logx = 10, logy = 10,
  title = ("%s, measured and modelled"):format((o.kind:gsub("_", "-"))),
  subtitle = "time of the collective against the bytes of the whole vector",
}):save "collectives.svg"
