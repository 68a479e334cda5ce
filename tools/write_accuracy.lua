-- Writes docs/accuracy.md: predictions against published measurements, by source. Run by `make accuracy-docs
-- MEASURED=FOLDER` and `make accuracy-serving SERVING=FOLDER`, where FOLDER has the tables; tperf run --trust
-- tools/write_accuracy.lua FILE.csv …
local lists = require "tperf.base.lists"
local output = require "tperf.output.file"
local tperf = require "tperf"
local software = require "tperf.base.catalogue".list "software"

local function percent(value) return ("%.1f"):format(100 * value) end

local function statistics_table(out, sources, title)
  out[#out + 1] = ("| %s | rows | median %% | mean %% | p90 %% | max %% | bias %% |"):format(title or "source")
  out[#out + 1] = "|---|---:|---:|---:|---:|---:|---:|"
  for _, s in ipairs(sources) do
    out[#out + 1] = ("| %s | %d | %s | %s | %s | %s | %s |"):format(s.source, s.rows, percent(s.median),
      percent(s.mean), percent(s.p90), percent(s.max), percent(s.bias))
  end
  out[#out + 1] = ""
end

local function left_out(out, result)
  if #result.left_out == 0 then return end
  out[#out + 1] = "Left out:\n"
  for _, left in ipairs(result.left_out) do out[#out + 1] = ("* %d: %s"):format(left.rows, left.reason) end
  out[#out + 1] = ""
end

local TITLES = {
  gemm = "Matrix products", attention = "Attention kernels", moe = "Blocks of experts", mla = "Latent attention",
  memory = "Kernels that only read and write",
  collective = "Collectives", direct = "All-reduces of serving engines", step = "Training steps",
}

local function section(out, path)
  local result = tperf.validate { file = path }
  local own = path:find "_torch%.csv$" and ", timed for tperf" or ""
  out[#out + 1] = ("## %s%s"):format(TITLES[result.kind], own)
  out[#out + 1] = ""
  out[#out + 1] = ("%d of %d rows predicted."):format(result.predicted, result.rows)
  out[#out + 1] = ""
  statistics_table(out, result.sources)
  if result.memory then
    out[#out + 1] = "Peak memory of a GPU, as the source measured it (allocated, reserved or as nvidia-smi shows it):\n"
    statistics_table(out, result.memory)
    out[#out + 1] = "The same by what the source's figure counts:\n"
    statistics_table(out, result.memory_kinds, "figure")
  end
  left_out(out, result)
end

-- The ways to hold out groups of training runs, whose tables come first.
local WAYS = {
  { "stack", "An unknown stack, by the profile that the other stacks of its kind share, each with the same weight,\n"
    .. "and the stack's own facts: how attention runs, and the dtype of its gradients" },
  { "system", "An unknown GPU system, by the stack's profile fitted to its runs on other systems" },
  { "scale", "The larger half of a stack's numbers of GPUs, by a fit to the smaller half" },
  { "model", "An unknown family of models, by a fit to the stack's other families" },
  { "third", "Each third of a stack's runs, drawn at random, by a fit to the other two" },
}

-- Of the runs held out last: those of fine-tuning, by source and stack.
local function fine_tuning(out, cases)
  local fit = require "tperf.measured.calibrate.fit"
  local tuned = lists.where(cases, function(case) return case.held_out and case.workload ~= "pretrain" end)
  local groups, names = fit.groups(tuned, function(case) return ("%s | %s"):format(case.source, case.stack) end)
  table.sort(names)
  out[#out + 1] = "Of these, fine-tuning: adapters, or packed documents.\n"
  out[#out + 1] = "| source | stack | runs | median % | p90 % | bias % |"
  out[#out + 1] = "|---|---|---:|---:|---:|---:|"
  for _, name in ipairs(names) do
    local ratios = {}
    for i, case in ipairs(groups[name]) do ratios[i] = case.held_out / case.measured end
    local e = fit.errors(ratios)
    out[#out + 1] = ("| %s | %d | %s | %s | %s |"):format(name, e.rows, percent(e.median), percent(e.p90),
      percent(e.bias))
  end
  out[#out + 1] = ""
end

local SUMS <const> = "vtrain-2024" -- profile of rows that are sums of traces, not runs

-- Of the rows held out last: the runs among them.
local function runs_alone(out, cases)
  local ratios = {}
  for _, case in ipairs(cases) do
    if case.held_out and case.stack ~= SUMS then ratios[#ratios + 1] = case.held_out / case.measured end
  end
  local e = require "tperf.measured.calibrate.fit".errors(ratios)
  out[#out + 1] = ("%d of them are runs, not sums (`%s`): median %s %%, p90 %s %%.\n"):format(e.rows, SUMS,
    percent(e.median), percent(e.p90))
end

local function held_out(out, path)
  out[#out + 1] = "## Training runs held out\n"
  out[#out + 1] = "Each group is predicted by a fit to the rest. The last column is the fraction of the group's runs"
  out[#out + 1] = "inside the interval that this fit claims for nine tenths"
    .. " (`tperf validate FILE.csv --hold-out GROUP`).\n"
  local measured = require "tperf.measured"
  local rows, reader = measured.open(path)
  local cases = measured.predict(rows, reader, { hold_out = true }) -- once for all ways
  for _, way in ipairs(WAYS) do
    local groups, o = require "tperf.measured.calibrate.holdout".run(cases, way[1])
    out[#out + 1] = ("### %s\n\n%s.\n"):format(way[1]:gsub("^%l", string.upper), way[2])
    out[#out + 1] = "| stack | held out | runs | median % | p90 % | bias % | in interval % |"
    out[#out + 1] = "|---|---|---:|---:|---:|---:|---:|"
    for _, g in ipairs(groups) do
      out[#out + 1] = ("| %s | %s | %d | %s | %s | %s | %.0f |"):format(g.stack, g.group, g.runs, percent(g.median),
        percent(g.p90), percent(g.bias), 100 * g.within)
    end
    out[#out + 1] = ("\n%d groups: median %s %%, worst %s %% (%s). All %d rows: median %s %%, p90 %s %%; %.0f %% lie "
      .. "in the interval.\n"):format(o.groups, percent(o.median), percent(o.worst), o.worst_group, o.runs,
      percent(o.runs_median), percent(o.runs_p90), 100 * o.within)
  end
  runs_alone(out, cases) -- of the last way, thirds
  fine_tuning(out, cases)
end

local function reader_of(path)
  local _, reader = require "tperf.measured".open(path)
  return reader
end

-- --- serving ---

local SERVING = {
  ["open loop"] = "Open loops: each stage of a run", requests = "Runs timed request by request",
  ["closed loop"] = "Closed loops", ["static batch"] = "Static batches, quality A",
}

-- A line per group, a column per metric: median and 90th percentile of the error, and the number of figures if it
-- differs from the first metric's.
local function metrics_table(out, first, rows)
  local metrics, groups, cells = {}, {}, {}
  for _, s in ipairs(rows) do
    if metrics[#metrics] ~= s.metric then metrics[#metrics + 1] = s.metric end
    if not cells[s.group] then groups[#groups + 1], cells[s.group] = s.group, { rows = s.rows } end
    cells[s.group][s.metric] = ("%s, %s"):format(percent(s.median), percent(s.p90))
      .. (s.rows ~= cells[s.group].rows and (" (%d)"):format(s.rows) or "")
  end
  table.sort(groups)
  out[#out + 1] = ("| %s | figures | %s |"):format(first, table.concat(metrics, " | "))
  out[#out + 1] = "|---|---:|" .. ("---:|"):rep(#metrics)
  for _, group in ipairs(groups) do
    local line = {}
    for i, metric in ipairs(metrics) do line[i] = cells[group][metric] or "" end
    out[#out + 1] = ("| %s | %d | %s |"):format(group, cells[group].rows, table.concat(line, " | "))
  end
  out[#out + 1] = ""
end

local function others_table(out, others)
  if not (others and others[1]) then return end
  out[#out + 1] = "Other simulators, and tperf on the same rows:\n"
  out[#out + 1] = "| simulator | metric | figures | median % | p90 % | bias % | tperf median % | tperf p90 % |"
  out[#out + 1] = "|---|---|---:|---:|---:|---:|---:|---:|"
  for _, s in ipairs(others) do
    out[#out + 1] = ("| %s | %s | %d | %s | %s | %s | %s | %s |"):format(s.simulator, s.metric, s.rows,
      percent(s.median), percent(s.p90), percent(s.bias), percent(s.ours.median), percent(s.ours.p90))
  end
  out[#out + 1] = ""
end

-- The errors of a table by metric, then by engine, model, GPU and source if there are several.
local function serving_section(out, path, title)
  local result = tperf.validate { file = path }
  out[#out + 1] = ("### %s\n\n%d figures of %d rows.\n"):format(title, #result.cases, result.rows)
  if result.metrics[1] then metrics_table(out, "", result.metrics) end
  others_table(out, result.others)
  for _, field in ipairs { "engine", "model", "gpu" } do
    if #result[field] > #result.metrics then metrics_table(out, field, result[field]) end
  end
  if #result.sources > #result.metrics then statistics_table(out, result.sources) end
  left_out(out, result)
end

-- The page's part about serving, from its tables.
local function serving(paths)
  local file = assert(io.open("docs/accuracy_serving.in.md", "rb"))
  local out = { file:read "a" }
  file:close()
  for _, path in ipairs(paths) do
    local title = SERVING[reader_of(path).name]
    serving_section(out, path, #paths > 4 and title .. ": " .. path:match "([^/]*)%.csv$" or title)
  end
  return table.concat(out, "\n")
end

local NUMBERS = { "compute", "attention", "memory", "comm", "host", "overlap" }

local function profiles(out)
  out[#out + 1] = "## Software profiles\n"
  out[#out + 1] = "Held back: the error on each third of the runs of a fit to the other two; of `typical` and `tuned`,"
  out[#out + 1] = "on each stack of a fit to the others. It is what a new run of that stack may expect. Nine tenths of"
  out[#out + 1] = "those runs took between so many and so many times as long as predicted.\n"
  out[#out + 1] = ("| stack | runs | %s | held back: median %% | nine tenths |"):format(table.concat(NUMBERS, " | "))
  out[#out + 1] = "|---|" .. ("---:|"):rep(#NUMBERS + 3)
  for _, name in ipairs(software) do
    local p, cells = tperf.software(name), {}
    for i, number in ipairs(NUMBERS) do
      cells[i] = number == "host" and ("%.1f us"):format(p.host * 1e6) or ("%.2f"):format(p[number])
    end
    if p.error then -- engines, and stacks whose numbers are another's, were not fitted to runs
      out[#out + 1] = ("| %s | %d | %s | %s | %.2f to %.2f |"):format(name, p.runs, table.concat(cells, " | "),
        percent(p.error), table.unpack(p.spread))
    end
  end
  out[#out + 1] = ""
end

-- The introduction, the tables of held-out runs, then everything that explains the rest.
local function operators_and_training(paths)
  local file = assert(io.open("docs/accuracy.in.md", "rb"))
  local opening, rest = file:read "a":match "^(.-\n)(## .*)$"
  file:close()
  local out = { opening }
  for _, path in ipairs(paths) do
    if reader_of(path).name == "step" then held_out(out, path) end
  end
  out[#out + 1] = rest
  for _, path in ipairs(paths) do section(out, path) end
  profiles(out)
  return table.concat(out, "\n")
end

-- Splits the existing page before its part about serving, as only the part whose tables are given is rewritten.
local function parts_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  local at = text:find("\n# Serving\n", 1, true)
  return at and text:sub(1, at) or text, at and text:sub(at + 1) or ""
end

local PAGE <const> = "docs/accuracy.md"
local of_serving, of_others = {}, {}
for _, path in ipairs(arg) do
  local list = reader_of(path).cases and of_serving or of_others
  list[#list + 1] = path
end
local first, second = parts_of(PAGE)
if of_others[1] then first = operators_and_training(of_others) end
if of_serving[1] then second = serving(of_serving) end
output.write(PAGE, first .. second)
