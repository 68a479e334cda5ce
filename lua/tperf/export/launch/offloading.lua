--- Checks the offloading of a configuration, and writes it for stacks.
local check = require "tperf.base.check"
local offload = require "tperf.describe.arch.offload"

local offloading = {}

local schema = {
  offload_layers = check.integer { min = 1, max = 1 << 16, optional = true },
  offload_modules = check.list(check.choice { offload.modules }, { optional = true, max = #offload.modules }),
  offload_optimizer = check.number { min = 0, max = 1, optional = true },
  offload_params = check.boolean { optional = true },
}
local NAMES <const> = { "offload_layers", "offload_modules", "offload_optimizer", "offload_params" }

--- Copies the offloading settings of a configuration, checked.
function offloading.copy(c, n)
  local own = {}
  for name in pairs(schema) do own[name] = c[name] end
  for name, value in pairs(check.record("tperf.report.launch: the configuration", own, schema)) do n[name] = value end
end

--- Writes Megatron-Core's settings under a stack's names for them: { optimizer, fraction, layers, fine, modules }.
function offloading.put(n, w, names)
  if n.offload_params then w.cannot("offload_params", true, "is not told to offload it here") end
  if n.offload_layers and n.pp > 1 then
    w.cannot("offload_layers", n.offload_layers, "does it without pipelines alone")
  end
  if n.offload_layers and names.on then w.put(names.on, true) end
  if n.offload_layers then w.put(names.layers, n.offload_layers) end
  if n.offload_modules then
    w.put(names.fine, true)
    w.put(names.modules, n.offload_modules)
  end
  if (n.offload_optimizer or 0) == 0 then return end
  w.put(names.optimizer, true)
  w.put(names.fraction, n.offload_optimizer)
end

local OPTIMIZER <const> = { offload_optimizer = true, offload_params = true }

--- Refuses what a stack cannot offload. optimizer: whether it can offload the optimizer, and weights with it.
function offloading.refuse(n, w, optimizer)
  for _, name in ipairs(NAMES) do
    local value = n[name]
    if type(value) == "table" then value = value[1] end
    if value and value ~= 0 and not (optimizer and OPTIMIZER[name]) then
      w.cannot(name, value, "is not told to offload it here")
    end
  end
end

return offloading
