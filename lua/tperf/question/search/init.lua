--- tperf.search: ranks all ways to train a model on a system.
local lazy = require "tperf.base.lazy"
local core = require "tperf.core".search
local choice = require "tperf.question.choice"
local described = require "tperf.question.search.described"
local prepare = require "tperf.question.search.prepare"
local problem = require "tperf.question.problem"
local refusal = require "tperf.base.refusal"
local rerank = lazy.module "tperf.question.search.rerank"
local search_room = require "tperf.question.search.room"
local search_walk = require "tperf.question.search.walk"
local shapes = require "tperf.question.search.shapes"
local advice = lazy.module "tperf.question.search.advice"
local gpu_counts = lazy.module "tperf.question.search.gpu_counts"
local questions = require "tperf.question.ranks.questions"

local search = {}

---@class tperf.found the configurations that a search found, best first
---@field [integer] tperf.configuration
---@field candidates integer number of candidates
---@field feasible integer number that fit in memory; with `bounds`, number that bounds do not rule out
---@field bounds? boolean some pipelines have no closed form: what is not simulated is known by bounds
---@field evaluated? integer number that were timed, if prune is false
---@field complete boolean false if Ctrl-C ended the search
---@field simulated? integer number that were simulated, if some are ranked so
---@field proven? boolean likewise: none that was not simulated could be among the best; false only if interrupted
---@field unproven? string if not proven: how many of those that bounds leave were simulated
---@field seconds number duration of the search
---@field reason? string why nothing was found
---@field model tperf.model
---@field system tperf.system
---@field gpus integer
---@field global_batch integer

local function new_core_search(p, o)
  return search_walk.new(p, o, o.where and function(number, found)
    local question = p.questions[number]
    local c = choice.offered(question, p.strategies[found.strategy], found, function()
      return (described.one(p, o, question, found))
    end)
    return o.where(c) and true or false
  end)
end

local FEW <const> = 64 -- simulations for a piece of advice

local ask

-- The first question's best candidate by simulation, if one fits.
local function simulated_least(p, o)
  local options = {}
  for name, value in pairs(o) do options[name] = value end
  options.top, options.simulates, options.most_simulated, options.prune = 1, "all", FEW, true
  options.keep, options.infeasible, options.where = nil, nil, nil
  p.many = true -- advice on what does not fit either would not end
  local result = ask(p, options)[1]
  return result[1] and { memory = result[1].memory.total, feasible = true }, result.complete
end

--- A candidate of one question that needs little memory, the least if its schedule has a closed form: { memory,
--- feasible … }; nil without any.
---@param o table  checked arguments
---@return table|nil least, boolean complete  false if Ctrl-C ended it
function search.least(o, strategies)
  local p = problem.of(o, strategies)
  p.refused = {}
  if not p.closed then return simulated_least(p, o) end
  local options = { top = 1, threads = o.threads, prune = true, memory_only = true, fast = o.fast }
  local core_search <close> = new_core_search(p, options)
  local complete = shapes.all(p, options, core_search)
  return core_search:answer(1).least, complete
end

-- Adds the best of a ranking by simulation to its result.
local function add_ranked(result, r)
  result.simulated, result.proven = r.simulated, r.proven and result.complete
  result.unproven = not result.proven and rerank.unproven(r, result.complete) or nil
  for i, c in ipairs(rerank.best(r)) do
    c.unproven = result.unproven
    result[i] = c
  end
end

local function answer(p, o, index, found, complete, ranking)
  local question = p.questions[index]
  local result = {
    candidates = found.candidates, feasible = found.feasible, complete = complete, gpus = question.gpus,
    evaluated = not o.prune and found.evaluated or nil, -- with pruning it depends on thread timing
    model = question.model, system = problem.shown(question.system), global_batch = question.global_batch,
    bounds = not p.closed or nil,
  }
  if ranking then
    add_ranked(result, ranking)
  else
    described.all(result, p, o, question, found)
  end
  if found.candidates == 0 and not complete then
    result.reason = "interrupted before the first candidate"
  elseif found.candidates == 0 then
    result.reason = gpu_counts.why_none(p, question, o.fast)
  elseif found.feasible == 0 then
    result.reason = advice.why_too_big(p, o, question, found, complete and search.least)
  elseif result.simulated and #result == 0 then
    result.reason = rerank.why_none(ranking, complete)
  elseif #result == 0 and complete then
    result.reason = ("'where' takes none of %d candidates that fit"):format(found.feasible)
  end
  return result
end

-- Which candidates are ranked by simulation: all if asked to, else the "open" ones, whose schedule has no closed form
-- or whose chunks are so unequal that it is far from the truth; nil if there are none. The others compete by their
-- closed forms, so that what a candidate counts for does not depend on what else there is to choose.
local function simulates(p, o)
  local open = false
  for _, name in ipairs(p.schedules) do
    if not p.closed_forms[name] then
      if o.simulate == false then
        refusal.raise("tperf.search: schedule '%s' has no closed form: only simulation can rank it", name)
      end
      open = true
    end
  end
  if not p.closed and o.simulate == nil and o.keep ~= "all" then open = true end
  if (o.simulate or open) and o.keep == "all" then
    refusal.raise "tperf.search: keep = \"all\" ranks by the closed form, which 'simulate' does without"
  end
  return o.simulate and "all" or open and "open" or nil
