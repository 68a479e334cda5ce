-- The combined meaning of options in launch files, stack by stack, especially the pitfalls. Expected values are worked
-- out by hand from the stacks' documentation of each option.
local cases = require "cases"
local tperf = require "tperf"

local function import(name, text, given, more)
  local arguments = { files = { { name = name, text = text } }, given = given }
  for key, value in pairs(more or {}) do arguments[key] = value end
  return tperf.import.launch(arguments)
end

local BASE <const> = "--num-layers 32 --hidden-size 1024 --num-attention-heads 16 --micro-batch-size 2 "
  .. "--seq-length 2048 "

local function megatron(flags, gpus)
  return import("run.sh", ("torchrun --nproc_per_node %d pretrain_gpt.py %s%s\n"):format(gpus or 8, BASE, flags), {},
    { stack = "megatron" })
end

local function fails(message, f, ...)
  local arguments = table.pack(...)
  assert.error_matches(function() f(table.unpack(arguments, 1, arguments.n)) end, message)
end

describe("Megatron's arguments", function()
  it("give dp by division, and the global batch by default", function()
    local r = megatron("--tensor-model-parallel-size 2 --context-parallel-size 2", 16)
    assert.same({ 4, 8, 1 }, { r.dp, r.global_batch, r.microbatches })
    fails("tp x pp x cp = 3 x 1 x 1 in the GPUs: 3 does not divide 8", megatron, "--tensor-model-parallel-size 3")
    fails("does not divide", megatron, "--global-batch-size 24")
  end)

  it("default to a ring over context-parallel GPUs", function()
    local function kind(flags) return megatron("--context-parallel-size 2 " .. flags).cp_kind end
    assert.is_nil(megatron("").cp_kind)
    assert.same({ "ring", "ring", "all_gather", "all_to_all" }, { kind "", kind "--cp-comm-type p2p",
      kind "--cp-comm-type all_gather", kind "--cp-comm-type a2a" })
    local r = megatron "--context-parallel-size 2 --cp-comm-type a2a+p2p"
    assert.equal("ring", r.cp_kind)
    assert.truthy(table.concat(r.assumed, "\n"):find("context parallelism by a2a+p2p: taken as ring", 1, true))
    local a = tperf.import.arguments(megatron "--context-parallel-size 2 --vocab-size 32000")
    assert.same({ "context", "ring" }, { a.strategy, a.cp_kind })
  end)

  it("set virtual stages in three ways, one at a time", function()
    local pp = "--pipeline-model-parallel-size 4 "
    assert.equal(4, megatron(pp .. "--num-layers-per-virtual-pipeline-stage 2").vp)
    assert.equal(8, megatron(pp .. "--num-virtual-stages-per-pipeline-rank 8").vp)
    local r = megatron(pp .. "--pipeline-model-parallel-layout 'Ettt|(ttttt|)*5tttt|L'")
    assert.equal(2, r.vp)
    assert.same({ 3, 5, 5, 5, 5, 5, 4, 0 }, r.pipeline_layout)
    assert.equal(1, megatron(pp).vp)
    fails("said twice", megatron, pp
      .. "--num-layers-per-virtual-pipeline-stage 2 --num-virtual-stages-per-pipeline-rank 4")
    fails("need pp of at least 2", megatron, "--num-virtual-stages-per-pipeline-rank 2")
    fails("need pp of at least 3", megatron,
      "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 "
      .. "--no-overlap-p2p-communication")
    local account = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --num-layers 30 "
    assert.equal(8, megatron(pp .. account .. "--num-layers-per-virtual-pipeline-stage 1").vp)
  end)

  it("cut experts over tp unless told otherwise", function()
    local moe = "--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel --expert-model-parallel-size 4 "
    local r = megatron(moe)
    assert.same({ 4, 2, 1, 4 }, { r.ep, r.etp, r.edp, r.dp })
    r = megatron(moe .. "--expert-tensor-parallel-size 1")
    assert.same({ 4, 1, 2 }, { r.ep, r.etp, r.edp })
    assert.same({ 1, 1 }, { megatron("--tensor-model-parallel-size 2").ep,
      megatron("--tensor-model-parallel-size 2").etp })
    fails("need %-%-sequence%-parallel", megatron, (moe:gsub("%-%-sequence%-parallel", "")))
    fails("pp x ep x etp", megatron, moe .. "--expert-tensor-parallel-size 2 --expert-model-parallel-size 8")
  end)

  it("say whether attention is one kernel", function()
    local function attention(flags) return megatron(flags .. " --vocab-size 32000").attention end
    assert.is_nil(attention "")
    assert.is_nil(attention "--attention-backend flash")
    assert.is_nil(attention "--transformer-impl local --use-flash-attn")
    for _, flags in ipairs { "--attention-backend unfused", "--attention-backend local", "--transformer-impl local" } do
      assert.equal("unfused", attention(flags), flags)
    end
    assert.equal("unfused", tperf.import.arguments(megatron "--attention-backend unfused --vocab-size 32000").attention)
  end)

  it("are read, assumed, ignored for a reason, or refused", function()
    local function options(list)
      local names = {}
      for i, one in ipairs(list) do names[i] = one.option end
      return names
    end
    local r = megatron("--moe-permute-fusion --lr 1e-4 --attention-backend flash --cpu-offloading-num-layers 0 "
      .. "--rl-profile --fp32-residual-connection")
    assert.same({ "--moe-permute-fusion" }, options(r.understood.assumed))
    assert.same({ "--lr", "--rl-profile" }, options(r.understood.ignored))
    assert.equal("a number in the same arithmetic", r.understood.ignored[1].why)
    assert.same({ "--fp32-residual-connection" }, options(r.refused))
  end)

  it("ramp batches up to the global one", function()
    local r = megatron "--rampup-batch-size 16 16 9_765_625 --global-batch-size 1_024"
    assert.equal(1024, r.global_batch)
    fails("exclude each other", megatron, "--global-batch-size 16 --step-batch-size-schedule '0:8 1B:16'")
  end)

  it("shard by ZeRO's stages", function()
    assert.equal(0, megatron "".zero)
    assert.equal(1, megatron "--use-distributed-optimizer".zero)
    assert.equal(3, megatron "--use-megatron-fsdp --use-distributed-optimizer".zero)
    assert.equal(2, megatron "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads".zero)
    assert.equal(3, megatron "--use-torch-fsdp2".zero)
    assert.is_nil(megatron "--use-torch-fsdp2".reshard_after_forward)
    local kept = megatron "--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward"
    assert.same({ 3, false }, { kept.zero, kept.reshard_after_forward })
  end)

  it("recompute, under old and new names", function()
    assert.same({ granularity = "none" }, megatron "".recompute)
    assert.same({ granularity = "selective", modules = { "core_attn" } }, megatron "--recompute-activations".recompute)
    assert.equal("full", megatron "--checkpoint-activations".recompute.granularity)
    assert.equal("block",
      megatron "--recompute-granularity full --recompute-method block --recompute-num-layers 3".recompute
      .method)
    assert.same({ "mlp", "moe" },
      megatron "--recompute-granularity selective --recompute-modules mlp moe".recompute.modules)
  end)

  it("use grouped heads only if asked, and the last value of a flag given twice", function()
    assert.equal(16, megatron "--num-query-groups 4".model.kv_heads)
    assert.equal(4, megatron "--num-query-groups 4 --group-query-attention".model.kv_heads)
    assert.equal(2688, megatron "--swiglu".model.ffn) -- 8 x 1024 / 3, cut to a multiple of 64
    assert.equal(4096, megatron "".model.ffn)
    assert.equal(2, megatron "--tensor-model-parallel-size 4 --tensor-model-parallel-size 2".tp)
    assert.is_false(megatron "--sequence-parallel".sequence_parallel)
  end)

  it("are refused where they are not known, whatever their names are", function()
    local function ask(flags, ignore)
      return select(2, tperf.import.arguments(megatron("--bf16 --vocab-size 32000 " .. flags), { ignore = ignore }))
    end
    fails("not known, and it may matter: %-%-new%-parallel%-size 4; %-%-ignore new%-parallel%-size leaves it out", ask,
      "--new-parallel-size 4")
    fails("%-%-moe%-new%-trick, %-%-tensor%-model%-paralel%-size 4 %(did you mean '%-%-tensor%-model%-parallel%-size'",
      ask, "--moe-new-trick --tensor-model-paralel-size 4")
    fails("%-%-colour blue; %-%-ignore colour leaves it out", ask, "--colour blue")
    fails("%-%-log%-window%-path x, %-%-output%-rope 3;", ask, "--log-window-path x --output-rope 3")
    assert.same({ "--colour blue" }, ask("--colour blue", { "colour" }))
    fails("%-%-ignore lr: the launch has no such option", ask, "--lr 1", { "lr" })
  end)
end)

