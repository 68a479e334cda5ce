--- Schedulers of serving engines, as the core has them (src/serve/policy): their names, and what sets them apart.
local core = require "tperf.core"

local schedulers = { names = {}, USUAL = "vllm" }

local of, rank = {}, {}
for i, one in ipairs(core.schedulers) do
  of[one.name], rank[one.name], schedulers.names[i] = one, one.name == schedulers.USUAL and 0 or i, one.name
end
table.sort(schedulers.names, function(a, b) return rank[a] < rank[b] end)

--- What sets a scheduler apart: tperf_scheduler's fields of include/tperf/serve.h.
---@param name string?  the usual one
function schedulers.of(name) return of[name or schedulers.USUAL] end

--- The names of those with a property, as alternatives of a message: '"sglang"'.
---@param field string
---@param value any
---@return string
function schedulers.with(field, value)
  local found = {}
  for _, name in ipairs(schedulers.names) do
    if of[name][field] == value then found[#found + 1] = ("%q"):format(name) end
  end
  return table.concat(found, " or ")
end

return schedulers
