--- What an answer about serving does not hold for, as sentences: a run without a steady state, what drafts are
-- assumed to cost, questions that no run of the engine resembled, models that generate nothing.
local drafts = require "tperf.question.serve.drafts"
local unfit = require "tperf.describe.unfit"
local units = require "tperf.base.units"

local warnings = {}

local MORE <const> = "ask for more requests ('count')"

--- Why a run's rates, costs and percentiles are not those of a steady state; nil if they are.
---@param r table  the result
---@param s table  the core's steadiness
---@return string?
function warnings.unsteady(r, s)
  local function seconds(n) return units.format(n, "s", 3) end
  if not r.steady then
    return ("the run reaches no steady state: a request takes %s in the engine, and %s of the run's %s lie between "
      .. "ramp-up and drain; rates, costs and percentiles are not those of a load that lasts: %s"):format(
      seconds(s.residence), s.undisturbed > 0 and seconds(s.undisturbed) or "none", seconds(r.duration), MORE)
  end
  return r.unsettled and ("percentiles have not settled within %d requests: half of them give others"):format(
    r.finished + r.rejected)
end

--- Of a model and the arguments of a question with kv_dtype.
---@return string[]? list  nil: nothing
function warnings.of_model(m, o)
  local list = {}
  if m.stored and m.stored.cache and o.kv_dtype == "bf16" then
    list[1] = ("model '%s' has scales for keys and values in %s, and the cache is counted in bf16: give kv_dtype where "
      .. "the engine uses them"):format(m.name, m.stored.cache)
  end
  if m.classes then
    list[#list + 1] = ("model '%s' generates no tokens: its layers end in %s; steps are priced as if they gave one "
      .. "each"):format(m.name, m.classes == 0 and "no head" or ("a head of %d class%s"):format(m.classes,
      m.classes == 1 and "" or "es"))
  end
  return list[1] and list or nil
end

--- Two lists of sentences as one; nil: none.
---@param first string[]?
---@param second string[]?
---@return string[]?
function warnings.with(first, second)
  if not (first and second) then return first or second end
  return table.move(second, 1, #second, #first + 1, first)
end

--- All sentences about a result of tperf.serve. nil: there are none, and no runs of the engine were compared.
---@param decode table   the pool that decodes
---@param prefill table?  the pool that computes prompts
---@param steadiness table  the core's
function warnings.of(r, decode, prefill, steadiness)
  local held, list, told = decode.held, nil, {}
  local function add(text)
    if not text or told[text] then return end
    list, told[text] = list or {}, true
    list[#list + 1] = text
  end
  if held and held.profile.spread then list = unfit.warnings(held.profile, held, decode.gpus) end
  add(drafts.assumed(decode.o.engine.speculation, held and held.drafting_layers))
  for _, note in ipairs(held and warnings.of_model(held.model, decode.o) or {}) do add(note) end
  for _, note in ipairs(decode.warnings or {}) do add(note) end
  for _, note in ipairs(prefill and prefill.warnings or {}) do add(note) end
  add(warnings.unsteady(r, steadiness))
  return list and (list[1] or held and held.profile.spread) and list or nil
end

--- What rows do not hold for, each with the result of tperf.serve that it is judged by: sentences; nil: nothing.
---@param rows table[]  { served }
---@param what string   "deployments"
---@return string[]?
function warnings.together(rows, what)
  local list, told, unsteady = {}, {}, 0
  for _, row in ipairs(rows) do
    if not row.served.steady then unsteady = unsteady + 1 end
    for _, text in ipairs(row.served.warnings or {}) do
      if text:find "^speculation" and not told[text] then list[#list + 1], told[text] = text, true end
    end
  end
  if unsteady > 0 then
    list[#list + 1] = ("runs without a steady state judge %d of %d %s, which may serve less for long: %s"):format(
      unsteady, #rows, what, MORE)
  end
  return list[1] and list or nil
end

return warnings