describe("DeepSpeed", function()
  it("derives the third batch size from two, and defaults to 1", function()
    local function json(text, gpus) return import("ds.json", text, { gpus = gpus }, { stack = "DeepSpeed" }) end
    local r = json('{ "train_batch_size": 64, "gradient_accumulation_steps": 2, "zero_optimization": { "stage": 3 } }',
      8)
    assert.same({ 4, 64, 2, 3, 8 }, { r.micro_batch, r.global_batch, r.microbatches, r.zero, r.dp })
    assert.equal(16, json('{ "train_micro_batch_size_per_gpu": 2 }', 8).global_batch)
    assert.equal(8, json('{ "train_batch_size": 64 }', 8).micro_batch)
    assert.equal(4,
      json('{ "train_batch_size": 64, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2 }')
      .gpus)
    assert.is_nil(json('{ "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto" }', 8).micro_batch)
    fails("is not micro batch 2 x accumulation 2 x dp 8", json, '{ "train_batch_size": 64, '
      .. '"gradient_accumulation_steps": 2, "train_micro_batch_size_per_gpu": 2 }', 8)
    fails("does not say how many GPUs", json, '{ "train_batch_size": 64 }')
  end)

  it("reads Megatron's flags and its JSON alike, and shards in its bf16 pipelines", function()
    local script = "cat > ds.json <<EOF\n{ \"train_batch_size\": 16, \"zero_optimization\": { \"stage\": %d } }\nEOF\n"
      .. "deepspeed --num_gpus 8 pretrain_gpt.py --pipeline-model-parallel-size 2 --global-batch-size 16 " .. BASE
      .. "--deepspeed --deepspeed_config ds.json --zero-stage %d --bf16 %s\n"
    local function run(stage, flag, more)
      return import("run.sh", script:format(stage, flag, more or ""), {}, { stack = "Megatron-DeepSpeed" }).zero
    end
    assert.equal(1, run(0, 0)) -- its bf16 optimizer shards states by itself
    assert.equal(0, run(0, 0, "--no-pipeline-parallel"))
    assert.equal(3, run(3, 3, "--no-pipeline-parallel"))
    fails("ZeRO 3 does not run with DeepSpeed's pipelines", run, 3, 3)
    fails("stage = 0 in DeepSpeed's JSON, but %-%-zero%-stage = 1", run, 0, 1)
  end)
end)

