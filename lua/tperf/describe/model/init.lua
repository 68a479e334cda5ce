--- tperf.model: the network being trained or served: models/*.yaml, a Hugging Face config.json or a table.
-- What a description says is in tperf/describe/model/description.lua.
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local description = require "tperf.describe.model.description"
local groups = require "tperf.describe.model.groups"
local parameters = require "tperf.describe.model.parameters"
local flops = require "tperf.describe.model.flops"
local hf = require "tperf.describe.model.hf"

---@class tperf.model a checked description; fields are those of tperf.model { … }
local methods = {}

--- The layers 1 .. layers as runs of equal ones, in order.
---@return tperf.layer_group[]
function methods:groups()
  return groups.of(self)
end

--- The parameters, exactly, by component and by layer group.
---@return tperf.parameters
function methods:parameters()
  local result, message = parameters.count(self)
  return result or check.fail("tperf.model:parameters: %s: %s", self.name, message)
end

local flops_schema = {
  seq = check.integer { min = 1, max = 1 << 31, optional = true },
  causal = check.boolean { optional = true },
  backward = check.boolean { default = true },
  convention = check.choice { { "palm", "matmul" }, default = "palm" },
}

--- Model FLOPs per token: 6 N_active + attention, see tperf/describe/model/flops.lua for the conventions.
---@param options table? seq (tokens; the model's), causal (the pairs of tokens that a causal mask leaves; false: all;
---  the model's), backward (true), convention ("palm": N counts all active parameters; "matmul": not the tables that
---  are only looked up)
---@return table flops total, parameters, attention, scan: FLOP per token
function methods:flops_per_token(options)
  local o = check.record("tperf.model:flops_per_token", options or {}, flops_schema)
  o.seq = o.seq or self.seq
  if o.causal == nil then o.causal = self.causal end
  local result, message = flops.per_token(self, o)
  return result or check.fail("tperf.model:flops_per_token: %s: %s", self.name, message)
end

-- A Hugging Face configuration becomes a description. Its own errors name the place in the file; what its
-- description may yet have wrong has no place but the file.
local function import(content, origin)
  if not hf.recognise(content) then return content, origin end
  if not origin then return hf.describe(content, "config.json") end
  return hf.describe(content, origin.path, origin.positions), {
    path = origin.path, positions = { [""] = origin.positions[""] },
  }
end

--- A model: models/NAME.yaml, a file of that format, a Hugging Face config.json, or a table of the same fields.
-- model:with { … } is a changed copy; model:groups(), model:parameters() and model:flops_per_token() tell more.
---@param value string|table
---@return tperf.model
return catalogue.constructor {
  what = "tperf.model", kind = "models", schema = description.schema, methods = methods,
  derived = description.derived, finish = description.disagreement, import = import,
}
