-- TRL, Axolotl, LLaMA-Factory and ms-swift: what their files say, worked out by hand from the stacks' own arguments
-- (TRL f2cd5771, Axolotl 067b021c, LLaMA-Factory ff6d4d12, ms-swift 3602360a).
local tperf = require "tperf"

local function read(name, text, given)
  local files = { { name = name, text = text } }
  return tperf.import.launch { files = files, gpus = given and given.gpus, given = given and given.given }
end

local function arguments(name, text, given)
  return tperf.import.arguments(read(name, text, given), { model = "llama-3.1-8b" })
end

local function refused(launch)
  local list = {}
  for i, one in ipairs(launch.refused) do list[i] = one.option end
  return list
end

describe("ms-swift's swift sft", function()
  local SCRIPT <const> = "NPROC_PER_NODE=4 swift sft --model meta-llama/Llama-3.1-8B --tuner_type full "
    .. "--max_length 8192 --packing true --torch_dtype bfloat16 --dataset 'a#100' b --per_device_train_batch_size 2 %s"

  it("fills a step with 16 sequences unless it says how many", function()
    local a = arguments("run.sh", SCRIPT:format "")
    assert.same({ 4, 4, 2, 16, 8192, "full" },
      { a.gpus, a.dp, a.micro_batch, a.global_batch, a.seq, a.recompute })
    assert.equal(24, arguments("run.sh", SCRIPT:format "--gradient_accumulation_steps $(expr 12 / 4)").global_batch)
  end)

  it("takes the stages of DeepSpeed by the names that it has for them", function()
    for stage = 0, 3 do assert.equal(stage, read("run.sh", SCRIPT:format("--deepspeed zero" .. stage)).zero) end
    local launch = read("run.sh", SCRIPT:format "--deepspeed zero2_offload")
    assert.equal(1.0, tperf.import.arguments(launch, { model = "llama-3.1-8b" }).offload_optimizer)
  end)

  it("trains 16-bit weights without a wider copy, and DeepSpeed's with one", function()
    local a = arguments("run.sh", SCRIPT:format "")
    assert.same({ "bf16", "none", "bf16", "bf16" }, { a.weights, a.master, a.gradients, a.moments })
    a = arguments("run.sh", SCRIPT:format "--deepspeed zero2")
    assert.same({ n = 3, nil, nil, "deepspeed" }, table.pack(a.weights, a.master, a.sharding))
  end)

  it("cuts sequences over GPUs", function()
    local a = arguments("run.sh", SCRIPT:format "--sequence_parallel_size 2")
    assert.same({ 2, 2, "all_to_all", 16 }, { a.cp, a.dp, a.cp_kind, a.global_batch })
  end)

  it("is refused for what is no step of training alone", function()
    assert.same({ "task_type" }, refused(read("run.sh", SCRIPT:format "--task_type embedding")))
    assert.same({ "rlhf_type" }, refused(read("run.sh", SCRIPT:gsub("sft", "rlhf"):format "--rlhf_type grpo")))
    assert.same({ "quant_method", "quant_bits" },
      refused(read("run.sh", SCRIPT:gsub("full", "lora"):format "--quant_method gptq --quant_bits 4")))
  end)

  it("has adapters beside all products by default, in 4 bits if it says so", function()
    local a = arguments("run.sh", SCRIPT:gsub("full", "lora"):format "--quant_bits 4")
    assert.same({ kind = "qlora", rank = 8, targets = "all-linear", dropout = 0.05 }, a.peft)
  end)

  it("takes the word for all products where a list of modules may stand", function()
    local lora = SCRIPT:gsub("full", "lora")
    assert.equal("all-linear", arguments("run.sh", lora:format "--target_modules all-linear").peft.targets)
    assert.same({ "q_proj", "o_proj" }, arguments("run.sh", lora:format "--target_modules q_proj o_proj").peft.targets)
    assert.same({ "target_modules" }, refused(read("run.sh", lora:format "--target_modules all-linear lm_head")))
  end)
end)

