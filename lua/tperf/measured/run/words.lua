--- The words that columns of published runs may have. One that is not known would count as the column's usual value, so
--- its row is left out instead.
local offload = require "tperf.describe.arch.offload"
local has = require "tperf.base.lists".has
local read = require "tperf.measured.read"
local trim = require "tperf.input.text".trim

local BOOLEAN <const> = { "^[01]$" }
local COUNT <const> = { "^%d+$", "^%d+%.0$" }

-- Patterns in lower case, of which a column's text has one; "" is always known.
local COLUMNS <const> = {
  dtype = { "^int8", "bf16", "bfloat16", "fp16", "float16", "fp8", "float8", "fp4" },
  fp8_recipe = { "^none$", "fp8", "fp4", "float8", "block", "rowwise", "tensorwise", "delayed" },
  zero_fsdp = { "^none$", "ddp", "zero", "fsdp", "hsdp", "distributed", "shard" },
  fsdp = { "^none$", "fsdp" }, sp = BOOLEAN,
  attention_backend = { "^auto$", "fused", "^flash$", "^local$" },
  cuda_graph = { "^none$", "full[_ ]iteration", "full%-layer", "^per layer", "^layer$", "^transformer_engine" },
  compile = { "^none$", "compile" },
  cp_kind = { "^ring$", "^all_gather$", "^all_to_all$" },
  grad_reduce_dtype = { "^fp32$", "^bf16$" }, gradient_reduce = { "^reduce_scatter$", "^all_reduce$" },
  offload = { "^none$", "^moe_paged_stash$", "^fine%-grained:", "^activations: ?%d", "^optimizer %d" },
  pp_layout = { "^e", "account ", "first %d", "last %d" },
  schedule = { "1f1b", "^interleaved" },
  optimizer = { "^adamw?$", "^dist_muon$", "^muon$", "^sgd$" },
  optimizer_states = { "^fp32$", "^bf16$", "grads [bfln]%w*, moments [bfln]%w*" },
  moe_dispatcher = { "^alltoall$", "^allgather$", "^deepep$", "^hybridep$", "^flex$" },
  mlp = { "^gelu$", "^swiglu$", "^squared%-relu$", "^relu" }, mla = BOOLEAN, peft = { "^q?lora$" }, packed_seq = COUNT,
  overlap_moe_a2a = BOOLEAN, delay_wgrad = BOOLEAN, moe_shared_expert_overlap = BOOLEAN,
  gpus_per_node = COUNT, tp = COUNT, pp = COUNT, vp = COUNT, dp = COUNT, cp = COUNT, ep = COUNT, etp = COUNT,
  pipeline_runs = COUNT, heads = COUNT, kv_heads = COUNT, experts = COUNT, topk = COUNT,
}

-- Words that no precision of products is modelled for, whatever stands beside them.
local OTHER <const> = { "int4" }

local NAMES <const> = {}
for name in pairs(COLUMNS) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

local function matches(text, patterns)
  for _, pattern in ipairs(patterns) do
    if text:find(pattern) then return true end
  end
  return false
end

-- A module of fine-grained offloading that is not known.
local function unknown_module(text)
  for name in (text:match "^fine%-grained:(.*)" or ""):gmatch "[%w_]+" do
    if not has(offload.modules, name) then return name end
  end
end

--- Why a row is left out: a column has a word that is not known.
---@param row table  text by column
---@return string?
return function(row)
  for _, name in ipairs(NAMES) do
    local text = row[name] or ""
    local lower = trim(text:lower())
    if lower ~= "" and (not matches(lower, COLUMNS[name]) or name == "dtype" and matches(lower, OTHER)) then
      return read.unknown(text, name)
    end
    local module = name == "offload" and unknown_module(lower)
    if module then return read.unknown(module, name) end
  end
end
