--- Files of llama.cpp (GGUF): the bits that a weight takes by the type of its tensor, scales included, and the types of
--- which its named mixes consist (github.com/ggml-org/llama.cpp: blocks in ggml/src/ggml-common.h, the choice by tensor
--- in src/llama-quant.cpp).
local gguf = {}

local WIDE <const> = 16

-- 8 x bytes / weights of a block.
local BITS <const> = {
  f16 = WIDE, bf16 = WIDE, q8_0 = 8 * 34 / 32, q4_0 = 8 * 18 / 32, q4_1 = 8 * 20 / 32, q5_0 = 8 * 22 / 32,
  q5_1 = 8 * 24 / 32, q2_k = 8 * 84 / 256, q3_k = 8 * 110 / 256, q4_k = 8 * 144 / 256, q5_k = 8 * 176 / 256,
  q6_k = 8 * 210 / 256, iq4_nl = 8 * 18 / 32, iq4_xs = 8 * 136 / 256, mxfp4 = 8 * 17 / 32,
}

-- Layers that a mix gives a type of their own: the first part of them, so many, or those "with more bits" (the first
-- eighth, the last eighth, and every third between).
local function first(part, type) return { first = part, type = type } end
local function leading(layers, type) return { leading = layers, type = type } end
local function more(type) return { more = true, type = type } end

-- The usual type; that of the output table; and of values, attention's output and the MLP's second product, by layers,
-- the first that holds.
local MIXES <const> = {
  q2_k = { usual = "q2_k", value = { "q4_k" }, out = { "q3_k" }, down = { "q3_k" } },
  q3_k_s = { usual = "q3_k" },
  q3_k_m = { usual = "q3_k", value = { leading(2, "q5_k"), "q4_k" }, out = { "q4_k" },
    down = { first(1 / 16, "q5_k"), "q4_k" } },
  q3_k_l = { usual = "q3_k", value = { "q5_k" }, out = { "q5_k" }, down = { "q5_k" } },
  q4_k_s = { usual = "q4_k", value = { leading(4, "q5_k") }, down = { first(1 / 8, "q5_k") } },
  q4_k_m = { usual = "q4_k", value = { more "q6_k" }, down = { more "q6_k" } },
  q5_k_s = { usual = "q5_k" },
  q5_k_m = { usual = "q5_k", value = { more "q6_k" }, down = { more "q6_k" } },
  q6_k = { usual = "q6_k" },
  iq4_xs = { usual = "iq4_xs", value = { "q5_k" }, down = { first(1 / 8, "q5_k") } },
  iq4_nl = { usual = "iq4_nl", value = { "q5_k" }, down = { first(1 / 8, "q5_k") } },
}
for _, type in ipairs { "q4_0", "q4_1", "q5_0", "q5_1" } do MIXES[type] = { usual = type } end
for _, type in ipairs { "q8_0", "f16", "bf16", "mxfp4" } do MIXES[type] = { usual = type, output = type } end

local OUTPUT <const> = "q6_k" -- of tables that a mix gives no type

--- The names of mixes, in sorted order. "f16" and "bf16" are not among them: they are dtypes.
gguf.names = {}
for name in pairs(MIXES) do
  if BITS[name] ~= WIDE then gguf.names[#gguf.names + 1] = name end
end
table.sort(gguf.names)

--- Whether a name is that of a mix, in upper case or lower.
---@param name any
---@return boolean
function gguf.is(name) return type(name) == "string" and MIXES[name:lower()] ~= nil and BITS[name:lower()] ~= WIDE end

-- Whether a layer, counted from 0, is among those that a rule is for.
local function holds(rule, layer, layers)
  if rule.leading then return layer < rule.leading end
  if rule.first then return layer < math.floor(layers * rule.first) end
  return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
end

-- Mean bits over the layers of a tensor with these rules.
local function mean(rules, usual, layers)
  local sum = 0
  for layer = 0, layers - 1 do
    local kind = usual
    for _, rule in ipairs(rules or {}) do
      if type(rule) == "string" or holds(rule, layer, layers) then
        kind = type(rule) == "string" and rule or rule.type
        break
      end
    end
    sum = sum + BITS[kind]
  end
  return sum / layers
end

-- Mean bits of attention: queries and keys, values, and what joins the heads.
local function attention(mix, m)
  local usual = BITS[mix.usual]
  if m.mla or not (m.heads and m.kv_heads and m.head_dim) then return usual end
  local heads, kv = m.heads, m.kv_heads
  local sum = (heads + kv) * usual + kv * mean(mix.value, mix.usual, m.layers)
    + heads * mean(mix.out, mix.usual, m.layers)
  return sum / (2 * heads + 2 * kv)
end

--- Bits of a weight by part of a model (tperf.describe.stored), means over its layers. The tables of models that share
--- them have the type of the output's.
---@param name string  a mix
---@param m table  a model
---@return table<string, { bits: number }> parts
function gguf.parts(name, m)
  local mix = MIXES[name:lower()]
  local usual, output = { bits = BITS[mix.usual] }, { bits = BITS[mix.output or OUTPUT] }
  local products = m.gated and 3 or 2
  local mlp = { bits = ((products - 1) * usual.bits + mean(mix.down, mix.usual, m.layers)) / products }
  return {
    attention = { bits = attention(mix, m) }, recurrent = usual, mlp = mlp, shared_experts = mlp, latents = usual,
    experts = mlp, head = output, table = m.tied_embeddings and output or usual,
  }
end

return gguf