describe("ms-swift's megatron commands", function()
  it("send experts' tokens by all-to-all unless they say otherwise", function()
    local launch = read("run.sh", "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --max_length 4096 "
      .. "--expert_model_parallel_size 4 --masked_softmax_fusion false --packing true")
    assert.same({ "alltoall", 4, 1, 16 }, { launch.moe_dispatcher, launch.ep, launch.etp, launch.global_batch })
    assert.same({}, refused(launch))
  end)

  it("prefer one of two sequences", function()
    local a = arguments("run.sh", "NPROC_PER_NODE=8 megatron rlhf --rlhf_type dpo --model x --max_length 4096 "
      .. "--tensor_model_parallel_size 2 --packing true --beta 0.1")
    assert.same({ "dpo", 16, 4 }, { a.objective, a.global_batch, a.dp })
  end)
end)

describe("LLaMA-Factory's YAML", function()
  local TEXT <const> = "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\ndo_train: true\n"
    .. "cutoff_len: 4096\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n"

  it("has adapters unless it says full", function()
    local a = arguments("lora.yaml", TEXT, { gpus = 8 })
    assert.same({ 8, 2, 64, 4096, 0, "full" },
      { a.dp, a.micro_batch, a.global_batch, a.seq, a.zero, a.recompute })
    assert.same({ kind = "lora", rank = 8, targets = "all-linear", dropout = 0.0 }, a.peft)
    a = arguments("all.yaml", TEXT .. "finetuning_type: lora\nlora_target: all\n", { gpus = 8 })
    assert.equal("all-linear", a.peft.targets)
    a = arguments("full.yaml", TEXT .. "finetuning_type: full\ndisable_gradient_checkpointing: true\n", { gpus = 8 })
    assert.same({ nil, "fp32", "none" }, { a.peft, a.weights, a.recompute }) -- fp32 under autocast
    a = arguments("pure.yaml", TEXT .. "finetuning_type: full\npure_bf16: true\n", { gpus = 8 })
    assert.same({ "bf16", "none" }, { a.weights, a.master })
  end)

  it("of v1 trains all weights unless it says peft_config", function()
    local v1 = "model: Qwen/Qwen3-8B\nmicro_batch_size: 1\ncutoff_len: 2048\ndist_config:\n  name: fsdp2\n%s"
    local launch = read("v1.yaml", v1:format "", { gpus = 8 })
    assert.same({ nil, 3 }, { launch.peft, launch.zero })
    local said = table.concat(launch.assumed, "\n")
    assert.matches("the command is sft", said)
    assert.equal(nil, said:match "bf16 is off")
    launch = read("v1.yaml", v1:format "peft_config:\n  name: lora\n  r: 16\n  target_modules: all\n", { gpus = 8 })
    assert.same({ "lora", 16, "all-linear" }, { launch.peft.kind, launch.peft.rank, launch.peft.targets })
  end)

  it("reads the DeepSpeed JSON that it names, from the files beside it", function()
    local launch = tperf.import.launch { gpus = 8, files = {
      { name = "run.yaml", text = TEXT .. "finetuning_type: full\ndeepspeed: examples/ds_config.json\n" },
      { name = "ds_config.json", text = '{ "train_micro_batch_size_per_gpu": "auto", "bf16": { "enabled": "auto" }, '
        .. '"zero_optimization": { "stage": 3, "overlap_comm": true } }' },
    } }
    assert.same({ 3, {} }, { launch.zero, refused(launch) })
  end)

  it("prefers one of two sequences, with or without a reference", function()
    local a = arguments("dpo.yaml", TEXT:gsub("sft", "dpo"), { gpus = 8 })
    assert.same({ "dpo" }, { a.objective, a.reference })
    a = arguments("orpo.yaml", TEXT:gsub("sft", "dpo") .. "pref_loss: orpo\n", { gpus = 8 })
    assert.same({ "dpo", "precomputed" }, { a.objective, a.reference })
    assert.same({ "stage" }, refused(read("rm.yaml", TEXT:gsub("sft", "rm"), { gpus = 8 })))
  end)

  it("says that it exports, where it trains nothing", function()
    assert.error_matches(function()
      read("merge.yaml", "model_name_or_path: x\nadapter_name_or_path: y\nexport_dir: z\nexport_size: 5\n"
        .. "template: qwen\ntrust_remote_code: true\n", { gpus = 1 })
    end, "exports a model and trains none", 1, true)
  end)
end)

