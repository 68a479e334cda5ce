--- Configurations: what tperf.search returns and tperf.train explains.
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local profile = require "tperf.describe.profile"

local configuration = {}

---@class tperf.memory bytes on a GPU, for a configuration on the one that holds most
---@field total number
---@field peak? table of tperf.train, if simulated: the moment at which the fullest GPU is fullest
---@field weights number
---@field gradients number
---@field optimizer number master copy of the weights, and moments
---@field activations number kept from forward to backward passes, of all micro-batches in flight
---@field passing number that lives during one pass only
---@field buffers number of libraries

---@class tperf.breakdown seconds of an iteration; they add up to its time
---@field compute number launches and arithmetic
---@field memory number HBM traffic that arithmetic does not hide
---@field tensor_comm number collectives within layers
---@field data_comm number exposed exchange of weights and gradients
---@field pipeline_comm number messages between stages
---@field bubble number devices that wait
---@field host number with a software profile: kernels that wait to be launched
---@field optimizer number with a software profile: the optimizer's step
---@field straggling? number if asked for: the wait for the slowest GPU
---@field offload? number where something is offloaded: copies of activations that nothing hides

---@class tperf.stage neighbouring devices of a pipeline that hold the same
---@field device integer the first of them
---@field layers integer on one of them
---@field repeats integer how many there are
---@field in_flight number most micro-batches whose activations one keeps
---@field first boolean has the embedding
---@field last boolean has the head
---@field memory tperf.memory

---@class tperf.configuration one way to train a model on a machine
---@field strategy string
---@field gpus integer
---@field precision string of the layers' products
---@field global_batch integer sequences of an iteration
---@field tp? integer GPUs along the axis: tensor parallelism
---@field tp1? integer columns of a SUMMA grid
---@field tp2? integer rows of a SUMMA grid
---@field cp? integer context parallelism
---@field ulysses? integer context parallelism by all-to-all, inside cp
---@field cp_kind? string how keys and values travel over cp
---@field etp? integer GPUs that cut each expert
---@field ep? integer expert parallelism: GPUs that experts are spread over
---@field shard? integer replicas that ZeRO shards over, where these are not all
---@field pp integer pipeline stages
---@field dp integer data-parallel replicas
---@field micro_batch integer sequences
---@field microbatches integer of each replica in an iteration
---@field panels? integer of SUMMA products
---@field schedule string
---@field virtual_stages integer chunks of layers on a device
---@field zero integer ZeRO stage
---@field moe_dispatcher? string how tokens come to their experts
---@field overlap_tp? string what of tensor parallelism's collectives runs beside its products
---@field overlap_moe_a2a? boolean passes overlap to hide each other's exchanges with experts
---@field delay_wgrad? boolean weight gradients of experts wait for that
---@field overlap_grad_reduce? boolean gradients are reduced beside the backward pass, if that was said
---@field overlap_param_gather? boolean weights are gathered beside the forward pass, likewise
---@field overlap_param_gather_with_optimizer_step? boolean the first bucket's beside the optimizer's step
---@field bucket_size? number parameters of a bucket, if given
---@field recompute "none"|"selective"|"full"
---@field recompute_modules? string[] of selective recomputation
---@field recompute_method? "uniform"|"block"|"every" of full recomputation
---@field recompute_num_layers? integer
---@field host_memory? number bytes of the fullest GPU in its host's memory, where something is offloaded
---@field reshard_after_forward? boolean false: weights that ZeRO 3 gathered stay
---@field offload_layers? integer first layers of each chunk whose activations the host keeps
---@field offload_modules? string[] whose inputs it keeps
---@field offload_optimizer? number part of the optimizer's states that it keeps and updates
---@field sequence_parallel boolean
---@field fast table<string, integer> GPUs of each axis in one fast domain
---@field idle integer GPUs that the placement leaves unused in the fast domains that it occupies
---@field time number seconds of an iteration
---@field throughput number sequences a second
---@field tokens_per_second number
---@field flops_per_gpu number FLOP of an iteration, average of the GPUs
---@field mfu number model FLOPs utilisation, a part of the tensor peak for bf16; of attention the pairs of tokens that
--- the model needs: what its causal mask and windows leave
---@field mfu_all_pairs number the same with all pairs, as PaLM counts, masked or not
---@field feasible boolean the memory suffices
---@field memory tperf.memory
---@field breakdown tperf.breakdown
---@field trained_parameters? number where not all are trained: those of the model that are
---@field reason? string of tperf.train, where it does not fit: by how much, and which single change would help
---@field stages? tperf.stage[] of tperf.train: the devices of the pipeline, neighbours that hold the same once
---@field layers? tperf.layer_op[] of tperf.train: the ops of the first kind of layer
---@field kinds? table[] of tperf.train: { key, count, ops } of every kind of layer
---@field first? tperf.layer_op[] of tperf.train: the ops before the first layer
---@field last? tperf.layer_op[] of tperf.train: the ops after the last layer
---@field software string the profile of the stack that runs it; "none": the formulas alone
---@field time_without_waste number seconds of an iteration by the formulas alone: kernels and links as timed on their
--- own, no host, no optimizer's step
---@field interval? table with a profile: { low, high } seconds between which nine tenths of the like runs lie
---@field warnings? string[] with a profile: what no run that was compared resembled
---@field least_time? number of tperf.train: seconds that no simulation of its schedule is below
---@field exchanges? table[] of tperf.train: what one layer of a kind exchanges with its replicas: { section, comms =
--- tperf.comm[], gather_hidden, gather_late, reduce_hidden, reduce_late }, seconds that its passes hide and do not
---@field messages? table of tperf.train: between stages, a tperf.comm for each kind of link, with its `links`; and the
--- average hop, time
---@field update? table of tperf.train: the optimizer's step, { bytes read and written, time, bandwidth reached }
---@field sum? table[] of tperf.train, if asked to explain: { term, formula, seconds }, which add up to the time
---@field checkpoint_bytes? number of a checkpoint: weights and optimizer state, once for the whole model
---@field straggling? tperf.straggling of tperf.train, if asked for: what unequal GPUs add to its time
---@field simulated? table of tperf.train, if asked for: { schedule, time, makespan, bubble_rate, activations (bytes) }

