-- How far predictions are from what others measured, beside the record of it in spec/data/accuracy.csv.
--   make accuracy           compares, and fails where a figure moved
--   make accuracy-record    writes the record anew, for the commit that moves one
-- Three kinds of tables: what practitioners published (spec/data/wild; each row has the command that a user types),
-- tables of vendors and operators (spec/data/measured), and checkpoints' config.json (spec/data/wild/models.csv).
local csv = require "tperf.input.csv"
local json = require "tperf.input.json"
local report = require "tperf".report
local validate = require "tperf.measured.validate"

local RECORD <const> = "spec/data/accuracy.csv"
local WILD <const> = "spec/data/wild/"
local HERE <const> = os.getenv "PWD"
-- By how much a figure may move before the record must: points of per cent; the number of rows answered must not fall.
local SLACK <const> = { median = 1, p90 = 3, covered = 3 }

local function at(record, path)
  for name in path:gmatch "[%w_]+" do
    if type(record) ~= "table" then return nil end
    record = record[name]
  end
  return record
end

-- What an answer claims for nine tenths of runs: of a named figure, or of time and mean TPOT where today's records
-- have it.
local function interval(answer, figure)
  local found = at(answer, "intervals." .. figure)
  if not found and (figure == "time" or figure == "tpot") then found = answer.interval end
  if not found then return nil end
  return found.low or found.from, found.high or found.to
end

local function plain(path, scale, figure)
  return function(answer)
    local value, low, high = at(answer, path), interval(answer, figure or path:match "^[%w_]+")
    return value and value * scale, low and low * scale, high and high * scale
  end
end

-- A rate: its interval is that of the time, turned over.
local function rate(of)
  return function(answer)
    local value, low, high = of(answer), interval(answer, "time")
    if not value or not low then return value end
    return value, value * answer.time / high, value * answer.time / low
  end
end

local GIB <const> = 1 << 30
local KINDS <const> = { -- quantity of a table -> its kind, and how it is read from an answer: value, low, high
  ["step time s"] = { "time", plain("time", 1) },
  ["tokens/s/GPU"] = { "time", rate(function(a) return a.tokens_per_second_per_gpu end) },
  ["samples/s"] = { "time", rate(function(a) return a.sequences_per_second end) },
  ["TFLOP/s/GPU"] = { "time", rate(function(a) return a.flops_per_gpu and 1e-12 * a.flops_per_gpu / a.time end) },
  ["MFU %"] = { "time", rate(function(a) return a.mfu and 100 * a.mfu end) },
  ["peak GiB"] = { "memory", plain("memory.total", 1 / GIB) },
  ["peak GB"] = { "memory", plain("memory.total", 1e-9) },
  ["TPOT mean ms"] = { "tpot", plain("tpot.mean", 1e3) },
  ["TTFT mean ms"] = { "ttft", plain("ttft.mean", 1e3) },
  ["TTFT median ms"] = { "ttft", plain("ttft.p50", 1e3, "none") },
  ["output tok/s"] = { "throughput", plain("tokens_per_second", 1) },
  ["decode tok/s"] = { "throughput", plain("decode_tokens_per_second", 1, "none") },
  ["duration s"] = { "duration", plain("duration", 1) },
  ["E2E latency ms"] = { "duration", plain("e2e.mean", 1e3, "none") },
  ["weights GiB/GPU"] = { "weights", plain("weights", 1 / GIB) },
  ["KV cache GiB/GPU"] = { "cache", plain("cache", 1 / GIB) },
  ["KV cache tokens"] = { "cache", plain("tokens", 1, "none") },
  ["log: GPU KV cache size"] = { "cache", plain("tokens", 1, "none") },
  ["KV cache blocks"] = { "cache", plain("num_blocks", 1, "none") },
}

local program -- the one that runs this, however deep below an interpreter's own arguments
do
  local i = 0
  while arg[i - 1] do i = i - 1 end
  program = arg[i]:find "^/" and arg[i] or HERE .. "/" .. arg[i]
end

local AT_ONCE <const> = 4 -- commands; a machine with fewer processors takes turns