describe("Axolotl's YAML", function()
  local TEXT <const> = "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 4096\nsample_packing: true\n"
    .. "micro_batch_size: 2\ngradient_accumulation_steps: 4\noptimizer: %s\nbf16: auto\n"

  it("is read: batches, optimizers, adapters, which kernels fuse", function()
    local a = arguments("a.yaml", TEXT:format "adamw_bnb_8bit" .. "adapter: qlora\nload_in_4bit: true\nlora_r: 16\n"
      .. "lora_target_modules: 'model.layers.[\\d]+.(mlp|self_attn).(up|down|q)_proj'\ngradient_checkpointing: true\n"
      .. "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin\nliger_rms_norm: true\n",
      { gpus = 2 })
    assert.same({ 2, 16, 4096, "adam_8bit", "full", "chunked", true },
      { a.micro_batch, a.global_batch, a.seq, a.optimizer, a.recompute, a.loss, a.compile })
    assert.same({ kind = "qlora", rank = 16, targets = { "up_proj", "down_proj", "q_proj" }, dropout = 0.0 }, a.peft)
  end)

  it("has weights and the optimizer on the host", function()
    local a = arguments("a.yaml", TEXT:format "adamw_torch_fused" .. "fsdp_version: 2\nfsdp_config:\n"
      .. "  offload_params: true\n", { gpus = 8 })
    assert.same({ 3, true, 1.0 }, { a.zero, a.offload_params, a.offload_optimizer })
  end)

  -- Its docs/gradient_checkpointing.qmd: adapters' training offloads instead of recomputing.
  it("has activations on the host", function()
    local text = TEXT:format "adamw_torch_fused" .. "gradient_checkpointing: %s\n"
    local lora = "adapter: lora\nlora_r: 8\nlora_target_linear: true\n"
    local function answer(mode, more)
      local a = arguments("a.yaml", text:format(mode) .. more, { gpus = 2 })
      return { a.recompute, a.offload_layers or "none", (a.offload_modules or {})[1] }
    end
    assert.same({ "none", 32 }, answer("true", lora .. "activation_offloading: true\n"))
    assert.same({ "none", 32 }, answer("offload", lora))
    assert.same({ "full", "none", "attn_norm" }, answer("true", "activation_offloading: true\n"))
    assert.same({ "full", "none", "attn_norm" }, answer("true", lora .. "activation_offloading: hidden_states\n"))
  end)

  it("has frozen weights of 8 bits", function()
    local a = arguments("a.yaml", TEXT:format "adamw_bnb_8bit" .. "adapter: lora\nload_in_8bit: true\nlora_r: 16\n"
      .. "lora_target_linear: true\n", { gpus = 2 })
    assert.same({ kind = "qlora", bits = 8, rank = 16, targets = "all-linear", dropout = 0.0 }, a.peft)
  end)

  -- Its docs/expert_quantization.qmd: experts are one parameter, which neither bitsandbytes nor targets know.
  it("says what becomes of routed experts", function()
    local text = TEXT:format "adamw_bnb_8bit":gsub("NousResearch/Meta%-Llama%-3.1%-8B", "Qwen/Qwen3-30B-A3B")
      .. "adapter: qlora\nload_in_4bit: true\nlora_r: 16\nlora_target_modules: [q_proj, up_proj]\n"
    assert.same({}, arguments("a.yaml", text, { gpus = 2 }).peft.experts)
    assert.same({ bits = 4, targets = { "gate_up_proj", "down_proj" } }, arguments("a.yaml", text
      .. "quantize_moe_experts: true\nlora_target_parameters: [experts.gate_up_proj, mlp.experts.down_proj]\n",
      { gpus = 2 }).peft.experts)
    local each = text:gsub("Qwen/Qwen3%-30B%-A3B", "axolotl-quants/DeepSeek-V2.5-bnb-nf4-bf16")
    assert.is_nil(arguments("a.yaml", each, { gpus = 2 }).peft.experts) -- whose experts are modules
    local narrow = text:gsub("Qwen/Qwen3%-30B%-A3B", "nvidia/Qwen3-30B-A3B-NVFP4"):gsub("load_in_4bit: true\n", "")
    assert.equal("weights of nvidia/Qwen3-30B-A3B-NVFP4",
      refused(read("a.yaml", narrow:gsub("adapter: qlora", "adapter: lora"), { gpus = 2 }))[1])
    assert.equal("lora_target_parameters", refused(read("a.yaml", text
      .. "lora_target_parameters: [mlp.gate.weight]\n", { gpus = 2 }))[1])
  end)

  it("shards by FSDP, tensors and contexts", function()
    local a = arguments("a.yaml", TEXT:format "adamw_torch_fused" .. "fsdp_version: 2\ndp_shard_size: 4\n"
      .. "dp_replicate_size: 2\ntensor_parallel_size: 2\ncontext_parallel_size: 2\nfsdp_config:\n"
      .. "  reshard_after_forward: false\n  auto_wrap_policy: TRANSFORMER_BASED_WRAP\n")
    assert.same({ 32, 2, 2, 8, 3, 4, false, "fp32" },
      { a.gpus, a.tp, a.cp, a.dp, a.zero, a.shard, a.reshard_after_forward, a.weights })
  end)

  it("is refused for what no prediction has", function()
    for _, line in ipairs { "load_in_8bit: true", "gradient_checkpointing: offload_disk",
      "activation_offloading: legacy", "optimizer: came_pytorch", "fp8: true", "unfrozen_parameters: [lm_head.*]",
      "rl: kto", "rl: ipo_pairs", "layer_offloading: true" } do
      local text = TEXT:format "adamw_torch_fused"
      if line:find "^optimizer" then text = text:gsub("optimizer: %g+\n", "") end
      assert.is_truthy(refused(read("a.yaml", text .. line .. "\n", { gpus = 2 }))[1], line)
    end
  end)
end)

