--- tperf.rules: the modelling assumptions, each a boolean field.
-- A set of rules is data: "default" has every correction, "subramanian2024" reproduces the published solver
-- to the last digit. A custom set starts from one of them:
--   tperf.rules { base = "default", data_overlap_excludes_comm = false }
-- The core reads the fields of include/tperf/rules.h; the others affect how a layer is laid out.
local check = require "tperf.base.check"

-- Each field: the meaning of true, and the published solver's flaw that false reproduces (docs/model.md, Qn).
local fields = {
  { "all_reduce_is_two_passes", "an all-reduce takes a reduce-scatter and an all-gather everywhere",
    "Q4: one pass within a domain or with one GPU per domain, and never twice the latency" },
  { "lone_gpus_use_all_nics", "a lone GPU in its domain sends through all its NICs",
    "Q5: through one NIC, whatever nics_per_gpu says" },
  { "slow_pipeline_links_cost", "pipeline links between domains take time",
    "Q3: they are free if other links are within a domain" },
  { "flops_without_equivalents", "reported FLOPs count vector work unscaled",
    "Q6: softmax FLOPs inside fused attention count times tensor peak / vector peak" },
  { "panels_overlap_exactly", "n panels of SUMMA communication, all but one overlapped with compute",
    "Q7: n + 1 panels if communication is the bound" },
  { "launch_outside_roofline", "an op's launch adds to the longer of compute and memory time",
    "Q13: it adds to compute, so that memory time can hide it" },
  { "data_overlap_excludes_comm", "data-parallel traffic hides behind compute only",
    "Q15: also behind tensor-parallel traffic on the same links" },
  { "placements_may_underfill", "a placement may leave GPUs of a fast domain unused: 64 of 72",
    "Q16: placements fill the domain, or there is no candidate" },
  { "recompute_counts_everywhere", "recomputed attention adds to FLOPs and to every part of the time",
    "Q17: only to the backward time" },
  { "norm_2d_splits_hidden", "a two-dimensional layer norm holds hidden / tp1 features",
    "Q1, Q2: sequence / tp1, which also sizes the pipeline's messages" },
  { "norm_2d_grads_by_group", "its backward pass reduces statistics over tp1, parameters over tp2",
    "Q8: both in one all-reduce over tp1" },
  { "small_gradients_reduced", "gradients of replicated biases and norm parameters are all-reduced",
    "Q9: free" },
  { "outer_bias_on_shard", "a bias after a reduce-scatter works on the tokens of its shard",
    "Q10: on all tokens (tensor)" },
  { "context_biases_alike", "both biases on the residual stream are cut alike",
    "Q11: attention's by features, the MLP's by tokens (context)" },
  { "shards_divide_sequence", "the axes that cut the sequence divide it",
    "Q12: they divide micro-batch x sequence, and lose the remainder" },
  { "context_grad_reads_gathered", "attention's backward pass reads the gathered keys and values",
    "Q14: the local ones only" },
  { "layers_from_description", "layers, embedding and head follow the model's description",
    "every layer is GPT-3's, norms last; neither embedding nor head (S2, S3)" },
  { "stages_may_differ", "pipeline stages need not hold equally many layers",
    "the number of stages divides the layers" },
  { "gradients_in_fp32", "gradients are kept and reduced in 32 bits, as Megatron-LM does",
    "in 16 bits (S6)" },
  { "memory_counts_passing", "memory includes tensors that live during one pass only, and buffers of libraries",
    "only what is held between passes (S7)" },
  { "panels_by_lcm", "the number of panels is a multiple of both sides of the grid",
    "Q18: of the longer side" },
  { "columns_gather", "products gather their input's shards, and again in the backward pass; sizes must divide",
    "the preceding norm gathers, and the gathered tensor is kept; sizes are rounded down" },
  { "one_minimum_width", "hidden / tp is at least 128 in every strategy",
    "Q19: 3 hidden / tp in strategy tensor" },
  { "typical_software", "training without 'software' uses the profile `typical`",
    "only the formulas: kernels and links without a stack's overhead (S11)" },
}

local sets = { default = {}, subramanian2024 = {} }
for _, field in ipairs(fields) do
  sets.default[field[1]] = true
  sets.subramanian2024[field[1]] = false
end

local schema = { base = check.choice { { "default", "subramanian2024" }, default = "default" } }
for _, field in ipairs(fields) do schema[field[1]] = check.boolean { optional = true } end

local rules = {}

--- The names of the sets, in order.
function rules.names()
  return { "default", "subramanian2024" }
end

--- The meaning of each field: a list of { name =, meaning =, otherwise = }, and its value in each set under the set's
--- name.
function rules.describe()
  local list = {}
  for i, field in ipairs(fields) do
    list[i] = { name = field[1], meaning = field[2], otherwise = field[3] }
    for name, set in pairs(sets) do list[i][name] = set[field[1]] end
  end
  return list
end

local used = {} -- names of the sets that this run used
require "tperf.core".rules_used = used -- other processes add theirs: tperf/question/ranks/pool

--- The names of the sets of rules that this run has used so far, sorted.
---@return string[]
function rules.used()
  return check.names(used)
end

local made = setmetatable({}, { __mode = "k" }) -- sets made here, which are accepted unchanged

--- A set of rules: by name, or a table of fields over a base.
---@param value string|table|nil  a name (default "default"), or a table of fields and
---   base  the set that provides the other fields
---@return table<string, boolean> rules  with `name`
function rules.of(value)
  if made[value] then
    used[value.name] = true
    return value
  end
  if value == nil then value = "default" end
  if type(value) == "string" then
    if not sets[value] then
      check.fail("unknown rules %s%s; there are: %s", check.show(value), check.suggest(value, check.names(sets)),
        table.concat(check.names(sets), ", "))
    end
    value = { base = value }
  end
  local given = check.record("rules", value, schema)
  local set = { name = given.base }
  for _, field in ipairs(fields) do
    local name = field[1]
    set[name] = sets[given.base][name]
    if given[name] ~= nil and given[name] ~= set[name] then
      set[name] = given[name]
      set.name = set.name .. (given[name] and " +" or " -") .. name
    end
  end
  made[set], used[set.name] = true, true
  return set
end

return setmetatable(rules, { __call = function(_, value) return rules.of(value) end })
