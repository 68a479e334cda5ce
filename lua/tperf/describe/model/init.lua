--- tperf.model: the network being trained or served: models/*.yaml, a Hugging Face config.json or a table.
-- The fields of a description are in tperf/describe/model/description.lua.
local lazy = require "tperf.base.lazy"
local captured = require "tperf.describe.captured"
local check = require "tperf.base.check"
local catalogue = require "tperf.base.catalogue"
local description = require "tperf.describe.model.description"
local groups = require "tperf.describe.model.groups"
local lists = require "tperf.base.lists"
local parameters = require "tperf.describe.model.parameters"
local flops = require "tperf.describe.model.flops"
local hf = require "tperf.describe.model.hf"
local roots = require "tperf.base.roots"
local hub = lazy.module "tperf.describe.model.hub"
local account = lazy.module "tperf.describe.model.hf.account"

---@class tperf.model a checked description; fields are those of tperf.model { … }
local methods = {}

--- The layers 1 .. layers as runs of equal ones, in order.
---@return tperf.layer_group[]
function methods:groups()
  return groups.of(self)
end

--- The exact parameter counts, by component and by layer group.
---@return tperf.parameters
function methods:parameters()
  local result, message = parameters.count(self)
  return result or check.fail("tperf.model:parameters: %s: %s", self.name, message)
end

local flops_schema = {
  seq = check.integer { min = 1, max = 1 << 31, optional = true },
  causal = check.boolean { optional = true },
  backward = check.boolean { default = true },
  convention = check.choice { { "palm", "matmul", "megatron" }, default = "palm" },
}

--- Model FLOPs per token: 6 N_active + attention; tperf/describe/model/flops.lua has the conventions.
---@param options table? seq (tokens; default: the model's), causal (true: count only the pairs of tokens that a causal
---   mask leaves; false: all; default: the model's), backward (default true), convention ("palm", the default: N counts
---   all active parameters; "matmul": without tables that are only looked up; "megatron": as Megatron-LM counts, which
---   is matmul with multi-token prediction)
---@return table flops total, parameters, attention, scan: FLOP per token
function methods:flops_per_token(options)
  local o = check.record("tperf.model:flops_per_token", options or {}, flops_schema)
  o.seq = o.seq or self.seq
  if o.causal == nil then o.causal = self.causal end
  local result, message = flops.per_token(self, o)
  return result or check.fail("tperf.model:flops_per_token: %s: %s", self.name, message)
end

-- Notes the towers around a text model of models/: an answer says what it leaves out.
local function note_towers(of, towers)
  for _, one in ipairs(type(towers) == "table" and towers or {}) do
    account.assume(of, "towers." .. tostring(one.name), "left out",
      ("its %s parameters are in counts; times and memory are of the text model"):format(tostring(one.parameters)))
  end
end

-- Turns a Hugging Face configuration into a description. Its own errors name the place in the file; errors found later
-- in the description can only name the file.
local function described(content, origin)
  if not origin then return hf.describe(content, "config.json") end
  local m = hf.describe(content, origin.path, origin.positions)
  if m.towers and not lists.has(roots.used(), origin.path) then note_towers(m.name, m.towers) end -- of models/
  return m, { path = origin.path, positions = { [""] = origin.positions[""] } }
end

-- A file that states a model by the values of its config.json, under `config`: its other fields take precedence.
-- `stored: false` says that the weights are in 16 bits, whatever config.json says of a checkpoint.
local function of_config(content, origin)
  local path = origin and origin.path or "config.json"
  local m = hf.describe(content.config, path)
  local longest = not m.unbounded and m.seq or nil
  for field, value in next, content do
    if field ~= "config" then m[field] = value end
  end
  for _, one in ipairs(account.of(path).ignored) do
    if one.tower then account.assume(m.name, one.name, "left out", one.why) end
  end
  m.context, m.stored = m.context or longest, m.stored or nil
  return m, origin and { path = path, positions = { [""] = origin.positions[""] } }
end

local function import(content, origin)
  if hf.recognise(content) then return described(content, origin) end
  if type(content.config) == "table" then return of_config(content, origin) end
  if origin and content.towers then note_towers(content.name, content.towers) end
  return content, origin
end

-- What names of models mean depends on --ignore, once that, or what notes it, was loaded.
local function depends()
  local loaded = package.loaded["tperf.describe.model.hf.account"]
  return loaded and loaded.key() or "0"
end

--- A model: models/NAME.yaml, a file of that format or one with config.json's values under `config`, a Hugging Face
-- config.json or its folder, a name of the Hugging Face Hub ("Qwen/Qwen3-32B-FP8") whose sizes one of these models has
-- or whose config.json its local cache has, or a table of the same fields.
-- model:with { … } returns a changed copy; see also model:groups(), model:parameters() and model:flops_per_token().
---@param value string|table
---@return tperf.model
return catalogue.constructor {
  what = "tperf.model", kind = "models", schema = description.schema, methods = methods,
  derived = description.derived, finish = description.disagreement, import = import,
  variant = captured.variant, depends = depends,
  elsewhere = function(name) return hub.find(name) end, remedy = function(name) return hub.remedy(name) end,
}
