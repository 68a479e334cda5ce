--- What a launch offloads to host memory, as arguments of tperf.train.
local check = require "tperf.base.check"
local offload = require "tperf.describe.arch.offload"

local offloading = {}

-- The names of the settings in Megatron-Core's stacks.
local MEGATRON <const> = {
  optimizer = "--optimizer-cpu-offload", fraction = "--optimizer-offload-fraction",
  layers = "--cpu-offloading-num-layers", fine = "--fine-grained-activation-offloading", modules = "--offload-modules",
}
local BRIDGE <const> = {
  optimizer = "optimizer.optimizer_cpu_offload", fraction = "optimizer.optimizer_offload_fraction",
  layers = "model.cpu_offloading_num_layers", fine = "model.fine_grained_activation_offloading",
  modules = "model.offload_modules", on = "model.cpu_offloading",
}

local function of(s, names)
  local r, layers = {}, math.tointeger(tonumber(s:get(names.layers)))
  if s:get(names.optimizer) then r.optimizer = tonumber(s:get(names.fraction)) end
  if layers and layers > 0 and (not names.on or s:get(names.on)) then r.layers = layers end
  local modules = s:get(names.fine) and s:set(names.modules)
  if modules then r.modules = type(modules) == "table" and modules or { modules } end
  return next(r) and r or nil
end

--- The offloading of Megatron-LM's or Megatron-Bridge's settings: { optimizer = part, layers =, modules = }, or nil.
function offloading.megatron(s) return of(s, MEGATRON) end
function offloading.bridge(s) return of(s, BRIDGE) end

--- The offloading of DeepSpeed's settings: to the host's memory, not to a disk.
function offloading.deepspeed(s)
  if s:get "zero_optimization.offload_optimizer.device" ~= "cpu" then return nil end
  local part = tonumber(s:get "zero_optimization.offload_optimizer.ratio") or 1.0
  local third = tonumber((s:concept "zero")) == 3 and part >= 1
  return { optimizer = part, params = third and s:get "zero_optimization.offload_param.device" == "cpu" or nil }
end

--- The offloading of FSDP's CPUOffload: shards of weights and all of the optimizer.
offloading.fsdp = { optimizer = 1.0, params = true }

--- Adds the offloading to arguments.
---@param launch table  of tperf.import.launch
---@param a table       arguments, changed in place
function offloading.add(launch, a)
  local r, known = launch.offloading, {}
  if not r then return end
  for _, name in ipairs(offload.modules) do
    for _, given in ipairs(r.modules or {}) do
      if given == name then known[#known + 1] = name end
    end
  end
  a.offload_modules, a.offload_layers = known[1] and known, r.layers
  a.offload_params = r.params
  a.offload_optimizer = r.optimizer and r.optimizer > 0 and math.min(r.optimizer, 1.0) or nil
end

--- Adds what is offloaded and not in a prediction.
---@param add fun(option: string, value: any)
function offloading.lacking(launch, add)
  local stated, predicted = launch.offload or {}, launch.offloading or {}
  for _, what in ipairs(check.names(stated)) do
    if not predicted[what] then add("offload-" .. what, stated[what]) end
  end
end

return offloading
