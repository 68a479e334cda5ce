--- Refuses what is not served: strategies, models, rules and software profiles.
local groups = require "tperf.describe.model.groups"
local stated = require "tperf.describe.model.stated"
local refusal = require "tperf.base.refusal"

-- Refuses strategies that cannot shard a step of a single token.
local function check_strategy(what, s)
  if s.serves then return end
  refusal.raise("%s: strategy '%s' cuts every sequence into parts, and a step of one token has none", what, s.name)
end

local function check_model(what, m, o, set)
  if not set.layers_from_description then
    refusal.raise("%s: rules '%s' know GPT-3's layer in training alone; use \"default\"", what, set.name)
  end
  if not m.architecture and #stated.sequences(m) > 1 then
    refusal.raise("%s: model '%s' has stacks of layers with sequences of their own, which are not served", what, m.name)
  end
  local encoder = rawget(m, "encoder")
  local passes = encoder and what == "tperf.infer" -- over batches of sequences
  if passes and o.generate > 1 then
    refusal.raise("%s: model '%s' generates no tokens: 'generate' = 1 asks for passes over sequences of 'prompt' "
      .. "tokens", what, m.name)
  end
  local bare = encoder and not encoder.head -- it has no output table
  if not passes and (not m.vocab or not m.causal or bare) then
    refusal.raise("%s: model '%s' generates no tokens", what, m.name)
  end
  if o.state_dtype and not (groups.recur(m) or m.architecture) then
    refusal.raise("%s: 'state_dtype' is of recurrent layers, and model '%s' has none", what, m.name)
  end
  local own = rawget(m, "architecture")
  if o.logits == "all" and (not m.vocab or m.classes or bare or own and own.last) then
    refusal.raise("%s: 'logits' = \"all\" is of the usual output table, and %s", what, own and own.last
      and ("the blocks of 'last' of architecture '%s' say themselves which tokens have logits"):format(own.name)
      or ("model '%s' has none"):format(m.name))
  end
  if m.context and o.prompt + (passes and 0 or o.generate) > m.context then
    refusal.raise("%s: 'prompt' + 'generate' (%d + %d) must be at most the model's context of %d tokens", what,
      o.prompt, o.generate, m.context)
  end
end

-- Software profiles are fitted to training steps. Serving is priced with kernel times as measured in isolation, for the
-- shapes and caches of serving.
local function check_software(what, value)
  if value == nil or value == "none" then return end
  refusal.raise("%s: software profiles describe training; serving is priced with kernels as timed on their own "
    .. "(software = \"none\"), and tperf.serve adds what an engine does", what)
end

---@param what string  the function's name
---@param m table      the model
---@param s table      the strategy
---@param o table      checked arguments
---@param set table    the rules
return function(what, m, s, o, set)
  check_software(what, o.software)
  check_strategy(what, s)
  check_model(what, m, o, set)
end