describe("A head in place of the output table", function()
  local function answer(text, given)
    local name = text:find "^base" and "a.yaml" or "run.sh"
    local a = tperf.import.arguments(tperf.import.launch { files = { { name = name, text = text } }, given = given })
    return { tperf.model(a.model).classes, a.objective or "plain", a.reference or "none" }
  end
  local PROGRAM <const> = "python examples/scripts/%s.py --model_name_or_path Qwen/Qwen3-8B "
    .. "--per_device_train_batch_size 2 --max_length 2048"

  it("scores pairs of sequences, steps, or labels", function()
    local one = { gpus = 1 }
    assert.same({ 1, "dpo", "precomputed" }, answer(PROGRAM:format "reward_modeling", one))
    assert.same({ 2, "plain", "none" }, answer(PROGRAM:format "prm", one))
    local axolotl = "base_model: Qwen/Qwen3-8B\nsequence_len: 512\nmicro_batch_size: 1\nnum_labels: 1\n"
    assert.same({ 1, "dpo", "precomputed" }, answer(axolotl .. "reward_model: true\n", one))
    local swift = "swift sft --model Qwen/Qwen3-8B --task_type seq_cls --num_labels 7 --problem_type x "
      .. "--tuner_type full --max_length 512"
    assert.same({ 7, "plain", "none" }, answer(swift, one))
    assert.same({ 9, "plain", "none" }, answer("NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B "
      .. "--task_type seq_cls --num_labels 9 --max_length 512 --global_batch_size 8", nil))
  end)
end)

