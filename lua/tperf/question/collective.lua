--- tperf.collective: the time of one collective on a network of tiers (include/tperf/collective.h has the formulas).
local core = require "tperf.core"
local check = require "tperf.base.check"
local divisors = require "tperf.base.divisors"
local refusal = require "tperf.base.refusal"
local rules = require("tperf.describe.rules.sets").of
local questions = require "tperf.question.ranks.questions"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local kinds = {
  "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather", "all_to_all", "send",
}
local gpus = { min = 1, max = 1 << 31 }
local schema = {
  system = check.any(), rules = check.any { optional = true }, kind = check.choice { kinds },
  bytes = check.number { min = 0, max = 1e24, unit = "bytes" }, gpus = check.integer(gpus),
  fast = check.integer { min = 1, max = 1 << 31, optional = true }, tiers = check.boolean { default = false },
  algorithm = check.choice { core.algorithms, optional = true },
}

local collective = { kinds = kinds }

--- The seconds that a collective takes.
---@param given table
---  system   a name, a file or a table
---  rules    "default"
---  kind     "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather", "all_to_all" or
---           "send"
---  bytes    size of the full vector (the gathered result, the unreduced input): "64 MiB" or a number of bytes
---  gpus     number of GPUs in the group
---  fast     how many of them share a fast domain; by default as many as fit
---  algorithm  "ring", "rings", "tree", "switch", "one-shot" …, whatever a library would choose; by default that
---  tiers    true: also return what it passes (false)
---@return number seconds
---@return table[]? tiers  innermost first: { name =, bytes = of one GPU of the group through its part of the tier,
---                        time = seconds of these bytes at the bandwidth that is reached }; the longest of them and a
---                        start make up about the seconds
---@return string? algorithm
function collective.time(given)
  local o = check.record("tperf.collective", given, schema)
  local machine = system(o.system)
  local fast = o.fast or divisors.fitting(o.gpus, machine.network.fast.domain)
  local seconds, tiers, algorithm = refusal.of(core.collective, machine, rules(o.rules), o.kind, o.bytes, o.gpus, fast,
    o.algorithm)
  if o.tiers then return seconds, tiers, algorithm end
  return seconds
end

questions.register("collective", collective.time)

return collective
