--- Partial training of a model and its objective: adapters, frozen parts, packed documents, preferences.
local changed = require "tperf.describe.changed"
local check = require "tperf.base.check"
local workload = require "tperf.describe.workload"
local refusal = require "tperf.base.refusal"

local tuning = {}

local RANK <const> = 32 -- Megatron-Bridge's LoRA
local USUAL <const> = { "linear_qkv", "linear_proj", "linear_fc1", "linear_fc2" }

-- Target name -> a block's product, and the part of it if several products are fused.
local PRODUCTS <const> = {
  linear_qkv = { "qkv" }, qkv_proj = { "qkv" }, query_key_value = { "qkv" },
  q_proj = { "qkv", "q", also = "q" }, k_proj = { "qkv", "k" }, v_proj = { "qkv", "v" },
  linear_proj = { "proj" }, o_proj = { "proj" },
  linear_fc1 = { "fc1" }, gate_up_proj = { "fc1" }, gate_proj = { "fc1", "gate" }, up_proj = { "fc1", "up" },
  linear_fc2 = { "fc2" }, down_proj = { "fc2" },
  linear_q_proj = { "q" }, linear_q_down_proj = { "q-down" }, q_a_proj = { "q-down" },
  linear_q_up_proj = { "q-up" }, q_b_proj = { "q-up" }, linear_kv_down_proj = { "kv-down" },
  kv_a_proj_with_mqa = { "kv-down" }, linear_kv_up_proj = { "kv-up" }, kv_b_proj = { "kv-up" },
  in_proj = { "in" }, out_proj = { "out" },
}
-- Every product of a layer, by Hugging Face module names.
local ALL <const> = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "q_a_proj",
  "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "in_proj", "out_proj" }

tuning.targets = check.names(PRODUCTS)

local function target(value, path)
  if PRODUCTS[value] then return value end
  return nil, ("'%s' must be one of %s, got %s%s"):format(path, table.concat(tuning.targets, ", "), check.show(value),
    check.suggest(value, tuning.targets)), path
end

local function bits(value, path)
  if value == 4 or value == 8 or value == 16 then return math.tointeger(value) end
  return nil, ("'%s' must be 4, 8 or 16, got %s"):format(path, check.show(value)), path
end

