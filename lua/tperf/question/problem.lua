--- What tperf.search and tperf.train share: turning arguments into a model, machines, layouts and pipelines.
local argument = require "tperf.base.entry.argument"
local lazy = require "tperf.base.lazy"
local changed = lazy.module "tperf.describe.changed"
local counted = lazy.module "tperf.describe.layout.counted"
local axes = require "tperf.describe.strategy.axes"
local catalogue = require "tperf.base.catalogue"
local check = require "tperf.base.check"
local core = require "tperf.core"
local workload = require "tperf.describe.workload"
local model = catalogue.shared(require "tperf.describe.model")
local has = require "tperf.base.lists".has
local eager = require "tperf.describe.arch.eager"
local graphs = require "tperf.describe.arch.graphs"
local offload = require "tperf.describe.arch.offload"
local overlap = require "tperf.describe.overlap"
local pipeline_layout = require "tperf.describe.pipeline_layout"
local pipelines = require "tperf.question.search.pipelines"
local placement = require "tperf.question.placement"
local precision = require "tperf.describe.precision"
local recomputation = require "tperf.describe.arch.recompute"
local refusal = require "tperf.base.refusal"
local rules = require("tperf.describe.rules.sets").of
local profile = require "tperf.describe.profile"
local space = require "tperf.question.search.space"
local strategy = require "tperf.describe.strategy"
local training = require "tperf.describe.optimizers"
local tuning = require "tperf.describe.tuning"

local problem = {}

problem.system = catalogue.shared(require "tperf.describe.system")
local VIRTUAL_STAGES = { 2, 3, 4, 6, 8 } -- chunks per device that interleaving schedules try

-- Whether an argument names an axis or option that not every one of the strategies has.
local function strangers(given, strategies)
  for _, s in ipairs(strategies) do
    if axes.names_strangers(given, s) then return true end
  end
end

--- Refuses arguments that are axes or options only of strategies that were not asked for.
---@param what string  the function's name, such as "tperf.search"
function problem.refuse_axes(what, given, strategies)
  if type(given) ~= "table" or not strangers(given, strategies) then return end
  local asked, own = {}, {}
  for i, s in ipairs(strategies) do
    asked[i] = s.name
    for _, name in ipairs(s.axis_names) do own[name] = true end
    for name in pairs(s.options) do own[name] = true end
  end
  for _, s in ipairs(strategy.all()) do
    for _, name in ipairs(s.axis_names) do
      if given[name] ~= nil and not own[name] then
        refusal.raise("%s: '%s' is an axis of strategy %s, not of %s", what, name, s.name, table.concat(asked, ", "))
      end
    end
    for name in pairs(s.options) do
      if given[name] ~= nil and not own[name] then
        refusal.raise("%s: '%s' is an option of strategy %s, not of %s", what, name, s.name, table.concat(asked, ", "))
      end
    end
  end
end

--- Refuses panels if no strategy has any.
function problem.refuse_panels(what, o, strategies)
  local some = o.panels == nil
  for _, s in ipairs(strategies) do some = some or s.panels ~= nil end
  if not some then refusal.raise("%s: 'panels' applies to strategy summa, not to %s", what, strategies[1].name) end
end

