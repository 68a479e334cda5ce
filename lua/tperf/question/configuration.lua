--- Configurations: the results of tperf.search, which tperf.train explains.
local arguments = require "tperf.question.arguments"
local axes = require "tperf.describe.strategy.axes"
local check = require "tperf.base.check"
local choice = require "tperf.question.choice"
local flops = require "tperf.describe.model.flops"
local graphs = require "tperf.describe.arch.graphs"
local offload = require "tperf.describe.arch.offload"
local profile = require "tperf.describe.profile"
local recomputation = require "tperf.describe.arch.recompute"
local visible_memory = require "tperf.describe.machine.visible_memory"

local configuration = {}

---@class tperf.memory bytes on a GPU; a configuration's are of the fullest GPU
---@field total number
---@field peak? table of tperf.train, if simulated: the moment at which the fullest GPU is fullest
---@field weights number
---@field gradients number
---@field optimizer number master copy of the weights, and moments
---@field activations number kept from forward to backward passes, of all micro-batches in flight
---@field passing number that lives during one pass only
---@field buffers number of libraries
---@field runtime number the context of the GPU, and what the allocator reserves and does not use

---@class tperf.breakdown seconds of an iteration; they add up to its time
---@field compute number launches and arithmetic
---@field memory number HBM traffic that arithmetic does not hide
---@field tensor_comm number collectives within layers
---@field data_comm number exposed exchange of weights and gradients
---@field pipeline_comm number messages between stages
---@field bubble number pipeline bubble: devices that wait
---@field host number with a software profile: GPU idle while the host launches kernels
---@field optimizer number with a software profile: the optimizer's step, and the host's launches once an iteration
---@field straggling? number if asked for: the wait for the slowest GPU
---@field offload? number with offloading: exposed copies of activations

---@class tperf.stage neighbouring devices of a pipeline that hold the same
---@field device integer the first of them
---@field layers integer on each of them
---@field repeats integer number of devices
---@field in_flight number most micro-batches whose activations a device keeps at once
---@field first boolean has the embedding
---@field last boolean has the head
---@field memory tperf.memory

