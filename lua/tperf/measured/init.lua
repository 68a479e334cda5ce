--- tperf.measured: tables of measurements as cases that can be predicted. A reader is a module with
--   name, columns       the columns identify the table
--   case(row)           { gpu =, measured = seconds, source =, label =, … }, or nil and why the row is left out
--   system(case, system, given) -> the changes that the row makes to the system of its GPU, as system:with takes them;
--     nil and a reason (optional); given: the user named the system, whose network between nodes is then that of all
--     rows
--   predict(case, machine, system, rules, options, held) -> seconds, or nil and a reason; held: a table in which
--     it may keep what later cases need
-- or, for serving, where one simulation answers several rows (tperf.measured.serving.cases):
--   cases(rows, path, options, tell) -> cases with metric, engine, model and gpu, and those left out
--   others(cases, path) -> other simulators' predictions for the same rows (optional)
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local csv = require "tperf.input.csv"
local collective = require "tperf.measured.kernel.collective"
local gpus = require "tperf.measured.gpus"
local nccl_tests = require "tperf.import.nccl_tests"
local rules = require("tperf.describe.rules.sets").of
local pool = require "tperf.question.ranks.pool"
local progress = require "tperf.base.progress"
local system = catalogue.shared(require "tperf.describe.system")
local text_file = require "tperf.input.text"

local measured = {}

measured.readers = {}
for i, name in ipairs { "kernel.gemm", "kernel.attention", "kernel.moe", "kernel.mla", "kernel.memory",
  "kernel.collective", "kernel.direct", "run.step", "serving.closed", "serving.open", "serving.requests",
  "serving.static", "serving.rates", "rl" } do
  measured.readers[i] = require("tperf.measured." .. name)
end

--- The reader for a table with these columns; nil if there is none.
function measured.reader(columns)
  local has = {}
  for _, column in ipairs(columns) do has[column] = true end
  for _, reader in ipairs(measured.readers) do
    local known = true
    for _, column in ipairs(reader.columns) do known = known and has[column] end
    if known then return reader end
  end
end

local absent = { __index = function() return "" end } -- columns that the table does not have
catalogue.metatables["tperf.measured row"] = absent -- so that other processes read them in the same way

