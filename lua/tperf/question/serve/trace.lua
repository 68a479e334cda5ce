--- Traces of requests: CSV with a line that names the columns, or a JSON object on each line.
-- Fields: arrival (s), prompt, output (tokens); priority, prefix (a number shared by requests with the same beginning)
-- and prefix_tokens; in JSON also segments. docs/serving.md.
local check = require "tperf.base.check"
local core = require "tperf.core"
local csv = require "tperf.input.csv"
local text_file = require "tperf.input.text"

local trace = {}

local LONGEST <const> = 1 << 29
local OWN <const> = 1 << 41 -- token streams of a prompt's rest behind a prefix; the core's own start at 2^40

local NUMBERS = { "arrival", "prompt", "output", "priority", "prefix", "prefix_tokens" }
local NEEDED = { "prompt", "output" }
local KNOWN = { arrival = true, segments = true }
for _, name in ipairs(NUMBERS) do KNOWN[name] = true end

local function integer(where, name, value, low, high)
  local number = math.tointeger(value)
  if not number or number < low or number > high then
    check.fail("%s: '%s' must be an integer from %d to %d, got %s", where, name, low, high, check.show(value))
  end
  return number
end

-- A request from a row of numbers; line: selects the stream of its own tokens.
local function request(row, where, line)
  for _, name in ipairs(NEEDED) do
    if row[name] == nil then check.fail("%s: '%s' is missing", where, name) end
  end
  local prompt = integer(where, "prompt", row.prompt, 1, LONGEST)
  local r = { arrival = row.arrival, prompt = prompt, output = integer(where, "output", row.output, 1, LONGEST),
    segments = row.segments }
  if row.priority then r.priority = integer(where, "priority", row.priority, -(1 << 31), (1 << 31) - 1) end
  if r.arrival and not (type(r.arrival) == "number" and r.arrival >= 0 and r.arrival < math.huge) then
    check.fail("%s: 'arrival' must be a number of seconds from 0 on, got %s", where, check.show(r.arrival))
  end
  if (row.prefix ~= nil) ~= (row.prefix_tokens ~= nil) then
    check.fail("%s: 'prefix' and 'prefix_tokens' go together", where)
  end
  if row.prefix_tokens and row.prefix_tokens ~= 0 then
    local stream = integer(where, "prefix", row.prefix, 0, 999999) -- streams of outputs come after these
    local tokens = integer(where, "prefix_tokens", row.prefix_tokens, 1, prompt)
    r.segments = { { stream, tokens } }
    if tokens < prompt then r.segments[2] = { OWN + line, prompt - tokens } end
  end
  return r
end

local function unknown(where, name, names)
  check.fail("%s: unknown column '%s'%s", where, name, check.suggest(name, names))
end

local function read_csv(path)
  local rows, columns = csv.read(path)
  for _, name in ipairs(columns) do
    if not KNOWN[name] or name == "segments" then unknown(path .. ":1", name, NUMBERS) end
  end
  for i, row in ipairs(rows) do
    local where, numbers = ("%s:%d"):format(path, row.line), {}
    for _, name in ipairs(NUMBERS) do
      local text = row[name]
      if text and text ~= "" then
        numbers[name] = tonumber(text)
          or check.fail("%s: '%s' must be a number, got %s", where, name, check.show(text))
      end
    end
    rows[i] = request(numbers, where, row.line)
  end
  return rows
end

local function read_jsonl(path)
  local rows = {}
  text_file.each_line(path, function(line, number)
    if line:find "%S" then
      local where = ("%s:%d"):format(path, number)
      local row = core.yaml(line, path) -- JSON is YAML
      if type(row) ~= "table" then check.fail("%s: a JSON object is needed on each line", where) end
      for _, name in ipairs(check.names(row)) do
        if not KNOWN[name] then unknown(where, name, check.names(KNOWN)) end
      end
      rows[#rows + 1] = request(row, where, number)
    end
  end)
  return rows
end

--- Reads the requests of a file.
---@param path string
---@return table[]
function trace.read(path)
  local rows = path:lower():find "%.csv$" and read_csv(path) or read_jsonl(path)
  if #rows == 0 then check.fail("%s: there is no request in it", path) end
  return rows
end

return trace