describe("torchtitan's TOML", function()
  local function toml(text, gpus)
    return import("t.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 4096\n" .. text,
      { gpus = gpus })
  end

  it("shards over what is left, and over cp; replicas of shards are HSDP", function()
    local r = toml("local_batch_size = 2\n[parallelism]\ntensor_parallel_degree = 2\ncontext_parallel_degree = 2", 16)
    assert.same({ 4, 1, 4, 8, 3, 8 }, { r.dp, r.dp_replicate, r.dp_shard, r.zero_group, r.zero, r.global_batch })
    r = toml("[parallelism]\ndata_parallel_replicate_degree = 4", 16)
    assert.same({ 16, 4, 4, 3 }, { r.dp, r.dp_replicate, r.dp_shard, r.zero })
    r = toml("[parallelism]\ndata_parallel_replicate_degree = 16\ndata_parallel_shard_degree = 1", 16)
    assert.same({ 16, 0 }, { r.dp, r.zero })
    fails("= 8, but 16 GPUs", toml, "[parallelism]\ndata_parallel_shard_degree = 8", 16)
    fails("does not say how many GPUs", toml, "")
  end)

  it("reshards by default without pipelines only, and cuts the local batch under them", function()
    local pp = "local_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = "
    local r = toml(pp .. '"Interleaved1F1B"', 8)
    assert.same({ 3, false, 2, 1, 8, 32 }, { r.zero, r.reshard_after_forward, r.vp, r.micro_batch, r.microbatches,
      r.global_batch })
    assert.equal(1, toml(pp .. '"1F1B"', 8).vp)
    assert.equal(3, toml(pp .. '"1F1B"\nfsdp_reshard_after_forward = "always"', 8).zero)
    assert.equal(4, toml(pp .. '"Interleaved1F1B"\npipeline_parallel_layers_per_stage = 5\n'
      .. 'pipeline_parallel_first_stage_less_layers = 3\npipeline_parallel_last_stage_less_layers = 2', 8).vp)
    fails("pp in the stages: 2 does not divide 7", toml, pp
      .. '"Interleaved1F1B"\npipeline_parallel_layers_per_stage = 5', 8)
  end)
end)

