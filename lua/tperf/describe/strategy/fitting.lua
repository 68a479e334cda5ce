--- Divisibility rules shared by strategies. The published solver rounds down sizes that do not divide;
-- the default rules refuse them, with the names of the block, the op and the size.
local divisors = require "tperf.base.divisors"
local op = require "tperf.describe.op"
local refusal = require "tperf.base.refusal"
local windowed = require "tperf.describe.model.windowed"

local fitting = {}

--- width / n; `name` is the op.
function fitting.split(p, width, n, axis, name)
  if width % n ~= 0 and p.rules.columns_gather then
    refusal.raise("block '%s', op '%s': a size of %d is not divided by %s = %d", p.block or "?", name, width, axis, n)
  end
  return width // n
end

--- Whether n GPUs can hold `heads`: an equal number each, or replicas of each head on several GPUs.
local function holds(heads, n)
  return heads % n == 0 or n % heads == 0
end

--- The number of `heads` on each of n GPUs: heads / n, or one, replicated on n / heads GPUs.
function fitting.replicated(p, heads, n, what)
  if not holds(heads, n) and p.rules.columns_gather then
    refusal.raise("block '%s': %s = %d neither divides the %d GPUs nor is divided by them", p.block or "?", what,
      heads, n)
  end
  return math.max(heads // n, 1)
end

--- Rows of a table on each of n GPUs, the last of which may be padded.
function fitting.padded(rows, n)
  return (rows + n - 1) // n
end

--- Whether all parts of a model's layers can be cut n ways by heads and features.
---@return boolean fits
---@return string? reason
---@param own boolean?  true: experts are cut along a separate axis
function fitting.cuts(m, n, rules, own)
  local kinds = m.heads and windowed.kinds(m) or {}
  for _, one in ipairs(kinds) do
    if one.heads % n ~= 0 then return false, ("does not divide the %d heads"):format(one.heads) end
  end
  if m.hidden % n ~= 0 then return false, ("does not divide the hidden size of %d"):format(m.hidden) end
  if not rules.columns_gather then return true end
  for _, one in ipairs(kinds) do
    if not m.mla and not holds(one.kv_heads, n) then
      return false, ("neither divides the %d key and value heads nor is divided by them"):format(one.kv_heads)
    end
  end
  if m.ffn and m.ffn % n ~= 0 then return false, ("does not divide the MLP's width of %d"):format(m.ffn) end
  local e, s, recurrent = m.experts, m.mamba, m.delta and m.delta.value_heads or m.mamba1 and m.mamba1.inner
  local routed = e and not own and e.ffn or n
  if e and (routed % n ~= 0 or e.shared > 0 and (e.shared_ffn or e.ffn) % n ~= 0) then
    local width = routed % n ~= 0 and routed or e.shared_ffn or e.ffn
    return false, ("does not divide an expert's width of %d"):format(width)
  end
  if s and s.heads % n ~= 0 then return false, ("does not divide the Mamba layers' %d heads"):format(s.heads) end
  if recurrent and recurrent % n ~= 0 then
    return false, m.delta and ("does not divide the delta net layers' %d heads"):format(recurrent)
      or ("does not divide the Mamba layers' %d features"):format(recurrent)
  end
  if m.delta and not holds(m.delta.heads, n) then
    return false, ("neither divides the delta net layers' %d heads of keys nor is divided by them"):format(
      m.delta.heads)
  end
  if s and not holds(s.groups, n) then
    return false, ("neither divides the Mamba layers' %d groups nor is divided by them"):format(s.groups)
  end
  return true
end

-- Why experts cannot be cut or spread over more than one GPU; nil: they can.
local function without_experts(m, rules)
  return not (m.experts and rules.layers_from_description) and "has no experts to spread" or nil
end

--- If the sequence is sharded, every GPU's last state goes to the others, over one axis after the other (arXiv
--- 2405.21060, section 8.2). In decode a token is not sharded.
---@param bytes number  of a GPU's state
---@return table ops
function fitting.states(p, bytes)
  local list = {}
  for _, name in ipairs(p.mode ~= "decode" and p.sequence_axes or {}) do
    local size = p[name] or 1
    if size > 1 then
      list[#list + 1] = op.collective {
        name = list[1] and "states-" .. name or "states", kind = "all_gather", axis = name, share = true, bytes = bytes,
      }
      bytes = bytes * size
    end
  end
  return list