-- A value or a list as a list without duplicates; nil stays nil.
local function as_list(value)
  if value == nil then return nil end
  if type(value) ~= "table" then return { value } end
  local list, seen = {}, {}
  for _, item in ipairs(value) do
    if not seen[item] then list[#list + 1] = item end
    seen[item] = true
  end
  return list
end

--- Whether `value` is a list of systems (names or tables) rather than a single one.
function problem.lists_systems(value)
  return type(value) == "table" and not (value.network or value.accelerator)
end

--- Returns a list of systems, and whether `value` was one.
function problem.systems(value)
  if not problem.lists_systems(value) then return { problem.system(value) }, false end
  local list = {}
  for i = 1, argument.list("the question", "system", value) do list[i] = problem.system(value[i]) end
  if #list == 0 then check.fail("'system' is an empty list") end
  return list, true
end

-- The values that a search tries for knobs left open: the usual choices. Fused attention recomputes its scores anyway,
-- so selective recomputation is only for unfused attention.
local function free_knobs(o, set)
  if not set.layers_from_description then return { recompute = { "none" }, schedule = { "1f1b" } } end
  return {
    recompute = o.attention == "unfused" and recomputation.granularities or { "none", "full" },
    schedule = { "1f1b", "interleaved_1f1b" },
  }
end

-- The granularities of recomputation to try, each effect once. Selective recomputation drops the scores that attention
-- keeps: if the layers keep none, it is "none", unless its modules are named. Custom blocks may differ.
local function recomputations_of(o, free, described, set)
  local asked, list, seen = as_list(o.recompute) or free.recompute, {}, {}
  local selects = described.architecture or o.recompute_modules or o.recompute_keep
    or set.layers_from_description and o.attention == "unfused"
  for _, recompute in ipairs(asked) do
    local is = recompute == "selective" and not selects and "none" or recompute
    if not seen[is] then list[#list + 1] = recompute end
    seen[is] = true
  end
  return list
end

-- The choices asked for of the strategies' options: name -> list.
local function options_of(o, strategies)
  local options = {}
  for _, s in ipairs(strategies) do
    for name in pairs(s.options) do options[name] = as_list(o[name]) end
  end
  return options
end

-- Combines each variant with each choice of an option. other: the options that differ from the first variant's.
local function with_option(variants, name, wanted)
  local list = {}
  for _, variant in ipairs(variants) do
    for i, choice in ipairs(wanted) do
      local copy = { [name] = choice, other = table.move(variant.other, 1, #variant.other, 1, {}) }
      for field, value in pairs(variant) do
        if field ~= "other" then copy[field] = value end
      end
      if i > 1 then copy.other[#copy.other + 1] = name end
      list[#list + 1] = copy
    end
  end
  return list
end

-- How a run loads experts that does not say so; without a stack, the formulas alone. Biases of routers balance them in
-- pre-training (arXiv 2408.15664, table 2: the busiest expert has 4 % more than the mean, 72 % with a loss instead).
local function usual_routing(o, experts)
  if not o.profile then return "balanced" end
  local tunes = o.peft or o.objective == "dpo"
  return tunes and "finetuning" or experts.router_bias and "balanced" or "pretraining"
end

local function belongs(m, module) return counted.belongs(m, module) end

-- Every combination of settings that change a shape's ops but not its sizes. again: the variant differs from the one
-- before only in sequence_parallel.
local function variants_of(o, free, described, set, strategies)
  local list, modules = {}, recomputation.text(o.recompute_modules, described, belongs)
  local kept = o.recompute_keep and recomputation.kept_text(o.recompute_keep, described, belongs) or nil
  local offloaded, graphed = offload.text(o.offload_modules, described, belongs), graphs.text(o.cuda_graphs, described)
  local parallel = o.sequence_parallel == nil and { true } or as_list(o.sequence_parallel)
  local experts, kind, norms = described.experts, eager.of(o), eager.norms_of(o)
  local routing = experts and (o.imbalance or o.routing or usual_routing(o, experts)) or false
  for _, recompute in ipairs(recomputations_of(o, free, described, set)) do
    for _, sequence_parallel in ipairs(parallel) do
      list[#list + 1] = {
        recompute = recompute, recompute_modules = recompute == "selective" and modules or nil,
        offload_modules = offloaded, loss = o.loss, fused_activation = o.fused_activation,
        padded_vocabulary = o.padded_vocabulary, grouped_kernels = o.grouped_kernels, eager = kind,
        fused_pointwise = o.compile ~= false and o.fused_pointwise or false, expert_calls = o.expert_calls or false,
        routing = routing, norms = norms, scatter_messages = o.scatter_messages, megatron_softmax = o.megatron_softmax,
        cuda_graphs = graphed, overlap_shared_experts = o.overlap_shared_experts or nil,
        sequence_parallel = sequence_parallel, again = sequence_parallel ~= parallel[1], other = {},
      }
      if kept and recompute == "selective" then list[#list].recompute_keep = kept end
    end
  end
  for name, wanted in pairs(options_of(o, strategies)) do list = with_option(list, name, wanted) end
  return list
end

-- Whether the arguments let `base` have the layouts of s in which the axes are 1 that base lacks: none of its own axes
-- is kept from being 1, and none of its own options is asked for.
local function has_same(base, s, o)
  for _, name in ipairs(base.axis_names) do
    local values = not s.index[name] and as_list(o[name])
    if values and not has(values, 1) then return false end
  end
  for name in pairs(base.options) do
    if not s.options[name] and o[name] ~= nil then return false end
  end
  return true
end

-- The sizes that the arguments fix. A strategy that equals another one of the search if some axes are 1 (same_as)
-- leaves that case to it: fixed.left has these axes. The published solver counts it twice.
local function fixed_of(o, strategies, set)
  local fixed = { micro_batch = as_list(o.micro_batch), panels = as_list(o.panels), dp = as_list(o.dp), left = {} }
  local present = {}
  for _, s in ipairs(strategies) do present[s.name] = s end
  for _, s in ipairs(strategies) do
    local same = s.same_as
    local base = same and set.layers_from_description and present[same.strategy]
    if base and has_same(base, s, o) then fixed.left[s.name] = same.without end
    for _, name in ipairs(s.axis_names) do fixed[name] = as_list(o[name]) end
  end
  return fixed
end

-- Whether an argument, one value or a list, says that an axis cuts nothing.
local function unused(value)
  if type(value) ~= "table" then return value == nil or value == 1 end
  for _, one in ipairs(value) do
    if one ~= 1 then return false end
  end
  return true
end

-- Whether arguments leave each layer whole; and whether tokens and experts.
local function whole_parts(o)
  local layers, others = unused(o.pp), true
  for _, entry in ipairs(axes.every()) do
    local axis = entry.axis
    if axis and not axes.cuts(axis, "state") and not unused(o[entry.name]) then
      layers, others = false, others and not (axis.folds or axes.cuts(axis, "tokens"))
    end
  end
  return layers, others
end

-- Whether each stage of ZeRO in a list shards weights.
local function shard_weights(stages)
  for _, stage in ipairs(stages) do
    if stage ~= 3 then return false end
  end
  return true
end

local function is_wide(recipe) return recipe == nil or recipe == "bf16" or recipe == "fp16" end

-- Whether the question is about TPUs, the first of its systems if there are several.
local function on_tpus(value)
  if type(value) == "string" then value = problem.system(value) end
  if not value.vendor and problem.lists_systems(value) then value = value[1] and problem.system(value[1]) or value end
  return value.vendor == "Google"
end

--- The stack that a question asks when it names none: the commonest of those that do what its arguments say, with the
--- numbers of `typical` and its own facts (MaxText has numbers of its own).
---   on TPUs: MaxText
---   layers that nothing cuts: Hugging Face's Trainer with adapters in 16 bits; DeepSpeed with states or weights on the
---     host; PyTorch's FSDP2 with sharded weights (ZeRO 3); of the last two, the one that `sharding` names
---   states sharded over some of the replicas (ZeRO 1 and 2 with `shard`): InternEvo, with tokens and experts uncut
---   else Megatron-Core
---@param o table  arguments of tperf.train or tperf.search
---@return string name
function problem.implied(o)
  if o.compile == false then return profile.USUAL end -- of PyTorch's own modules, see PLAIN there
  if on_tpus(o.system) then return "maxtext-2024" end
  local all = "megatron-core-2026"
  local on_host = o.offload_params or (o.offload_optimizer or 0) > 0
  local sharded = o.zero == 3 or type(o.zero) == "table" and shard_weights(o.zero)
  if not (o.shard or o.peft or o.sharding or on_host or sharded) then return all end
  local layers, others = whole_parts(o)
  if layers and o.sharding ~= "megatron" then
    if o.peft and is_wide(o.precision) then return "transformers-4" end
    if o.sharding == "deepspeed" or on_host and o.sharding ~= "fsdp" then return "deepspeed-2026" end
    if sharded then return "fsdp2-2026" end
  end
  return others and o.shard and not sharded and "internevo-0.5" or all
end

--- Checks the arguments of a question and fills in what its software profile decides.
---@return table arguments  with `profile` in place of the software asked for
function problem.arguments(what, given, schema)
  local o = check.record(what, given, schema)
  o.given = given
  if not problem.lists_systems(o.system) then o.system = problem.system(o.system) end
  o.rules = rules(o.rules)
  local named = o.software
  if named == nil and o.rules.typical_software then named = problem.implied(o) end
  o.profile, o.software = profile.of(named, o.compile), nil
  profile.fill(o, given, o.profile)
  training.fill(o)
  placement.check(what, o)
  if o.overlap_moe_a2a then o.schedule = overlap.schedules(what, o.schedule or { "1f1b", "interleaved_1f1b" }) end
  recomputation.fill(what, o, given)
  offload.fill(what, o)
  return o
end

-- How long a layer of each kind takes, which says how uneven the chunks of interleaved pipelines are; nil: all layers
-- are alike, or each device has one chunk.
local function work_of_kinds(p)
  local piped = false
  for _, pp in ipairs(p.pps) do piped = piped or pp > 1 end
  if not piped or #p.layouts[1].kinds == 1 or not pipelines.may_interleave(p.schedules) then return nil end
  return p.layouts[1].work()
end

-- How experts are loaded means nothing to a model without any.
local function check_routing(o, described)
  local given = o.given or {}
  if described.experts or given.routing == nil and given.imbalance == nil then return end
  refusal.raise("'%s' says how experts are loaded, and model '%s' has none that its description knows: leave it out",
    given.routing ~= nil and "routing" or "imbalance", described.name)
end

-- Lays out the model in each strategy. Of several strategies, those that cannot cut it are left out, with a reason.
local function lay_out(p, o, strategies, how)
  if not strategies[2] then
    p.layouts[1] = workload.of(p.model, strategies[1], o.attention, p.rules, how)
    return strategies
  end
  local kept = {}
  p.never = {}
  for _, s in ipairs(strategies) do
    local layout, reason = refusal.attempt(workload.of, p.model, s, o.attention, p.rules, how)
    if layout then
      kept[#kept + 1], p.layouts[#kept + 1] = s, layout
    else
      p.never[#p.never + 1] = ("%s: %s"):format(s.name, reason)
    end
  end
  if not kept[1] then refusal.raise("%s", table.concat(p.never, "; ")) end
  p.strategies = kept
  return kept
end

--- Turns checked arguments (arguments.schema; gpus, one or a list; bounds: no closed forms) into what the core needs.
---@return table problem  { model, rules, training, software, strategies, layouts, variants, fixed, zero, questions,
---  pipelines, pipeline_list, pps }; each question has the fields that configuration.of needs
---@return boolean many   whether gpus or system was a list
function problem.of(o, strategies)
  local p = { model = model(o.model), rules = o.rules, strategies = strategies, layouts = {} }
  local free = free_knobs(o, p.rules)
  if o.seq then p.model = changed(p.model, { seq = o.seq }) end
  overlap.check(o, p.model)
  check_routing(o, p.model)
  p.model = tuning.packed(o, p.model)
  p.training, p.variants = training.of(o, p.rules, p.model), variants_of(o, free, p.model, p.rules, strategies)
  p.zero, p.profile, p.software = as_list(o.zero) or { 1 }, o.profile,
    graphs.software(o.cuda_graphs, profile.terms(o.profile, p.training))
  local systems = problem.lists_systems(o.system) and problem.systems(o.system) or { o.system }
  local narrow = precision.resolve(p, o.precision, systems, o.peft)
  p.placed = placement.of_training(o, strategies)
  p.questions = {}
  for i, machine in ipairs(systems) do
    offload.check(o, machine)
    local named = o.given and problem.lists_systems(o.given.system) and o.given.system[i] or o.given and o.given.system
    for _, gpus in ipairs(as_list(o.gpus)) do
      p.questions[#p.questions + 1] = {
        model = p.model, system = machine, gpus = gpus, global_batch = o.global_batch, rules = p.rules,
        training = p.training, profile = p.profile, software = p.software, precision = precision.of(o.precision).name,
        attention = o.attention, overlaps = overlap.said(o), compile = o.compile, adapters = o.peft ~= nil,
        placed = p.placed, named = named,
      }
    end
  end
  local deal, apart = pipeline_layout.of(o, p.model)
  local picked = recomputation.picked(o) or offload.picked(o)
  local tuned = tuning.of(o, p.model, p.rules, strategies)
  local how = {
    apart = apart, precision = narrow, twins = picked and (o.offload_layers and "offload" or "recompute") or nil,
    tuning = tuned,
  }
  strategies = lay_out(p, o, strategies, how)
  local work = tuning.work(tuned, p.model, strategies[1], p.rules, apart)
  local saved = training.checkpoint_bytes(p.training, o, p.model, tuned, work)
  for _, question in ipairs(p.questions) do question.work, question.checkpoint_bytes = work, saved end
  p.dealt = deal and pipeline_layout.asked(o) or nil
  p.fixed = fixed_of(o, strategies, p.rules)
  p.wanted_pps = as_list(o.pp)
  p.pps = space.pipeline_sizes(p.model, p.rules, p.questions, p.wanted_pps)
  local schedules = pipelines.names(o.schedule or free.schedule)
  p.schedules, p.virtual_stages = schedules, as_list(o.virtual_stages)
  p.closed_forms = pipelines.closed_forms(schedules)
  pipelines.check_chunks(schedules, p.virtual_stages)
  p.pipelines, p.pipeline_list, p.closed = pipelines.make {
    pps = p.pps, schedules = schedules, virtual_stages = p.virtual_stages or VIRTUAL_STAGES,
    layers = p.model.layers, runs = p.layouts[1].runs, has_ends = p.layouts[1].has_ends, deal = deal, picked = picked,
    even = o.deals_evenly, alone_overlaps = o.overlap_moe_a2a, bounds = o.bounds,
    work = work_of_kinds(p),
  }
  local jobs = {} -- by system
  for _, question in ipairs(p.questions) do
    local machine = question.system
    jobs[machine] = jobs[machine]
      or core.job(core.platform(machine, p.rules, p.software), p.training, p.pipelines)
    question.job, question.pipeline_list = jobs[machine], p.pipeline_list
  end
  return p, problem.lists_systems(o.system) or type(o.gpus) == "table"
end

return problem
