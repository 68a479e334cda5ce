--- Offloading to the host's memory: activations between the forward and the backward pass, by layers or by modules, and
-- the optimizer's states, which the host's processors update there.
--
-- Layers: Megatron-Core's and Transformer Engine's cpu_offloading_num_layers. Modules: Megatron-Core's fine-grained
-- offloading (its transformer_config.py, offload_modules): the input of each. Copies overlap with the layer that they
-- belong to, on the copy engine. Optimizer: Megatron-Core's hybrid device optimizer (optimizer_offload_fraction),
-- DeepSpeed's ZeRO-Offload (arXiv 2101.06840): gradients go to the host, updated weights come back.
local check = require "tperf.base.check"
local recompute = require "tperf.describe.arch.recompute"
local refusal = require "tperf.base.refusal"

local offload = {}

--- Modules whose input can be offloaded, in layer order.
offload.modules = { "attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act" }

local LACKS <const> = {
  expert_fc1 = function(m) return not m.experts and "no experts" end,
  moe_act = function(m) return not m.experts and "no experts" end,
  core_attn = function(m) return not m.heads and "no attention" end,
}

--- Rows of tperf.question.arguments.
offload.arguments = {
  { name = "offload_layers", group = "memory", check = check.integer { min = 1, max = 1 << 16, optional = true },
    doc = "first layers of each chunk whose activations the host holds" },
  { name = "offload_modules", group = "memory", check = check.one_or_list(check.choice { offload.modules }),
    doc = "modules whose inputs the host holds: core_attn, moe_act ...", more = "See docs/memory.md." },
  { name = "offload_optimizer", group = "memory", check = check.number { min = 0, max = 1, default = 0 },
    doc = "part of the optimizer's states that the host holds and updates", option = { value = "PART" } },
  { name = "offload_params", group = "memory", check = check.boolean { default = false },
    doc = "the host holds the shards of weights and all of the optimizer (ZeRO 3)", option = {} },
}

-- The first argument that asks for offloading.
local function asked_of(o)
  for _, row in ipairs(offload.arguments) do
    if o[row.name] and o[row.name] ~= 0 then return row.name end
  end
end

local function is_third(zero)
  if type(zero) ~= "table" then return zero == 3 end
  for _, stage in ipairs(zero) do
    if stage ~= 3 then return false end
  end
  return zero[1] ~= nil
end

-- What goes with weights on the host: they are in shards, and the host updates all of them.
local function fill_params(o)
  if not o.offload_params then return nil end
  if not is_third(o.zero) then return "'offload_params' is of zero = 3, which shards weights" end
  if o.offload_optimizer > 0 and o.offload_optimizer < 1 then
    return "'offload_params' has all of the optimizer on the host: offload_optimizer = 1"
  end
  o.offload_optimizer = 1.0
end

local function contradiction(o)
  local wrong = fill_params(o)
  if wrong then return wrong end
  if not o.offload_layers then return nil end
  if o.offload_modules then return "give 'offload_layers' or 'offload_modules', not both" end
  for _, how in ipairs(type(o.recompute) == "table" and o.recompute or { o.recompute }) do
    if how ~= "none" then
      return ("'offload_layers' keeps what recompute = %s makes again (Megatron-Core refuses both, too): "
        .. "say recompute = \"none\", or 'offload_modules'"):format(check.show(how))
    end
  end
end

--- Raises if the arguments contradict each other; offloaded layers are not recomputed.
---@param what string  the caller's name, for messages
---@param o table      checked arguments, changed in place
function offload.fill(what, o)
  if o.offload_layers and o.recompute == nil then o.recompute = "none" end
  local wrong = contradiction(o)
  if wrong then refusal.raise("%s: %s", what, wrong) end
end

--- Raises if offloading is asked for and the system lacks a description of its host.
function offload.check(o, system)
  local asked = asked_of(o)
  if asked and not system.host then
    refusal.raise("'%s' needs the host of system '%s', which is not given: its file's 'host' says bandwidth and "
      .. "memory_bandwidth for each GPU (docs/memory.md)", asked, system.name)
  end
end

--- The core's choice of offloaded layers per chunk; nil: none.
function offload.picked(o) return o.offload_layers and { first = o.offload_layers } end

local function lacks_module(name, model) return LACKS[name] and LACKS[name](model) end

--- The requested modules as one text; nil: none.
---@param asked string|string[]?
---@param model table
---@param belongs function  of recompute.check_known
---@return string?
function offload.text(asked, model, belongs)
  return recompute.listed("offload_modules", asked, offload.modules, model, lacks_module, belongs)
end

--- Marks the offloaded ops of a layer's block.
function offload.mark(p, ops)
  for _, one in ipairs(ops) do
    if p.offload then one:offload(false) end
    for name in (p.offload_modules or ""):gmatch "[^+]+" do
      if one:belongs(name) then one:offload(true) end
    end
  end
  return ops
end

--- Writes what is offloaded into a configuration.
---@param c table  a configuration, changed in place
---@param variant table
---@param o table  checked arguments
function offload.describe(c, variant, o)
  c.offload_layers = o.offload_layers
  c.offload_modules = variant.offload_modules and recompute.names(variant.offload_modules)
  c.offload_optimizer = o.offload_optimizer > 0 and o.offload_optimizer or nil
  c.offload_params = o.offload_params or nil
end

--- The same in words, such as "4 layers, optimizer 50 %"; nil: nothing is offloaded.
---@param c table  a configuration
---@return string?
function offload.words(c)
  local words = {}
  if c.offload_layers then words[1] = ("%d layer%s"):format(c.offload_layers, c.offload_layers == 1 and "" or "s") end
  if type(c.offload_modules) == "table" then words[#words + 1] = table.concat(c.offload_modules, "+") end
  if c.offload_params then words[#words + 1] = "weights" end
  if c.offload_optimizer then words[#words + 1] = ("optimizer %.4g %%"):format(100 * c.offload_optimizer) end
  return words[1] and table.concat(words, ", ")
end

return offload
