-- Launch files of other versions and of rare kinds, with settings worked out by hand from the stacks' documentation:
-- the result of tperf.import.launch, and the arguments for tperf.train or tperf.infer.
local tperf = require "tperf"

local function at(launch, path)
  local value = launch
  for part in path:gmatch "[^.]+" do
    if type(value) ~= "table" then return nil end
    value = value[part]
  end
  return value
end

-- files: { name, text } each, the script first; asked: the expected arguments, nil if the MODEL must be named.
local function says(files, given, expected, asked, expected_refusals)
  local list = {}
  for i, one in ipairs(files) do list[i] = { name = one[1], text = one[2] } end
  local launch = tperf.import.launch { files = list, given = given }
  for name, value in pairs(expected) do assert.same(value, at(launch, name), name) end
  local refused = {}
  for i, one in ipairs(launch.refused) do refused[i] = one.option end
  assert.same(expected_refusals or {}, refused)
  if not asked then return end
  local a = tperf.import.arguments(launch, { vocab = given and given.vocab, ignore = expected_refusals })
  for name, value in pairs(asked) do assert.same(value, a[name], name) end
end

describe("a launch file of", function()
  it("Megatron-LM of 2021, with that year's names", function()
    says({{"run.sh", [[
NNODES=4
python -m torch.distributed.launch --nproc_per_node 8 --nnodes $NNODES --node_rank $NODE_RANK \
  pretrain_gpt.py --tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 \
  --num-layers 24 --hidden-size 2048 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 \
  --micro-batch-size 4 --global-batch-size 256 --train-iters 1000 --lr 1e-4 --fp16 --DDP-impl local \
  --checkpoint-activations --activations-checkpoint-method uniform --vocab-file v.json --merge-file m.txt
]]}}, {vocab=50257}, {
      stack = "Megatron-LM", gpus = 32, tp = 8, pp = 2, cp = 1, dp = 2, vp = 1, micro_batch = 4, global_batch = 256,
      microbatches = 32, seq = 2048, zero = 0, sequence_parallel = false, ["recompute.granularity"] = "full",
      ["recompute.method"] = "uniform", ["precision.compute"] = "fp16", ["overlap.dp_grad"] = false,
    }, { overlap_grad_reduce = false, zero = 0, recompute = "full", dp = 2 })
  end)

  it("Megatron-LM with merges of byte pairs, which are GPT-2's", function()
    local command = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 "
      .. "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 --merge-file m"
    local function vocab(more)
      local files = { { name = "run.sh", text = command .. more } }
      return tperf.import.arguments(tperf.import.launch { files = files }).model.vocab
    end
    assert.equal(50257, vocab "")
    assert.equal(50304, vocab " --vocab-size 50304")
    assert.error_matches(function() vocab " --tokenizer-type HuggingFaceTokenizer" end, "does not say the vocabulary")
  end)

  it("Megatron-LM with experts, hybrid shards and overlapped exchanges", function()
    says({{"run.sh", [[
torchrun --nproc_per_node=8 --nnodes=${SLURM_NNODES} pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --vocab-size 32000 \
  --swiglu --normalization RMSNorm --num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 14336 \
  --expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --moe-token-dispatcher-type flex \
  --moe-flex-dispatcher-backend hybridep --overlap-moe-expert-parallel-comm --delay-wgrad-compute \
  --moe-router-padding-for-fp8 \
  --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \
  --untie-embeddings-and-output-weights \
  --num-distributed-optimizer-instances 2 --ddp-bucket-size 100000000 --grad-reduce-in-bf16 --optimizer muon \
  --micro-batch-size 1 --global-batch-size 128 --seq-length 4096 --bf16 --fp8-format hybrid --fp8-recipe tensorwise
]]}}, {SLURM_NNODES="4"}, {
      stack = "Megatron-LM", gpus = 32, tp = 2, dp = 16, ep = 8, etp = 1, edp = 4, microbatches = 8, zero = 1,
      ["precision.grads"] = "bf16", ["precision.fp8_recipe"] = "tensorwise", sequence_parallel = true,
    }, { overlap_moe_a2a = true, delay_wgrad = true, moe_dispatcher = "hybridep", shard = 8, bucket_size = 100000000,
      gradients = "bf16", optimizer = "muon", precision = { recipe = "fp8-current", padding = "router" },
      overlap_param_gather = false })
  end)

  it("torchtitan of 2024", function()
    says({{"train.toml", [[
[job]
dump_folder = "./outputs"
[model]
name = "llama3"
flavor = "70B"
norm_type = "rmsnorm"
[optimizer]
name = "AdamW"
lr = 1.5e-4
[training]
batch_size = 2
seq_len = 8192
steps = 1000
data_parallel_degree = -1
tensor_parallel_degree = 8
compile = false
[experimental]
context_parallel_degree = 1
pipeline_parallel_degree = 1
enable_async_tensor_parallel = true
[checkpoint]
enable_checkpoint = false
[activation_checkpoint]
mode = 'full'
[float8]
enable_float8_linear = true
enable_fsdp_float8_all_gather = true
]]}}, {gpus=64}, {
      stack = "torchtitan", gpus = 64, tp = 8, dp = 8, micro_batch = 2, global_batch = 16, seq = 8192, zero = 3,
    }, { model = "llama-3.1-70b", recompute = "full", overlap_tp = "async",
      precision = { recipe = "fp8-tensorwise", gather = "narrow" } })
  end)

  it("torchtitan of 2025, with hybrid shards", function()
    says({{"train.toml", [[
[model]
name = "llama3"
flavor = "405B"
converters = ["float8"]
[training]
local_batch_size = 2
global_batch_size = 128
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
fsdp_reshard_after_forward = "default"
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
pipeline_parallel_degree = 1
context_parallel_degree = 1
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
[quantize.linear.float8]
recipe_name = "rowwise"
]]}}, {gpus=128}, {
      stack = "torchtitan", gpus = 128, tp = 8, dp = 16, dp_replicate = 2, dp_shard = 8, micro_batch = 2,
      global_batch = 128,
      microbatches = 4, zero = 3,
    }, { model = "llama-3.1-405b", shard = 8, recompute = "full", recompute_method = "every", recompute_num_layers = 2,
      overlap_tp = "async", precision = { recipe = "fp8-rowwise" } })
  end)

  it("Hugging Face's trainer with ZeRO-Infinity", function()
    says({{"run.sh", [[
deepspeed --num_gpus=8 --num_nodes=2 run_clm.py --deepspeed ds.json --model_name_or_path meta-llama/Llama-2-7b-hf \
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 True \
  --gradient_checkpointing True --block_size 4096 \
  --learning_rate 2e-5 --num_train_epochs 3 --output_dir out
]]}, {"ds.json", [[{ "bf16": { "enabled": "auto" }, "gradient_accumulation_steps": "auto",
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "zero_optimization": {
    "stage": 3, "offload_optimizer": { "device": "cpu", "pin_memory": true }, "overlap_comm": true,
    "offload_param": { "device": "nvme", "nvme_path": "/local" }, "contiguous_gradients": true,
    "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9
  } }]]}}, nil, {
      stack = "DeepSpeed", gpus = 16, dp = 16, micro_batch = 2, global_batch = 128, microbatches = 4,
      seq = 4096, zero = 3,
      ["precision.compute"] = "bf16", ["offload.params"] = "nvme",
    }, { model = "llama-2-7b", recompute = "full", offload_optimizer = 1.0 }, { "offload-params" })
  end)

  it("nanotron", function()
    says({{"config.yaml", [[
parallelism:
  dp: 16
  expert_parallel_size: 1
  pp: 2
  pp_engine: afab
  recompute_layer: true
  tp: 4
  tp_linear_async_communication: true
  tp_mode: REDUCE_SCATTER
tokens:
  batch_accumulation_per_replica: 8
  limit_test_batches: 0
  micro_batch_size: 2
  sequence_length: 4096
  train_steps: 100
  val_check_interval: -1
optimizer:
  accumulate_grad_in_fp32: true
  zero_stage: 1
  optimizer_factory:
    name: adamW
    torch_adam_is_fused: true
model:
  dtype: bfloat16
  ddp_bucket_cap_mb: 120
  model_config:
    hidden_size: 4096
    intermediate_size: 14336
    num_attention_heads: 32
    num_hidden_layers: 32
    num_key_value_heads: 8
    vocab_size: 128256
    tie_word_embeddings: false
]]}}, nil, {
      stack = "nanotron", gpus = 128, tp = 4, pp = 2, dp = 16, micro_batch = 2, microbatches = 8, global_batch = 256,
      seq = 4096, zero = 1, sequence_parallel = true,
    }, { schedule = "gpipe", recompute = "full", zero = 1 })
  end)

  it("vLLM's server of 2024", function()
    says({{"serve.sh", [[
python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-2-70b-hf --tensor-parallel-size 4 -pp 2 \
  --max-num-seqs 256 --max-num-batched-tokens 4096 --max-model-len 4096 \
  --gpu-memory-utilization 0.85 --swap-space 4 --block-size 16 \
  --kv-cache-dtype fp8_e5m2 --enable-chunked-prefill=False --disable-log-requests --worker-use-ray
]]}}, nil, {
      stack = "vLLM", gpus = 8, tp = 4, pp = 2, dp = 1, ep = 1, max_batch = 256, max_tokens = 4096, seq_max = 4096,
      kv_dtype = "fp8_e5m2", chunked_prefill = false, memory_fraction = 0.85,
    }, { model = "llama-2-70b", tp = 4, pp = 2, batch = 256 })
  end)

  it("vLLM of 2026 with experts over all replicas", function()
    says({{"serve.sh", [[
export VLLM_USE_V1=1
vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 1 --data-parallel-size 16 \
  --data-parallel-size-local 8 --enable-expert-parallel \
  --max_num_seqs 128 --max-model-len 16384 --no-enable-prefix-caching --kv-cache-dtype auto \
  --enable-dbo --all2all-backend deepep_low_latency --async-scheduling
]]}}, nil, {
      stack = "vLLM", gpus = 16, tp = 1, dp = 16, ep = 16, etp = 1, max_batch = 128,
      seq_max = 16384, prefix_cache = false,
    }, { model = "deepseek-v3", dp = 16, ep = 16, batch = 128 }, { "--enable-dbo" })
  end)

  it("SGLang with the names of early 2025", function()
    says({{"serve.sh", [[
python -m sglang.launch_server --model deepseek-ai/DeepSeek-V3-0324 --tp 16 --dp 16 --enable-dp-attention \
  --enable-deepep-moe --deepep-mode normal \
  \
  --mem-fraction-static 0.85 --chunked-prefill-size 131072 --max-running-requests 2048 --context-length 4096 \
  --disable-radix-cache \
  --nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:5000 \
  --trust-remote-code --attention-backend fa3
]]}}, nil, {
      stack = "SGLang", gpus = 16, tp = 16, attention_tp = 1, attention_dp = 16, ep = 16, etp = 1, max_batch = 2048,
      chunk = 8192, seq_max = 4096, memory_fraction = 0.85, prefix_cache = false,
    }, { model = "deepseek-v3", tp = 1, dp = 16, ep = 16 })
  end)

  it("trtllm-serve with its YAML", function()
    says({{"serve.sh", [[
cat > extra.yml <<EOF
enable_attention_dp: true
cuda_graph_config:
  enable_padding: true
  max_batch_size: 512
kv_cache_config:
  dtype: fp8
  free_gpu_memory_fraction: 0.8
  enable_block_reuse: false
moe_config:
  backend: CUTLASS
enable_chunked_prefill: false
EOF
trtllm-serve nvidia/DeepSeek-R1-FP4 --host 0.0.0.0 --port 8000 --backend pytorch --max_batch_size 512 \
  --max_num_tokens 1560 --max_seq_len 8192 --tp_size 8 --ep_size 8 --pp_size 1 --extra_llm_api_options extra.yml
]]}}, nil, {
      stack = "TensorRT-LLM", gpus = 8, tp = 8, pp = 1, attention_tp = 1, attention_dp = 8, ep = 8, max_batch = 512,
      max_tokens = 1560, seq_max = 8192, kv_dtype = "fp8", prefix_cache = false, chunked_prefill = false,
    }, nil)
  end)
end)
