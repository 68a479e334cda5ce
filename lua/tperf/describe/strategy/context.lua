--- Tensor and context parallelism (tp x cp; tp+cp in arXiv 2410.00273): like tensor, with the sequence sharded by cp
-- and ulysses everywhere; weights are replicated over both. The option cp_kind is how attention gets the keys and
-- values of the other GPUs of cp:
--   all_gather   gathered before each pass (Llama 3, arXiv 2407.21783, section 3.3.2)
--   ring         passed from GPU to GPU while attention works on the local ones (arXiv 2310.01889)
--   all_to_all   every GPU gets all tokens of a part of the heads instead (DeepSpeed-Ulysses, arXiv 2309.14509)
-- ulysses is a separate axis for the last kind, inside cp: nesting both is USP (arXiv 2405.07719). Each GPU's tokens
-- come from both ends of the sequence, so that causal masks give every GPU the same work.
local fitting = require "tperf.describe.strategy.fitting"
local op = require "tperf.describe.op"
local tensor = require "tperf.describe.strategy.tensor"
local windowed = require "tperf.describe.model.windowed"

local context = {
  name = "context",
  extends = "tensor",
  summary = "tensor x context parallelism, keys and values gathered, in a ring or by all-to-all",
  attention = { "flash", "unfused" },
  gradient_axes = { "cp", "ulysses" },
  rank_order = "tp-ulysses-cp",
  options = {
    cp_kind = { axis = "cp", choices = { "all_gather", "ring", "all_to_all" },
      meaning = "how keys and values are exchanged" },
    moe_dispatcher = fitting.options.moe_dispatcher, overlap_tp = fitting.options.overlap_tp,
  },
  same_as = { strategy = "tensor", without = { "cp" } },
}

-- Number of parts that the heads are split into during attention: GPUs of ulysses, times cp if it is all-to-all.
local function parts_of_heads(p)
  return (p.ulysses or 1) * (p.cp_kind == "all_to_all" and p.cp or 1)
end

-- Whether the heads left by tp divide into these parts.
local function cuts_heads(m, p)
  local parts = parts_of_heads(p)
  for _, one in ipairs(m.heads and windowed.kinds(m) or {}) do
    if one.heads // p.tp % parts ~= 0 then
      return false, ("does not divide the %d heads that tp leaves"):format(one.heads // p.tp)
    end
  end
  return true
end

local function leaves_tokens(m, parts)
  if parts > 1 and m.seq // parts < 128 then return false, "leaves fewer than 128 tokens" end
  return true
end

context.axes = {
  {
    name = "tp", meaning = "tensor parallelism: heads and features", cuts = { "features", "weights", "experts" },
    admits = function(m, p, rules)
      local fits, reason = fitting.cuts(m, p.tp, rules, true)
      if not fits then return false, reason end
      if p.tp > 1 and m.hidden // p.tp < 128 then return false, "leaves fewer than 128 features" end
      return true
    end,
  },
  {
    name = "cp", meaning = "context parallelism: the sequence", cuts = { "tokens" },
    admits = function(m, p)
      local fits, reason = leaves_tokens(m, p.cp)
      if not fits then return false, reason end
      return cuts_heads(m, { tp = p.tp, cp = p.cp, cp_kind = p.cp_kind })
    end,
  },
  {
    name = "ulysses", meaning = "context parallelism by all-to-all, inside cp", cuts = { "tokens" },
    said = { search = "1" },
    tries = function() return { 1 } end,
    admits = function(m, p, rules)
      if p.ulysses > 1 and not rules.layers_from_description then return false, "is not in the published model" end
      local fits, reason = leaves_tokens(m, (p.cp or 1) * p.ulysses)
      if not fits then return false, reason end
      return cuts_heads(m, p)
    end,
  },
  fitting.expert_features { "tp", "cp", "ulysses", "dp" },
  fitting.experts { "tp", "cp", "ulysses", "dp" },
  fitting.shards { "cp", "ulysses", "dp" },
}

function context.sequence_shards(p) return p.tp * p.cp * (p.ulysses or 1) end

function context.outer_bias(p, o)
  if o.after_attention and not p.rules.context_biases_alike then
    return op.bias { name = o.name, tokens = p:inner_tokens(), width = o.width // p.tp }
  end
  return op.bias {
    name = o.name, tokens = p:outer_tokens(), width = o.width,
    parameter_grad = p.rules.small_gradients_reduced and "tp" or nil,
  }
end

--- If there are fewer key and value heads than parts, several GPUs get the same ones.
function context.heads(p, heads, kv_heads)
  local cut = tensor.heads(p, heads, kv_heads)
  if p.mode == "decode" then return cut end
  local parts = parts_of_heads(p)
  if parts > 1 then
    local ring = p.cp_kind == "all_to_all" and 1 or p.cp
    cut = {
      heads = fitting.split(p, cut.heads, parts, "ulysses", "heads"), kv_heads = math.max(cut.kv_heads // parts, 1),
      queries = p.seq // ring, shards = ring, gather = ring > 1 and "cp" or nil, projected = cut,
    }
  end
  cut.ring = p.cp_kind == "ring"
  return cut
end

-- The axes of the all-to-alls around attention.
local function exchanging(p)
  local list = {}
  if (p.ulysses or 1) > 1 then list[1] = { axis = "ulysses", gpus = p.ulysses } end
  if p.cp_kind == "all_to_all" and p.cp > 1 then list[#list + 1] = { axis = "cp", gpus = p.cp } end
  return list
end

--- One all-to-all of queries, keys and values before attention, one of its result after it, in 16 bits. Bytes are what
--- each GPU holds before the exchange, which equals what it holds afterwards if no key head is replicated.
function context.exchange(p, cut, shape)
  local before, after = {}, {}
  local value, tokens = shape.value_dim or shape.head_dim, p.micro_batch * cut.queries
  for i, one in ipairs(p.mode == "decode" and {} or exchanging(p)) do
    local function all_to_all(name, width)
      return op.collective {
        name = i == 1 and name or name .. "-" .. one.axis, kind = "all_to_all", axis = one.axis,
          bytes = 2.0 * tokens * width,
      }
    end
    before[i] = all_to_all("scatter-heads", cut.heads * shape.head_dim + cut.kv_heads * (shape.head_dim + value))
    table.insert(after, 1, all_to_all("gather-heads", cut.heads * value))
  end
  return before, after
end

return context