local peft = check.record_of({
  kind = check.choice { { "lora", "qlora" }, default = "lora" },
  bits = check.integer { min = 4, max = 8, optional = true }, -- of qlora's weights: 4 (default), 8: LLM.int8()
  -- Routed experts, where they are one parameter for all (transformers 5): by default like other products.
  experts = check.record_of({
    targets = check.one_of_or_nil(check.list(target, { max = 64 })), -- that have adapters; default: none
    bits = check.one_of_or_nil(bits), -- of qlora's frozen experts; default 16
  }, { optional = true }),
  rank = check.integer { min = 1, max = 1 << 16, default = RANK },
  alpha = check.number { above = 0, max = 1e6, default = RANK }, -- scales the result; no effect on cost
  targets = check.one_of_or_nil(check.choice { { "all-linear" } }, check.list(target, { min = 1, max = 64 })),
  dropout = check.number { min = 0, max = 0.99, default = 0 }, -- of the adapters' input
  rest = check.choice { { "fp32", "bf16" }, default = "fp32" }, -- dtype of what qlora does not quantise
  a2a = check.boolean { default = false }, -- Megatron-Bridge's a2a_experimental
  fused = check.boolean { default = false }, -- one kernel multiplies and scales (NeMo AutoModel's use_triton)
}, { optional = true })

--- Rows of tperf.question.arguments.
tuning.arguments = {
  { name = "peft", group = "fine-tuning", check = peft, doc = "adapters beside frozen weights: lora or qlora",
    more = "{ kind, bits, rank, alpha, targets, experts, dropout, rest, a2a, fused }. bits of qlora's weights are 4 "
      .. "or 8 (LLM.int8()); rest is the dtype of what it does not quantise: fp32, as PEFT's "
      .. "prepare_model_for_kbit_training makes it, or bf16, as qlora.py. experts = { targets, bits } is for routed "
      .. "experts that are one parameter, which targets do not name. Targets are Megatron-Bridge's names "
      .. "(linear_qkv …), Hugging Face PEFT's (q_proj …), or \"all-linear\"; by default rank 32 and the four of "
      .. "Megatron-Bridge's LoRA (docs/finetuning.md).",
    option = { parts = {
      { long = "peft", value = "NAME", from = { "lora", "qlora" },
        help = "adapters beside frozen weights: lora or qlora" },
      { long = "lora-rank", value = "R", kind = "integer", min = 1, help = "their rank (default 32)" },
      { long = "lora-targets", value = "NAME,...", kind = "list",
        help = "products: linear_qkv,..., q_proj,..., or all-linear" },
      { long = "lora-dropout", value = "PART", kind = "number", help = "dropout of their input (default 0)" },
    } } },
  { name = "frozen", group = "fine-tuning", check = check.list(check.string(), { min = 1, max = 64, optional = true }),
    doc = "parts not trained: embedding, head, layers:1-20, mlp ...",
    more = "Also \"layers\", a block, or the key of a group of layers.", option = { long = "freeze" } },
  { name = "packing", group = "fine-tuning", check = check.any { optional = true }, -- as in a model
    doc = "sequences are packed with documents of so many tokens on average",
    more = "{ mean = tokens } or { lengths = { … } }.",
    option = { parts = {
      { long = "packing", value = "N", kind = "number", help = "sequences of documents of N tokens on average" },
    } } },
  { name = "objective", group = "fine-tuning",
    check = check.choice { { "next_token", "dpo" }, default = "next_token" },
    doc = "next_token (default), or dpo, whose samples are pairs of sequences",
    more = "A frozen reference model runs both sequences of a pair, too." },
  { name = "reference", group = "fine-tuning", check = check.choice { { "resident", "precomputed" }, optional = true },
    doc = "of dpo: its weights are resident (default), or its outputs precomputed",
    more = "Adapters share the policy's weights." },
}

-- product -> true, or the set of its parts with adapters.
local function products_of(targets)
  local products = {}
  for _, name in ipairs(targets == "all-linear" and ALL or targets or USUAL) do
    local product, part = PRODUCTS[name][1], PRODUCTS[name][2]
    if not part then
      products[product] = true
    elseif products[product] ~= true then
      products[product] = products[product] or {}
      products[product][part] = true
    end
    if PRODUCTS[name].also then products[PRODUCTS[name].also] = true end
  end
  return products
end

local function layers_of(name, m)
  local first, last = name:match "^layers:(%d+)%-(%d+)$"
  if not first then return nil end
  first, last = math.tointeger(tonumber(first)), math.tointeger(tonumber(last))
  if not (first and last) or first < 1 or last < first or last > m.layers then
    check.fail("'frozen' has %s, but the model's layers are 1 to %d", check.show(name), m.layers)
  end
  return { first, last }
end

-- { parts = set of names, ranges = list of { first, last } }
local function frozen_of(list, m)
  local frozen = { parts = {}, ranges = {} }
  for _, name in ipairs(list or {}) do
    local range = name == "layers" and { 1, m.layers } or layers_of(name, m)
    if range then table.insert(frozen.ranges, range) else frozen.parts[name] = true end
  end
  if m.tied_embeddings and frozen.parts.head then frozen.parts.embedding = true end -- one table
  return frozen
end

-- A key for the layout: the same text if tuning leads to the same layout.
local function key_of(t)
  local words = { t.reference or "-", ("%d"):format(t.sequences) }
  if t.peft then
    words[#words + 1] = ("%s %d %d %d %g %s %s %s"):format(t.peft.kind, t.peft.bits, t.peft.expert_bits, t.peft.rank,
      t.peft.dropout, t.peft.a2a, t.peft.fused, t.peft.rest)
    for _, products in ipairs { t.peft.products, t.peft.expert_products } do
      for _, name in ipairs(check.names(products)) do
        local parts = products[name]
        words[#words + 1] = name .. ":" .. (parts == true and "" or table.concat(check.names(parts), "+"))
      end
      words[#words + 1] = "/"
    end
  end
  for _, range in ipairs(t.frozen.ranges) do words[#words + 1] = ("%d-%d"):format(range[1], range[2]) end
  table.move(check.names(t.frozen.parts), 1, #check.names(t.frozen.parts), #words + 1, words)
  return table.concat(words, " ")
end

local function refuse(o, rules, strategies)
  if not rules.layers_from_description then
    refusal.raise("adapters, frozen parts and 'objective' are not in the published model of the rules '%s'", rules.name)
  end
  for _, s in ipairs(strategies) do
    if o.peft and s.panels then
      refusal.raise("'peft': strategy '%s' has no products that adapters go with; 'tensor' and 'context' do", s.name)
    end
  end
end

--- The model, with the packing that a question gives.
function tuning.packed(o, m)
  return o.packing and changed(m, { packing = o.packing }) or m
end

-- The record of adapters, with products in place of targets.
local function peft_of(o)
  if o.bits and o.kind ~= "qlora" then
    refusal.raise "'peft.bits' is of kind = \"qlora\": other adapters' frozen weights have the model's dtype"
  end
  if o.bits and o.bits ~= 4 and o.bits ~= 8 then refusal.raise("'peft.bits' must be 4 or 8, got %d", o.bits) end
  local apart, all = o.experts, products_of(o.targets)
  local made = { products = all, bits = o.bits or 4 }
  made.expert_bits = apart and (apart.bits or 16) or made.bits
  made.expert_products = apart and (apart.targets and products_of(apart.targets) or {}) or all
  for _, name in ipairs { "kind", "rank", "alpha", "dropout", "rest", "a2a", "fused" } do made[name] = o[name] end
  return made
end

--- The tuning that a question asks for; nil: all parameters are trained to predict the next token.
---@param o table  checked arguments, with the fields of tuning.schema
---@return table|nil tuning  { key, peft, frozen, sequences (per sample), reference = "resident", "shared" or nil }
function tuning.of(o, m, rules, strategies)
  local dpo = o.objective == "dpo"
  if o.reference and not dpo then refusal.raise "'reference' goes with objective = \"dpo\"" end
  if not (o.peft or o.frozen or dpo) then return nil end
  refuse(o, rules, strategies)
  local t = { frozen = frozen_of(o.frozen, m), sequences = dpo and 2 or 1 }
  t.peft = o.peft and peft_of(o.peft) or nil
  if dpo and o.reference ~= "precomputed" then t.reference = t.peft and "shared" or "resident" end
  t.key = key_of(t)
  return t
end

--- The work of a question's training: trained parameters, and the FLOPs of a sequence relative to pre-training.
---@return table|nil work  { trained, parameters, flops (a ratio), sequences }
function tuning.work(t, m, s, rules, apart)
  if not t then return nil end
  local plain = workload.of(m, s, s.attention[1], rules, { apart = apart }).totals()
  local own = workload.of(m, s, s.attention[1], rules, { apart = apart, tuning = t }).totals()
  if own.trained == 0 then
    refusal.raise "nothing is left to train: 'frozen' has all of it, or no target is in the model"
  end
  if t.peft and own.adapters == 0 then
    refusal.raise("'peft': the model has none of the products that 'targets' name")
  end
  return {
    trained = own.trained, parameters = plain.parameters, flops = own.flops / plain.flops / t.sequences,
    sequences = t.sequences,
  }
end

return tuning