describe("servers", function()
  local function serve(command, given) return import("serve.sh", command .. "\n", given or {}) end

  it("share experts over tp x dp under vLLM, whole or cut", function()
    local r = serve "vllm serve org/model --tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel"
    assert.same({ 8, 8, 1, 2, 4 }, { r.gpus, r.ep, r.etp, r.attention_tp, r.attention_dp })
    r = serve "vllm serve org/model -tp 2 -dp 4"
    assert.same({ 8, 1, 8, "org/model" }, { r.gpus, r.ep, r.etp, r.model_name })
    r = serve("cat > c.yaml <<EOF\nmax-num-seqs: 64\nno-enable-prefix-caching: true\nEOF\nvllm serve m --config c.yaml "
      .. "--max-num-seqs=32")
    assert.same({ 32, false, true }, { r.max_batch, r.prefix_cache, r.chunked_prefill })
    fails("must reach", serve,
      "vllm serve m --no-enable-chunked-prefill --max-model-len 4096 --max-num-batched-tokens 64")
  end)

  it("place attention's replicas inside tp under SGLang", function()
    local start = "python3 -m sglang.launch_server --model-path m --tp 8 --dp 4 --chunked-prefill-size 8192 "
    local r = serve(start .. "--enable-dp-attention")
    assert.same({ 8, 2, 4, 1, 1, 8, 2048 }, { r.gpus, r.attention_tp, r.attention_dp, r.dp, r.ep, r.etp, r.chunk })
    r = serve(start)
    assert.same({ 32, 8, 1, 4, 8192 }, { r.gpus, r.attention_tp, r.attention_dp, r.dp, r.chunk })
    assert.same({ 8, 1 }, { serve(start .. "--moe-a2a-backend deepep").ep, serve(start
      .. "--moe-a2a-backend deepep").etp })
    assert.equal(32768, import("serve.sh", "sglang serve --model-path m --tp-size $TP --context-length 32768",
      { TP = 4 },
      { stack = "sglang" }).seq_max)
  end)

  it("split tp into experts and matrices under TensorRT-LLM", function()
    local function yaml(text) return import("llm.yaml", text, {}, { stack = "TensorRT-LLM" }) end
    local r = yaml "tensor_parallel_size: 8\nmoe_expert_parallel_size: 2\n"
    assert.same({ 2, 4, 8, 2048, 8192, true }, { r.ep, r.etp, r.attention_tp, r.max_batch, r.max_tokens,
      r.engine.max_cudagraph_capture_size == nil })
    r = yaml "tensor_parallel_size: 8\nenable_attention_dp: true\ncuda_graph_config: null\n"
    assert.same({ 1, 8, 1, 8, 0 }, { r.ep, r.etp, r.attention_tp, r.attention_dp,
      r.engine.max_cudagraph_capture_size })
    fails("moe tp 8 x moe ep 2 is not tp 8", yaml, "tensor_parallel_size: 8\nmoe_expert_parallel_size: 2\n"
      .. "moe_tensor_parallel_size: 8\n")
    r = import("serve.sh", "cat > x.yml <<EOF\nmax_batch_size: 16\nEOF\ntrtllm-serve m --tp_size 4 --ep_size 4 "
      .. "--max_batch_size 8 --extra_llm_api_options x.yml\n", {})
    assert.same({ 4, 4, 1, 16 }, { r.tp, r.ep, r.etp, r.max_batch }) -- the YAML wins
  end)

  it("have separate roles in disaggregated recipes", function()
    local r = import("d.yaml", [[
resources: { prefill_workers: 3, decode_workers: 1 }
backend:
  sglang_config:
    prefill: { tensor-parallel-size: 4 }
    decode: { tensor-parallel-size: 8, data-parallel-size: 8, enable-dp-attention: true }
]])
    assert.same({ "SGLang", 20, 3, 4, 8 }, { r.stack, r.total_gpus, r.prefill.workers, r.prefill.gpus,
      r.decode.attention_dp })
  end)
end)