end

--- The axis that shards each expert, as tp shards other products: as many GPUs as tp, or one, with whole experts
--- (Megatron-Core's expert-tensor-parallel size).
---@param over string[]  the axes that it folds over
function fitting.expert_features(over)
  return {
    name = "etp", cuts = { "experts", "features" }, folds = over, meaning = "GPUs that cut each expert",
    said = { search = "1 and tp", train = "tp" },
    default = function(m, p, rules) return without_experts(m, rules) and 1 or p.tp end,
    tries = function(m, p, rules) return (without_experts(m, rules) or p.tp == 1) and { 1 } or { 1, p.tp } end,
    admits = function(m, p, rules)
      if p.etp == 1 then return true end
      local reason = without_experts(m, rules)
      if reason then return false, reason end
      if m.experts.ffn % p.etp ~= 0 then
        return false, ("does not divide an expert's width of %d"):format(m.experts.ffn)
      end
      if p.sequence_parallel == false and math.max(p.tp, p.etp) % math.min(p.tp, p.etp) ~= 0 then
        return false,
          ("neither divides tp = %d nor is divided by it, as without sequence_parallel it must"):format(p.tp)
      end
      return true
    end,
  }
end

--- The axis over which experts are spread; 1 for models without experts.
---@param over string[]  the axes that it folds over
function fitting.experts(over)
  return {
    name = "ep", cuts = { "experts" }, folds = over,
    meaning = "expert parallelism: GPUs that share the experts",
    tries = function(m, _, rules) return without_experts(m, rules) and { 1 } or divisors.of(m.experts.count) end,
    admits = function(m, p, rules)
      if p.ep == 1 then return true end
      local reason = without_experts(m, rules)
      if reason then return false, reason end
      if m.experts.count % p.ep ~= 0 then return false, ("does not divide the %d experts"):format(m.experts.count) end
      return true
    end,
  }
end

--- The dispatcher that brings tokens to their experts (tperf/describe/arch/experts/dispatch.lua), and which of tensor
--- parallelism's collectives overlap with products (tensor.lua).
fitting.options = {
  moe_dispatcher = { axis = "ep", choices = { "alltoall", "allgather", "deepep", "hybridep" }, quiet = true,
    meaning = "how tokens reach their experts" },
  overlap_tp = { axis = "tp", choices = { "bulk", "none", "ring", "async" }, quiet = true, serves = false,
    meaning = "its collectives' overlap with products" },
}

--- The axis over which ZeRO shards state among a part of the replicas: hybrid shards (HSDP). 0: over all of them.
---@param over string[]  the axes that it folds over
function fitting.shards(over)
  return {
    name = "shard", cuts = { "state" }, folds = over, meaning = "replicas that ZeRO shards over: hybrid shards",
    said = { search = "all", train = "all" },
    tries = function() return { 0 } end, admits = function() return true end,
  }
end

local STATE_BYTES <const> = { bf16 = 2, fp16 = 2 }

--- Bytes of a number of a recurrent layer's state between tokens.
function fitting.state_element(p) return STATE_BYTES[p.state_dtype] or 4 end

--- Adds to the fields of a product's or table's op how its block says that its weights are stored, in place of the
--- question's.
---@param o table      of the cut: weight_bits, sparse
---@param given table  of the op
---@return table given
function fitting.store(o, given)
  given.sparse = o.sparse
  if o.weight_bits then given.weight_bits, given.weight_dtype = o.weight_bits, nil end
  return given
end

return fitting
