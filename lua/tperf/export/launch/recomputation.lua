--- Checks the recomputation of a configuration, and writes it for Megatron's stacks.
local check = require "tperf.base.check"
local recompute = require "tperf.describe.arch.recompute"

local recomputation = {}

-- Launch files are executed, so only these words may be written to them.
local schema = {
  recompute = check.choice { recompute.granularities, default = "none" },
  recompute_modules = check.list(check.choice { recompute.modules }, { optional = true, max = #recompute.modules }),
  recompute_keep = check.list(check.choice { recompute.kept }, { optional = true, max = #recompute.kept }),
  recompute_method = check.choice { recompute.methods, optional = true },
  recompute_num_layers = check.integer { min = 1, max = 1 << 16, optional = true },
}

--- The recomputation of a configuration: { recompute, recompute_modules, recompute_keep, recompute_method, … }.
--- Selective recomputation of no modules by name reruns the scores of unfused attention, and nothing of fused
--- attention; Megatron-Core's reruns attention's core then.
---@param c table
---@param attention string?  "flash" (default) …
---@return table
function recomputation.of(c, attention)
  local own = {}
  for name in pairs(schema) do own[name] = c[name] end
  if own.recompute == "selective" and not (own.recompute_modules or own.recompute_keep) then
    if attention == "unfused" then own.recompute_modules = { "core_attn" } else own.recompute = "none" end
  end
  return check.record("tperf.report.launch: the configuration", own, schema)
end

--- Refuses lists of kept tensors, which compilers of whole layers have.
function recomputation.refuse_kept(n, w)
  local kept = n.recompute_keep
  if kept then w.cannot("recompute_keep", table.concat(kept, " "), "keeps no tensors by name") end
end

--- Writes Megatron's options; `name` turns the last part of an option's name, such as "granularity", into the whole.
---@param n table
---@param w table
---@param name fun(part: string): string
function recomputation.put(n, w, name)
  if n.recompute == "none" then return end
  recomputation.refuse_kept(n, w)
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

--- Refuses recomputation in which several layers share one kept input.
function recomputation.refuse_groups(n, w)
  local layers = n.recompute == "full" and n.recompute_method ~= "every" and n.recompute_num_layers or 1
  if layers > 1 then w.cannot("recompute_num_layers", layers, "keeps each layer's input") end
end

--- Refuses recomputation of less than whole layers, or of only some layers.
function recomputation.refuse_parts(n, w)
  if n.recompute == "selective" then w.cannot("recompute", "selective", "recomputes whole layers or nothing") end
  local method = n.recompute_method
  if method and method ~= "uniform" then w.cannot("recompute_method", method, "recomputes all layers or none") end
  recomputation.refuse_groups(n, w)
end

return recomputation
