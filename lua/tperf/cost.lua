--- tperf.cost: what a training run takes: time, GPU-hours, money, energy.
local check = require "tperf.check"
local model = require "tperf.resource".shared(require "tperf.model")
local system = require "tperf.resource".shared(require "tperf.system")

local HOUR <const>, DAY <const> = 3600.0, 86400.0 -- seconds

local schema = {
  tokens = check.number { min = 1, max = 1e18, optional = true },
  model = check.any { optional = true }, system = check.any { optional = true },
  price = check.number { min = 0, max = 1e9, optional = true }, -- dollars per GPU and hour
  power = check.number { min = 0, max = 1e9, unit = "W", optional = true }, -- per GPU
}

-- Sweeps ask for many rows about the same few names.
local made = { [model] = {}, [system] = {} }
local function once(constructor, value)
  if value == nil or type(value) == "table" and getmetatable(value) then return value end
  if type(value) ~= "string" then return constructor(value) end
  local known = made[constructor]
  known[value] = known[value] or constructor(value)
  return known[value]
end

--- What a training run takes with a configuration.
---@param c table  a configuration, or a sweep's row: gpus and tokens_per_second
---@param given table
---  tokens    of the whole run; those of the model's own (`training_tokens`)
---  model     a name, a file or a table
---  system    whose price per GPU-hour and power limit count
---  price     dollars per GPU-hour, in place of the system's
---  power     watts per GPU, in place of the system's
---@return table cost  { tokens, seconds, days, gpu_hours, dollars, energy (J) }: dollars and energy only when price and
---  power are known; empty for a row without a configuration, so that its fields are gaps. GPUs that the placement
---  leaves idle are paid for, but draw no power
return function(c, given)
  local o = check.record("tperf.cost", given or {}, schema)
  if type(c) ~= "table" then check.fail("tperf.cost needs a configuration, got %s", check.show(c)) end
  if c.tokens_per_second == nil then
    if c[1] then check.fail("tperf.cost needs one configuration, such as found[1], not a list of them") end
    return {}
  end
  local machine, network = once(system, o.system), once(model, o.model)
  local tokens = o.tokens or network and network.training_tokens
  if not tokens then
    check.fail("tperf.cost: how many tokens? Give tokens, or a model that says it (training_tokens)")
  end
  local price = o.price or machine and machine.price and machine.price.gpu_hour
  local power = o.power or machine and machine.accelerator.power
  local seconds = tokens / c.tokens_per_second
  local gpu_hours = seconds / HOUR * (c.gpus + (c.idle or 0))
  return {
    tokens = tokens, seconds = seconds, days = seconds / DAY, gpu_hours = gpu_hours,
    dollars = price and price * gpu_hours, energy = power and power * c.gpus * seconds,
  }
end
