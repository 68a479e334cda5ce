--- SGLang: tp counts the GPUs of a stage; data-parallel attention is inside it.
local common = require "tperf.import.launch.stack.common"

local sglang = {}

-- All-to-all backends that spread experts over all of tp.
local FORCING <const> = { deepep = true, mooncake = true, nixl = true, mori = true, megamoe = true, flashinfer = true,
  ascend_fuseep = true }

local function expert_sizes(s, context, r)
  local backend = tostring(s:get "--moe-a2a-backend" or "none")
  local asked = s:get "--ep-size"
  local deepep, whole = s:get "--enable-deepep-moe", s:get "--enable-ep-moe"
  r.ep = (FORCING[backend] or deepep or whole) and r.tp or asked or 1
  r.etp = common.divided(context, r.tp, r.ep * (s:get "--moe-dp-size" or 1), "ep x moe dp in tp")
  if backend ~= "none" then r.moe_dispatcher = backend end
end

function sglang.read(s, context)
  local concept = function(name) return common.size(context, s:concept(name), name) end
  local r = { tp = concept "tp", pp = concept "pp", cp = concept "cp" or 1 }
  local dp = concept "dp" or 1
  local inside = s:get "--enable-dp-attention" and dp > 1
  r.gpus = r.tp * r.pp * (inside and 1 or dp)
  r.dp, r.attention_dp = inside and 1 or dp, inside and dp or 1
  common.divided(context, r.gpus, s:get "--nnodes", "--nnodes in the GPUs")
  r.attention_tp = common.divided(context, r.tp, r.attention_dp * r.cp, "dp x attention cp in tp")
  expert_sizes(s, context, r)
  local share = function(value) return value and value > 0 and inside and value // dp or value end
  r.max_batch, r.chunk = s:set "--max-running-requests", share(s:set "--chunked-prefill-size")
  r.batch = r.max_batch and math.max(1, r.max_batch // r.attention_dp) -- of one data-parallel rank of attention
  r.seq_max, r.kv_dtype = s:set "--context-length", s:get "--kv-cache-dtype"
  r.state_dtype = s:get "--mamba-ssm-dtype"
  r.memory_fraction = s:set "--mem-fraction-static"
  r.prefix_cache = not s:get "--disable-radix-cache"
  common.sixteen_bits(s, "--dtype")
  if r.chunk == -1 then r.chunk, r.chunked_prefill = nil, false end
  local tokens, page = s:set "--max-total-tokens", s:set "--page-size"
  r.engine = { mixed_chunk = s:get "--enable-mixed-chunk" or nil, block_size = page,
    num_blocks = tokens and tokens // (page or 16), async_scheduling = not s:get "--disable-overlap-schedule",
    front_ends = s:set "--tokenizer-worker-num",
    receive_interval = s:set "--scheduler-recv-interval", swa_full_tokens_ratio = s:set "--swa-full-tokens-ratio",
    max_cudagraph_capture_size = s:get "--disable-cuda-graph" and 0
      or s:set "--cuda-graph-max-bs-decode" or s:set "--cuda-graph-max-bs"
      or common.largest(s:set "--cuda-graph-bs-decode" or s:set "--cuda-graph-bs") }
  if s:get "--disable-hybrid-swa-memory" then r.engine.pooled = false end
  r.attention_kernels = common.attention(s:set "--attention-backend")
  r.experts = common.EXPERTS[s:set "--moe-runner-backend"]
  local algorithm = s:concept "speculative" and (s:set "--speculative-algorithm" or s:set "--speculative-algo")
  r.speculative = algorithm and { method = algorithm, steps = s:set "--speculative-num-steps",
    draft_tokens = s:set "--speculative-num-draft-tokens", branches = s:set "--speculative-eagle-topk" } or nil
  r.quantization, r.model_name = s:set "--quantization", s:set "--model-path"
  if algorithm then s:set "--speculative-draft-model-path" end -- with what notes say of speculation
  common.overridden(s, "--json-model-override-args", r)
  return r
end

return sglang
