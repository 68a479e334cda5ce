-- Early exits (LayerSkip, arXiv 2404.16710, of Llama 2 7B): in training, layer l of L is left out for part of the
-- samples, more of them the deeper it is; in decoding, a token leaves where its exit is sure. Here half of the tokens
-- that reach layer 16 or a later multiple of 4 leave there, and a layer runs if any token of the batch reaches it.
local tperf = require "tperf"
local op = tperf.op

local HEADS <const>, HEAD <const>, MLP <const> = 32, 128, 11008
local LAYERS <const>, DROPPED <const>, FIRST <const>, EVERY <const>, LEAVE <const> = 32, 0.2, 16, 4, 0.5

-- The part of the passes in which a layer works. The paper's rate of dropping: e^(l ln 2 / (L - 1)) - 1, times the
-- most.
local function worked(layer, mode, batch)
  if mode == "train" then return 1 - DROPPED * (2 ^ ((layer - 1) / (LAYERS - 1)) - 1) end
  if mode == "prefill" then return 1 end
  local exits = layer > FIRST and (layer - 1 - FIRST) // EVERY + 1 or 0
  return 1 - (1 - (1 - LEAVE) ^ exits) ^ batch
end

local attention = tperf.block("attention", function(m, p)
  local d = HEADS * HEAD
  return op.times(worked(p.group.layer, p.mode, p.micro_batch), {
    p:norm { name = "norm", width = m.hidden, root_mean_square = true },
    p:column { name = "qkv", n_in = m.hidden, n_out = 3 * d }, op.rotary { elements = p:inner(2 * d) },
    p:attention { heads = HEADS, head_dim = HEAD },
    p:row { name = "proj", n_in = d, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
  })
end)

local mlp = tperf.block("mlp", function(m, p)
  return op.times(worked(p.group.layer, p.mode, p.micro_batch), {
    p:norm { name = "norm", width = m.hidden, root_mean_square = true },
    p:column { name = "up", n_in = m.hidden, n_out = 2 * MLP },
    op.activation { kind = "silu", gated = true, elements = p:inner(MLP) },
    p:row { name = "down", n_in = MLP, n_out = m.hidden }, op.residual { elements = p:outer(m.hidden) },
  })
end)

local groups = {}
for layer = 1, LAYERS do groups[layer] = { count = 1, layer = layer } end

return tperf.model {
  name = "layerskip-7b", layers = LAYERS, hidden = 4096, vocab = 32000, seq = 4096, norm = "rmsnorm",
  architecture = tperf.architecture { name = "early exits", layer = { attention, mlp }, groups = groups },
}
