--- `--tokens` of search and train: the cost of the whole run, with failures, as computed by tperf.cost.
local check = require "tperf.base.check"
local format = require "tperf.output.format"
local options = require "tperf.input.options"
local say = require "tperf.output.terminal".say

local costs = {}

--- The options; where Megatron-LM has the same option, its name.
costs.options = {
  { long = "tokens", value = "N", kind = "number", help = "tokens of the whole run, such as 15e12: adds its days" },
  { long = "gpu-hour", value = "DOLLARS", kind = "number", help = "price of a GPU-hour" },
  { long = "carbon", value = "GRAMS", kind = "number", help = "grams of CO2 per kilowatt-hour" },
  { long = "pue", value = "FACTOR", kind = "number", help = "power usage effectiveness of the site (default 1)" },
  { long = "straggling", value = "PART", kind = "number",
    help = "relative standard deviation of a GPU's time: 0.02" },
  { long = "mtbf", value = "OF=TIME", help = "mean time between failures: gpu=50000h, node=6000h, cluster=3h" },
  { long = "checkpoint-interval", value = "TIME", kind = "s", help = "work between saves (default: the optimum)" },
  { long = "save-interval", value = "N", kind = "integer", min = 1, help = "the same in iterations" },
  { long = "checkpoint-size", value = "SIZE", kind = "bytes", help = "default: the weights and the optimizer's state" },
  { long = "checkpoint-bandwidth", value = "RATE", kind = "bytes/s", help = "each GPU to the store: 1GB/s" },
  { long = "store-bandwidth", value = "RATE", kind = "bytes/s", help = "of the whole store" },
  { long = "checkpoint-time", value = "TIME", kind = "s", help = "time to write one, instead of bandwidths" },
  { long = "async-save", help = "write in the background, after a copy to the host" },
  { long = "copy-bandwidth", value = "RATE", kind = "bytes/s", help = "each GPU to its host, for async saves" },
  { long = "restart-time", value = "TIME", kind = "s", help = "from failure to training, without loading: 10min" },
  { long = "detection-time", value = "TIME", kind = "s", help = "until a failure is detected (default 0s)" },
  { long = "spare-nodes", value = "N", kind = "integer", min = 0, help = "on standby, and paid for" },
  { long = "gpus-per-node", value = "N", kind = "integer", min = 1, help = "default: a fast domain of the system" },
  { long = "repair-time", value = "TIME", kind = "s", help = "until a failed node is a spare again" },
}

-- { option, the options without which it has no effect }
local NEEDS <const> = {
  { "mtbf", "restart_time" }, { "mtbf", "checkpoint_bandwidth", "store_bandwidth", "checkpoint_time" },
  { "restart_time", "mtbf" }, { "detection_time", "mtbf" }, { "spare_nodes", "mtbf" }, { "repair_time", "mtbf" },
  { "repair_time", "spare_nodes" }, { "spare_nodes", "repair_time" }, { "async_save", "copy_bandwidth" },
  { "copy_bandwidth", "async_save" },
  { "gpus_per_node", "mtbf" }, { "carbon", "tokens" }, { "pue", "tokens" }, { "gpu_hour", "tokens" },
}

local CHECKPOINT <const> = {
  checkpoint_interval = "interval", save_interval = "steps", checkpoint_size = "size", checkpoint_time = "write",
  checkpoint_bandwidth = "bandwidth", store_bandwidth = "store", async_save = "async", copy_bandwidth = "copy",
}

local function option_of(name) return "--" .. name:gsub("_", "-") end

local function missing(values, job)
  for _, rule in ipairs(NEEDS) do
    local any = values[rule[1]] == nil or job and rule[1] == "gpu_hour" -- which prices the job
    for i = 2, #rule do any = any or values[rule[i]] ~= nil end
    if not any then
      local names = {}
      for i = 2, #rule do names[#names + 1] = option_of(rule[i]) end
      return ("%s needs %s"):format(option_of(rule[1]), table.concat(names, " or "))
    end
  end
  if values.tokens then return nil end
  for _, name in ipairs { "mtbf", table.unpack(check.names(CHECKPOINT)) } do
    if values[name] ~= nil then return option_of(name) .. " needs --tokens" end
  end
end

-- "gpu=50000h": { gpu = "50000h" }.
local function mtbf_of(text)
  local of, time = text:match "^(%a+)=(.+)$"
  if of ~= "gpu" and of ~= "node" and of ~= "cluster" then
    return nil, ("--mtbf: of what is that the time? gpu=50000h, node=6000h or cluster=3h is needed, got '%s'"):format(
      text)
  end
  local seconds, message = check.quantity(time, "s")
  if not seconds then return nil, "--mtbf: " .. message end
  return { [of] = seconds }
end

--- The arguments of tperf.cost that the options set; nil if none does; nil and a message if one is wrong.
---@param values table  the command's options
---@param asked table   the question's arguments: model, system
---@param job table?    that is costed elsewhere
---@return table?, string?
function costs.question(values, asked, job)
  local message = missing(values, job)
  if message then return nil, message end
  if not values.tokens then return nil end
  local given = {
    tokens = values.tokens, model = asked.model, system = asked.system, price = values.gpu_hour, carbon = values.carbon,
    pue = values.pue, restart = values.restart_time, detection = values.detection_time,
  }
  for option, field in pairs(CHECKPOINT) do
    if values[option] ~= nil then
      given.checkpoint = given.checkpoint or {}
      given.checkpoint[field] = values[option]
    end
  end
  if values.mtbf then
    given.mtbf, message = mtbf_of(values.mtbf)
    if message then return nil, message end
    given.mtbf.gpus_per_node = values.gpus_per_node
  end
  if values.spare_nodes then
    given.spares = { nodes = values.spare_nodes, repair = values.repair_time, gpus_per_node = values.gpus_per_node }
  end
  return given