describe("TRL", function()
  it("has gradient checkpointing and fp32 weights unless it says otherwise", function()
    local a = arguments("run.sh", "trl sft --model_name_or_path meta-llama/Llama-3.1-8B --packing "
      .. "--per_device_train_batch_size 4 --gradient_accumulation_steps 2", { gpus = 8 })
    assert.same({ 4, 64, 1024, "full", "fp32", "pytorch" },
      { a.micro_batch, a.global_batch, a.seq, a.recompute, a.weights, a.loss })
  end)

  it("is started by accelerate with a configuration, or with the name of one", function()
    local script = "accelerate launch --config_file %s examples/scripts/dpo.py --model_name_or_path x "
      .. "--per_device_train_batch_size 1 --max_length 2048 --use_peft"
    local launch = tperf.import.launch { files = { { name = "run.sh", text = script:format "two.yaml" },
      { name = "two.yaml", text = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"
        .. "num_processes: 4\nmixed_precision: bf16\n" } } }
    assert.same({ 4, 2, "dpo", 16 }, { launch.gpus, launch.zero, launch.axes.objective, launch.peft.rank })
    assert.same({ "q_proj", "v_proj" }, launch.peft.targets)
    launch = read("run.sh", script:format "a/deepspeed_zero3.yaml", { gpus = 8 })
    assert.same({ 8, 3 }, { launch.gpus, launch.zero })
    assert.matches("a/deepspeed_zero3.yaml is not at hand: ZeRO 3", table.concat(launch.assumed, "\n"), 1, true)
  end)

  it("is refused by its objective where it generates what it trains on", function()
    local launch = read("run.sh", "accelerate launch examples/scripts/grpo_vlm.py --model_name_or_path x",
      { gpus = 8 })
    assert.same({ "objective", "grpo" }, { launch.refused[1].option, launch.refused[1].value })
  end)
end)

describe("a chunked cross-entropy", function()
  it("keeps no logits for the backward pass", function()
    local function memory(loss)
      return tperf.train { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, zero = 3,
        seq = 8192, recompute = "full", loss = loss }.memory.total
    end
    -- log_softmax and two gradients, 12 bytes for each logit of a sequence, against an eighth of them
    assert.is_true(memory "pytorch" - memory "chunked" > 0.8 * 10.5 * 8192 * 128256)
  end)
end)

describe("Layers of multi-token prediction", function()
  local function mtp(text, name)
    local files = { { name = name or "run.sh", text = text } }
    local model = tperf.import.arguments(tperf.import.launch { files = files, given = { gpus = 32 } }).model
    return tperf.model(model).mtp
  end

  -- DeepseekV3ForCausalLM and Qwen3NextForCausalLM do not load them (transformers, _keys_to_ignore_on_load_unexpected).
  it("are not in models of Transformers", function()
    assert.equal(0, mtp("NPROC_PER_NODE=32 swift sft --model deepseek-ai/DeepSeek-V3 --tuner_type lora"))
    assert.equal(0, mtp("model_name_or_path: Qwen/Qwen3-Next-80B-A3B-Instruct\nstage: sft\ncutoff_len: 4096\n"
      .. "finetuning_type: lora\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 1\n", "run.yaml"))
  end)

  it("may come with a capacity of experts, which a small one is refused for", function()
    local command = "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --max_length 4096 "
      .. "--expert_model_parallel_size 8 --global_batch_size 64 --moe_expert_capacity_factor "
    assert.same({}, refused(read("run.sh", command .. "2", {})))
    assert.same({ "--moe-expert-capacity-factor" }, refused(read("run.sh", command .. "1", {})))
  end)

  it("are in ms-swift's megatron commands as they say", function()
    local command = "NPROC_PER_NODE=32 megatron sft --model deepseek-ai/DeepSeek-V3 --max_length 4096 "
      .. "--expert_model_parallel_size 8 --global_batch_size 64 "
    assert.equal(0, mtp(command))
    assert.equal(1, mtp(command .. "--mtp_num_layers 1"))
  end)
end)
