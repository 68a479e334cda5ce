--- The stored format of a model's weights in a serving engine, and the dtype of its products: as asked for by dtypes
-- or a precision, else as in the model's checkpoint (the description's `stored`, from a Hugging Face
-- quantization_config). A precision applies to the layers' products; the embedding, the head and routers stay in 16
-- bits, as in checkpoints. `weight_dtype` applies to all weights.
local precision = require "tperf.describe.precision"
local refusal = require "tperf.base.refusal"

local stored = {}

-- bytes: per weight, with its share of scales; products: the dtype that the format's kernels multiply in, if the system
-- supports it.
local FORMATS <const> = {
  fp8 = { bytes = 1, products = "fp8" }, -- one scale per tensor or channel
  ["fp8-block"] = { bytes = 1 + 4 / (128 * 128), products = "fp8" }, -- arXiv 2412.19437, section 3.3
  mxfp8 = { bytes = 1 + 1 / 32, products = "fp8" }, -- OCP Microscaling 1.0, as the next
  mxfp4 = { bytes = 0.5 + 1 / 32, products = "bf16", with_fp4 = "fp8" }, -- by activations of 8 bits where GPUs have 4
  nvfp4 = { bytes = 0.5 + 1 / 16, products = "fp4" }, -- arXiv 2509.25149, section 2
  int8 = { bytes = 1, products = "int8" },
  int4 = { bytes = 0.5 + 2 / 128, products = "bf16" }, -- a 16-bit scale per 128 weights: usual in GPTQ and AWQ
}

local function asked_for(o, system)
  local r = precision.of(o.precision)
  precision.check_system(r, system)
  if r.first_layers + r.last_layers > 0 then
    refusal.raise "'precision': 'first_layers' and 'last_layers' are only for training; a server's layers are all alike"
  end
  local layers = r.products ~= "experts" and not r.wide and r.weight or nil
  local experts = r.products ~= "dense" and not r.wide and r.weight or nil
  return { layers = layers, experts = experts, name = r.name }, r.dtype
end

local function of_checkpoint(what, m, system)
  local s = m.stored
  if not (s.layers or s.experts) then
    refusal.raise("%s: model '%s' stores its weights by '%s', which is not known: give 'weight_dtype' or 'precision'",
      what, m.name, s.method)
  end
  local layers, experts = FORMATS[s.layers], FORMATS[s.experts]
  local format = layers or experts
  local products = system.accelerator.tensor.fp4 and format.with_fp4 or format.products
  return {
    layers = layers and layers.bytes, experts = experts and experts.bytes,
    name = s.layers == s.experts and s.layers or (s.layers or "bf16") .. ", experts " .. (s.experts or "bf16"),
  }, system.accelerator.tensor[products] and products or "bf16"
end

--- Fills in the dtypes that the arguments leave open.
---@param o table  checked arguments, changed in place: sets weight_dtype, compute_dtype, and other_dtype: the dtype of
---   products whose weights are not stored as `weights` says
---@return table? weights  { layers, experts = bytes per weight, nil: 16 bits; name, key }; nil: all weights
---   are stored in o.weight_dtype
function stored.fill(what, o, model, system)
  local weights, products
  if o.precision and not o.weight_dtype then
    weights, products = asked_for(o, system)
  elseif o.precision then
    products = precision.of(o.precision).dtype
  elseif not o.weight_dtype and model.stored then
    weights, products = of_checkpoint(what, model, system)
  end
  o.compute_dtype = o.compute_dtype or products or "bf16"
  o.weight_dtype = o.weight_dtype or "bf16"
  o.other_dtype = o.compute_dtype
  if not weights or not (weights.layers or weights.experts) then return nil end
  o.other_dtype, weights.products = "bf16", o.compute_dtype
  weights.stored = { layers = weights.layers, experts = weights.experts }
  weights.key = ("%.17g %.17g %s"):format(weights.layers or 2, weights.experts or 2, weights.products)
  return weights
end

return stored