---@class tperf.configuration one way to train a model on a machine
---@field strategy string
---@field gpus integer
---@field precision string of the layers' matrix products
---@field global_batch integer sequences of an iteration
---@field tp? integer tensor parallelism
---@field tp1? integer columns of a SUMMA grid
---@field tp2? integer rows of a SUMMA grid
---@field cp? integer context parallelism
---@field ulysses? integer context parallelism by all-to-all, inside cp
---@field cp_kind? string how keys and values are exchanged over cp
---@field etp? integer GPUs that shard each expert
---@field ep? integer expert parallelism: GPUs that experts are spread over
---@field shard? integer replicas that ZeRO shards over, if not all
---@field pp integer pipeline stages
---@field dp integer data-parallel replicas
---@field micro_batch integer sequences
---@field microbatches integer micro-batches of each replica in an iteration
---@field panels? integer panels of SUMMA products
---@field schedule string
---@field virtual_stages integer chunks of layers on a device
---@field zero integer ZeRO stage
---@field moe_dispatcher? string how tokens reach their experts
---@field overlap_tp? string which of tensor parallelism's collectives overlap with its products
---@field overlap_moe_a2a? boolean passes overlap to hide each other's expert all-to-alls
---@field delay_wgrad? boolean weight gradients of experts are delayed to hide them
---@field overlap_shared_experts? boolean shared experts run beside their own micro-batch's exchanges
---@field cuda_graphs? string[] what the host launches as graphs
---@field overlap_grad_reduce? boolean gradients are reduced during the backward pass, if given
---@field overlap_param_gather? boolean weights are gathered during the forward pass, if given
---@field overlap_param_gather_with_optimizer_step? boolean the first bucket is gathered during the optimizer's step
---@field overlap_p2p? boolean messages between the stages of interleaved pipelines travel beside passes, if not as the
---  software has it
---@field bucket_size? number parameters of a bucket, if given
---@field recompute "none"|"selective"|"full"
---@field recompute_modules? string[] of selective recomputation
---@field recompute_keep? string[] of selective recomputation: tensors that are kept, with the layer's input
---@field recompute_method? "uniform"|"block"|"every" of full recomputation
---@field recompute_num_layers? integer
---@field host_memory? number with offloading: bytes of the fullest GPU that its host's memory holds
---@field reshard_after_forward? boolean false: weights that ZeRO 3 gathered are kept for the backward pass
---@field compile? boolean false: norms, rotations and gates are PyTorch's eager kernels
---@field offload_layers? integer first layers of each chunk whose activations are offloaded to the host
---@field offload_modules? string[] modules whose inputs are offloaded
---@field offload_optimizer? number part of the optimizer's states that the host holds and updates
---@field offload_params? boolean the host holds the shards of weights
---@field sequence_parallel boolean
---@field fast table<string, integer> GPUs of each axis in one fast domain
---@field placement "stack"|"best"|"given" in the stack's order of ranks, as is fastest, or as `fast` asked
---@field rank_order? string of "stack": axes from neighbours to distant GPUs
---@field idle integer GPUs of the occupied fast domains that the placement leaves unused
---@field time number seconds of an iteration
---@field sequences_per_second number
---@field tokens_per_second number
---@field tokens_per_second_per_gpu number
---@field throughput number deprecated: sequences_per_second
---@field flops_per_gpu number FLOPs of an iteration, average of the GPUs
---@field mfu number model FLOPs utilisation, a part of the tensor peak for bf16, as the stack's log counts model FLOPs:
--- products with weights, multi-token prediction, and attention's pairs of tokens; neither tables that are only looked
--- up nor recomputation
---@field counted_pairs "causal"|"all" of tokens that mfu counts: those that the causal mask and windows leave, and then
--- never more FLOPs than run, or all of them
---@field model_flops_rate number model FLOPs a second on each GPU, counted likewise: the log's TFLOP/s per GPU
---@field mfu_all_pairs number as PaLM counts: all parameters, with the input table, and all pairs, masked or not
---@field feasible boolean the memory suffices
---@field memory tperf.memory
---@field breakdown tperf.breakdown
---@field trained_parameters? number parameters of the model that are trained, if not all
---@field reason? string of tperf.train, if it does not fit: by how much, and which single change would help
---@field stages? tperf.stage[] of tperf.train: the devices of the pipeline, equal neighbours listed once
---@field layers? tperf.layer_op[] of tperf.train: the ops of the first kind of layer
---@field kinds? table[] of tperf.train: { key, count, ops } of every kind of layer
---@field first? tperf.layer_op[] of tperf.train: the ops before the first layer
---@field last? tperf.layer_op[] of tperf.train: the ops after the last layer
---@field software string profile of the software stack; "none": the formulas alone
---@field time_without_waste number seconds of an iteration by the formulas alone: kernels and links as timed on their
--- own, without host and optimizer's step; at most `time`
---@field interval? table with a profile: intervals.time
---@field intervals? table with a profile: { time, memory } = { low, high } each, in which 90 % of comparable runs lie
---@field fit "fits"|"may not fit"|"does not fit" all of the memory's interval, a part of it, or none of it
---@field warnings? string[] with a profile: in which respects no compared run resembled this one; of an architecture:
--- what its blocks leave out (GPUs of an axis that each do all of a block's work)
---@field least_time? number of tperf.train: a lower bound, in seconds, of every simulation of its schedule
---@field unproven? string of tperf.search, if it was interrupted: how many of the candidates that could be better were
--- simulated
---@field exchanges? table[] of tperf.train: what one layer of a kind exchanges with its replicas: { section, comms =
--- tperf.comm[], gather_hidden, gather_late, reduce_hidden, reduce_late }, seconds that its passes hide and do not
---@field messages? table of tperf.train: between stages, a tperf.comm for each kind of link, with its `links`; the
--- seconds that gathering their parts takes, gather; and the average hop, time
---@field update? table of tperf.train: the optimizer's step, { bytes read and written, time, bandwidth reached }
---@field sum? table[] of tperf.train, if asked to explain: { term, formula, seconds }, which add up to the time
---@field checkpoint_bytes? number size of a checkpoint: weights and optimizer state, once for the whole model
---@field straggling? tperf.straggling of tperf.train, if asked for: what unequal GPUs add to its time
---@field job? table of the command `train --examples`: as tperf.job gives, without configuration and question
---@field simulated? table of tperf.train, if asked for: { schedule, time, makespan, bubble_rate, activations (bytes) }

-- Bytes of a GPU that a question may use.
local function room_of(question) return visible_memory(question.system) * (1 - question.training.reserved) end

--- Whether a GPU's memory suffices.
---@param memory table  with its total in bytes
function configuration.fits(memory, question) return memory.total <= room_of(question) end

local per_token = setmetatable({}, { __mode = "k" }) -- FLOPs by model; models are never changed in place

-- As model:flops_per_token.
local function flops_of(model, causal, convention)
  local total, message = flops.trained(model, causal, convention)
  return total or check.fail("tperf.model:flops_per_token: %s: %s", model.name, message)
end

-- As stacks count whose logs have these pairs of tokens, "causal" or "all"; and as PaLM does.
local function per_token_of(model)
  per_token[model] = {
    causal = flops_of(model, model.causal, "megatron"), all = flops_of(model, false, "megatron"),
    palm = flops_of(model, false, "palm"),
  }
  return per_token[model]
end

--- Notes what configurations take from a question's model and profile, which a script may change before it reads one.
--- Returns the question.
function configuration.prepare(question)
  profile.prepare(question.profile, question)
  if question.tokens then return question end
  local model = question.model
  question.per_token = per_token[model] or per_token_of(model)
  local sequences = question.work and question.work.sequences or 1 -- a preference pair has two
  question.tokens = model.seq * sequences -- of a sample
  question.room = room_of(question)
  return question
end

-- Model FLOPs utilisation (arXiv 2204.02311, appendix B): the model's FLOPs, without recomputation, over those that the
-- GPUs could do in the same time at the tensor peak. First as the stack's log counts, and FLOP/s by it; of masked pairs
-- no more than run. Then as PaLM counts. The published model has no mask, and counts FLOPs of its own: there both are
-- the same.
local function add_utilisation(c, question)
  local known, peak, work, stack = question.per_token, question.system.accelerator.tensor.bf16, question.work,
    question.profile
  local counted, tokens = stack and stack.counted_pairs or "causal", c.tokens_per_second_per_gpu
  if work then tokens = tokens * work.flops end
  local palm, logged = known.palm * tokens, known[counted] * tokens
  if not question.rules.layers_from_description then
    logged = palm
  elseif counted == "causal" and logged * c.time > c.flops_per_gpu then
    logged = c.flops_per_gpu / c.time
  end
  c.mfu, c.mfu_all_pairs, c.model_flops_rate, c.counted_pairs = logged / peak, palm / peak, logged, counted
end

--- The candidate of the core that a search has found, or that a question of tperf.train describes: an object with all
--- that its time and memory depend on, whose methods tell them (src/bind/question/candidate.h).
---@param question table   of problem.of
---@param workload userdata  its layout
---@param found table      sizes and fast (of dp, pp and the strategy's axes), pipeline, micro_batch, panels, zero
function configuration.candidate(question, workload, found)
  return question.job:candidate(workload, {
    global_batch = question.global_batch, dp = found.sizes[1], pipeline = found.pipeline,
    micro_batch = found.micro_batch, panels = found.panels, zero = found.zero, fast = found.fast,
  })
end

--- A candidate's time as a function of the software profile's terms; what does not depend on them is computed once.
---@return fun(terms: table): number seconds
function configuration.predictor(candidate)
  local predictor = candidate:predictor()
  return function(terms) return predictor:seconds(terms) end
end

-- Sets the rates that follow from an iteration's time.
local function set_rates(c, question)
  local rate = question.global_batch / c.time
  c.sequences_per_second, c.throughput = rate, rate -- throughput: deprecated
  rate = rate * question.tokens
  c.tokens_per_second, c.tokens_per_second_per_gpu = rate, rate / question.gpus
end

--- The record of a candidate.
---@param question table  { model, system, gpus, global_batch, rules, training, profile, software, job, pipeline_list }
---@param s table         its strategy
---@param found table     as for configuration.candidate
---@param candidate userdata  of it
---@param fields integer?  that it will have; as those of a search
---@return table configuration
function configuration.of(question, s, found, candidate, fields)
  configuration.prepare(question)
  local c = candidate:time(fields)
  choice.add(c, question, s, found)
  c.precision = question.precision
  for name, value in pairs(question.overlaps) do c[name] = value end
  set_rates(c, question)
  c.trained_parameters = question.work and math.tointeger(question.work.trained)
  local room, total = question.room, c.memory.total
  c.feasible = total <= room
  add_utilisation(c, question)
  c.checkpoint_bytes = question.checkpoint_bytes
  profile.describe(c, question)
  local low, high = total, total
  local interval = c.intervals and c.intervals.memory
  if interval then low, high = interval.low, interval.high end
  c.fit = high <= room and "fits" or low <= room and "may not fit" or "does not fit"
  return c
end

--- Writes into a configuration how its question asked for it.
---@param question table  as for configuration.of
---@param o table         checked arguments
---@param s table         the strategy
---@param variant table   what of the arguments it chooses
function configuration.describe(c, question, o, s, variant)
  recomputation.describe(c, variant, o)
  offload.describe(c, variant, o)
  graphs.describe(c, o)
  c.sequence_parallel = variant.sequence_parallel
  axes.tell_options(c, s, variant)
  arguments.repeat_in(c, o, question)
end

local warned = setmetatable({}, { __mode = "k" }) -- configuration -> number of its warnings that are about blocks

--- Whether a configuration is unlike the runs that its software profile was fitted to.
function configuration.is_unlike(c) return c.warnings ~= nil and #c.warnings > (warned[c] or 0) end

--- Adds what the blocks of an architecture leave out of a layout to a configuration's warnings.
---@param c table         changed in place
---@param layout table    of tperf.describe.workload, with warnings
---@param sizes integer[]  of the strategy's axes
---@param variant table
function configuration.warn(c, layout, sizes, variant)
  local told = layout.warnings(sizes, c.micro_batch, variant)
  if not told then return end
  warned[c] = #told
  c.warnings = table.move(told, 1, #told, #(c.warnings or {}) + 1, c.warnings or {})
end

local function set_time(c, question, time)
  local ratio = c.time / time
  c.time = time
  set_rates(c, question)
  c.mfu, c.mfu_all_pairs, c.model_flops_rate = c.mfu * ratio, c.mfu_all_pairs * ratio, c.model_flops_rate * ratio
  if question.profile then profile.describe(c, question) end
end

--- Adds the results of a simulation of its schedule to a configuration. For a schedule without a closed form they also
-- set its time, and the bubble is the time that no other part takes.
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
  for _, name in ipairs(check.names(b)) do -- in a fixed order, so that rounding is the same every time
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

--- Adds the wait for the slowest GPU to a configuration.
---@param c table           changed in place
---@param question table    as for configuration.of
---@param s tperf.straggling
function configuration.straggle(c, question, s)
  c.straggling, c.breakdown.straggling = s, s.seconds
  set_time(c, question, c.time + s.seconds)
end

return configuration