local function fast_of(s, found)
  local fast = { dp = found.fast[1], pp = found.fast[2] }
  for i, axis in ipairs(s.axes) do
    if axes.shows(axis, found.sizes[2 + i]) then fast[axis.name] = found.fast[2 + i] end
  end
  return fast
end

-- A domain holds as many blocks of GPUs that share it as fit; the rest of it does nothing.
local function idle_of(c, s, domain)
  if c.gpus <= domain then return 0 end
  local block = c.fast.dp * c.fast.pp
  for _, axis in ipairs(s.axes) do
    if not axis.folds then block = block * c.fast[axis.name] end
  end
  local in_domain = domain // block
  local domains = (c.gpus // block + in_domain - 1) // in_domain
  return domains * domain - c.gpus
end

--- Whether so much memory suffices.
---@param memory table  with its total
function configuration.fits(memory, question)
  return memory.total <= question.system.accelerator.hbm.capacity * (1 - question.training.reserved)
end

local per_token = setmetatable({}, { __mode = "k" }) -- FLOPs of models, which are never changed in place

-- FLOPs of the model, over what the GPUs could do in that time at the tensor peak: model FLOPs utilisation (arXiv
-- 2204.02311, appendix B), recomputation not counted; with the pairs of tokens that the model needs (all of them under
-- the rules of the published model, which has no mask), and with all.
local function utilisation(c, question)
  local model, peak = question.model, question.system.accelerator.tensor.bf16
  local known = per_token[model]
  if not known then
    known = { needed = model:flops_per_token().total, all = model:flops_per_token({ causal = false }).total }
    per_token[model] = known
  end
  local rate = c.tokens_per_second / (question.gpus * peak) * (question.work and question.work.flops or 1)
  local needed = question.rules.layers_from_description and known.needed or known.all
  return needed * rate, known.all * rate
end

-- Of a sample: a preference has two sequences.
local function tokens_of(question)
  return question.model.seq * (question.work and question.work.sequences or 1)
end

--- The sizes of the strategy's own axes.
function configuration.own(s, found)
  local own = {}
  for i in ipairs(s.axes) do own[i] = found.sizes[2 + i] or 0 end
  return own
end

local function run_of(question, found)
  return {
    global_batch = question.global_batch, dp = found.sizes[1], pipeline = found.pipeline,
    micro_batch = found.micro_batch, panels = found.panels, zero = found.zero,
  }
end

--- What each device of a candidate's pipeline holds; those of neighbours that hold the same once.
---@return tperf.stage[]
function configuration.stages(question, network, found)
  local list = network:devices(question.system, question.rules, question.training, question.pipelines,
    run_of(question, found), found.fast)
  local device = 1
  for _, stage in ipairs(list) do
    stage.device, device = device, device + stage.repeats
  end
  return list
end

--- What the parts of a candidate's time are made of, see tperf/question/train/sum.lua.
function configuration.audit(question, network, found)
  return network:audit(question.system, question.rules, question.training, question.pipelines, run_of(question, found),
    found.fast, question.software)
end

--- What a schedule of so many stages is simulated with, in seconds and bytes, see tperf.question.train.simulate.
function configuration.passes(question, network, found, stages)
  return network:passes(question.system, question.rules, question.training, question.pipelines,
    run_of(question, found), found.fast, question.software, stages)
end

--- The tasks of a candidate's step in a schedule of so many stages, see tperf/timeline/tasks.lua.
function configuration.tasks(question, network, found, stages)
  return network:tasks(question.system, question.rules, question.training, question.pipelines,
    run_of(question, found), found.fast, question.software, stages)
end

--- A candidate's time as a function of the software that runs it: what no software changes is worked out once.
---@return fun(terms: table): number seconds
function configuration.predictor(question, network, found)
  local predictor = network:predictor(question.system, question.rules, question.training, question.pipelines,
    run_of(question, found), found.fast)
  return function(terms) return predictor:seconds(terms) end
end

--- The record of a candidate.
---@param question table  { model, system, gpus, global_batch, rules, training, profile, software, pipelines,
---  pipeline_list }
---@param s table         its strategy
---@param network userdata  laid out for it
---@param found table     sizes and fast (of dp, pp and the strategy's axes), pipeline, micro_batch, panels, zero
---@param fields integer?  that it will have; as those of a search
---@return table configuration
function configuration.of(question, s, network, found, fields)
  local c = network:iteration(question.system, question.rules, question.training, question.pipelines,
    run_of(question, found), found.fast, question.software, fields)
  local pipeline = question.pipeline_list[found.pipeline]
  c.strategy, c.gpus, c.global_batch = s.name, question.gpus, question.global_batch
  c.precision = question.precision
  for i, axis in ipairs(s.axes) do
    local size = found.sizes[2 + i]
    if axes.shows(axis, size) then c[axis.name] = size end
  end
  c.dp, c.pp, c.micro_batch, c.zero = found.sizes[1], pipeline.pp, found.micro_batch, found.zero
  c.schedule, c.virtual_stages = pipeline.schedule, pipeline.virtual_stages
  for name, value in pairs(question.overlaps) do c[name] = value end
  c.panels = s.panels and found.panels or nil
  c.microbatches = question.global_batch // (c.dp * s.grid:batch(configuration.own(s, found))) // found.micro_batch
  c.fast = fast_of(s, found)
  c.idle = idle_of(c, s, question.system.network.fast.domain)
  c.throughput = question.global_batch / c.time
  c.tokens_per_second = c.throughput * tokens_of(question)
  c.trained_parameters = question.work and math.tointeger(question.work.trained)
  c.feasible = configuration.fits(c.memory, question)
  c.mfu, c.mfu_all_pairs = utilisation(c, question)
  c.checkpoint_bytes = question.checkpoint_bytes
  profile.describe(c, question.profile, question)
  return c
end

local function set_time(c, question, time)
  local ratio = c.time / time
  c.time, c.throughput = time, question.global_batch / time
  c.tokens_per_second = c.throughput * tokens_of(question)
  c.mfu, c.mfu_all_pairs = c.mfu * ratio, c.mfu_all_pairs * ratio
  if question.profile then profile.describe(c, question.profile, question) end
end

--- Adds to a configuration what a simulation of its schedule found. Of a schedule without a closed form that is its
-- time, and its bubble what no other part takes.
---@param c table         changed in place
---@param question table  as for configuration.of
---@param t tperf.timeline  of simulate.run
---@param closed boolean  the schedule has a closed form
function configuration.retime(c, question, t, closed)
  c.simulated = {
    schedule = t.schedule, time = t.iteration_time, makespan = t.makespan, bubble_rate = t.bubble_rate,
    activations = t:most "peak_memory",
  }
  c.memory.peak = t.peak
  if closed then return end
  local b, rest = c.breakdown, t.iteration_time
  for _, name in ipairs(check.names(b)) do -- in one order, so that the last digit is the same every time
    if name ~= "bubble" and name ~= "data_comm" then rest = rest - b[name] end
  end
  b.data_comm = math.max(math.min(b.data_comm, rest), 0.0)
  b.bubble = rest - b.data_comm
  set_time(c, question, t.iteration_time)
  local m, alive = c.memory, t.peak.alive
  for name, bytes in pairs(alive) do m[name] = bytes end
  m.total = t.peak.total
  c.feasible = configuration.fits(m, question)
end

--- Adds to a configuration what the wait for the slowest GPU takes.
---@param c table           changed in place
---@param question table    as for configuration.of
---@param s tperf.straggling
function configuration.straggle(c, question, s)
  c.straggling, c.breakdown.straggling = s, s.seconds
  set_time(c, question, c.time + s.seconds)
end

return configuration
