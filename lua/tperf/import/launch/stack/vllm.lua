--- vLLM: dp is the number of independent engines, whose experts are spread over all ranks of a stage.
local common = require "tperf.import.launch.stack.common"

local vllm = {}

-- Caches outside the GPUs: stores that hold prefixes, and connectors by which servers of two roles send them.
local STORES <const> = { LMCacheConnectorV1 = true, LMCacheConnector = true, OffloadingConnector = true,
  SharedStorageConnector = true, LMCacheMPConnector = true, MooncakeStoreConnector = true }

local function transfer(s, context)
  local text = s.by_option["--kv-transfer-config"]
  local value = text and text.value
  local function field(name) return common.field(value, name) end
  local connector = value ~= nil and field "kv_connector"
  if connector and (STORES[connector] or field "kv_role" == "kv_both") then
    s:set "--kv-transfer-config"
    context.assume("%s: requests find no cached prefix outside this server's GPUs, and it prefills and decodes itself",
      connector)
  end
end

-- Adapters: how many are held at once, of which rank at most (vllm/config/lora.py).
local function adapters(s, context)
  context.assume "requests use none of the adapters, whose buffers are held"
  return { count = s:get "--max-loras", rank = math.tointeger(tonumber(s:get "--max-lora-rank")) }
end

function vllm.read(s, context)
  local size = function(option) return common.size(context, s:get(option), option) end
  local r = { tp = size "--tensor-parallel-size", pp = size "--pipeline-parallel-size",
    dp = size "--data-parallel-size",
    cp = size "--prefill-context-parallel-size", decode_cp = size "--decode-context-parallel-size" }
  r.gpus = r.tp * r.pp * r.cp * r.dp
  r.attention_tp, r.attention_dp = r.tp, r.dp
  local ranks = r.tp * r.dp * r.cp
  local by_expert = s:get "--enable-expert-parallel"
  r.ep, r.etp = by_expert and ranks or 1, by_expert and 1 or ranks
  common.divided(context, r.tp, r.decode_cp, "--decode-context-parallel-size in tp")
  r.max_batch, r.max_tokens = s:set "--max-num-seqs", s:set "--max-num-batched-tokens"
  r.seq_max, r.kv_dtype = s:set "--max-model-len", s:get "--kv-cache-dtype"
  r.state_dtype = s:get "--mamba-ssm-cache-dtype"
  r.memory_fraction = s:get "--gpu-memory-utilization"
  common.sixteen_bits(s, "--dtype")
  transfer(s, context)
  r.chunked_prefill = s:set "--enable-chunked-prefill" ~= false
  if r.max_batch and r.max_tokens and r.max_tokens < r.max_batch then
    context.fail("--max-num-batched-tokens %d is less than --max-num-seqs %d", r.max_tokens, r.max_batch)
  end
  if not r.chunked_prefill and r.max_tokens and r.seq_max and r.max_tokens < r.seq_max then
    context.fail("without chunked prefill --max-num-batched-tokens must reach --max-model-len %d", r.seq_max)
  end
  r.prefix_cache = s:set "--enable-prefix-caching" ~= false
  local servers = s:set "--api-server-count" -- 0: on another node
  r.engine = { block_size = s:set "--block-size", num_blocks = s:set "--num-gpu-blocks-override",
    async_scheduling = s:set "--async-scheduling", policy = s:set "--scheduling-policy",
    front_ends = servers ~= 0 and servers or nil,
    long_prefill_token_threshold = s:set "--long-prefill-token-threshold",
    max_cudagraph_capture_size = s:get "--enforce-eager" and 0 or s:set "--max-cudagraph-capture-size"
      or common.largest(s:set "--cudagraph-capture-sizes") }
  if s:get "--disable-hybrid-kv-cache-manager" then r.engine.pooled = false end
  r.attention_kernels = common.attention(s:set "--attention-backend")
  r.experts = common.EXPERTS[s:set "--moe-backend"]
  r.moe_dispatcher = s:set "--all2all-backend"
  local speculative = s:set "--speculative-config"
  if speculative then
    r.speculative = { method = common.field(speculative, "method"),
      draft_tokens = math.tointeger(tonumber(common.field(speculative, "num_speculative_tokens"))) }
  end
  r.adapters = s:get "--enable-lora" and s:set "--enable-lora" and adapters(s, context) or nil
  r.engine.kv_cache_memory = s:set "--kv-cache-memory-bytes"
  r.without_window = s:set "--disable-sliding-window"
  common.overridden(s, "--hf-overrides", r)
  r.quantization = s:set "--quantization"
  r.model_name = s:set "--model" or s.words[1]
  return r
end

return vllm
