--- A step of reinforcement learning as the settings of a stack that runs it: verl's arguments, NeMo-RL's YAML.
local check = require "tperf.base.check"

local rl = {}

local NODE <const> = 8 -- GPUs of a node that is not whole are one node's

local function nodes_of(gpus)
  if gpus <= NODE then return 1, gpus end
  if gpus % NODE ~= 0 then
    check.fail("--launch: %d GPUs are no whole nodes of %d; give a multiple", gpus, NODE)
  end
  return gpus // NODE, NODE
end

-- What tperf does not know how to say in a stack's words.
local function refuse(stack, q, names)
  for _, name in ipairs(names) do
    if q[name] ~= nil then check.fail("--launch: %s has no setting for '%s'; leave it out", stack, name) end
  end
end

local function boolean(value) return value and "True" or "False" end

local ESTIMATORS <const> = { grpo = "grpo", dapo = "grpo", rloo = "rloo", ppo = "gae" }

local function longest(q, what)
  local r = q.response
  local most = type(r) == "number" and r or r.max
  return most or check.fail("--launch: %s needs the longest response: give response.max", what)
end

-- --- verl ---

local function verl_trainer(list, t)
  local function put(name, value)
    if value ~= nil then list[#list + 1] = ("actor_rollout_ref.actor.%s=%s"):format(name, value) end
  end
  if t.zero == 3 then
    put("strategy", "fsdp2")
    put("ulysses_sequence_parallel_size", t.cp)
    list[#list + 1] = "actor_rollout_ref.model.enable_gradient_checkpointing=" .. boolean(t.recompute == "full")
    return
  end
  put("strategy", "megatron")
  for _, axis in ipairs { { "tp", "tensor_model" }, { "pp", "pipeline_model" }, { "cp", "context" },
    { "ep", "expert_model" }, { "etp", "expert_tensor" } } do
    put(("megatron.%s_parallel_size"):format(axis[2]), t[axis[1]] or axis[1] == "tp" and 1 or nil)
  end
  if t.recompute == "full" then put("megatron.override_transformer_config.recompute_granularity", "full") end
end

local function verl(q)
  refuse("verl", q, { "pass_rate", "sandboxes", "turns" })
  local t, e, list = q.train or {}, q.rollout or {}, {}
  local function put(name, value)
    if value ~= nil then list[#list + 1] = ("%s=%s"):format(name, value) end
  end
  local apart = q.train_gpus and q.train_gpus < q.gpus
  local nodes, each = nodes_of(apart and q.train_gpus or q.gpus)
  put("algorithm.adv_estimator", ESTIMATORS[q.algorithm or "grpo"]
    or check.fail("--launch: verl has no algorithm '%s'", q.algorithm))
  put("data.train_batch_size", q.prompts)
  put("data.max_prompt_length", q.prompt)
  put("data.max_response_length", longest(q, "verl"))
  put("actor_rollout_ref.model.path", q.model)
  put("actor_rollout_ref.actor.ppo_mini_batch_size", (q.mini or q.prompts * (q.samples or 1)) // (q.samples or 1))
  put("actor_rollout_ref.actor.ppo_epochs", q.epochs)
  put("actor_rollout_ref.actor.use_kl_loss", boolean(q.ref))
  put("actor_rollout_ref.actor.use_dynamic_bsz", boolean(q.packing ~= false))
  put("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", q.packing ~= false
    and (q.tokens_per_gpu or q.prompt + longest(q, "verl")) or nil)
  verl_trainer(list, t)
  put(t.zero == 3 and "actor_rollout_ref.actor.fsdp_config.param_offload"
    or "actor_rollout_ref.actor.megatron.param_offload", boolean(q.park ~= false))
  put("actor_rollout_ref.model.lora_rank", t.peft and (t.peft.rank or 16))
  put("actor_rollout_ref.rollout.name", (e.software or "vllm"):match "^%a+")
  put("actor_rollout_ref.rollout.n", q.samples or 1)
  put("actor_rollout_ref.rollout.tensor_model_parallel_size", e.tp or 1)
  put("actor_rollout_ref.rollout.gpu_memory_utilization", e.memory_utilization)
  put("actor_rollout_ref.rollout.max_num_seqs", e.max_num_seqs)
  put("actor_rollout_ref.rollout.enforce_eager", boolean(e.max_cudagraph_capture_size == 0))
  put("trainer.nnodes", nodes)
  put("trainer.n_gpus_per_node", each)
  put("trainer.total_training_steps", q.steps)
  if apart then
    local more, of = nodes_of(q.gpus - q.train_gpus)
    put("rollout.nnodes", more)
    put("rollout.n_gpus_per_node", of)
    put("async_training.staleness_threshold", q.staleness)
  end
  return "python3 -m verl.trainer.main_ppo \\\n  " .. table.concat(list, " \\\n  ") .. "\n"
end

-- --- NeMo-RL ---

local function yaml(tree, indent, lines)
  for _, name in ipairs(check.names(tree)) do
    local value = tree[name]
    if type(value) == "table" then
      lines[#lines + 1] = ("%s%s:"):format(indent, name)
      yaml(value, indent .. "  ", lines)
    else
      lines[#lines + 1] = ("%s%s: %s"):format(indent, name, tostring(value))
    end
  end
  return lines
end

local function nemo_trainer(t)
  local recompute = t.recompute == "full"
  if t.zero == 3 then
    return nil, { enabled = true, tensor_parallel_size = t.tp or 1, context_parallel_size = t.cp or 1,
      activation_checkpointing = recompute }
  end
  return { enabled = true, tensor_model_parallel_size = t.tp or 1, pipeline_model_parallel_size = t.pp or 1,
    context_parallel_size = t.cp or 1, expert_model_parallel_size = t.ep or 1,
    expert_tensor_parallel_size = t.etp or (t.ep or 1) > 1 and 1 or nil, activation_checkpointing = recompute }
end

local function nemo(q)
  refuse("NeMo-RL", q, { "pass_rate", "sandboxes", "turns", "epochs" })
  local t, e = q.train or {}, q.rollout or {}
  local nodes, each = nodes_of(q.gpus)
  local megatron, dtensor = nemo_trainer(t)
  local backend = (e.software or "vllm"):match "^%a+"
  local apart = q.train_gpus and q.train_gpus < q.gpus
  local rolls, of = nodes_of(apart and q.gpus - q.train_gpus or q.gpus)
  local tree = {
    grpo = { num_prompts_per_step = q.prompts, num_generations_per_prompt = q.samples or 1, max_num_steps = q.steps,
      async_grpo = (q.staleness or 0) > 0 and { enabled = true, max_trajectory_age_steps = q.staleness } or nil },
    loss_fn = { reference_policy_kl_penalty = q.ref == false and 0 or 0.01 },
    policy = {
      model_name = q.model, train_global_batch_size = q.mini or q.prompts * (q.samples or 1),
      train_micro_batch_size = 1, max_total_sequence_length = q.prompt + longest(q, "NeMo-RL"),
      sequence_packing = { enabled = q.packing ~= false }, megatron_cfg = megatron or { enabled = false },
      dtensor_cfg = dtensor or { enabled = false },
      generation = {
        backend = backend,
        [backend .. "_cfg"] = { tensor_parallel_size = e.tp or 1, gpu_memory_utilization = e.memory_utilization,
          enforce_eager = e.max_cudagraph_capture_size == 0 },
        colocated = { enabled = not apart, resources = apart and { num_nodes = rolls, gpus_per_node = of } or nil },
      },
    },
    cluster = { num_nodes = nodes, gpus_per_node = each },
  }
  return table.concat(yaml(tree, "", {}), "\n") .. "\n"
end

local WRITERS <const> = { verl = verl, ["nemo-rl"] = nemo }

--- The settings of a stack for a step.
---@param stack string     "verl" or "nemo-rl"
---@param question table   arguments of tperf.rl
---@return string
function rl.write(stack, question)
  local writer = WRITERS[stack:lower()]
  if not writer then
    check.fail("--launch: a step of reinforcement learning is written for verl and nemo-rl, not %s", check.show(stack))
  end
  return writer(question)
end

return rl
