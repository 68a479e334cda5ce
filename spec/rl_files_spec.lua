-- Configurations of stacks of reinforcement learning, read and written; their logs.
local program = require "program"
local tperf = require "tperf"

local function written(ending, text)
  local path = os.tmpname() .. ending
  program.write(path, text)
  return path
end

local function read(ending, text, stack)
  local path = written(ending, text)
  local r = tperf.import.rl { files = { path }, stack = stack }
  os.remove(path)
  return r
end

local VERL <const> = [[
N=${N:-2}
python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=128 data.max_prompt_length=512 \
  data.max_response_length=2048 actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.strategy=megatron \
  actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 \
  actor_rollout_ref.actor.megatron.param_offload=True +actor_rollout_ref.actor.use_kl_loss=True \
  actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384 \
  actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=4 \
  actor_rollout_ref.rollout.gpu_memory_utilization=0.5 trainer.n_gpus_per_node=8 trainer.nnodes=$N trainer.logger=tb
]]
local VERL_ASKED <const> = { algorithm = "grpo", gpus = 16, mini = 512, model = "Qwen/Qwen3-8B", packing = true,
  park = true, prompt = 512, prompts = 128, ref = true, response = { max = 2048 }, samples = 8,
  tokens_per_gpu = 16384, train = { zero = 1, tp = 2 },
  rollout = { tp = 4, memory_utilization = 0.5, software = "vllm" } }

local NEMO <const> = [[
grpo: { num_prompts_per_step: 64, num_generations_per_prompt: 32,
  async_grpo: { enabled: true, max_trajectory_age_steps: 2 } }
loss_fn: { reference_policy_kl_penalty: 0 }
policy:
  model_name: meta-llama/Llama-3.1-8B-Instruct
  train_global_batch_size: 512
  train_micro_batch_size: 1
  max_total_sequence_length: 4096
  sequence_packing: { enabled: true, train_mb_tokens: "${mul:${policy.max_total_sequence_length}, 1}" }
  megatron_cfg: { enabled: true, pipeline_model_parallel_size: 2, activation_checkpointing: true }
  generation: { backend: vllm, vllm_cfg: { tensor_parallel_size: 1, gpu_memory_utilization: 0.8 },
    colocated: { enabled: false, resources: { num_nodes: 1, gpus_per_node: 8 } } }
cluster: { num_nodes: 2, gpus_per_node: 8 }
]]

