--- Sets of rules as the library's own code has them: one table for each content.
local check = require "tperf.base.check"
local core = require "tperf.core"
local frozen = require "tperf.base.object.frozen"

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
  { "data_overlap_excludes_comm", "data-parallel traffic hides behind what leaves its links free",
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
  { "typical_software", "training without 'software' uses the profile of the stack that its arguments imply",
    "only the formulas: kernels and links without a stack's overhead (S11)" },
  { "ranks_in_order", "GPUs share fast domains as the stack's order of ranks has it",
    "as is fastest: every placement is tried (S12)" },
}

local bases = { default = {}, subramanian2024 = {} }
for _, field in ipairs(fields) do
  bases.default[field[1]] = true
  bases.subramanian2024[field[1]] = false
end

local schema = { base = check.choice { { "default", "subramanian2024" }, default = "default" } }
for _, field in ipairs(fields) do schema[field[1]] = check.boolean { optional = true } end

local sets = { fields = fields, bases = bases, used = {} } -- used: names of the sets that this run used

-- Name -> set; a set's name says all that it holds. Names are as many as scripts like, so those in use stay.
local known = setmetatable({}, { __mode = "v" })
local usual = {} -- the sets of the bases, for good

local class = frozen.class(function(_, name)
  check.fail("tperf.rules: a set is never changed, so '%s' cannot be set; tperf.rules { base = …, %s = … } makes "
    .. "another", tostring(name), tostring(name))
end)

-- The fields of a set whose name came with them: of a copy.
local function nameless(value)
  local name, given = rawget(value, "name"), {}
  local base = type(name) == "string" and name:match "^%w+"
  if not bases[base] then
    check.fail("rules: 'name' follows from the fields and cannot be set, got %s", check.show(name))
  end
  for field, one in next, value do given[field] = one end
  given.name, given.base = nil, given.base or base
  return given
end

local function build(value)
  if type(value) == "table" and rawget(value, "name") ~= nil then value = nameless(value) end
  local given = check.record("rules", value, schema)
  local base = bases[given.base]
  local set = { name = given.base }
  for _, field in ipairs(fields) do
    local name = field[1]
    set[name] = base[name]
    if given[name] ~= nil and given[name] ~= set[name] then
      set[name] = given[name]
      set.name = set.name .. (given[name] and " +" or " -") .. name
    end
  end
  if not known[set.name] then
    core.keep(set)
    known[set.name] = frozen.keep(set, class)
  end
  if bases[set.name] then usual[set.name] = known[set.name] end
  return known[set.name]
end

local function named(name)
  if not bases[name] then
    check.fail("unknown rules %s%s; there are: %s", check.show(name), check.suggest(name, check.names(bases)),
      table.concat(check.names(bases), ", "))
  end
  return usual[name] or build { base = name }
end

local function of(value)
  value = frozen.plain(value)
  if value == nil or type(value) == "string" then return named(value or "default") end
  return frozen.is(value, class) and value or build(value)
end

--- The set that a name or a table stands for.
---@param value string|table|nil  as for tperf.rules; or such a set
---@return table set  the same for the same content; scripts get a view of it
function sets.of(value)
  local set = of(value)
  sets.used[set.name] = true
  return set
end

return sets
