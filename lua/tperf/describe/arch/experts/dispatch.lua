--- How tokens come to their experts and back, over the axis that spreads these (p.spread: ep): the option
-- moe_dispatcher, in Megatron-LM's words
-- (--moe-token-dispatcher-type, --moe-flex-dispatcher-backend), with the numbers of kernels/dispatch.yaml:
--   alltoall   one copy of a token for each of its experts; a GPU of several experts sorts what several others send
--   deepep     one copy for each domain that has any of its experts, over the NICs, and there one for each GPU that has
--              any (DeepEP, arXiv 2412.19437, section 3.2.2); a GPU copies what it got once for each expert
--              In serving, batches of few tokens go by its kernels of low latency (SGLang's --deepep-mode auto): a copy
--              for each expert, straight to its GPU
--   hybridep   the same by a kernel that takes fewer multiprocessors
--   allgather  every GPU gets all tokens of the others, and picks its own; back go sums
local core = require "tperf.core"
local kernels = require "tperf.describe.kernels"

local dispatch = {}

--- GPUs that experts are spread over.
function dispatch.gpus(p) return p[p.spread] or 1 end

-- Gathers the tokens of all replicas; the rows for this GPU's experts are picked from them.
local function gathered(m, p, there, rows, lie, element)
  local bytes = element * 1.0 * m.hidden
  local comm = {
    kind = there and "all_gather" or "reduce_scatter", axis = p.spread, bytes = bytes * p:outer_tokens() * lie.replicas,
    exchanges = true,
  }
  return { comm = comm, bytes = 2 * bytes * rows, repeated_bytes = 0 }
end

local function once(m, p, rows, element, of)
  local bytes, e = element * 1.0 * m.hidden, m.experts
  local groups, top_groups = e.groups or 1, e.top_groups or 1
  local come = core.routed_parts(e.count, e.top_k, groups, top_groups, dispatch.gpus(p)) / e.top_k * rows
  local comm = {
    kind = "all_to_all", axis = p.spread, bytes = bytes * rows, exchanges = true,
    once = {
      experts = e.count, top_k = e.top_k, groups = groups, top_groups = top_groups, units = of.sms,
      relayed = of.sms * of.relayed, passed = of.sms * (of.passed or 0), ports = of.ports or 0,
    },
  }
  return { comm = comm, bytes = bytes * (come + rows), repeated_bytes = 0 }
end

local function at_once(m, p, rows, element, of)
  local bytes, e = element * 1.0 * m.hidden, m.experts
  local comm = {
    kind = "all_to_all", axis = p.spread, bytes = bytes * rows, exchanges = true,
    once = { experts = e.count, top_k = e.top_k, doubling = of.doubling, ports = of.ports },
  }
  return { comm = comm, bytes = bytes * (p:outer_tokens() + rows), repeated_bytes = 0 }
end

local function pairwise(m, p, rows, lie, element)
  local bytes = element * 1.0 * m.hidden
  local sorts = p.mode == "train" and lie.replicas > 1 and m.experts.count > dispatch.gpus(p)
  return {
    comm = { kind = "all_to_all", axis = p.spread, bytes = bytes * rows, exchanges = true },
    bytes = bytes * (p:outer_tokens() + (sorts and 3 or 1) * rows),
    repeated_bytes = sorts and bytes * rows or 0, -- the sorted rows are read while the received ones are still held
  }
end

--- The memory traffic and the collective of one pass of an exchange.
---@param m table         the model, as wide as the rows that travel
---@param p table         the share
---@param there boolean   true: to the experts; false: back from them
---@param rows number     rows for the experts of one GPU
---@param lie table       the placement of the experts on GPUs: { replicas … }
---@param element number  bytes per number that travels
---@return table way      { comm = the collective, bytes =, repeated_bytes = }
function dispatch.way(m, p, there, rows, lie, element)
  local kind = lie.replicas > 1 and p.moe_dispatcher or "alltoall"
  if kind == "allgather" then return gathered(m, p, there, rows, lie, element) end
  if kind == "alltoall" then return pairwise(m, p, rows, lie, element) end
  local of = kernels.of "dispatch"[kind]
  local low = p.mode ~= "train" and of.low_latency
  if low and p:outer_tokens() <= low.tokens then return at_once(m, p, rows, element, low) end
  return once(m, p, rows, element, of)
end

return dispatch
