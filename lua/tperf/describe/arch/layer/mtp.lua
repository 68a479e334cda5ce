--- Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): after the last layer, m.mtp modules in a row,
-- each with a projection of the joined state and embedding, another layer like the last, a norm and a loss. The tables
-- are shared with the model: the embedding is copied from the first stage, the head is the one before the modules.
local block = require "tperf.describe.block"
local composite = require "tperf.describe.arch.composite"
local ends = require "tperf.describe.arch.ends"
local parts = require "tperf.describe.arch.layer.parts"

local mtp = {}

local before = block("mtp", function(m, p)
  return {
    p:embedding { name = "table", rows = m.vocab, width = m.embedding_width or m.hidden, tied = true },
    parts.norm(m, p, "embedding-norm"), parts.norm(m, p, "state-norm"),
    p:replicated { name = "join", n_in = 2 * m.hidden, n_out = m.hidden },
  }
end, { dense = true, linear = true })

local after = block("mtp", function(m, p)
  return parts.append({ parts.norm(m, p, "norm") }, ends.logits(m, p, true))
end, { dense = true, linear = true })

-- The blocks of some modules. module: the groups of one's layers, with their blocks.
local function pieces_of(module, count)
  local list = {}
  for _ = 1, count do
    list[#list + 1] = { block = before }
    for _, group in ipairs(module) do
      for _, one in ipairs(group.blocks) do list[#list + 1] = { block = one, group = group } end
    end
    list[#list + 1] = { block = after }
  end
  return list
end

--- All modules, as part of what follows the last layer. module: the groups of its layers, with their blocks.
function mtp.block(m, module)
  local train, none = pieces_of(module, m.mtp), {}
  local all = composite("mtp", function(_, p) return p.mode == "train" and train or none end) -- not in inference
  all.has_layers = true -- its products run in the layers' precision
  return all
end

--- One module as a separate layer.
function mtp.single(module)
  local pieces = pieces_of(module, 1)
  return composite("mtp", function() return pieces end)
end

return mtp