-- Answers of commands as they would be typed in `folder`.
local function ask(folder, commands)
  local answers, at_once = {}, AT_ONCE
  for first = 1, #commands, at_once do
    local running = {}
    for i = first, math.min(first + at_once - 1, #commands) do
      local words = commands[i]:gsub("^tperf ", "")
      if not words:find "%-%-json" then words = words .. " --json" end
      running[i] = io.popen(("cd %s && %s %s 2>/dev/null"):format(folder, program, words))
    end
    for i, pipe in pairs(running) do
      local good, answer = pcall(json.decode, pipe:read "a", "the answer")
      pipe:close()
      answers[commands[i]] = good and type(answer) == "table" and answer or nil
    end
  end
  return answers
end

local function quantile(sorted, part) return sorted[math.min(#sorted, 1 + math.floor(part * #sorted))] end

local function median(sorted)
  local lower, upper = sorted[(#sorted + 1) // 2], sorted[#sorted // 2 + 1]
  return upper and (lower + upper) / 2
end

-- A line of the record. errors: predicted / measured - 1.
local function line(table_name, group, asked, errors, inside, claimed)
  local sizes = {}
  for i, e in ipairs(errors) do sizes[i] = math.abs(e) end
  table.sort(sizes)
  table.sort(errors)
  local function percent(x) return x and ("%.1f"):format(100 * x) or "" end
  return { table = table_name, group = group, rows = asked, answered = #errors,
    median = percent(median(sizes)),
    p90 = percent(quantile(sizes, 0.9)), bias = percent(errors[(#errors + 1) // 2]),
    covered = claimed > 0 and percent(inside / claimed) or "" }
end

-- Rows that the table itself doubts count nowhere.
local function counts(row)
  if row.remark:find "DOUBTFUL" or row.remark:find "left out" then return false end
  return KINDS[row.quantity] and row.measured ~= ""
end

local function wild(name, add)
  local rows, commands, seen = {}, {}, {}
  for _, row in ipairs(csv.read(WILD .. name .. ".csv")) do
    if counts(row) then
      rows[#rows + 1] = row
      if not seen[row.command] then seen[row.command], commands[#commands + 1] = true, row.command end
    end
  end
  local answers, groups = ask(WILD, commands), {}
  for _, row in ipairs(rows) do
    local kind, read = table.unpack(KINDS[row.quantity])
    groups[kind] = groups[kind] or { asked = 0, errors = {}, inside = 0, claimed = 0 }
    local g, measured = groups[kind], tonumber(row.measured)
    g.asked = g.asked + 1
    local value, low, high
    local answer = answers[row.command]
    if answer then value, low, high = read(answer[1] or answer) end
    if value then g.errors[#g.errors + 1] = value / measured - 1 end
    if low and high then
      g.claimed = g.claimed + 1
      if low <= measured and measured <= high then g.inside = g.inside + 1 end
    end
  end
  for kind, g in pairs(groups) do add(line(name, kind, g.asked, g.errors, g.inside, g.claimed)) end
end

-- A table that `tperf validate` reads; its peak memory, too, and a serving table by metric.
local function published(path, add)
  local result = validate.run { file = path }
  local name, groups = path:match "([^/]+)%.csv$", {}
  for _, case in ipairs(result.cases) do
    local group = case.metric or case.kind or result.kind
    groups[group] = groups[group] or {}
    table.insert(groups[group], case.predicted / case.measured - 1)
    if case.memory and case.predicted_memory then
      groups.memory = groups.memory or {}
      table.insert(groups.memory, case.predicted_memory / (case.memory * GIB) - 1)
    end
  end
  for group, errors in pairs(groups) do add(line(name, group, result.rows, errors, 0, 0)) end
end

-- Counts of checkpoints: an exact one has an error of 0; a refused one is not answered.
local function checkpoints(add)
  local rows, commands = {}, {}
  for _, row in ipairs(csv.read(WILD .. "models.csv")) do
    if row.file ~= "" and row.parameters ~= "" then
      rows[#rows + 1], commands[#commands + 1] = row, "tperf params models/" .. row.file
    end
  end
  local answers = ask(WILD, commands)
  local found = { parameters = { asked = 0, errors = {} }, bytes = { asked = 0, errors = {} } }
  local function compare(group, value, right)
    found[group].asked = found[group].asked + 1
    if value then table.insert(found[group].errors, value / right - 1) end
  end
  for i, row in ipairs(rows) do
    local by = {}
    for _, component in ipairs(answers[commands[i]] or {}) do by[component.component] = component end
    local whole = by.text or by.total or {}
    compare("parameters", whole.parameters, tonumber(row.parameters))
    if row.weights_bytes ~= "" then compare("bytes", whole.bytes, tonumber(row.weights_bytes)) end
  end
  for group, f in pairs(found) do add(line("models", group, f.asked, f.errors, 0, 0)) end
end

local MEASURED <const> = { "steps", "gemm", "gemm_torch", "attention", "attention_torch", "portable_attention",
  "decode", "mla", "moe", "memory", "direct", "collectives", "serving/closed_loop", "serving/measured",
  "serving/published_tables", "serving/rtxpro6000.requests" }

local function measure()
  local lines = {}
  local function add(l) lines[#lines + 1] = l end
  wild("training", add)
  wild("serving", add)
  checkpoints(add)
  for _, name in ipairs(MEASURED) do published("spec/data/measured/" .. name .. ".csv", add) end
  table.sort(lines, function(a, b)
    if a.table ~= b.table then return a.table < b.table end
    return a.group < b.group
  end)
  return lines
end

local COLUMNS <const> = { "table", "group", "rows", "answered", "median", "p90", "bias", "covered" }

-- What moved from a line of the record, in words; nil if nothing did.
local function moved(old, new)
  if not new then return "is no longer measured" end
  local said = {}
  if new.answered < tonumber(old.answered) then
    said[1] = ("answered %s -> %d of %d"):format(old.answered, new.answered, new.rows)
  end
  for _, name in ipairs { "median", "p90", "covered" } do
    local was, is = tonumber(old[name]), tonumber(new[name])
    if was and is and math.abs(is - was) > SLACK[name] then
      said[#said + 1] = ("%s %.1f -> %.1f %%"):format(name, was, is)
    elseif (was == nil) ~= (is == nil) then
      said[#said + 1] = ("%s %s -> %s"):format(name, was or "none", is or "none")
    end
  end
  return said[1] and table.concat(said, ", ")
end

local lines = measure()
report.print(lines, COLUMNS)
if arg[1] == "record" then
  report.save(RECORD, lines, COLUMNS)
  return
end
local by, failed = {}, 0
for _, l in ipairs(lines) do by[l.table .. " " .. l.group] = l end
for _, old in ipairs(csv.read(RECORD)) do
  local key = old.table .. " " .. old.group
  local what = moved(old, by[key])
  by[key] = nil
  if what then
    failed = failed + 1
    print(("%s: %s"):format(key, what))
  end
end
for key in pairs(by) do
  failed = failed + 1
  print(key .. ": is not in the record")
end
if failed > 0 then
  print(RECORD .. " has other figures; where the change is meant, `make accuracy-record` and say why in the commit")
  os.exit(1)
end
