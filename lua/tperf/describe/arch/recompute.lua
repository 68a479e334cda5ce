--- Activation checkpointing: a layer, or the modules that share.recompute_modules names as Megatron-Core does (its
-- transformer_config.py, recompute_modules), run again in the backward pass instead of being kept.
--
-- Two kinds of modules. One reruns as a whole from its input, the only tensor kept: core_attn, mlp, moe,
-- shared_experts (tensor_parallel.checkpoint). The other makes an output that another op would keep as its input: it
-- is freed after the forward pass and made again before it is needed, from inputs that stay (Megatron-Core's
-- CheckpointWithoutOutput): layernorm, moe_act, mla_up_proj. Ops carry the modules they belong to (parts.module); the
-- rules below use no op names.
local check = require "tperf.base.check"
local refusal = require "tperf.base.refusal"

local recompute = {}

-- In Megatron-Core's order. output: recomputes its output for the op that would keep it; into: for ops of that module.
-- lacks: why a model lacks the module, or nil.
local MODULES = {
  { name = "core_attn", lacks = function(m) return not m.heads and "no attention" end },
  { name = "moe_act", output = true, lacks = function(m) return not m.experts and "no experts" end },
  { name = "layernorm", output = true, lacks = function(m) return m.norms_per_layer == 0 and "no norms" end },
  {
    name = "mla_up_proj", output = true, into = "core_attn",
    lacks = function(m) return not m.mla and "no latent attention (mla)" end,
  },
  { name = "mlp", lacks = function(m) return not m.ffn and "no dense MLP" end },
  { name = "moe", lacks = function(m) return not m.experts and "no experts" end },
  {
    name = "shared_experts",
    lacks = function(m) return not (m.experts and m.experts.shared > 0) and "no shared experts" end,
  },
}
local known = {}

-- PyTorch's operator checkpointing as torchtitan uses it (its selective_ac_option = "op"): recomputes every second
-- matrix product of a block and all other ops except attention. It cannot be combined with modules.
local OPERATORS <const> = "op"
known[OPERATORS] = { name = OPERATORS, lacks = function() end }

recompute.modules = {}
for i, module in ipairs(MODULES) do recompute.modules[i], known[module.name] = module.name, module end

