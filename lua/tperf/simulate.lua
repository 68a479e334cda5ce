--- A configuration's iteration, simulated pass by pass: the cost model's times of every stage, in a pipeline schedule.
-- What the closed form of tperf.train does not see: stages that differ, latency that a schedule hides or waits for,
-- weight gradients that fill bubbles, communication that overlapped passes hide.
local check = require "tperf.check"
local core = require "tperf.core"
local op = require "tperf.op"
local schedule = require "tperf.schedule"
local strategy = require "tperf.strategy"

local simulate = {}

local BYTES = 2 -- of a 16-bit element
local PADDING = 128 -- the vocabulary is padded to this, on every GPU, for the tensor cores

local OPTIONS = {
  schedule = check.string { default = "1f1b" },
  stages = check.integer { min = 1, optional = true },
  group_size = check.integer { min = 1, optional = true },
  memory_limit = check.number { min = 0, unit = "bytes", optional = true },
  rules = check.string { optional = true },
}

--- What `simulate` may be: true, the name of a schedule, or a table:
--   schedule      its name ("1f1b")
--   stages        several per GPU where the schedule takes them; layers are dealt out evenly, the first stages get one
--                 more where they do not divide
--   group_size, memory_limit (of activations, in bytes), rules   as for tperf.schedule
function simulate.options(value, path)
  if value == nil or value == false then return nil end
  if value == true then value = {} end
  if type(value) == "string" then value = { schedule = value } end
  return check.record_of(OPTIONS)(value, path)
end

-- What a list of ops takes: F and B in seconds; weight, the part of B that only computes weight gradients; comm, the
-- part of F and B that communicates; saved bytes.
-- Both gradients of a product X W are products of its own size, so an op with a weight matrix spends half its
-- backward's time on either. Its communication is of the input's gradient.
local function cost_of(ops)
  local c = { F = 0.0, B = 0.0, weight = 0.0, forward_comm = 0.0, backward_comm = 0.0, saved = 0.0 }
  for _, o in ipairs(ops) do
    c.F, c.B, c.saved = c.F + o.forward.time, c.B + o.backward.time, c.saved + o.saved_bytes
    c.forward_comm, c.backward_comm = c.forward_comm + o.forward.comm_time, c.backward_comm + o.backward.comm_time
    if o.weight_bytes > 0 and o.backward.tensor_flops > 0 then
      c.weight = c.weight + (o.backward.time - o.backward.comm_time) / 2
    end
  end
  return c
end

-- The first stage looks up its tokens' rows of the embedding. Every GPU reads and writes its share of the result.
local function embedding_ops(m, p)
  return {
    name = "embedding",
    op.elementwise {
      name = "lookup", elements = p:outer(m.hidden), forward_flops = 0, backward_flops = 1,
      forward_bytes = 2 * BYTES, backward_bytes = 3 * BYTES,
    },
  }
end

-- The last stage turns features into logits over the vocabulary and their loss: per logit an exponential, its sum and
-- the maximum before it, and a division; backward a subtraction and a product.
local function head_ops(m, p, gpus)
  local width = PADDING * gpus
  local vocab = (m.vocab + width - 1) // width * width
  return {
    name = "head",
    p:norm { name = "norm", width = m.hidden },
    p:column { name = "logits", n_in = m.hidden, n_out = vocab },
    op.elementwise {
      name = "loss", elements = p:inner(vocab), forward_flops = 4, backward_flops = 2, forward_bytes = 2 * BYTES,
      backward_bytes = 2 * BYTES, saved_bytes = BYTES,
    },
  }
end

-- The costs of the embedding and the head, or nil where the rules or the model have none.
local function ends_of(question, s, c)
  local m, set = question.model, question.rules
  if not set.ends_take_time or not m.vocab then return nil end
  local sizes, fast, gpus = {}, {}, 1
  for i, name in ipairs(s.axis_names) do
    sizes[i], fast[i] = c[name], c.fast[name]
    gpus = gpus * sizes[i]
  end
  local share = strategy.share(s, m, c.micro_batch, sizes, set)
  local function cost(ops)
    local layer = core.layer(s.axis_names, sizes, s.gradient_mask, 0.0, { ops })
    return cost_of(layer:ops(question.system, set, fast, c.panels or 1))
  end
  return cost(embedding_ops(m, share)), cost(head_ops(m, share, gpus))
end

-- Times and memory of every stage, for tperf.schedule.
local function stage_costs(layer, embedding, head, layers, stages)
  local times, memory = { forward = {}, backward_input = {}, backward_weight = {}, overlapped = {} }, {}
  for s = 1, stages do
    local n = layers // stages + (s <= layers % stages and 1 or 0)
    local function total(name)
      return n * layer[name] + (s == 1 and embedding and embedding[name] or 0.0)
        + (s == stages and head and head[name] or 0.0)
    end
    local F, B, weight, comm = total "F", total "B", total "weight", total "forward_comm" + total "backward_comm"
    times.forward[s], times.backward_input[s], times.backward_weight[s] = F, B - weight, weight
    memory[s] = total "saved"
    -- One's communication hides behind the other's work, as far as there is any.
    times.overlapped[s] = math.max(F, B, F + B - comm, comm)
  end
  return times, memory
end

--- Simulates a configuration of tperf.train.
---@param question table  { model, system, rules }: as resolved
---@param s table         the strategy
---@param c table         the configuration, with layers (ops)
---@param o table         simulate.options
---@return table timeline in seconds and bytes; with iteration_time, which adds the data-parallel communication
function simulate.run(question, s, c, o)
  local definition = schedule.get(o.schedule)
  local stages = o.stages or schedule.default_stages(definition, c.pp)
  local layers = question.model.layers
  if stages > layers then check.fail("tperf.train: %d stages are more than the model's %d layers", stages, layers) end
  local embedding, head = ends_of(question, s, c)
  local times, memory = stage_costs(cost_of(c.layers), embedding, head, layers, stages)
  local t = schedule {
    schedule = o.schedule, devices = c.pp, stages = stages, microbatches = c.microbatches, group_size = o.group_size,
    times = times, memory = { forward = memory }, memory_limit = o.memory_limit, rules = o.rules,
    p2p = c.breakdown.pipeline_comm / (2 * c.microbatches), -- every micro-batch is sent once either way
  }
  t.iteration_time = t.makespan + c.breakdown.data_comm
  return t
end

return simulate
