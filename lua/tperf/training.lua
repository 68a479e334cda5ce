--- What training keeps in memory for every parameter.
local check = require "tperf.check"

local training = {}

local WEIGHT_BYTES = 2 -- of a weight, as ops count them

-- Bytes of optimizer state for every parameter: a 32-bit copy of the weights, and moments.
local optimizers = {
  adam = 12,     -- copy, momentum, variance of 4 bytes each
  adam_8bit = 6, -- 8-bit moments (arXiv 2110.02861)
  lion = 8,      -- copy, momentum (arXiv 2302.06675)
  sgd = 8,       -- copy, momentum
  muon = 8,      -- copy, momentum
}
training.optimizers = { "adam", "adam_8bit", "lion", "muon", "sgd" }

local GRADIENTS = { fp32 = 4, bf16 = 2 }

--- The fields of tperf.search and tperf.train that say so.
training.schema = {
  optimizer = check.choice { training.optimizers, default = "adam" },
  gradients = check.choice { { "fp32", "bf16" }, optional = true },
  reserve = check.number { min = 0, max = 0.99, default = 0 },
}

--- For the core: bytes of weights, gradients and optimizer state for every parameter.
function training.of(o, rules)
  local gradients = o.gradients or rules.gradients_in_fp32 and "fp32" or "bf16"
  return {
    weight_bytes = WEIGHT_BYTES, gradient_bytes = GRADIENTS[gradients], optimizer_bytes = optimizers[o.optimizer],
    reserved = o.reserve,
  }
end

return training
