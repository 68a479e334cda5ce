--- `--examples` of train: a whole fine-tuning job, as computed by tperf.job.
local format = require "tperf.output.format"
local text = require "tperf.input.text"

local jobs = {}

jobs.options = {
  { long = "examples", value = "N", kind = "integer", min = 1, help = "examples of the data set: adds the whole job" },
  { long = "epochs", value = "N", kind = "integer", min = 1, help = "times that all are seen (default 1)" },
  { long = "lengths", value = "FILE", from = "files", help = "their tokens, all or a sample: a number a line" },
  { long = "batching", value = "NAME", from = { "packed", "padded" },
    help = "packed (default) into sequences, or padded to the longest of a micro-batch" },
}

-- The numbers of a file, the first of each line; a first line without one is a heading.
local function lengths_of(path)
  local list, wrong = {}, nil
  text.each_line(path, function(line, number)
    local first = line:match "^%s*\"?([^%s,;\"]+)"
    local length = first and math.tointeger(tonumber(first))
    if length and length >= 1 then
      list[#list + 1] = length
    elseif first and number > 1 then
      wrong = wrong or ("--lengths: %s:%d: a number of tokens is needed, got '%s'"):format(path, number,
        first:sub(1, 40))
    end
  end)
  if wrong then return nil, wrong end
  if not list[1] then return nil, ("--lengths: %s has no numbers"):format(path) end
  return list
end

--- The job that the options ask for; nil if none does; nil and a message if one is wrong.
---@param values table  the command's options
---@param asked table   the question's arguments
---@return table?, string?
function jobs.of(values, asked)
  if not values.examples then
    for _, name in ipairs { "epochs", "lengths", "batching" } do
      if values[name] then return nil, ("--%s needs --examples"):format(name) end
    end
    return nil
  end
  if not values.lengths then
    return nil, "--examples needs --lengths, a file with the number of tokens of each example, one a line"
  end
  if values.tokens then return nil, "--examples says how many tokens the run has: leave out --tokens" end
  if asked.packing then return nil, "--lengths is of what --packing says: leave that out" end
  local list, message = lengths_of(values.lengths)
  if not list then return nil, message end
  local given = { examples = values.examples, epochs = values.epochs, lengths = list, batching = values.batching,
    price = values.gpu_hour }
  for name, value in pairs(asked) do given[name] = value end
  return require "tperf.question.job".run(given)
end

--- A job without its configuration, which has it.
---@param job table  of tperf.job
---@return table
function jobs.told(job)
  local own = {}
  for name, value in pairs(job) do
    if name ~= "configuration" and name ~= "question" then own[name] = value end
  end
  return own
end

--- Prints a job below its configuration.
---@param job table  of tperf.job
function jobs.print(job)
  local number, cost = format.number, job.cost
  local function line(what, value, low, high) return { what = what, expected = value, low = low, high = high } end
  local function times(field, shown)
    if not cost[field] then return nil end
    return shown(cost[field]), cost.low and shown(cost.low[field]), cost.high and shown(cost.high[field])
  end
  local function hours(seconds) return number(seconds / 3600, "") end
  local function dollars(value) return ("$%.4g"):format(value) end
  local rows = {
    line("sequences of an epoch", number(job.sequences, "")), line("iterations", number(job.iterations, "")),
    line("tokens of examples / computed", number(job.filled, "%", 3)), line("an iteration", number(job.time, "s")),
    line("hours", times("seconds", hours)),
  }
  if cost.dollars then rows[#rows + 1] = line("cost", times("dollars", dollars)) end
  local memory = job.configuration.intervals and job.configuration.intervals.memory
  rows[#rows + 1] = line("peak memory", number(job.memory, "bytes"), memory and number(memory.low, "bytes"),
    memory and number(memory.high, "bytes"))
  print()
  require "tperf.report".print(rows, {
    { key = "what", title = ("%d examples x %d epoch%s, %s"):format(job.examples, job.epochs,
      job.epochs == 1 and "" or "s", job.batching) },
    { key = "expected", align = "right" }, { key = "low", title = "from", align = "right" },
    { key = "high", title = "to", align = "right" },
  })
end

return jobs