describe("PyTorch's FSDP under Accelerate", function()
  local function sharding(strategy, machines)
    local r = import("a.yaml", ("distributed_type: FSDP\nnum_processes: 16\nnum_machines: %d\nfsdp_config:\n"
      .. "  fsdp_sharding_strategy: %s\n"):format(machines, strategy))
    return { r.zero, r.reshard_after_forward, r.axes and r.axes.shard or "all" }
  end

  -- torch/distributed/fsdp/api.py, ShardingStrategy: SHARD_GRAD_OP gathers before each forward pass and keeps weights
  -- until after the backward pass; hybrids shard within a machine.
  it("shards weights, and keeps them gathered or not, over all or within a machine", function()
    assert.same({ 3, nil, "all" }, sharding("FULL_SHARD", 2))
    assert.same({ 3, false, "all" }, sharding("SHARD_GRAD_OP", 2))
    assert.same({ 3, nil, 8 }, sharding("HYBRID_SHARD", 2))
    assert.same({ 3, false, 4 }, sharding("HYBRID_SHARD_ZERO2", 4))
    assert.same({ 3, nil, "all" }, sharding("HYBRID_SHARD", 1))
    assert.same({ 0, nil, "all" }, sharding("NO_SHARD", 2))
  end)
end)

describe("other files", function()
  it("are read by their own rules", function()
    local r = import("n.yaml", "parallelism: { dp: 2, pp: 1, tp: 2, tp_mode: REDUCE_SCATTER }\ntokens:\n  "
      .. "micro_batch_size: 3\n  batch_accumulation_per_replica: 4\n  sequence_length: 1024\n")
    assert.same({ "nanotron", 4, 24, "gpipe", true }, { r.stack, r.gpus, r.global_batch, r.schedule,
      r.sequence_parallel })
    r = import("a.yaml", "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n  "
      .. "fsdp_reshard_after_forward: false\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  "
      .. "parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: 2\n")
    assert.same({ "Accelerate", 4, 3, false, 2, 2 }, { r.stack, r.dp, r.zero, r.reshard_after_forward, r.tp,
      r.axes.shard })
    r = import("m.sh", "export DGXNNODES=16\nexport MINIBS=32\nexport TENSOR_MODEL_PARALLEL=4\n"
      .. "export PIPELINE_MODEL_PARALLEL=8\nexport MODEL_SIZE=405b\nexport CONTEXT_PARALLEL=2\n", {})
    assert.same({ 128, 2, 64, 12, 8192 }, { r.gpus, r.dp, r.global_batch, r.vp, r.seq })
    assert.matches("INTERLEAVED_PIPELINE is not set: 12", r.assumed[1])
  end)

  it("may be Python, which is parsed and never run", function()
    local r = import("recipe.py", [[
GBS = 512
def other():
    raise SystemExit
def big_16gpu_config():
    """A recipe; model.tensor_model_parallel_size = 99 is text."""
    cfg = base()  # model.pipeline_model_parallel_size = 7
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.seq_length = 4 * 1024
    cfg.train = TrainConfig(
        global_batch_size=GBS, micro_batch_size=2,
    )
    return cfg
]], { ["function"] = "big_16gpu_config" }, { stack = "megatron-bridge" })
    assert.same({ 16, 4, 1, 4, 512, 2, 4096 }, { r.gpus, r.tp, r.pp, r.dp, r.global_batch, r.micro_batch, r.seq })
  end)

  it("of a stack described only by a table are read by its concepts", function()
    local path = os.tmpname() .. ".csv"
    local file = assert(io.open(path, "w"))
    file:write("stack,version,option,aliases,type,default,choices,sets,concept,source\n",
      "Loom,1,loom.tp,,int,1,,,tp,x\nLoom,1,loom.pipe,,int,1,,,pp,x\nLoom,1,loom.replicas,,int,-1,,,dp,x\n",
      "Loom,1,batch.micro,,int,1,,,micro_batch,x\nLoom,1,batch.accumulate,,int,1,,,grad_accumulation,x\n",
      "Loom,1,batch.seq,,int,2048,,,seq,x\nLoom,1,shard.stage,,int,0,,,zero,x\n")
    file:close()
    local r = import("loom.yaml", "loom: { tp: 4, pipe: 2 }\nbatch: { micro: 2, accumulate: 3 }\nshard: { stage: 2 }\n",
      { gpus = 64 }, { options = path })
    os.remove(path)
    assert.same({ "Loom", 4, 2, 8, 2, 48, 2048, 2 }, { r.stack, r.tp, r.pp, r.dp, r.micro_batch, r.global_batch, r.seq,
      r.zero })
    file = assert(io.open(path, "w")) -- axes inside and between slices, sizes by device, overrides on the command line
    file:write("stack,version,option,aliases,type,default,choices,sets,concept,source\n",
      "Slices,1,ici_fsdp,,int,-1,,,dp.shard,x\nSlices,1,dcn_data,,int,1,,,dp.replicate,x\n",
      "Slices,1,ici_tensor,,int,1,,,tp,x\nSlices,1,per_device_batch,,float,1,,,micro_batch,x\n")
    file:close()
    r = import("s.sh", "python3 -m slices.train base.yml name=x ici_tensor=4 dcn_data=2 per_device_batch=2\n",
      { gpus = 32 }, { options = path })
    os.remove(path)
    assert.same({ 4, 8, 8, 64, 3 }, { r.tp, r.dp, r.micro_batch, r.global_batch, r.zero })
    fails("sets no option of nanotron", import, "l.yaml", "a: 1\n", {}, { stack = "nanotron" })
    -- Names that a stack ignores do not make a file that stack's.
    fails("l%.yaml: of no stack that is known; LLaMA%-Factory is nearest", import, "l.yaml",
      "model:\n  model_id: a/b\n  base_args: []\nvariants:\n  default:\n    description: x\ndescription: x\n", {})
  end)
end)

