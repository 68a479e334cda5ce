-- Commands whose answers tell whether a mutant computes anything else: many kinds of questions, few of each.
local list = {}

local function add(...)
  for _, one in ipairs { ... } do list[#list + 1] = one .. " --json" end
end

local function each(format, ...)
  for _, one in ipairs { ... } do add(format:format(table.unpack(type(one) == "table" and one or { one }))) end
end

local SIZES <const> = "1KiB,64KiB,1MiB,32MiB,1GiB"

for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "scatter", "gather",
  "all_to_all" } do
  each("collective " .. kind .. " -s %s -n " .. SIZES, "h100-sxm -g 8", "h100-sxm -g 6", "a100-sxm-80gb -g 64",
    "gb200-nvl72 -g 144", "l40s -g 4", "mi300x -g 4", "h100-sxm -g 32 --rules subramanian2024")
end
add("collective send -s h100-sxm -g 2 -f 1 -n 1MiB", "collective send -s h100-sxm -g 2 -n 1MiB")

each("train %s", "llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8",
  "gpt3-175b -s a100-sxm-80gb -b 1536 --tp 8 --pp 8 --dp 16 --software megatron-lm-2022",
  "gpt3-175b -s a100-sxm-80gb -b 64 --tp 8 --pp 8 --dp 1 --rules subramanian2024",
  "mixtral-8x7b -s h100-sxm -b 256 --tp 2 --ep 8 --pp 4 --dp 8 --software megatron-core-moe-2025",
  "mixtral-8x7b -s h100-sxm -b 256 --tp 2 --ep 8 --pp 4 --dp 8 --software none",
  "deepseek-v3 -s h800-sxm -b 4096 --seq 4096 --ep 64 --pp 16 --dp 128 --moe-dispatcher deepep --precision fp8-block",
  "deepseek-v3 -s gb200-nvl72 -b 4096 --seq 4096 --ep 64 --pp 16 --dp 64 --moe-dispatcher hybridep",
  "qwen3-235b-a22b -s b200-sxm -b 1024 --tp 2 --ep 16 --pp 4 --dp 32 --recompute selective",
  "llama-2-7b -s h100-sxm -b 64 --strategy summa --attention summa --tp1 4 --tp2 2 --panels 4",
  "gpt3-175b -s h100-sxm -b 64 --strategy summa --tp1 4 --tp2 2 --pp 8 --panels 2 --rules subramanian2024",
  "llama-3.1-8b -s a100-pcie-80gb -b 64 --tp 4 --overlap-tp ring",
  "llama-3.1-8b -s h100-sxm -b 64 --tp 8 --overlap-tp ring --dp 2",
  "llama-3.1-8b -s h100-sxm -b 64 --tp 8 --overlap-tp async --dp 2",
  "llama-3.1-8b -s h100-sxm -b 64 --tp 8 --overlap-tp none --dp 2",
  "llama-3.1-8b -s mi300x -b 64 --dp 8 --zero 3 --no-compile --software torchtitan-2024",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 64 --zero 2", "llama-3.1-8b -s h100-sxm -b 64 --dp 64 --zero 3 --shard 8",
  "qwen2.5-0.5b -s a100-sxm-80gb -b 64 --dp 8 --software vtrain-2024",
  "gpt2 -s a100-sxm-40gb -b 64 --dp 8 --software nanotron-2025",
  "gpt2 -s v100-sxm -b 64 --dp 8 --software bigscience-2022",
  "gpt-oss-20b -s h100-sxm -b 64 --ep 8 --dp 8 --software megatron-bridge-26.06",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --peft lora --software torchao-2025",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --peft qlora --lora-dropout 0.1",
  "mamba2-2.7b -s h100-sxm -b 64 --dp 8", "mamba-2.8b -s a100-sxm-80gb -b 64 --tp 2 --dp 4",
  "qwen3-next-80b-a3b -s h100-sxm -b 64 --ep 8 --dp 8 --pp 2", "nemotron-h-8b -s h100-sxm -b 64 --tp 2 --dp 8",
  "t5-11b -s a100-sxm-80gb -b 64 --tp 8", "flan-t5-xxl -s a100-sxm-80gb -b 64 --tp 4 --pp 2",
  "dit-xl-2 -s h100-sxm -b 64 --dp 8", "bert-large -s v100-sxm -b 64 --dp 8", "vit-22b -s h100-sxm -b 64 --tp 8",
  "llama-3.1-405b -s h100-sxm -b 2048 --tp 8 --pp 16 --dp 16 --schedule interleaved_1f1b --virtual-stages 4",
  "llama-3.1-70b -s gb300-nvl72 -b 512 --tp 4 --pp 4 --dp 16 --precision mxfp8",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --attention unfused --software megatron-lm-2021",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --attention recompute --recompute full",
  "llama-3.1-70b -s h100-sxm -b 512 --seq 32768 --tp 8 --cp 8 --cp-kind ring --dp 4",
  "llama-3.1-70b -s h100-sxm -b 512 --seq 32768 --tp 8 --cp 8 --cp-kind all_to_all --dp 4",
  "llama-3.1-70b -s h100-sxm -b 512 --seq 32768 --tp 8 --cp 8 --dp 4 --packing 4096",
  "llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8 --simulate 1f1b",
  "llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8 --tokens 15e12 --mtbf gpu=50000h --checkpoint-bandwidth 1GB/s "
    .. "--store-bandwidth 100GB/s --restart-time 10min --straggling 0.02",
  "llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8 --tokens 1e12 --mtbf cluster=3h --checkpoint-bandwidth 2GB/s "
    .. "--async-save --copy-bandwidth 20GB/s --spare-nodes 2 --repair-time 4h --restart-time 5min",
  "llama-3.1-8b -s h20 -b 64 --dp 8 --software nemo-automodel-26.02",
  "dbrx -s h100-sxm -b 64 --tp 4 --ep 8 --dp 8 --pp 2 --software llm-foundry-2023",
  "grok-1 -s h100-sxm -b 64 --tp 8 --ep 8 --dp 8 --pp 4 --overlap-moe-a2a --delay-wgrad",
  "glm-4.5 -s h100-sxm -b 256 --tp 4 --ep 8 --dp 8 --pp 8 --moe-dispatcher allgather",
  "minimax-m2 -s h100-sxm -b 256 --ep 16 --dp 16 --pp 4 --software megatron-bridge-26.08-functional",
  "llama-3.1-8b -s gh200 -b 64 --dp 8 --offload-layers 4 --offload-optimizer 0.5",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --recompute full --recompute-method block --recompute-num-layers 2",
  "llama-3.1-8b -s h100-sxm -b 64 --pp 4 --dp 2 --pipeline-layout 7,8,9,8",
  "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --optimizer muon", "llama-3.1-8b -s h100-sxm -b 64 --dp 8 --objective dpo")