end

--- Adds `cost` to each row.
---@param rows table[]
---@param given table?  from costs.question
function costs.add(rows, given)
  if not given then return end
  for _, row in ipairs(rows) do row.cost = require "tperf.question.cost"(row, given) end
end

--- Notes whether the straggler cost comes on top of what the software profile already includes.
---@param c tperf.configuration
function costs.note(values, c)
  if not values.straggling or c.software == "none" then return end
  io.stdout:flush()
  io.stderr:write(("tperf: --straggling comes on top of the slow GPUs that were in the runs that software %s is fitted "
    .. "to; --software none has none\n"):format(c.software))
end

-- A number shortened to "136.4M".
local function short(value)
  for _, scale in ipairs { { 1e12, "T" }, { 1e9, "B" }, { 1e6, "M" }, { 1e3, "k" } } do
    if value >= scale[1] then return ("%.4g%s"):format(value / scale[1], scale[2]) end
  end
  return ("%.4g"):format(value)
end

local function dollars(value) return "$" .. short(value) end

--- Dollars as tables show them: "$1.33M".
costs.money = dollars

local function scaled(path, unit)
  local field, inner = path:match "^(%a+)%.?(%a*)$"
  return function(row)
    local cost = row.cost
    if cost and inner ~= "" then cost = cost[field] end
    local value = cost and cost[inner ~= "" and inner or field]
    return value and value / unit
  end
end

local MWH <const>, TONNE <const> = 3.6e9, 1e3

--- The columns of a row's cost, for tables of configurations.
costs.columns = {
  { key = "cost.days", title = "days" }, { key = "cost.goodput", title = "goodput", unit = "%", digits = 3, wide = 0 },
  { key = "cost.dollars", title = "cost", format = dollars },
  { key = "cost.gpu_hours", title = "GPU-hours", format = short, wide = 7 },
  { key = scaled("energy", MWH), title = "MWh", wide = 8 },
  { key = scaled("co2", TONNE), title = "t of CO2", wide = 9 },
  { key = "cost.low.days", title = "days from", csv = true }, { key = "cost.high.days", title = "days to", csv = true },
}

local function seconds(value) return format.number(value, "s") end

--- A line about a run's failures, below its table; nil if there are none.
---@param cost table  from tperf.cost
function costs.told(cost)
  local one = cost.checkpoint
  if not one then return nil end
  local saved = ("a checkpoint of %severy %s%s takes %s"):format(
    one.bytes and format.number(one.bytes, "bytes") .. " " or "", seconds(one.interval),
    one.best and (" (best: %s, by Young %s, by Daly %s)"):format(seconds(one.best), seconds(one.young),
      seconds(one.daly)) or "", seconds(one.block))
  if one.async then saved = saved .. (", and %s behind the work"):format(seconds(one.write)) end
  if not cost.failures then return saved end
  return ("a failure every %s, %s in all; %s"):format(seconds(cost.mtbf), format.number(cost.failures, "", 3), saved)
end

local LINES <const> = {
  { "days", "days" }, { "gpu_hours", "GPU-hours", 1, short }, { "dollars", "cost", 1, dollars },
  { "energy", "MWh", MWH }, { "co2", "t of CO2", TONNE },
}
local LOST <const> = {
  { "checkpoints", "writing checkpoints" }, { "rework", "work done again" }, { "restarts", "restarts" },
  { "waiting", "waiting for spare nodes" },
}

local function shown(cost, line)
  local value = cost and cost[line[1]]
  if not value then return nil end
  return line[4] and line[4](value) or format.number(value / (line[3] or 1), "")
end

-- The breakdown of the time.
local function shares(cost)
  local rows = { { part = "training", value = cost.goodput * cost.seconds } }
  for _, line in ipairs(LOST) do
    local value = cost.lost[line[1]]
    if value > 0 then rows[#rows + 1] = { part = line[2], value = value } end
  end
  for _, row in ipairs(rows) do row.share = row.value / cost.seconds end
  return rows
end

--- Prints the cost of the run as text.
---@param cost table   from tperf.cost
function costs.print(cost)
  local report, rows = require "tperf.report", {}
  for _, line in ipairs(LINES) do
    rows[#rows + 1] = cost[line[1]] and {
      what = line[2], expected = shown(cost, line), low = shown(cost.low, line), high = shown(cost.high, line),
    } or nil
  end
  print()
  report.print(rows, {
    { key = "what", title = ("a run of %s tokens"):format(short(cost.tokens)) }, { key = "expected", align = "right" },
    { key = "low", title = "from", align = "right" }, { key = "high", title = "to", align = "right" },
  })
  if not cost.lost then return end
  print()
  report.print(shares(cost), {
    { key = "part", title = "of its time" }, { key = "value", title = "", unit = "s" },
    { key = "share", title = "", unit = "%", digits = 3 },
  })
  say("\n" .. costs.told(cost))
end

--- Appends the cost columns to the columns of configurations.
---@param columns tperf.Column[]
function costs.with(columns) return options.join(columns, costs.columns) end

return costs
