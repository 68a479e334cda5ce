--- The curves that timed blocks of experts determine, as those of tperf.calibrate.curves.
local parts = require "tperf.measured.calibrate.parts"

local experts = {}

-- Experts with fewer rows are limited by the reading of their weights.
local function many_rows(case) return case.rows >= 16 * case.hit end

local NEEDS <const> = "blocks of experts with 1 to 16,384 tokens, on one and on several GPUs"

-- What choosing experts and sorting tokens by them takes, as part of whole blocks of experts.
function experts.routing(cases)
  return {
    name = "accelerator.routing", cases = cases,
    parameters = {
      { name = "setup", start = 1e-5, low = 1e-7, high = 1e-3 },
      { name = "pair", start = 5e-10, low = 1e-12, high = 1e-7 },
    },
    scope = many_rows, needs = NEEDS,
    install = function(system, v) system.accelerator.routing = { setup = v.setup, pair = v.pair } end,
  }
end

-- Experts' products whose weights have 4 bits and are widened on the way.
function experts.narrow(dtype, cases)
  return {
    name = "experts4." .. dtype, cases = cases,
    parameters = {
      { name = "efficiency", start = 0.5, low = 0.02, high = 1.5 },
      { name = "tile_loss", start = 10, low = 0.1, high = 300 },
      { name = "setup", start = 5e-6, low = 1e-7, high = 1e-3 },
      { name = "memory", start = 0.8, low = 0.1, high = 1 },
    },
    scope = many_rows, needs = NEEDS,
    install = function(system, v)
      local compute = parts.compute_of(system)
      compute.experts4 = compute.experts4 or {}
      compute.experts4[dtype] = {
        efficiency = v.efficiency, tile_loss = v.tile_loss, setup = v.setup, memory = v.memory,
        rows = 16, depth = 0, quantisation = 0, split = 1, sustained = 1, sustained_after = 1e-3,
      }
    end,
  }
end

-- Blocks of experts in kernels of their own, which the field of the accelerator describes: products, and routing.
function experts.own(field, cases)
  return {
    name = "accelerator." .. field, cases = cases,
    parameters = {
      { name = "efficiency", start = 0.6, low = 0.02, high = 1.5 },
      { name = "routing", start = 1e-6, low = 1e-8, high = 1e-3 },
      { name = "pair", start = 5e-10, low = 1e-12, high = 1e-7 },
    },
    scope = many_rows, needs = NEEDS,
    install = function(system, v)
      system.accelerator[field] = {
        efficiency = v.efficiency, tile_loss = 0, quantisation = 0, routing = v.routing,
        pair = v.pair, rows = 16, depth = 0, split = 1, sustained = 1, sustained_after = 1e-3,
      }
    end,
  }
end

return experts
