--- The model of a row in a table of training runs: the row's sizes, with the rest from the model of that name in
--- models/.
local check = require "tperf.base.check"
local memo = require "tperf.base.memo"
local names = require "tperf.measured.run.names"
local natural = require "tperf.describe.arch.experts.routing".natural
local read = require "tperf.measured.read"
local stacks = require "tperf.measured.run.stacks"
local words = require "tperf.core".resource.words

local models = {}

local SIZES <const> = { "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "seq", "vocab" }

local model_of = require "tperf.base.catalogue".shared(require "tperf.describe.model")

local published = {} -- models by name, read once

-- The published model with the row's name, unless the row's hidden size differs.
local function published_of(row, hidden)
  local name = names.model(row.model)
  if not name then return nil end
  published[name] = published[name] or model_of(name)
  local m = published[name]
  return (not hidden or hidden == m.hidden) and m or nil
end

-- The ranks and widths of latent attention, from columns of newer tables; nil if one is missing.
local function latents_of(row)
  local mla = {
    q_rank = read.count(row.q_lora_rank), kv_rank = read.count(row.kv_lora_rank),
    nope_dim = read.count(row.qk_nope_dim), rope_dim = read.count(row.qk_rope_dim),
    v_dim = read.count(row.v_head_dim),
  }
  return mla.kv_rank and mla.nope_dim and mla.rope_dim and mla.v_dim and mla or nil
end

-- Shortens a model to a benchmark's layers: it has the same part of dense layers, at least one, and no multi-token
-- prediction.
local function cut(m, layers, change)
  if layers >= m.layers then return end
  change.mtp = 0
  change.layer_pattern = rawget(m, "layer_pattern") and m.layer_pattern:sub(1, layers)
  if m.experts and type(m.experts.dense_layers) == "number" then
    change.experts = change.experts or {}
    local dense = m.experts.dense_layers
    change.experts.dense_layers = math.max(dense * layers // m.layers, math.min(dense, 1))
  end
end

-- A published model with the row's sizes, which take precedence.
local function changed(m, size, experts, row)
  local change = {}
  for _, name in ipairs(SIZES) do change[name] = size[name] end
  if m.mla then change.head_dim, change.kv_heads = nil, nil end
  if m.experts then change.ffn = nil end -- tables differ in what width they give for models with experts
  change.experts = m.experts and experts
  cut(m, size.layers or m.layers, change)
  if m.mtp > 0 and read.count(row.mtp_layers) then change.mtp = read.count(row.mtp_layers) end
  if row.model:find "w/o MTP" then change.mtp = 0 end
  if m.context then change.context = math.max(m.context, size.seq or m.seq) end
  return m:with(change)
end

local USUAL_HEAD <const> = 128 -- default features per head: an assumption

-- A number of heads of about that size, divisible by the tensor parallelism; nil: none.
local function heads_of(hidden, tp)
  local best
  for heads = tp, hidden // 32, tp do
    if hidden % heads == 0 and (not best or math.abs(hidden // heads - USUAL_HEAD)
      < math.abs(hidden // best - USUAL_HEAD)) then best = heads end
  end
  return best
end

-- Whether the row's number of parameters says that the head is the embedding's table.
local function is_tied(size, billions)
  local ok, model = check.attempt(model_of, size)
  if not (ok and billions) then return false end
  local count, stated = model:parameters(), billions * 1e9
  return math.abs(count.total - count.head - stated) < math.abs(count.total - stated)
end

-- A model described only by the row; defaults are as in GPT-3, or in Llama if its MLP is gated.
local function described(size, experts, row)
  if not size.heads and size.hidden and size.hidden % USUAL_HEAD == 0 then
    size.heads = heads_of(size.hidden, read.count(row.tp) or 1)
  end
  if not (size.layers and size.hidden and size.heads and size.seq) then
    return nil, "the model's layers, hidden size, heads or sequence are not given"
  end
  local gated = row.mlp == "swiglu"
  if gated and not size.ffn then return nil, "the width of the MLP is not given" end
  local mla = row.mla == "1" and latents_of(row)
  if row.mla == "1" and not mla then return nil, "latent attention, whose ranks the row does not give" end
  if mla then size.mla, size.head_dim, size.kv_heads = mla, nil, nil end
  if experts and not (experts.top_k and experts.ffn) then
    return nil, "top-k or the width of the experts is not given"
  end
  local shared = experts and read.count(row.shared_expert_ffn)
  if shared and shared > 0 then experts.shared, experts.shared_ffn = 1, shared end
  size.name, size.gated, size.experts = row.model ~= "" and row.model or "a model", gated, experts
  size.vocab = size.vocab or 50257
  -- The layer that vTrain traces gives each GPU vocab // tp rows (its gpt_modeling.py).
  if stacks.of(row.source) == "vtrain-2024" then size.vocab = size.vocab - size.vocab % (read.count(row.tp) or 1) end
  size.norm = gated and "rmsnorm" or "layernorm"
  size.positions = gated and "rotary" or "learned"
  size.activation = row.mlp == "squared-relu" and "relu2" or nil
  size.tied_embeddings, size.biases = not gated, not gated
  if gated then size.tied_embeddings = is_tied(size, read.positive(row.params_b)) end
  return size
end

-- Megatron-Bridge's recipes pretrain on mock data by default (recipes/qwen/qwen3_next.py says so).
local function on_mock(row)
  return row.workload == "pretrain" and row.source:find "^Megatron%-Bridge" ~= nil
end

-- Tables note forced balance of routing in a column or in words; SimuMax's and NeMo AutoModel's scripts force it
-- (--moe-pad-expert-input-to-capacity with a capacity of 1; fake_balanced_gate). torchao's do so for a layer by itself
-- alone (pytorch/ao, pull request 3193): the commands of its training runs do not have torchtitan's
-- debug.moe_force_load_balance.
local function imbalance_of(row)
  local count, gpus = read.count(row.experts), read.count(row.ep) or 1
  if not count or gpus == 1 then return 1 end
  local told, text = row.moe_router_force_balance, (row.source .. " " .. row.notes):lower()
  local balanced = text:find "force%-balanced" or text:find "force balanced" or text:find "forced balance"
    or text:find "simumax" or text:find "automodel"
  if told == "1" or told == "0" then balanced = told == "1" end
  return balanced and 1 or natural({ count = count }, gpus, on_mock(row) and "mock" or "pretraining")
end

-- "capacity factor 1, padded (…)", "1.1": experts take so many times the mean and drop the rest.
local function capacity_of(row)
  return read.positive(read.text(row.moe_token_drop):match "^capacity factor ([%d.]+)" or row.moe_token_drop)
end

-- What of a row the model follows from, beside how balanced its routing was.
local COLUMNS <const> = { "source", "experts", "topk", "moe_ffn", "model", "mtp_layers", "mlp", "mla", "q_lora_rank",
  "kv_lora_rank", "qk_nope_dim", "qk_rope_dim", "v_head_dim", "tp", "moe_token_drop", "params_b",
  "shared_expert_ffn", "moe_groups", "moe_top_groups", table.unpack(SIZES) }

local function make(row, imbalance)
  local size, experts = {}, { imbalance = imbalance, capacity_factor = capacity_of(row),
    groups = read.count(row.moe_groups), top_groups = read.count(row.moe_top_groups) }
  for _, name in ipairs(SIZES) do size[name] = read.count(row[name]) end
  local count = read.count(row.experts) or 0
  if count > 1 then
    experts.count, experts.top_k, experts.ffn = count, read.count(row.topk), read.count(row.moe_ffn)
  end
  local known = published_of(row, size.hidden)
  if not known then return described(size, count > 1 and experts or nil, row) end
  local ok, model = check.attempt(changed, known, size, experts, row)
  if not ok then return nil, "the row's sizes do not go with the model of its name" end
  return model
end

local MOST_MADE <const> = 4096
local made = memo.by_text(MOST_MADE) -- columns as text -> what models.of returns

--- The model of a row, the same object for equal rows: checked if it is valid, else a description that
--- tperf.model refuses; or nil and a reason.
---@param row table
---@return table? model
---@return string? reason
---@return boolean checked
function models.of(row)
  local imbalance = imbalance_of(row)
  local key = words(row, COLUMNS) .. imbalance
  return table.unpack(made(key, function()
    local model, reason = make(row, imbalance)
    local checked, object = check.attempt(model_of, model)
    return { model and checked and object or model, reason, checked }
  end), 1, 3)
end

return models
