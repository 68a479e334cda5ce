--- What a table of training runs leaves out, or copied wrongly, and its source says elsewhere: text by column.
local read = require "tperf.measured.read"

-- Meta's (arXiv 2407.21783, 3.3.2): chunks of one layer, the embedding and the head each in place of one; gradients are
-- sharded, weights stay gathered; keys are gathered.
local function llama(_)
  return { vp = "8", pp_layout = "account embedding=1 loss=1", zero_fsdp = "zero-2", cp_kind = "all_gather" }
end

-- { micro-batch, chunks of a stage } of a model: Megatron-LM's examples/sc21/run_table_1.sh.
local SC21 <const> = {
  ["GPT-1.7B"] = { 16, 1 }, ["GPT-3.6B"] = { 16, 1 }, ["GPT-7.5B"] = { 16, 1 }, ["GPT-18B"] = { 8, 1 },
  ["GPT-39B"] = { 4, 1 }, ["GPT-76B"] = { 2, 3 }, ["GPT-145B"] = { 2, 2 }, ["GPT-310B"] = { 1, 2 },
  ["GPT-530B"] = { 1, 3 }, ["GPT-1T"] = { 1, 1 },
}

local function sc21(row)
  local size = SC21[row.model]
  return size and { micro_batch = tostring(size[1]), vp = tostring(size[2]) }
end

-- The same models, GPUs and batches as half a year later, before stages were interleaved. Micro-batches are taken to
-- have been the same, too.
local function january_2021(row)
  local size = SC21[row.model]
  return size and { micro_batch = tostring(size[1]), vp = "1" }
end

-- NVIDIA announced the A100 of 80 GB in November 2020.
local function readme_2020(row) return row.gpu:find "A100" and { gpu = "A100 SXM 40GB" } or nil end

-- The sizes in the headings of BigScience's chronicles-prequel.md, { layers, hidden } by section and billions of
-- parameters. The table repeats one of them for all rows of a section, whose numbers of parameters contradict it.
local HEADINGS <const> = {
  ["GBS Variations"] = { [181] = { 72, 14336 } },
  ["Re-do"] = { [195] = { 106, 12288 } },
  ["Rebalancing layers"] = { [195] = { 106, 12288 }, [184] = { 100, 12288 }, [178] = { 82, 13312 },
    [203] = { 94, 13312 }, [176] = { 70, 14336 }, [206] = { 82, 14336 } },
}

-- "all NHEADS=64 (above too)"
local HEADS <const> = { ["48 node contenders"] = "64", ["Final round comparison"] = "64", ["GBS Variations"] = "64" }

-- --pp-partition-method 'type:transformer|embedding': both embeddings count as layers.
local BALANCED <const> = { ["Re-do"] = { [195] = true }, ["Rebalancing layers"] = HEADINGS["Rebalancing layers"] }

-- DeepSpeed's BF16_Optimizer in pipelines (pipe/engine.py, _bf16_reduce_grads): "bf16 must use z0! it implements
-- its own zero stage 1 equivalent" (train/tr11-176B-ml/tr11-176B-ml.slurm).
local function reduction(row) return row.dtype == "bf16" and "all_reduce" or nil end

local function prequel(row)
  local billions = math.tointeger(tonumber(row.params_b))
  local size, balanced = (HEADINGS[row.table] or {})[billions], (BALANCED[row.table] or {})[billions]
  return {
    layers = size and tostring(size[1]), hidden = size and tostring(size[2]), ffn = size and tostring(4 * size[2]),
    heads = not read.count(row.heads) and HEADS[row.table] or nil,
    pp_layout = balanced and "account embedding=1 loss=1" or nil, gradient_reduce = reduction(row),
  }
end

-- train/tr11-176B-ml/tr11-176B-ml.slurm has the same partition.
local function bloom(row)
  return { pp_layout = "account embedding=1 loss=1", gradient_reduce = reduction(row) }
end