recompute.modules[#recompute.modules + 1] = OPERATORS
recompute.operators = OPERATORS

--- Tensors of a layer that JAX's stacks keep by name (jax.checkpoint_policies' names; MaxText's remat_policy = custom),
-- each called after the module whose input it is: qkv_linear, the normed stream; core_attn, queries, keys and values;
-- attn_proj, attention's result; mlp_norm, the stream between the sublayers; mlp_act, moe_act, an activation's inputs;
-- expert_fc1, the rows of experts. A layer's own input is kept anyway.
recompute.tensors = { "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "mlp_act", "expert_fc1", "moe_act" }

recompute.granularities = { "none", "selective", "full" }

--- How full recomputation picks layers (Megatron-Core's recompute_method, torchtitan's selective option N): all, in
--- groups that keep one input; the first N of each chunk of layers; every N-th layer.
recompute.methods = { "uniform", "block", "every" }

-- What may be asked for: none but the layer's input, too.
local INPUT <const> = "input"
local TENSORS <const> = { INPUT, table.unpack(recompute.tensors) }
recompute.kept = TENSORS

local some_layers = check.integer { min = 1, max = 1 << 16, optional = true }

--- Rows of tperf.question.arguments.
recompute.arguments = {
  { name = "recompute", group = "memory", many = true, open = true, check = check.choice { recompute.granularities },
    default = "none", tried = "none,full", doc = "none, selective or full",
    more = "With unfused attention a search tries all three." },
  { name = "recompute_modules", group = "memory", open = true, described = true,
    check = check.one_or_list(check.choice { recompute.modules }),
    doc = "of selective recomputation: core_attn, mlp, moe, moe_act, layernorm ...", more = "See docs/memory.md." },
  { name = "recompute_keep", group = "memory", open = true, described = true,
    check = check.one_or_list(check.choice { TENSORS }),
    doc = "of selective recomputation: tensors that alone are kept: core_attn ...",
    more = "Tensors that a compiled layer keeps, by the module that reads them, or input, its own alone; "
      .. "docs/memory.md has MaxText's names." },
  { name = "recompute_method", group = "memory", open = true, described = true,
    check = check.choice { recompute.methods, optional = true },
    doc = "of full recomputation: uniform (default), block or every",
    more = "uniform: each group of recompute_num_layers layers keeps one input; block: the first so many layers of "
      .. "each chunk; every: every so many (docs/memory.md)." },
  { name = "recompute_num_layers", group = "memory", open = true, described = true, check = some_layers,
    doc = "layers recomputed as one (uniform), of each chunk (block), apart (every)" },
  { name = "recompute_layers", group = "memory", described = true, check = some_layers,
    doc = "older name of recompute_num_layers, under uniform" },
}

local function has_value(list, value)
  for _, one in ipairs(type(list) == "table" and list or { list }) do
    if one == value then return true end
  end
  return false
end

-- Returns a message if the arguments contradict each other.
local function contradiction(o, asked)
  local modules = o.recompute_modules
  if type(modules) == "table" and modules[2] and has_value(modules, OPERATORS) then
    return "'recompute_modules': op applies to the whole layer and cannot be combined with other names"
  end
  local list = modules and "recompute_modules" or o.recompute_keep and "recompute_keep"
  if list and not has_value(asked, "selective") then
    return ("'%s' needs recompute = \"selective\", got %s"):format(list, check.show(asked))
  end
  if modules and o.recompute_keep then
    return "'recompute_modules' says what runs again, 'recompute_keep' what does not: give one of them"
  end
  local layers = o.recompute_method and "recompute_method" or o.recompute_num_layers and "recompute_num_layers"
  if layers and asked ~= nil and not has_value(asked, "full") then
    return ("'%s' needs recompute = \"full\", got %s"):format(layers, check.show(asked))
  end
  if o.recompute_layers and o.recompute_num_layers then
    return "'recompute_layers' is an older name of 'recompute_num_layers': give one of them"
  end
  if o.recompute_layers and (o.recompute_method or "uniform") ~= "uniform" then
    return ("'recompute_layers' needs recompute_method = \"uniform\": give 'recompute_num_layers' for \"%s\"")
      :format(o.recompute_method)
  end
  if o.recompute_method and o.recompute_method ~= "uniform" and not o.recompute_num_layers then
    return ("recompute_method = \"%s\" needs 'recompute_num_layers'"):format(o.recompute_method)
  end
end

--- Fills in defaults of a question's arguments and raises if they contradict each other.
---@param what string  the caller's name, for messages
---@param o table  checked arguments, changed in place
---@param given table  the arguments as given
function recompute.fill(what, o, given)
  local asked = o.recompute
  if given.recompute == nil and (o.recompute_modules or o.recompute_keep) then
    asked = "selective"
  elseif given.recompute == nil and asked and (o.recompute_method or o.recompute_num_layers) then
    asked = "full"
  end
  local wrong = contradiction(o, asked)
  if wrong then refusal.raise("%s: %s", what, wrong) end
  o.recompute = asked
  o.recompute_num_layers, o.recompute_layers = o.recompute_num_layers or o.recompute_layers, nil
end

--- The core's choice of fully recomputed layers per chunk; nil: all.
function recompute.picked(o)
  if o.recompute_method == "block" then return { first = o.recompute_num_layers } end
  if o.recompute_method == "every" then return { every = o.recompute_num_layers } end
end

--- The names in a text of modules.
function recompute.names(text)
  local list = {}
  for name in text:gmatch "[^+]+" do list[#list + 1] = name end
  return list
end

--- Writes what is recomputed into a configuration.
---@param c table        a configuration, changed in place
---@param variant table  { recompute =, recompute_modules =, recompute_keep = }
---@param o table        checked arguments
function recompute.describe(c, variant, o)
  c.recompute = variant.recompute
  local modules, kept = variant.recompute_modules, variant.recompute_keep
  if modules or kept then
    c.recompute_modules, c.recompute_keep = modules and recompute.names(modules), kept and recompute.names(kept)
  elseif variant.recompute == "full" then
    c.recompute_method, c.recompute_num_layers = o.recompute_method, o.recompute_num_layers
  end
end

--- The same in words: "full, block, 5 layers"; "selective, core_attn+mlp"; "none" if the configuration has nothing.
---@param c table  a configuration, or a row of a sweep
---@return string
function recompute.words(c)
  local words = { c.recompute or "none" }
  if type(c.recompute_modules) == "table" then words[2] = table.concat(c.recompute_modules, "+") end
  if type(c.recompute_keep) == "table" then words[#words + 1] = "all but " .. table.concat(c.recompute_keep, "+") end
  words[#words + 1] = c.recompute_method
  local n = c.recompute_num_layers
  if n then words[#words + 1] = ("%d layer%s"):format(n, n == 1 and "" or "s") end
  return table.concat(words, ", ")
end

--- The number of layers that share one kept input.
function recompute.grouped(o)
  return (o.recompute_method or "uniform") == "uniform" and o.recompute_num_layers or 1
end

--- Why a model lacks a module; nil or false: it has it.
function recompute.lacks(name, model) return known[name].lacks(model) end

--- Raises for a model whose architecture has no op of a module.
---@param field string
---@param model table
---@param name string  the module
---@param belongs fun(model: table, module: string): boolean  whether an op of the architecture belongs to it
function recompute.check_known(field, model, name, belongs)
  if model.architecture and (name == OPERATORS or not belongs(model, name)) then
    refusal.raise("'%s' has %s, and no op of architecture '%s' says that it belongs to it: share:attention's do to "
      .. "core_attn, the library's blocks' to theirs", field, name, model.architecture.name)
  end
end

--- The names asked for as one text, in the order of `all`; nil: none is asked for. Raises for those that the model
--- lacks.
---@param field string  the argument
---@param asked string|string[]?
---@param all string[]
---@param model table
---@param lacks fun(name: string, model: table): string|false|nil  what the model lacks of a name
---@param belongs function  of recompute.check_known
---@return string?
function recompute.listed(field, asked, all, model, lacks, belongs)
  if not asked then return nil end
  local set, list = {}, {}
  for _, name in ipairs(type(asked) == "table" and asked or { asked }) do
    if name ~= INPUT then recompute.check_known(field, model, name, belongs) end
    local lacking = not model.architecture and lacks(name, model)
    if lacking then refusal.raise("'%s' has %s, but model '%s' has %s", field, name, model.name, lacking) end
    set[name] = true
  end
  for _, name in ipairs(all) do
    if set[name] then list[#list + 1] = name end
  end
  return table.concat(list, "+")
end

--- The requested modules as one text; nil: the default of selective recomputation.
---@param asked string|string[]?
---@param model table
---@param belongs function  of recompute.check_known
---@return string?
function recompute.text(asked, model, belongs)
  return recompute.listed("recompute_modules", asked, recompute.modules, model, recompute.lacks, belongs)
end

-- What a model lacks of a tensor's module.
local TENSOR_LACKS <const> = {
  core_attn = known.core_attn.lacks, qkv_linear = known.core_attn.lacks, attn_proj = known.core_attn.lacks,
  mlp_act = known.mlp.lacks, expert_fc1 = known.moe.lacks, moe_act = known.moe_act.lacks,
}

local function lacks_tensor(name, model) return TENSOR_LACKS[name] and TENSOR_LACKS[name](model) end

--- The tensors that a layer keeps as one text, its input among them; nil: modules say what runs again.
---@param asked string|string[]?
---@param model table
---@param belongs function  of recompute.check_known
---@return string?
function recompute.kept_text(asked, model, belongs)
  local text = recompute.listed("recompute_keep", asked, recompute.tensors, model, lacks_tensor, belongs)
  return text and (text == "" and INPUT or INPUT .. "+" .. text)
end

--- Whether a share runs a module again.
function recompute.has(p, module)
  if p.recompute ~= "selective" or p.recompute_keep then return false end
  if not p.recompute_modules then return module == "core_attn" end
  return ("+" .. p.recompute_modules .. "+"):find("+" .. module .. "+", 1, true) ~= nil
end

-- Makes consecutive ops of a module rerun from the first one's input. Preceding ops that only communicate keep nothing.
-- Returns where the last run of ops ends.
local function run_again(ops, module)
  local opened, last = false, nil
  for i, one in ipairs(ops) do
    if one:belongs(module.name) then
      local counts = one:counts()
      local opens = not opened and (counts.weight_bytes > 0 or counts.saved_bytes > 0)
      one:recompute(opens and (module.output and counts.saved_bytes or one:input_bytes()) or 0)
      opened, last = opened or opens, i
    else
      opened = false
    end
  end
  return last
end

-- Frees the module's output: the next op that keeps an input, or every op of module.into, drops it.
local function free_output(ops, module, last)
  for i = last + 1, #ops do
    local one = ops[i]
    if module.into and one:belongs(module.into) then
      one:drop_input(1)
    elseif not module.into and one:input_bytes() > 0 then
      one:drop_input(1)
      return
    end
  end
end

-- Separate attention kernels implement their own recomputation (attention.lua).
local function by_itself(p, module)
  return module.name == "core_attn" and (p.attention == "unfused" or p.attention == "recompute")
end

local widths = setmetatable({}, { __mode = "k" }) -- op -> widths of the products that PyTorch runs for it

--- Marks a product as several PyTorch products with outputs of these widths.
function recompute.made_of(one, list)
  widths[one] = list
  return one
end

-- The part of a product's output that is kept; count: products of the block before it.
local function kept_of(one, count)
  local kept, all = 0, 0
  for _, width in ipairs(widths[one] or { 1 }) do
    count = count + 1
    kept, all = kept + (count % 2 == 1 and width or 0), all + width
  end
  return kept / all, count
end

-- An op's input is available from the forward pass as far as its producer kept it: rotations and sums pass on only what
-- they can recompute at once. The stream is kept at the start of the layer.
local function run_operators(m, p, ops, opens)
  local source, count = opens and 1 or 0, 0
  for i, one in ipairs(ops) do
    local counts = one:counts()
    local product = counts.weight_bytes > 0 and counts.forward.tensor_flops > 0 and not counts.expert
    if one:belongs "core_attn" then
      one:drop_input(1 - source)
      source = 1
    elseif product then
      local kept
      kept, count = kept_of(one, count)
      one:drop_input(1 - source)
      local ends = ops[i + 1] and ops[i + 1]:counts().weight_bytes == 0 and i == #ops - 1
      one:repeat_part(1 - kept, ends and kept * 2 * p:outer(m.hidden) or 0)
      source = kept
    else
      local passes = counts.forward.tensor_flops == 0 and counts.saved_bytes == 0
      one:recompute(source * counts.saved_bytes)
      source = passes and source or 0
    end
  end
end

-- Whether an op's input is among the kept tensors.
local function reads_kept(p, one)
  for name in p.recompute_keep:gmatch "[^+]+" do
    if name ~= INPUT and one:belongs(name) then return true end
  end
  return false
end

-- Whether an op takes its input from the op before it, for its gradients.
local function needs_input(counts) return counts.saved_bytes > 0 end

-- A compiler runs again what makes a tensor that a gradient reads, unless that is kept, and nothing else: a layer's
-- last product, whose result is only added to the stream, does not run again (JAX drops it as dead code: dce_jaxpr).
-- needed: whether anything reads the block's output again. Ops are taken for a chain; a product that has its input from
-- elsewhere (shared experts) asks nothing of the op before it.
local function run_but_kept(p, ops, needed, input)
  for i = #ops, 1, -1 do
    local one, counts = ops[i], ops[i]:counts()
    local kept = i == 1 and input or reads_kept(p, one) and one:input_bytes()
    if needed then
      one:recompute(kept or 0)
    elseif not kept then
      one:drop_input(1)
    end
    needed = not kept and (needed or needs_input(counts))
  end
end

--- Bytes of a layer's input, which a layer that is recomputed keeps. A custom layer's stream is as wide as its group
--- says; else as what its first op keeps, if that is a norm or a product; else as the model.
---@param ops table  of the layer's first block
function recompute.input(m, p, ops)
  local width = m.architecture and p.group and p.group.width
  local first = m.architecture and not width and ops[1]
  if first and first:input_bytes() > 0 and (first:is_norm() or first:product() and not first:product().expert) then
    return first:input_bytes()
  end
  return 2 * p:outer(width or m.hidden)
end

--- Marks the recomputed ops of a layer's block. opens, closes: it is the layer's first block, its last.
function recompute.mark(m, p, ops, opens, closes)
  local kept = p.recompute == "selective" and p.recompute_keep
  if kept then
    local between = (kept .. "+"):find("+mlp_norm+", 1, true)
    run_but_kept(p, ops, not closes and not between, opens and (p.input or recompute.input(m, p, ops)))
  elseif p.recompute == "full" then
    local input = opens and (p.input or recompute.input(m, p, ops)) or 0
    for i, one in ipairs(ops) do one:recompute(i == 1 and input or 0) end
  elseif recompute.has(p, OPERATORS) then
    run_operators(m, p, ops, opens)
  elseif p.recompute == "selective" and p.recompute_modules then
    for _, module in ipairs(MODULES) do
      local last = recompute.has(p, module.name) and not by_itself(p, module) and run_again(ops, module)
      if last and module.output then free_output(ops, module, last) end
    end
  end
  return ops
end

return recompute
