--- The layer of GPT-3 (arXiv 2005.14165) and ViT, as arXiv 2410.00273 models it: an MLP and an attention block, each
-- followed by dropout and a layer norm (docs/model.md, section 2). One description serves every strategy; only the cuts
-- differ.
local block = require "tperf.describe.block"
local op = require "tperf.describe.op"
local parts = require "tperf.describe.arch.layer.parts"

local gpt = {}

gpt.mlp = block("mlp", function(m, p)
  return {
    p:column { name = "fc1", n_in = m.hidden, n_out = m.ffn },
    p:inner_bias { name = "fc1-bias", width = m.ffn },
    op.gelu { name = "act1", elements = p:inner(m.ffn) },
    op.dropout { name = "dpr1", elements = p:inner(m.ffn) },
    p:row { name = "fc2", n_in = m.ffn, n_out = m.hidden },
    p:outer_bias { name = "fc2-bias", width = m.hidden },
    op.dropout { name = "dpr2", elements = p:outer(m.hidden) },
    p:norm { name = "ln1", width = m.hidden },
  }
end, { dense = true, linear = true })

-- The ops between the projections, by variant of attention. `cut` is the strategy's share of the heads.
local core = {}

function core.flash(m, p, cut)
  return {
    op.flash_attention {
      name = "fusedla", batch = p.micro_batch, heads = cut.heads, queries = cut.queries, keys = p.seq,
      head_dim = m.head_dim, gather = cut.gather,
      grad_reads_gathered = p.rules.context_grad_reads_gathered,
    },
  }
end

local function separate(m, p, cut, recomputed)
  local kept = not recomputed
  local rows = 1.0 * p.micro_batch * cut.heads * cut.queries
  local function product(make, name, again)
    return make {
      name = name, batch = p.micro_batch, heads = cut.heads, queries = cut.queries, keys = p.seq,
      head_dim = m.head_dim, gather = cut.gather, keep_scores = kept, recomputed = again,
      grad_reads_gathered = p.rules.context_grad_reads_gathered,
    }
  end
  return {
    product(op.scores, "logits", recomputed),
    op.softmax { name = "softmax", rows = rows, width = p.seq, keep_output = kept, recomputed = recomputed },
    op.dropout { name = "dpr_at", elements = rows * p.seq, keep_mask = kept, recomputed = recomputed },
    product(op.attend, "attend", false),
  }
end

function core.unfused(m, p, cut) return separate(m, p, cut, false) end
function core.recompute(m, p, cut) return separate(m, p, cut, true) end

-- The score products by SUMMA, too; only for strategy summa.
function core.summa(m, p)
  local rows, columns = p.seq // p.tp2, p.seq // p.tp1
  local grid = {
    batch = p.micro_batch, heads = m.heads, queries = p.seq, queries_rows = rows, queries_columns = columns,
    head_dim_columns = m.head_dim // p.tp1, columns = "tp1", rows = "tp2",
  }
  local function named(name, make)
    grid.name = name
    return make(grid)
  end
  local all_rows = 1.0 * p.micro_batch * m.heads * rows
  return {
    named("logits", op.summa_scores),
    op.softmax { name = "softmax", rows = all_rows, width = columns, row_sum = "tp1" },
    op.dropout { name = "dpr_at", elements = all_rows * columns },
    named("attend", op.summa_attend),
  }
end

--- The attention block of variant "flash", "unfused", "recompute" (scores computed again in the backward pass) or
--- "summa".
function gpt.attention(variant)
  local between = core[variant]
  return block("attention", function(m, p)
    local ops = { p:column { name = "qkv", n_in = m.hidden, n_out = 3 * m.hidden } }
    local cut = p:heads(m.heads)
    local kernels = between(m, p, cut)
    parts.append(ops, parts.exchanged(p, kernels, cut, { kv_heads = cut.kv_heads, head_dim = m.head_dim }))
    return parts.append(ops, {
      p:row { name = "vproj", n_in = m.hidden, n_out = m.hidden },
      p:outer_bias { name = "vproj-bias", width = m.hidden, after_attention = true },
      op.dropout { name = "dpr_v", elements = p:outer(m.hidden) },
      p:norm { name = "ln2", width = m.hidden },
    })
  end)
end

return gpt
