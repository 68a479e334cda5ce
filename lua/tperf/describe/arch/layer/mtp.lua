--- Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): after the last layer, m.mtp modules in a row,
-- each with a projection of the joined state and embedding, another layer like the last, a norm and a loss. The tables
-- are shared with the model: the embedding is copied from the first stage, the head is the one before the modules.
local block = require "tperf.describe.block"
local ends = require "tperf.describe.arch.ends"
local parts = require "tperf.describe.arch.layer.parts"

local mtp = {}

-- The same share for a layer of the group.
local function share_of(p, group)
  return setmetatable({ group = group }, { __index = p })
end

-- One module.
local function module_of(m, p, module)
  local ops = {
    p:embedding { name = "table", rows = m.vocab, width = m.embedding_width or m.hidden, tied = true },
    parts.norm(m, p, "embedding-norm"), parts.norm(m, p, "state-norm"),
    p:replicated { name = "join", n_in = 2 * m.hidden, n_out = m.hidden },
  }
  for _, group in ipairs(module) do
    for _, b in ipairs(group.blocks) do
      local share = share_of(p, group)
      parts.append(ops, p.ops_of and p.ops_of(b, m, share) or b:ops(m, share)) -- ops_of: see tperf/base/memo.lua
    end
  end
  ops[#ops + 1] = parts.norm(m, p, "norm")
  return parts.append(ops, ends.logits(m, p, true))
end

--- All modules, as part of what follows the last layer. module: the groups of its layers, with their blocks.
function mtp.block(module)
  local all = block("mtp", function(m, p)
    local ops = {}
    for _ = 1, p.mode == "train" and m.mtp or 0 do -- inference leaves them out
      parts.append(ops, module_of(m, p, module))
    end
    return ops
  end)
  all.has_layers = true -- its products run in the layers' precision
  return all
end

--- One module as a separate layer.
function mtp.single(module)
  return block("mtp", function(m, p) return module_of(m, p, module) end)
end

return mtp
