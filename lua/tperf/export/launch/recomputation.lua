--- What a configuration recomputes, checked, and as Megatron's stacks are told it.
local check = require "tperf.base.check"
local recompute = require "tperf.describe.arch.recompute"

local recomputation = {}

-- Files are run: nothing stands in them that is no such word.
local schema = {
  recompute = check.choice { recompute.granularities, default = "none" },
  recompute_modules = check.list(check.choice { recompute.modules }, { optional = true, max = #recompute.modules }),
  recompute_method = check.choice { recompute.methods, optional = true },
  recompute_num_layers = check.integer { min = 1, max = 1 << 16, optional = true },
}

--- Of a configuration: { recompute, recompute_modules, recompute_method, recompute_num_layers }.
---@param c table
---@return table
function recomputation.of(c)
  local own = {}
  for name in pairs(schema) do own[name] = c[name] end
  return check.record("tperf.report.launch: the configuration", own, schema)
end

--- Puts Megatron's arguments, whose options `name` makes of the last parts of their names, such as "granularity".
---@param n table
---@param w table
---@param name fun(part: string): string
function recomputation.put(n, w, name)
  if n.recompute == "none" then return end
  if n.recompute_method == "every" then w.cannot("recompute_method", "every", "has methods uniform and block") end
  for _, module in ipairs(n.recompute_modules or {}) do
    if module == recompute.operators then w.cannot("recompute_modules", module, "checkpoints no operators") end
  end
  w.put(name "granularity", n.recompute)
  if n.recompute == "full" then
    w.put(name "method", n.recompute_method or "uniform")
    w.put(name "num_layers", n.recompute_num_layers or 1)
  elseif n.recompute_modules then
    w.put(name "modules", n.recompute_modules)
  end
end

--- Refuses layers that keep one input together.
function recomputation.refuse_groups(n, w)
  local layers = n.recompute == "full" and n.recompute_method ~= "every" and n.recompute_num_layers or 1
  if layers > 1 then w.cannot("recompute_num_layers", layers, "keeps each layer's input") end
end

--- Refuses what recomputes less than whole layers, or only some of them.
function recomputation.refuse_parts(n, w)
  if n.recompute == "selective" then w.cannot("recompute", "selective", "recomputes whole layers or nothing") end
  local method = n.recompute_method
  if method and method ~= "uniform" then w.cannot("recompute_method", method, "recomputes all layers or none") end
  recomputation.refuse_groups(n, w)
end

return recomputation
