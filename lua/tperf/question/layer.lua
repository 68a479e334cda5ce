--- tperf.layer: the ops of one layer, with their counts and times.
local lazy = require "tperf.base.lazy"
local axes = require "tperf.describe.strategy.axes"
local core = require "tperf.core"
local check = require "tperf.base.check"
local workload = require "tperf.describe.workload"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local placement = lazy.module "tperf.question.placement"
local rank_order = lazy.module "tperf.question.rank_order"
local rules = require("tperf.describe.rules.sets").of
local strategy = require "tperf.describe.strategy"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")
local questions = require "tperf.question.ranks.questions"

local size = check.integer { min = 1, max = 1 << 31, default = 1 }
local optional_size = check.integer { min = 1, max = 1 << 31, optional = true }
local MOST_TOKENS = 1 << 53

-- Panels that the published solver uses outside its search.
local DEFAULT_PANELS = 4

local layer = {}

---@class tperf.comm a collective
---@field kind string
---@field bytes number size of the full vector
---@field axis? string the axis that communicates, for a collective within a layer
---@field gpus integer in the group
---@field fast integer GPUs of the group in one fast domain
---@field time number seconds, run by itself
---@field fast_bytes number that one GPU sends over its fast port
---@field nic_bytes number that one GPU sends through its NICs
---@field tiers? table[] of a network of more than two tiers, innermost first: { name =, bytes =, time = } of one GPU
---@field algorithm string the algorithm timed: "ring", "rings" (parallel), "tree", "switch", "pairwise", "one-shot" …
---@field parts? number collectives that this is, one after the other (1); below 1: part of one for several layers
---@field beside? boolean overlaps with its op's own work: only the time beyond that work counts
---@field once? boolean adds up replicated parameters' gradients once an iteration; not in the pass's time

---@class tperf.pass one pass of an op on one GPU
---@field tensor_flops number
---@field vector_flops number
---@field equivalent_flops number tensor FLOPs plus vector FLOPs times tensor peak / vector peak, as the
--- published solver reports it
---@field bytes number HBM traffic
---@field comms tperf.comm[]
---@field time number seconds, the sum of the next three
---@field compute_time number seconds
---@field exposed_memory_time number seconds of HBM traffic that compute does not hide
---@field comm_time number seconds

---@class tperf.layer_op an op of a layer, for one micro-batch on one GPU
---@field block string
---@field name string
---@field weight_bytes number
---@field weight_grad_bytes number
---@field saved_bytes number activations kept for the backward pass
---@field times? number how often it runs in a pass, if not once; its counts and times are those of all runs
---@field forward tperf.pass
---@field backward tperf.pass

-- The sizes of a strategy's axes, from the fields of `given` with the axes' names.
local function sizes_of(s, given, m, set)
  local sizes, share = {}, strategy.share(s, m, 1, {}, set)
  for i, axis in ipairs(s.axes) do
    sizes[i] = given[axis.name] or axes.default(axis, m, share, set)
    share[axis.name] = sizes[i]
  end
  return sizes
end

--- The argument fields for the axes of a strategy: their sizes, and the fields of `fast`.
function layer.axis_fields(s, checker)
  local schema, fast = {}, {}
  for _, name in ipairs(s.axis_names) do
    schema[name] = checker
    fast[name] = check.integer { min = 1, max = 1 << 31, optional = true }
  end
  return schema, fast
end

local schema_of = check.once(function(s)
  local schema, fast = layer.axis_fields(s, optional_size)
  schema.model, schema.system = check.any(), check.any()
  schema.rules = check.any { optional = true }
  schema.strategy = check.any { optional = true }
  schema.attention = workload.attention_checker
  schema.micro_batch, schema.kind = size, size
  schema.recompute = check.choice { { "none", "selective", "full" }, default = "none" }
  schema.sequence_parallel = check.boolean { default = true }
  schema.panels = check.integer { min = 1, max = 1 << 31, default = DEFAULT_PANELS }
  schema.seq = check.integer { min = 1, max = 1 << 31, optional = true }
  schema.fast = check.record_of(fast, { optional = true })
  return schema
end)

-- The GPUs of each axis in a fast domain: as asked for, or in the usual order of ranks.
local function placed(s, sizes, fast, domain)
  if fast then return placement.all("", s, sizes, { dp = 1, pp = 1, fast = fast }, domain)[1] end
  local order = rank_order.of(s, nil, rank_order.USUAL)
  return rank_order.place("", s, order, sizes, placement.sharing(s, sizes), 1, domain)
end

--- The ops of one layer for one micro-batch on one GPU, in order. Bytes and FLOPs are counts; times are in seconds.
---@param given table
---  model, system      a name, a file or a table
---  strategy           "tensor" (default), "summa", "context" or a custom strategy
---  attention          "flash" (default), "unfused", "recompute", "summa"
---  micro_batch        sequences (1)
---  tp, tp1, tp2, cp, ep, etp   GPUs along each axis of the strategy (1; etp: as tp)
---  ulysses, shard     axes of strategy context; they do not change a layer
---  panels             panels of SUMMA products (4)
---  fast               GPUs of each axis in one fast domain, such as { tp = 8 }; by default in the
---                     usual order of ranks, tp-cp-ep-dp-pp
---  seq                tokens in a sequence, in place of the model's
---  kind               index of the kind of layer, for a model that mixes kinds (1, the first)
---  recompute          "none" (default), "selective", "full"
---  sequence_parallel  true (default) or false
---  rules              "default"
---@return tperf.layer_op[] ops
function layer.ops(given)
  local s = axes.asked(given)
  local o = check.record("tperf.layer", given, schema_of(s))
  local machine, described = system(o.system), model(o.model)
  if o.seq then described = described:with { seq = o.seq } end
  if o.micro_batch > MOST_TOKENS // described.seq then check.fail("tperf.layer: micro_batch x seq is beyond 2^53") end
  local set = rules(o.rules)
  local sizes = sizes_of(s, o, described, set)
  local fast = placed(s, sizes, o.fast, machine.network.fast.domain)
  local laid = workload.of(described, s, o.attention, set)
  if not laid.kinds[o.kind] then
    check.fail("tperf.layer: model '%s' has %d kinds of layers, there is no %d", described.name, #laid.kinds, o.kind)
  end
  local variant = { recompute = o.recompute, sequence_parallel = o.sequence_parallel }
  return laid.workload(sizes, o.micro_batch, variant):ops(o.kind, core.platform(machine, set), fast, o.panels)
end

questions.register("layer", layer.ops)

return layer
