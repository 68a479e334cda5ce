-- Shared by the specs of tperf.compat.llm_analysis: the sample in spec/data/llm_analysis (calls of llm-analysis itself,
-- commit d841e40), its models, and refusals.
local csv = require "csv"
local program = require "program"
local assert = require "luassert"
local llm_analysis = require "tperf.compat.llm_analysis"

local cases = {}

local DATA = "spec/data/llm_analysis/"

function cases.rows(name) return csv.rows(DATA .. name .. ".csv") end

function cases.read(name) return program.slurp(DATA .. name) end

--- A cell as a Lua value; an empty one is nil.
function cases.value_of(text)
  if text == "" then return nil end
  if text == "true" then return true elseif text == "false" then return false end
  return tonumber(text) or text
end

--- Models of the sample that upstream does not ship, by name.
cases.models = {}
for _, row in ipairs(cases.rows "models") do
  local model = {}
  for key, text in pairs(row) do model[key] = cases.value_of(text) end
  cases.models[row.name] = model
end

--- Replaces the request's model_name by a table if it is one of cases.models.
function cases.named_model(request)
  local name = request.model_name
  local stem = name and (name:match "([^/]+)%.json$" or name)
  if cases.models[stem] then request.model, request.model_name = cases.models[stem], nil end
  return request
end

--- A small valid model with some fields changed.
function cases.model(changes)
  local base = { name = "m", num_layers = 24, n_head = 16, hidden_dim = 2048, vocab_size = 50000, max_seq_len = 2048 }
  for key, value in pairs(changes or {}) do base[key] = value end
  return base
end

function cases.refusal(question, request)
  local ok, message = pcall(llm_analysis[question], request)
  assert.is_false(ok, "not refused")
  return message
end

--- Asserts that the request is refused, at the line of a spec, with the text.
function cases.refused(question, request, text)
  local message = cases.refusal(question, request)
  assert.is_truthy(message:find(text, 1, true), message .. "\nlacks: " .. text)
  assert.is_truthy(message:match "^[^:]*llm_analysis_%l+%.lua:%d+: llm_analysis%.%l+[: ]", message)
end

return cases