end

-- What a walk finds for each question, and whether it was complete; idle: without a walk.
local function walk(p, o, idle)
  local core_search <close> = new_core_search(p, o)
  local complete, found = not idle and shapes.all(p, o, core_search), {}
  for i in ipairs(p.questions) do found[i] = core_search:answer(i) end
  return found, complete
end

-- The rankings of all questions by simulation, which goes on, if need be after further walks, until bounds prove the
-- answers; and whether it was complete.
local function rank(p, o, found, complete)
  local rankings = {}
  for i, question in ipairs(p.questions) do rankings[i] = rerank.new(p, o, question) end
  repeat
    local more = false
    o.reached = {}
    for i, r in ipairs(rankings) do
      if not r.proven then rerank.add(r, found[i], search_walk.MOST_OPEN) end
      o.reached[i], more = rerank.reached(r), more or r.more
    end
    more = more and complete and not core.pending()
    if more then found, complete = walk(p, o) end
  until not more
  return rankings, complete and not core.pending()
end

-- The results of all questions.
function ask(p, o, idle)
  local found, complete = walk(p, o, idle)
  local rankings, results = {}, {}
  if o.simulates then rankings, complete = rank(p, o, found, complete) end
  for i in ipairs(p.questions) do results[i] = answer(p, o, i, found[i], complete, rankings[i]) end
  return results
end

-- The checked arguments of a question, and its problem, as this call may change them.
local function own(t)
  local o = {}
  for name, value in next, t.o do o[name] = value end
  return o, setmetatable({ refused = {}, many = t.many }, t.view)
end

--- search.run for use inside another question: leaves Ctrl-C for that question to handle.
function search.within(given)
  local start = core.clock()
  local o, p = own(prepare(given))
  p.asked = given
  local room = search_room.check(p, o, new_core_search)
  o.simulates = simulates(p, o)
  local results = ask(p, o, not room)
  local seconds = core.clock() - start
  for _, result in ipairs(results) do result.seconds = seconds end
  return p.many and results or results[1]
end

--- Walks a part of a search's shapes, for the process of a run under MPI that asked (tperf/question/search/shapes).
---@param given table    the question
---@param options table  of the walk
---@param part table     { index, of }
function search.part(given, options, part)
  local _, p = own(prepare(given))
  return shapes.answer(p, options, part)
end