describe("broken launch files", function()
  local SEEDS <const> = {
    ["run.sh"] = "A=(--micro-batch-size 1 --seq-length $((2 * 1024)))\nif [ \"${X:-1}\" = 1 ]; then TP=2; fi\n"
      .. "torchrun --nproc_per_node 8 pretrain_gpt.py ${A[@]} --num-layers 8 --tensor-model-parallel-size $TP\n",
    ["t.toml"] = "[training]\nseq_len = 4_096\nlocal_batch_size = 2 # two\n[parallelism]\ntensor_parallel_degree = 2\n",
    ["d.yaml"] = "resources: { decode_workers: 1 }\nbackend:\n vllm_config:\n  decode: { tensor-parallel-size: 4 }\n",
    ["ds.json"] = '{ "train_batch_size": 64, "zero_optimization": { "stage": 3, "overlap_comm": true } }',
    ["r.py"] = "def f_8gpu_config():\n    cfg.model.seq_length = 2 * 1024\n    cfg.train = T(global_batch_size=8)\n",
  }
  local BITS <const> = { "'", '"', "$(", "${", "))", "[[", "]", "|", "\n", "\\", "`", "<<E", "{", "}", "=", "\0", ":",
    "-1",
    "1e400" }

  it("are refused with clear messages, never internal errors", function()
    local state = 7
    local function pick(n)
      state = (state * 6364136223846793005 + 1442695040888963407) & 0x7fffffffffffffff
      return (state >> 33) % n + 1
    end
    local refusals = 0
    for name, seed in pairs(SEEDS) do
      for _ = 1, cases(60, 400) do
        local text = seed
        for _ = 1, pick(3) do
          local at, rest = pick(#text + 1), pick(2) == 1 and 0 or pick(12)
          text = text:sub(1, at - 1) .. (rest == 0 and BITS[pick(#BITS)] or "") .. text:sub(at + rest)
        end
        local ok, message = pcall(import, name, text, { gpus = 8 })
        if not ok then
          refusals = refusals + 1
          assert.is_string(message)
          for _, own in ipairs { "attempt to", "bad argument", "stack overflow", "malformed pattern", "table: " } do
            assert.is_nil(message:find(own, 1, true), name .. ": " .. text .. "\n" .. message)
          end
        end
      end
    end
    assert.is_true(refusals > cases(30, 200))
  end)
end)