-- The reader of a file with these columns. Raises at the user's line.
local function reader_of(columns, path)
  local reader = measured.reader(columns)
  if reader then return reader end
  local known = {}
  for i, one in ipairs(measured.readers) do
    known[i] = ("%s (%s)"):format(one.name, table.concat(one.columns, ", "))
  end
  check.fail("%s: its columns (%s) are those of no known table of measurements: %s", path,
    table.concat(columns, ", ", 1, math.min(#columns, 12)), table.concat(known, "; "))
end

-- Whether a file is a log of nccl-tests; programs that start them may print a little before.
local function is_log(path)
  return text_file.with_blocks(path, function(next_block) return nccl_tests.recognise(next_block() or "") end)
end

--- The rows of a file, their reader, and whether it is a log of nccl-tests. Raises at the user's line.
function measured.open(path)
  if is_log(path) then
    local rows = collective.rows_of_log(text_file.read(path), path)
    for _, row in ipairs(rows) do setmetatable(row, absent) end
    return rows, collective, true
  end
  local rows, columns = csv.read(path)
  local reader = reader_of(columns, path)
  for _, row in ipairs(rows) do setmetatable(row, absent) end
  return rows, reader, false
end

--- The reader of a file.
function measured.kind(path) return is_log(path) and collective or reader_of(csv.columns(path), path) end

-- Results, or nil and the error message without its place: a table may hold sizes that no machine supports, and layouts
-- that no model allows. Numbers are replaced, so that similar reasons are counted together.
local function attempt(f, ...)
  local done, result, more = check.attempt(f, ...)
  if done then return result, more end
  return nil, (tostring(result):gsub("^[^:]*:%d+: ", ""):gsub(";.*$", ""):gsub("%d+", "N"))
end

-- Systems with the rows' changes, each made once.
local function machines(given)
  local named, made = {}, {}
  local function of(name)
    if named[name] == nil then
      local ok, result = check.attempt(system, name)
      named[name] = ok and result or false
    end
    return named[name]
  end
  return function(reader, case)
    local name, unknown = given, nil
    if not name then name, unknown = gpus.system(case.gpu) end
    if not name then return nil, unknown end
    local base = of(name)
    if not base then return nil, "no system file " .. tostring(name) end
    local key, change, reason = tostring(name), {}, nil
    if reader.system then
      change, reason = attempt(reader.system, case, base, given ~= nil)
      if not change then return nil, reason end
    end
    if next(change) ~= nil then key = key .. "\0" .. core.codec.encode(change) end
    if not made[key] then
      local machine = base
      if next(change) ~= nil then machine, reason = attempt(base.with, base, change) end
      machine = machine and system(machine)
      if not machine then return nil, reason end
      made[key] = { system = machine, machine = core.machine(machine) }
    end
    return made[key]
  end
end

-- A function that predicts a row: its case with `predicted`, `system` and `row`; or nil and why it is left out.
local function predictor(reader, options)
  local machine_of, set, held = machines(options.system), rules(options.rules), {} -- held: for prepared questions
  return function(row)
    local case, reason = attempt(reader.case, row, options)
    if case then
      local on
      on, reason = machine_of(reader, case)
      if on then
        case.predicted, reason = attempt(reader.predict, case, on.machine, on.system, set, options, held)
        case.system = on.system.name
      end
    end
    if not case or not case.predicted then return nil, reason end
    case.row = row
    return case
  end
end

-- A function that counts a row that is left out for a reason; and one that lists { reason =, rows = }.
local function counter()
  local left = {}
  return function(reason) left[reason] = (left[reason] or 0) + 1 end, function()
    local list = {}
    for reason, count in pairs(left) do list[#list + 1] = { reason = reason, rows = count } end
    return measured.most_first(list)
  end
end

--- Predicts the rows: a list of cases with `predicted`, `system` and `row`, and { reason =, rows = } of those left out.
---@param rows table[]
---@param reader table
---@param options table?  { file = path of the table, system = a system for all rows, rules =, software = a
---   profile for all rows, refit = true: profiles will be fitted to them }
function measured.predict(rows, reader, options)
  options = options or {}
  if reader.cases then
    local tell = progress.start "tperf: simulating"
    local cases, left = reader.cases(rows, options.file, options, tell)
    tell()
    return cases, measured.most_first(left)
  end
  local predict, cases = predictor(reader, options), {}
  local leave, left_out = counter()
  for _, row in ipairs(rows) do
    local case, reason = predict(row)
    if not case then leave(reason) end
    cases[#cases + 1] = case
  end
  return cases, left_out()
end

-- What of a case is told to those who ask for no more: plain data, which other processes can send.
local BRIEF <const> = { "source", "label", "system", "metric", "measured", "predicted", "stack", "unknown", "memory",
  "memory_kind", "predicted_memory", "spread" }

-- What decides how another process predicts its rows.
local TOLD <const> = { "reader", "system", "rules", "software", "intervals" }

local latest = {} -- what the last part was predicted with, and how

--- Predicts some rows for another process.
---@param given table  { reader: its name, system, rules, software: as in measured.predict, rows }
---@return table[] list  of each row, what is told of its case, or { left: why it is left out }
function measured.part(given)
  local same = latest.predict ~= nil
  for _, name in ipairs(TOLD) do same = same and latest[name] == given[name] end
  if not same then
    latest = {}
    for _, name in ipairs(TOLD) do latest[name] = given[name] end
    for _, reader in ipairs(measured.readers) do
      if reader.name == given.reader then latest.predict = predictor(reader, given) end
    end
  end
  local list = {}
  for i, row in ipairs(given.rows) do
    local case, reason = latest.predict(row)
    local told = { left = not case and reason or nil }
    for _, name in ipairs(case and BRIEF or {}) do told[name] = case[name] end
    list[i] = told
  end
  return list
end

local WINDOW <const> = 4096 -- rows read ahead for other processes
local PARTS <const> = 4 -- for each process: rows differ in how long they take

-- Functions that take a row, and end: rows are predicted by all processes, some thousand at once. tell(case, reason).
local function sharing(reader, options, tell)
  local rows = {}
  local function finish()
    local size, asked = math.max(1, #rows // (PARTS * pool.size())), {}
    for first = 1, #rows, size do
      local part = table.move(rows, first, math.min(first + size - 1, #rows), 1, {})
      asked[#asked + 1] = { { reader = reader.name, system = options.system, rules = options.rules,
        software = options.software, intervals = options.intervals, rows = part } }
    end
    for i, list in ipairs(pool.map("tperf.measured", "part", asked, function() end)) do
      for k, told in ipairs(list) do
        told.row = asked[i][1].rows[k]
        tell(not told.left and told or nil, told.left)
      end
    end
    rows = {}
  end
  return function(row)
    rows[#rows + 1] = setmetatable(row, absent)
    if #rows == WINDOW then finish() end
  end, finish
end

--- Predicts a file's rows one after the other and holds none of them: calls visit(case). For readers without `cases`.
---@param path string
---@param reader table
---@param options table  as in measured.predict; brief: visit needs no more of a case than its `row` and those of BRIEF,
---   and other processes may predict it
---@param visit fun(case: table)
---@return integer rows
---@return table[] left_out
function measured.each(path, reader, options, visit)
  local count = 0
  local leave, left_out = counter()
  local function tell(case, reason)
    count = count + 1
    if case then visit(case) else leave(reason) end
  end
  local take, finish
  if options.brief and pool.is_shared() then
    take, finish = sharing(reader, options, tell)
  else
    local predict = predictor(reader, options)
    take, finish = function(row) tell(predict(setmetatable(row, absent))) end, function() end
  end
  if is_log(path) then
    for _, row in ipairs(measured.open(path)) do take(row) end
  else
    csv.each(path, take)
  end
  finish()
  return count, left_out()
end

--- Explains why none of the rows is predicted.
---@param rows integer
---@param left_out table[]  from measured.predict
function measured.none_predicted(rows, left_out)
  local reasons = {}
  for i, left in ipairs(left_out) do reasons[i] = ("%d left out: %s"):format(left.rows, left.reason) end
  if rows == 0 then return "there are no rows below the header line" end
  return ("none of %d rows can be predicted (%s)"):format(rows, table.concat(reasons, "; ", 1, math.min(#reasons, 5)))
end

--- Sorts { reason =, rows = } by number of rows, largest first.
function measured.most_first(list)
  table.sort(list, function(a, b) return a.rows > b.rows or a.rows == b.rows and a.reason < b.reason end)
  return list
end

return measured