for _, schedule in ipairs { "gpipe", "1f1b", "zb_h1", "zb_h2", "zbv", "dualpipe", "dualpipe_v", "zb_auto" } do
  add("train llama-3.1-70b -s h100-sxm -b 256 --tp 8 --pp 4 --dp 4 --schedule " .. schedule)
end
add("schedule 1f1b gpipe zb_h1 -d 4 -m 16 --times f=1,b=2", "schedule zb_auto -d 4 -m 12 --times f=1,d=1,w=1 --p2p 0.1",
  "schedule 1f1b zb_h1 -d 4 -m 8 --times-per-stage f=0.8:1.2:1:1,b=2")

each("search %s", "llama-3.1-70b -s h100-sxm -g 256 -b 512 --top 3", "mixtral-8x22b -s h100-sxm -g 64 -b 256 --top 3",
  "gpt3-175b -s a100-sxm-80gb -g 512 -b 1536 --top 2 --software none", "llama-3.1-8b -s l40s -g 16 -b 64 --top 2",
  "gpt3-175b -s subramanian2024/B200-next -g 512 -b 512 --rules subramanian2024 --top 1 --strategy summa",
  "deepseek-v2-lite -s h100-sxm -g 32 -b 256 --top 3", "llama-2-7b -s v100-sxm -g 32 -b 64 --top 2")
add("memory llama-3.1-70b -s h100-sxm -b 512 --fewest", "memory llama-3.1-70b -s h100-sxm --fewest -p 2048 -n 256",
  "memory gpt3-175b -s h100-sxm -b 1536 --tp 8 --pp 8 --dp 16")

each("infer %s", "llama-3.1-70b -s h100-sxm --tp 8 -p 2048 -n 256 -b 32",
  "llama-3.1-70b -s h100-sxm --tp 4 --pp 2 -p 2048 -n 256 -b 32", "llama-3.1-8b -s rtx-pro-6000 -p 1024 -n 128 -b 16",
  "deepseek-v3 -s h200-sxm --tp 8 -p 2048 -n 256 -b 64", "gpt-oss-120b -s b200-sxm --tp 2 -p 1024 -n 512 -b 64",
  "mamba2-2.7b -s h100-sxm -p 1024 -n 64 -b 8", "gemma-3-27b -s h100-sxm --tp 2 -p 4096 -n 64 -b 8",
  "qwen3-next-80b-a3b -s h200-sxm --tp 4 -p 4096 -n 64 -b 8",
  "llama-3.1-8b -s a100-sxm-80gb -p 512 -n 32 -b 4 --kv-dtype fp8")

local LOAD <const> = " --rate 10 --count 200 --prompt 100..2000 --output mean=200"
for _, software in ipairs { "vllm", "vllm-0.6", "sglang", "sglang-0.5", "tensorrt-llm" } do
  each("serve %s --software " .. software .. LOAD, "llama-3.1-8b -s h100-sxm", "qwen3-30b-a3b -s h100-sxm --tp 2")
end
each("serve %s", "llama-3.1-8b -s h100-sxm --rate 40 --count 400 --prompt 2000 --output mean=3000 --software sglang "
    .. "--gpu-memory-utilization 0.35", "llama-3.1-8b -s rtx-5090 --concurrency 32 --count 200 --prompt 100..2000 "
    .. "--output mean=200", "deepseek-v2-lite -s l40s --tp 2 --rate 5 --count 200 --prompt 100..4000 --output 200",
  "gemma-3-27b -s h100-sxm --tp 2 --rate 5 --count 200 --prompt 4000 --output 300 --software sglang",
  "llama-3.1-8b -s h100-sxm --rate 20 --count 200 --prompt 500 --output 200 --speculation eagle:3 --acceptance 0.7",
  "llama-3.1-8b -s h100-sxm --pp 2" .. LOAD, "qwen3-30b-a3b -s h100-sxm --tp 2 --cold --prompt 1000 --output 100 "
    .. "--concurrency 16 --count 100", "llama-3.1-8b -s h100-sxm --replicas 2 --router least_loaded" .. LOAD,
  "llama-3.1-8b -s h100-sxm --sampling top_p --software vllm-0.6" .. LOAD,
  "--step-time fixed=5ms,per_token=20us --max-num-seqs 8 --num-gpu-blocks 200" .. LOAD,
  "mamba2-2.7b -s h100-sxm" .. LOAD,
  "llama-3.1-8b -s h100-sxm --software tensorrt-llm --enable-chunked-prefill" .. LOAD)
each("params %s", "t5-11b", "dit-xl-2", "deepseek-v3", "mamba2-2.7b", "vit-22b", "qwen3-next-80b-a3b", "nemotron-h-8b")

return list
