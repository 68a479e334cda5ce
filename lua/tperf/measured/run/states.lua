--- A published run's optimizer and, of a precision-aware one, the dtypes of gradients and moments, as arguments of
-- tperf.train.
local read = require "tperf.measured.read"

local OPTIMIZERS <const> = { adam = "adam", adamw = "adamw", dist_muon = "muon", muon = "muon", sgd = "sgd" }
local DTYPES <const> = { float32 = "fp32", bfloat16 = "bf16", fp32 = "fp32", bf16 = "bf16" }

-- The experiments with Moonlight are of its recipe, which has both in 16 bits, as its cards say.
local MOONLIGHT <const> = "grads bfloat16, moments bfloat16"

return function(row)
  local same = row.source:find "matched experiments" and row.model:find "^moonlight"
  local gradients, first = read.text(row.optimizer_states, same and MOONLIGHT):match "grads (%w+), moments (%w+)"
  local named = read.text(row.table):find "_muon" and "muon" -- the names of Megatron-LM's tests say it
  return {
    optimizer = OPTIMIZERS[read.text(row.optimizer, named)], gradients = DTYPES[gradients], moments = DTYPES[first],
  }
end
