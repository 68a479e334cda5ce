--- The question of `tperf rl`, from its options.
local ask = require "tperf.cli.ask.arguments"
local numbers = require "tperf.input.numbers"
local registry = require "tperf.question.rl.arguments"

local LENGTHS <const> = { mean = "number", cv = "number", clip = "number", max = "integer" }

-- Parses "1024" or "mean=3000,cv=0.8,max=8192", or returns nil and a message.
local function response(option, text)
  local whole = numbers.one("integer", text, 0)
  if whole then return whole end
  local found = {}
  for item in (text .. ","):gmatch "([^,]*)," do
    local name, value = item:match "^(%w+)=(.+)$"
    if not LENGTHS[name] then
      return nil, ("--%s: tokens such as 1024, or mean=3000,max=8192 (and cv= or clip=), got '%s'"):format(option, text)
    end
    local number = numbers.one(LENGTHS[name], value, 0)
    if not number then return nil, ("--%s: %s must be a number, got '%s'"):format(option, name, value) end
    found[name] = number
  end
  return found
end

--- The arguments of tperf.rl that the options set, without the model; nil and a message if one is wrong.
---@param values table  by the options' names
---@return table? asked, string? message
return function(values) return ask.asked(registry.rows(), values, { response = response }) end