describe("a configuration of a stack of reinforcement learning", function()
  it("of verl is read from a script", function()
    local r = read(".sh", VERL)
    assert.equal("verl", r.stack)
    assert.same(VERL_ASKED, r.question)
    assert.same({ "trainer.logger" }, r.unread)
    assert.equal("prompt = 512: the longest that is admitted", r.assumed[1].text)
  end)

  it("of NeMo-RL is read from YAML", function()
    assert.same({ gpus = 16, train_gpus = 8, model = "meta-llama/Llama-3.1-8B-Instruct", mini = 512, packing = true,
      prompts = 64, samples = 32, ref = false, refit = "broadcast", response = { max = 4096 }, staleness = 2,
      tokens_per_gpu = 4096, train = { zero = 1, pp = 2, recompute = "full" },
      rollout = { tp = 1, memory_utilization = 0.8, software = "vllm" } }, read(".yaml", NEMO).question)
  end)

  it("of slime, OpenRLHF, TRL, prime-rl and AReaL, too", function()
    local slime = read(".sh", "python train.py --hf-checkpoint Qwen/Qwen3-4B --rollout-batch-size 32 "
      .. "--n-samples-per-prompt 8 --rollout-max-response-len 8192 --global-batch-size 256 --actor-num-nodes 1 "
      .. "--actor-num-gpus-per-node 8 --colocate --tensor-model-parallel-size 2 --rollout-num-gpus-per-engine 2 "
      .. "--sglang-mem-fraction-static 0.7 --advantage-estimator grpo --recompute-granularity full")
    assert.same({ "slime", 8, 32, 8, 2, "full", 2, 0.7, 8192 }, { slime.stack, slime.question.gpus,
      slime.question.prompts, slime.question.samples, slime.question.train.tp, slime.question.train.recompute,
      slime.question.rollout.tp, slime.question.rollout.memory_utilization, slime.question.response.max })
    local open = read(".sh", "python -m openrlhf.cli.train_ppo_ray --pretrain meta-llama/Llama-3.1-8B "
      .. "--rollout_batch_size 1024 --n_samples_per_prompt 2 --train_batch_size 128 --prompt_max_len 1024 "
      .. "--generate_max_len 1024 --actor_num_gpus_per_node 8 --vllm_num_engines 4 --vllm_tensor_parallel_size 2 "
      .. "--zero_stage 3 --init_kl_coef 0.01 --advantage_estimator rloo").question
    assert.same({ 16, 8, 128, "rloo", true, 3 }, { open.gpus, open.train_gpus, open.mini, open.algorithm, open.ref,
      open.train.zero })
    local trl = read(".yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\nnum_generations: 8\nmax_completion_length: 512\n"
      .. "num_processes: 8\nper_device_train_batch_size: 16\ngradient_accumulation_steps: 2\nbeta: 0.04\n").question
    assert.same({ 8, 32, 8, true, 512 }, { trl.gpus, trl.prompts, trl.samples, trl.ref, trl.response.max })
    local prime = read(".toml", "max_async_level = 2\ninference_gpus = 6\ntrainer_gpus = 2\n[model]\n"
      .. "name = \"Qwen/Qwen3-4B\"\n[orchestrator]\nbatch_size = 512\nrollouts_per_example = 16\n"
      .. "[orchestrator.sampling]\nmax_tokens = 2048\n").question
    assert.same({ 8, 2, 32, 16, 2, 2048 }, { prime.gpus, prime.train_gpus, prime.prompts, prime.samples,
      prime.staleness, prime.response.max })
    local areal = read(".yaml", "allocation_mode: sglang:d4p1t2+d8p1t1\nactor: { path: Qwen/Qwen3-8B, kl_ctl: 0.0 }\n"
      .. "gconfig: { n_samples: 4, max_new_tokens: 1024 }\ntrain_dataset: { batch_size: 256 }\n"
      .. "rollout: { max_head_offpolicyness: 2 }\n").question
    assert.same({ 16, 8, 256, 4, 2, 2, false }, { areal.gpus, areal.train_gpus, areal.prompts, areal.samples,
      areal.staleness, areal.rollout.tp, areal.ref })
  end)

  it("is refused with the setting's name where it is not known", function()
    for _, case in ipairs {
      { VERL:gsub("grpo data", "magic data"), "the algorithm of verl is not known: \"magic\"" },
      { VERL:gsub("data.train_batch_size=128", "data.train_batch_size=many"), "'data.train_batch_size' must be" },
      { "echo hello\n", "no stack of reinforcement learning has such settings" },
    } do
      local done, message = pcall(read, ".sh", case[1])
      assert.is_false(done)
      assert.truthy(tostring(message):find(case[2], 1, true), tostring(message))
    end
  end)

  it("is written for verl and NeMo-RL, and read again", function()
    local path = written(".sh", VERL)
    local command = ("tperf rl -s h100-sxm --from %s --launch "):format(path)
    local again = read(".sh", program.shell(command .. "verl").out)
    assert.same(VERL_ASKED, again.question)
    local nemo = read(".yaml", program.shell(command .. "nemo-rl").out).question
    os.remove(path)
    for _, name in ipairs { "gpus", "mini", "model", "packing", "prompts", "samples" } do
      assert.equal(VERL_ASKED[name], nemo[name])
    end
    assert.same({ tp = 2, zero = 1 }, nemo.train)
    assert.equal(512 + 2048, nemo.response.max)
  end)

  it("answers what its question answers", function()
    local path = written(".sh", VERL)
    local result = program.shell(("tperf rl -s h100-sxm --json --prompt 150 --response mean=700,max=2048 --from %s")
      :format(path))
    os.remove(path)
    local q = { system = "h100-sxm" }
    for name, value in pairs(VERL_ASKED) do q[name] = value end
    q.prompt, q.response = 150, { mean = 700, max = 2048 }
    assert.equal(("%.6g"):format(tperf.rl(q).step), ("%.6g"):format(tonumber(result.out:match '"step": ([%d.]+),')))
    assert.truthy(result.err:find("1 settings of verl are not modelled: trainer.logger", 1, true), result.err)
  end)
end)

describe("a log of steps", function()
  it("gives medians without the first step, and which phase is off", function()
    local steps = require "tperf.measured.steps"
    local path = written(".log", "step:1 - timing_s/gen:90 - timing_s/step:120 - actor/lr:1\n"
      .. "step:2 - timing_s/gen:30 - timing_s/step:60\nstep:3 - timing_s/gen:32.5 - timing_s/step:62\n"
      .. "step:4 - timing_s/gen:31 - timing_s/step:64\n")
    local medians, count = steps.read(path)
    assert.same({ rollout = 31, step = 62 }, medians)
    assert.equal(4, count)
    program.write(path, "timing/train/generation: 8\n'timing/train/total_step_time': 20\n")
    assert.same({ rollout = 8, step = 20 }, (steps.read(path)))
    program.write(path, "{'perf/rollout_time': 5.5, 'perf/step_time': 9}\n")
    assert.same({ rollout = 5.5, step = 9 }, (steps.read(path)))
    program.write(path, "nothing\n")
    local done, message = pcall(steps.read, path)
    os.remove(path)
    assert.is_false(done)
    assert.truthy(tostring(message):find("no timers of steps", 1, true))
    local a = { step = 10, mode = "split", rollout = { time = 6 }, refit = { time = 1 },
      phases = { { name = "rollout", time = 6 }, { name = "update", time = 3 }, { name = "refit", time = 1 } } }
    local rows = steps.compare(a, { step = 20, rollout = 7, update = 12 })
    assert.same({ "update", "rollout", "step" }, { rows[1].phase, rows[2].phase, rows[3].phase })
    assert.equal(0.25, rows[1].ratio)
  end)
end)
