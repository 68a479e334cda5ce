--- How tokens come to their experts and back, over the axis that spreads these (p.spread: ep): the option
-- moe_dispatcher, in Megatron-LM's words
-- (--moe-token-dispatcher-type, --moe-flex-dispatcher-backend):
--   alltoall   one copy of a token for each of its experts; a GPU of several experts sorts what several others send
--   deepep     one copy for each domain that has any of its experts, over the NICs, and there one for each GPU that has
--              any (DeepEP, arXiv 2412.19437, section 3.2.2); a GPU copies what it got once for each expert
--              In serving, batches of few tokens go by its kernels of low latency (SGLang's --deepep-mode auto): a copy
--              for each expert, straight to its GPU
--   hybridep   the same by a kernel that takes fewer multiprocessors
--   allgather  every GPU gets all tokens of the others, and picks its own; back go sums
local core = require "tperf.core"

local dispatch = {}

-- Multiprocessors that the kernels occupy: Megatron-LM's moe_deepep_num_sms (20, as in DeepSeek-V3's training, arXiv
-- 2412.19437, section 3.2.2) and Megatron-Bridge's moe_hybridep_num_sms (16).
local UNITS <const> = { deepep = 20, hybridep = 16 }

-- Bytes/s that each of their multiprocessors relays between domains. DeepEP: combines timed on two and four nodes of
-- H100s with 4 to 12 multiprocessors (the sglang 0.5.6 table in NVIDIA's aiconfigurator, commit 095f58a51, Apache-2.0).
-- HybridEP: the kernels on two nodes of H100s (deepseek-ai/DeepEP, docs/README_Hybrid-EP.md), 13 to 15 GB/s.
local RELAYED <const> = { deepep = 11.2e9, hybridep = 14.1e9 }

-- The same within a domain, a GPU's own tokens too: dispatches and combines on one node of H100s and of GB200s with 4
-- to 24 multiprocessors, 14 to 18 GB/s (the table of sglang 0.5.12 there).
local PASSED <const> = { deepep = 15.5e9 }

-- The part of a port's bandwidth that HybridEP's kernels reach: dispatches and combines in 16 bits on 8 B200s and on 8
-- to 36 GB200s, 0.58 to 0.74 (the same page).
local HYBRID_PORTS <const> = 0.65

-- DeepEP's kernels of low latency, beyond an all-to-all's latency: what each doubling of the nodes takes more (s), and
-- the part of a port's bandwidth that they reach; timed on one node to four of H100s, one of H200s, B200s, B300s and
-- GB200s (the tables of sglang 0.5.6 and 0.5.12 in NVIDIA's aiconfigurator, commit 095f58a51, Apache-2.0).
local DOUBLING <const>, PORTS <const> = 5e-6, 0.5

-- Tokens of a GPU up to which engines take them: what vLLM (VLLM_MOE_DP_CHUNK_SIZE) makes room for, SGLang for half.
local FEW <const> = 256

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

local function once(m, p, rows, element)
  local bytes, e = element * 1.0 * m.hidden, m.experts
  local groups, top_groups = e.groups or 1, e.top_groups or 1
  local come = core.routed_parts(e.count, e.top_k, groups, top_groups, dispatch.gpus(p)) / e.top_k * rows
  local comm = {
    kind = "all_to_all", axis = p.spread, bytes = bytes * rows, exchanges = true,
    once = {
      experts = e.count, top_k = e.top_k, groups = groups, top_groups = top_groups, units = UNITS[p.moe_dispatcher],
      relayed = UNITS[p.moe_dispatcher] * (RELAYED[p.moe_dispatcher] or 0),
      passed = UNITS[p.moe_dispatcher] * (PASSED[p.moe_dispatcher] or 0),
      ports = p.moe_dispatcher == "hybridep" and HYBRID_PORTS or 0,
    },
  }
  return { comm = comm, bytes = bytes * (come + rows), repeated_bytes = 0 }
end

local function at_once(m, p, rows, element)
  local bytes, e = element * 1.0 * m.hidden, m.experts
  local comm = {
    kind = "all_to_all", axis = p.spread, bytes = bytes * rows, exchanges = true,
    once = { experts = e.count, top_k = e.top_k, doubling = DOUBLING, ports = PORTS },
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
  if kind == "deepep" and p.mode ~= "train" and p:outer_tokens() <= FEW then return at_once(m, p, rows, element) end
  return UNITS[kind] and once(m, p, rows, element) or pairwise(m, p, rows, lie, element)
end

return dispatch