-- NeMo's scripts/performance/llm/pretrain_deepseek_v3.py: 64 layers, but for one less in the first stage and two in the
-- last; tokens beyond an expert's mean are dropped (USE_TOKEN_DROP: a capacity factor of 1, padded), for which
-- MegatronTokenDropCallback wants the all-to-all. DGX Cloud's deepseek_v3/pretraining/launch.sh: the modules run again.
-- Before version 9.11 (June 2025; cudnn-frontend, pull request 145) cuDNN had kernels for heads of more than 128
-- features on Hopper alone: on Blackwell attention was TransformerEngine's unfused one, whose scores the runs
-- recompute.
local SLOTS <const> = 64

local function deepseek(row)
  local stages = read.count(row.pp) or 1
  if stages == 1 or SLOTS % stages ~= 0 then return nil end
  local hopper = row.gpu:find "^H" ~= nil
  return {
    recompute = "selective", recompute_modules = hopper and "mla_up_proj" or "core_attn",
    attention_backend = not hopper and "unfused" or nil,
    pp_layout = ("first %d last %d"):format(SLOTS // stages - 1, SLOTS // stages - 2),
    moe_token_drop = "capacity factor 1, padded", moe_router_force_balance = "1", moe_dispatcher = "alltoall",
  }
end

-- maxtext/configure.sh: remat_policy = save_qkv_proj runs all of a layer again but the products of queries, keys and
-- values; the output projection is taken to be kept, too, in place of fc2, whose result no gradient needs.
local function dgx_cloud(row)
  if row.model:find "^DeepSeek" then return deepseek(row) end
  if row.fsdp ~= "jax-fsdp" or row.recompute ~= "" then return nil end
  return { recompute = "selective", recompute_modules = "core_attn, layernorm, mlp" }
end

-- Megatron-MoE-ModelZoo's model_configs/benchmarking: Qwen3's embedding and head count as layers of their stages; with
-- MXFP8 and blocks (sbatch_benchmarking.sh) weights are gathered in 8 bits and moments kept in 16.
local ENDS <const>, STATES <const> = "account embedding=1 loss=1", "precision-aware: grads float32, moments bfloat16"
local GRAPHS <const> = "transformer_engine:attn+moe_router+moe_preprocess"

-- Its Qwen3 commands on GB200s and GB300s (best_practice/qwen3/readme.md, run_gb300_235b.sh), by what tells them apart.
local function rack_command(row)
  if row.seq == "131072" then return { recompute_modules = "layernorm, moe_act", overlap_moe_a2a = "0" } end
  if row.gpu == "GB200" and row.dtype:find "MXFP8" then
    return { recompute_modules = "layernorm, moe_act", cuda_graph = GRAPHS, overlap_moe_a2a = "1", delay_wgrad = "1",
      offload = "fine-grained: expert_fc1, moe_act" }
  end
  local overlaps = row.pp == "1" and "1" or "0"
  return { recompute_modules = "none", cuda_graph = GRAPHS, overlap_moe_a2a = overlaps, delay_wgrad = overlaps }
end

-- Those on H100s: long sequences by DeepEP, with norms and experts run again; "norm, act" of the others is
-- `--recompute-modules moe_act layernorm` (run_h100_235b.sh).
local function hopper_command(row)
  if row.seq ~= "4096" then
    return { recompute_modules = "layernorm, moe", moe_dispatcher = "deepep", overlap_moe_a2a = "0" }
  end
  return { recompute_modules = row.recompute:find "^norm, act" and "layernorm, moe_act" or nil }
end

local function narrow(row, facts)
  local recipe = row.dtype:find "MXFP8" and "mxfp8" or row.dtype:find "FP8" and "blockwise"
  if recipe then
    facts.fp8_recipe, facts.optimizer_states = recipe .. "/e4m3 (param_gather in low precision)", STATES
  end
  return facts
end

local function modelzoo(row)
  if not row.model:find "^Qwen3%-235B" then return nil end
  local facts = row.gpu:find "^GB" and rack_command(row) or hopper_command(row)
  facts.pp_layout = row.pp ~= "1" and ENDS or nil
  return narrow(row, facts)
end

-- The paper's runs of DeepSeek-V3 have ModelZoo's scripts (best_practice/deepseek-v3 and DeepSeekV3/run.sh), for GB300s
-- with fewer GPUs.
local function moe_paper(row)
  if row.model ~= "DeepSeek-V3" then return nil end
  if row.gpu:find "H100" then return narrow(row, { pp_layout = "Et|(tt|)*30mL", mtp_layers = "1" }) end
  return narrow(row, { pp_layout = "Et*4|(tttt|)*14tmL", mtp_layers = "1", cuda_graph = GRAPHS,
    recompute_modules = "mlp", overlap_moe_a2a = "0" })
end

-- Rows of Megatron-Bridge whose dispatcher is that of another release than the run's. GPT-OSS had the all-to-all alone
-- before 26.04 (pull request 2600 added the others), and on B200s and GB200s again in 26.04.01 (3614 and 3561, issue
-- 3387); Qwen3 235B moved to HybridEP on B300s there (3490, issue 3399). That container has Bridge 0.4.2 (issue 4439).
local function dispatcher(row)
  local release, gpt_oss = row.table:match "^[%d.]+", row.model:lower():find "^gpt[ -]oss"
  if gpt_oss and release < "26.04" then return "alltoall" end
  if release ~= "26.04.01" then return nil end
  if gpt_oss and row.gpu:find "B200" then return "alltoall" end
  return row.gpu == "B300" and row.model:find "^Qwen3_235B" and "hybridep" or nil
end

-- Experts in graphs of whole iterations, with their pages, came to the recipes in 2026 (pull requests 3983 and 4226). A
-- run of 2025 to which the table gives them is taken to have what that release has on GB200s.
local function before_pages(row)
  if not (row.table:find "^25" and row.offload == "moe_paged_stash") then return {} end
  return { cuda_graph = "transformer_engine:moe_router+moe_preprocess", recompute_modules = "mla_up_proj",
    overlap_moe_a2a = "0", delay_wgrad = "0", offload = "none",
    fp8_recipe = "mxfp8/e4m3 (param_gather in low precision)" }
end

local function bridge(row)
  if not row.table:find "^%d" then return nil end
  local facts = before_pages(row)
  facts.moe_dispatcher = dispatcher(row)
  return facts
end

-- NeMo AutoModel's examples/llm_benchmark (before: examples/benchmark/configs): activation_checkpointing runs all
-- blocks again, but not in GPT-OSS, nor on a single GPU; Llama's adapters train with sequence parallelism, Qwen's
-- without.
-- A replica's batch (LBS) is one call of PyTorch's pipeline, and a step has as many (GA) as the table's raw line says.
-- FakeBalancedGate (components/moe/layers.py) gives each token the experts that follow the last one's: they are in one
-- group, if groups have as many experts as a token or, where these do not divide all, the next larger number that does.
local function automodel(row)
  local experts, chosen, group = read.count(row.experts), read.count(row.topk), nil
  for size = chosen or 1, experts and chosen and experts or 0 do
    group = group or experts % size == 0 and size or nil
  end
  local again = not row.model:find "^GPT%-OSS" and read.count(row.gpus) ~= 1
  local calls = row.notes:match "^raw: [^|]+|[^|]+|[^|]+|[^|]+|[^|]+| *(%d+) *|"
  return {
    recompute = again and "full" or "none", pipeline_runs = calls,
    moe_groups = group and tostring(experts // group), moe_top_groups = group and "1",
    sp = row.workload == "lora" and (row.model:find "^Llama" and read.count(row.tp) ~= 1 and "1" or "0") or nil,
  }
end

-- fms_fsdp/policies/ac_handler.py: selective recomputation is of whole blocks. Of how many, HFU to MFU of the 13B model
-- says (pytorch.org/blog/maximizing-training, table 1): 0.59 / 0.51 on A100s, 0.40 / 0.35 on H100s, a sixth of the
-- work or half of the blocks. scripts/*.sh set up Amazon's Elastic Fabric Adapter.
local function fms_fsdp(row)
  return {
    recompute_modules = row.recompute == "selective" and "every other layer" or nil,
    inter = row.inter:find "Gbps per node$" and row.inter .. " (EFA)" or nil,
  }
end

-- Columns of MLPerf's rows that were read from the configuration file that a row was matched to: of the layout, and of
-- the GPU's own.
local LAYOUT <const> = { "tp", "pp", "vp", "cp", "dp", "sp", "micro_batch", "cuda_graph", "overlap_tp" }
local OWN <const> = { "fp8_recipe", "attention_backend", "recipe_source" }

-- Whether the replicas are other than the log's accumulation of gradients says.
local function contradicts_log(row)
  local steps, replicas = tonumber(row.notes:match "grad_accum ([%d.]+)"), read.count(row.dp)
  local batch, micro = read.count(row.global_batch), read.count(row.micro_batch) or 1
  return steps and replicas and batch and math.abs(steps * replicas * micro - batch) > 0.5
end

-- AMD's configurations for the 192 GB of MI300X (ACG=full ACM=block ACL=21); those for more memory recompute nothing.
local function recomputed(row)
  if not row.gpu:find "MI300X" then return {} end
  return { recompute = "full", recompute_modules = "full", recompute_method = "block", recompute_num_layers = "21" }
end

-- The file may be another run's: submitters leave those of several machines beside each other.
local function mlperf(row)
  if row.workload ~= "lora" then return nil end
  local file, columns = read.text(row.recipe_source), recomputed(row)
  local foreign = (file:find "config_MI%d" ~= nil) ~= (row.gpu:find "MI%d" ~= nil)
  if file == "" or not (foreign or contradicts_log(row)) then return columns end
  for _, name in ipairs(LAYOUT) do columns[name] = "" end
  for _, name in ipairs(foreign and OWN or {}) do columns[name] = "" end
  return columns
end

-- simu_tools/megatron_scripts: run_pretrain_deepseekv2.sh pads experts to a capacity factor of 1; the rows of long
-- sequences exchange heads (docs/b200/b200_release_v1.2_summary.md).
local function simumax(row)
  local experts, contexts = read.count(row.experts), read.count(row.cp) or 1
  return {
    moe_token_drop = experts and "capacity factor 1, padded" or nil, moe_dispatcher = experts and "alltoall" or nil,
    cp_kind = contexts > 1 and "all_to_all" or nil,
  }
end

-- Its ranks are NeuronCores, two of a chip, while its GPUs are chips: a tensor-parallel group has half as many chips,
-- and of a model on one core a chip holds two replicas.
local CORES <const> = 2

local function neuron(row)
  local tp, micro = read.count(row.tp), read.count(row.micro_batch)
  if not (row.notes:find "ranks are NeuronCores" and tp) then return nil end
  if tp % CORES == 0 then return { tp = tostring(tp // CORES) } end
  return { micro_batch = micro and tostring(micro * CORES) }
end

local SOURCES <const> = {
  { "^Llama 3 405B", llama }, { "SC21", sc21 }, { "^Megatron%-LM README Jan 2021", january_2021 },
  { "^Megatron%-LM README 2020", readme_2020 }, { "^BigScience BLOOM prequel", prequel },
  { "^BLOOM 176B final", bloom }, { "^NVIDIA DGX Cloud", dgx_cloud },
  { "^Megatron%-MoE%-ModelZoo", modelzoo }, { "^Megatron%-Core MoE paper", moe_paper },
  { "^NVIDIA Megatron%-Bridge performance", bridge },
  { "^SimuMax", simumax }, { "AutoModel", automodel }, { "fms%-fsdp", fms_fsdp }, { "^MLPerf", mlperf },
  { "^AWS Neuron", neuron },
}

---@param row table      text by column
---@return table? columns  nil: none
return function(row)
  for _, source in ipairs(SOURCES) do
    if row.source:find(source[1]) then return source[2](row) end
  end
end
