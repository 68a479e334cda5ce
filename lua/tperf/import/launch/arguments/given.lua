--- Checks what tperf.import.arguments is given: a launch may have been changed since tperf.import.launch returned it.
local argument = require "tperf.base.entry.argument"
local check = require "tperf.base.check"
local lists = require "tperf.base.lists"

local WHAT <const> = "tperf.import.arguments"

-- The fields that the arguments follow from, by their type.
local KINDS <const> = {
  integer = { "gpus", "tp", "pp", "cp", "dp", "ep", "etp", "vp", "zero", "micro_batch", "global_batch", "seq",
    "attention_dp", "attention_tp", "batch", "max_batch", "decode_cp" },
  table = { "precision", "recompute", "axes", "model", "offloading", "engine", "refused", "understood" },
  string = { "kind", "model_name", "quantization", "kv_dtype", "schedule" },
}

local NEEDED <const> = { training = { "tp", "pp", "cp" }, serving = { "tp", "ep", "etp" } }

local NOUNS <const> = { integer = "an integer", table = "a table", string = "a text" }

local function is(value, kind) return kind == "integer" and math.type(value) == kind or type(value) == kind end

-- The options that no prediction has, as understood.refuse names them.
local function check_refused(list)
  argument.list(WHAT, "launch.refused", list)
  for i, one in ipairs(list) do
    if type(one) ~= "table" then
      check.fail("%s: 'launch.refused[%d]' must be a table, got %s", WHAT, i, check.show(one))
    end
    for _, name in ipairs { "option", "place", "why" } do
      if type(one[name]) ~= "string" then
        check.fail("%s: 'launch.refused[%d].%s' must be a text, got %s", WHAT, i, name, check.show(one[name]))
      end
    end
  end
end

local GIVEN <const> = { "model", "vocab", "micro_batch", "global_batch", "seq", "acceptance", "drafts", "ignore" }

-- Nothing that is given may be without effect.
local function check_given(given)
  for _, name in ipairs(check.names(given)) do
    if not lists.has(GIVEN, name) then
      check.fail("%s: unknown field %s%s", WHAT, check.show(name), check.suggest(tostring(name), GIVEN))
    end
  end
end

---@param launch any
---@param given any
return function(launch, given)
  argument.table(WHAT, "launch", launch, "what tperf.import.launch returns")
  if given ~= nil then check_given(argument.table(WHAT, "given", given)) end
  for kind, names in pairs(KINDS) do
    for _, name in ipairs(names) do
      local value = launch[name]
      if value ~= nil and not is(value, kind) then
        check.fail("%s: 'launch.%s' must be %s, as tperf.import.launch returns it, got %s", WHAT, name, NOUNS[kind],
          check.show(value))
      end
    end
  end
  if launch.refused then check_refused(launch.refused) end
  if launch.prefill or launch.decode then return end -- of several roles
  for _, name in ipairs(NEEDED[launch.kind == "serving" and "serving" or "training"]) do
    if launch[name] == nil then
      check.fail("%s: 'launch.%s' is missing: give what tperf.import.launch returns", WHAT, name)
    end
  end
end