--- Ranks all ways to train a model on a system.
---@param given table
---  model              a name, a file or a table
---  system             a name, a file or a table, or a list of them
---  gpus               a number or a list
---  global_batch       sequences per iteration
---  strategy           a name, a list of names, or "all", which ranks them together (by default "tensor", or the first
---                     strategy that has the axes given)
---  attention          "flash" (default), "unfused", "recompute", "summa"
---  seq                tokens in a sequence, in place of the model's
---  rules              "default", "subramanian2024" or a table, see tperf.rules
---  micro_batch, pp, dp, panels   a number or a list to try; by default every number that divides
---  tp, tp1, tp2, cp   GPUs along each axis of the strategy, likewise
---  ep                 GPUs that experts are spread over, out of tp x cp x dp, likewise
---  etp                GPUs that shard each expert, likewise (as tp, or 1)
---  shard              replicas that ZeRO shards over, likewise: fewer than all are hybrid sharding (all)
---  fast               { tp =, dp = … }: only these placements, in place of the order of ranks
---  placement          how GPUs are placed: "stack" (default): in the stack's order of ranks; "best": as is fastest.
---                     Rules without `ranks_in_order` try every placement
---  rank_order         the order of ranks, from neighbours to distant GPUs (the software's; "tp-cp-ep-dp-pp"). An axis
---                     of the strategy that is not in it lies beside the one before it
---  schedule           a name, a list, or "any" that has a closed form ({ "1f1b", "interleaved_1f1b" }); a schedule
---                     without one, such as a custom schedule, is ranked by simulation
---  pipeline_layout    Megatron-LM's string ("Et*3|(tt|)*29m|L"), or a list of layers of each stage, in order
---  first_stage_layers, last_stage_layers  layers of the first and the last device; the others share the rest
---  account_for_embedding, account_for_loss  true: embedding (loss) counts as a layer in the layout (false)
---  cp_kind            how context parallelism exchanges keys: "all_gather" (default), "ring", "all_to_all", or a list
---  moe_dispatcher     how tokens reach their experts: "alltoall" (default), "allgather", "deepep" or "hybridep"
---  overlap_tp         overlap of tensor parallelism's collectives with its products: "bulk" (default), "none",
---                     "ring" (TransformerEngine's user buffers), "async" (PyTorch's), or a list
---  overlap_moe_a2a    true: passes overlap to hide each other's expert all-to-alls (false)
---  delay_wgrad        true: experts' weight gradients are delayed to hide the all-to-all (false)
---  overlap_shared_experts   true: shared experts run beside their micro-batch's own all-to-alls (false)
---  cuda_graphs        what the host launches as graphs, one module or a list (docs/parallelism.md)
---  overlap_grad_reduce  true: gradients are reduced in buckets during the backward pass; false: after it (the stack's)
---  overlap_param_gather   true: weights are gathered during the forward pass; false: no overlap (as the software does)
---  overlap_param_gather_with_optimizer_step   true: the first bucket is gathered during the optimizer's step (false)
---  overlap_p2p        true: messages between the stages of interleaved pipelines travel beside passes; false: passes
---                     wait for them (as the software does)
---  bucket_size        parameters of a bucket (the larger of 40 million and a million for each replica)
---  ulysses            GPUs of context parallelism by all-to-all inside cp, likewise (1)
---  virtual_stages     chunks of layers per device for schedules that interleave; by default those of { 2, 3, 4, 6, 8 }
---                     that deal the layers out evenly
---  zero               ZeRO stage 0 to 3, or a list (1)
---  recompute          "none", "selective", "full", or a list ({ "none", "full" }; with unfused attention all three)
---  sequence_parallel  true (default), false, or a list
---  recompute_modules  modules that selective recomputation reruns, one or a list (docs/memory.md)
---  recompute_method   of full recomputation: "uniform" (default): each group of recompute_num_layers layers keeps one
---                     input; "block": the first so many layers of each chunk; "every" so many (docs/memory.md)
---  recompute_num_layers   number of layers for recompute_method (1)
---  recompute_layers   older name of recompute_num_layers, under "uniform"
---  offload_layers     number of first layers of each chunk whose activations are offloaded to the host (0)
---  offload_modules    modules whose inputs are offloaded to the host, one or a list (docs/memory.md)
---  offload_optimizer  part of the optimizer's states that the host holds and updates, 0 to 1 (0)
---  precision          of the layers' products: "bf16" (default), "fp16", "fp8-delayed", "fp8-current", "fp8-block",
---                     "mxfp8", "nvfp4", "fp8-tensorwise", "fp8-rowwise", or a table (docs/model.md, section 1.10)
---  optimizer          "adam" (default), "adamw", "adam_8bit", "adamw_8bit", "adafactor", "lion", "muon", "sgd"
---  weights, gradients   dtypes of weights and gradients in memory: "fp32", "bf16" … (docs/memory.md)
---  master             "fp32", "bf16" or "none": the optimizer's copy of the weights; by default fp32 for shorter
---                     weights
---  moments            dtype of the optimizer's moments; by default the optimizer's
---  loss               what cross-entropy keeps, see tperf.software (by default the software's, "in-place")
---  reserve            part of the memory to keep free (0)
---  compile            false: norms, rotations and gates are PyTorch's eager kernels, one for every step
---                     (docs/model.md, section 2.5); true: a compiler or the stack's own kernels fuse them (true)
---  data_overlap       false: data-parallel traffic is not overlapped with compute (true)
---  reshard_after_forward   false: weights that ZeRO 3 gathered are kept until the backward pass, in a pipeline until
---                     the last one, like torchtitan's fsdp_reshard_after_forward = "never" (true)
---  gradient_reduce    how replicas that shard the optimizer's state alone (ZeRO 1) reduce gradients:
---                     "reduce_scatter" or "all_reduce", as DeepSpeed's BF16_Optimizer does in pipelines
---                     (as the software does)
---  gradient_shard     true: the optimizer also keeps its shard of the gradients in fp32, as DeepSpeed does (false)
---  peft               adapters on frozen weights: { kind = "lora" or "qlora", rank … } (docs/finetuning.md)
---  frozen             parts that are not trained: { "embedding", "head", "layers:1-20", "mlp" … }
---  packing            documents in a sequence: { mean = tokens } or { lengths = { … } }
---  objective          "next_token" (default) or "dpo": two sequences per sample, which a frozen reference model also
---                     runs
---  reference          of "dpo": "resident" (default), or "precomputed" log-probabilities
---  top                number of configurations to return (10)
---  keep               "all": every candidate, feasible or not, ranked by closed forms even of uneven chunks
---  where              function(configuration) -> boolean: keeps a configuration. It is called only for those good
---                     enough to be returned; `candidates` and `feasible` count before it
---  infeasible         true: also rank configurations that do not fit (false)
---  prune              false: also time configurations that bounds rule out (true)
---  simulate           true: rank by pass-by-pass simulation instead of the closed form; adds `simulated`. By default,
---                     if a schedule has no closed form or a pipeline's chunks differ by more than a tenth
---  threads            number of threads; by default all available processors
---  progress           function(shapes): called with the number of shapes walked so far
---  software           profile of the training stack (see tperf.software): its name, a file or a table
---                     ("typical"); "none": the formulas alone, the default of rules without `typical_software`
---@return tperf.found|tperf.found[] result  a list, systems outermost, if gpus or system is a list
function search.run(given)
  local result = search.within(given)
  if not (result.complete or result[1] and result[1].complete) then core.interrupted() end
  return result
end

questions.register("search", search.run)

return search
