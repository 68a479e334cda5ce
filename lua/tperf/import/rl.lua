--- tperf.import.rl: reads a configuration of a stack of reinforcement learning as arguments of tperf.rl. docs/rl.md.
local check = require "tperf.base.check"
local files = require "tperf.import.launch.files"
local shell = require "tperf.import.launch.shell"

local rl = {}

local DEEPEST <const> = 20 -- levels of a tree

-- Adds the leaves of a tree by their paths, unless a file before it has them.
local function flatten(tree, prefix, settings, depth)
  if depth > DEEPEST then return end
  for key, value in pairs(tree) do
    local path = prefix .. tostring(key)
    if type(value) == "table" then
      flatten(value, path .. ".", settings, depth + 1)
    elseif settings[path] == nil then
      settings[path] = value
    end
  end
end

-- NeMo-RL's files name others in `defaults`, which lie beside them.
local function add_tree(file, settings, notes, depth)
  local tree = file.kind == "toml" and files.toml(file.text, file.path) or files.tree(file.text, file.path)
  local base = tree.defaults
  tree.defaults = nil
  flatten(tree, "", settings, 0)
  if type(base) == "table" then base = #base == 1 and base[1] or nil end
  if type(base) ~= "string" or depth > DEEPEST then return end
  local text = files.above(file.folder, base)
  if not text then
    notes[#notes + 1] = ("%s is not there: its settings are not read"):format(base)
    return
  end
  add_tree({ text = text, path = base, folder = file.folder, kind = "tree" }, settings, notes, depth + 1)
end

-- The words of a command as settings: name=value (hydra), --name value, --name=value and --name.
local function add_words(words, settings)
  local i = 1
  while i <= #words do
    local word = words[i]
    local name, value = word:match "^%+*([%a_][%w_.]*)=(.*)$"
    local flag, given = word:match "^%-%-([%w_.-]+)=(.*)$"
    flag = flag or word:match "^%-%-([%w_.-]+)$"
    if name then
      settings[name] = value
    elseif flag then
      if not given and words[i + 1] and not words[i + 1]:find "^%-%-" then
        i = i + 1
        given = words[i]
      end
      settings[(flag:gsub("-", "_"))] = given or "true"
    end
    i = i + 1
  end
end

local function add_script(file, settings)
  local sh = shell.new({}, {}, function(name) return files.beside(file.folder, name) end)
  local done, problem = pcall(sh.run, sh, file.text, file.path)
  if not done then check.fail("%s", type(problem) == "table" and problem.shell or tostring(problem)) end
  for _, command in ipairs(sh.commands) do add_words(command.words, settings) end
end

local RESOLVED <const> = 8 -- interpolations within one another

-- A value without OmegaConf's ${…}: of another setting, or ${mul:a,b}.
local function resolved(settings, value, depth)
  if type(value) ~= "string" or not value:find("${", 1, true) or depth > RESOLVED then return value end
  local again = value:gsub("%${([%w_.]+)}", function(path)
    local other = settings[path]
    return other ~= nil and tostring(resolved(settings, other, depth + 1)) or nil
  end)
  again = again:gsub("%${mul:%s*([%d.]+)%s*,%s*([%d.]+)%s*}", function(a, b)
    return ("%.14g"):format(tonumber(a) * tonumber(b))
  end)
  return again
end

local TRUE <const>, FALSE <const> = { ["true"] = true, yes = true, on = true, ["1"] = true },
  { ["false"] = true, no = true, off = true, ["0"] = true, none = true, null = true }

-- The reader that stacks use.
local function reader(stack, path, settings)
  local s, seen, assumed, aside = {}, {}, {}, {}
  local function get(name)
    local value = resolved(settings, settings[name], 0)
    if value == nil or tostring(value):lower() == "null" or tostring(value):lower() == "none" then
      seen[name] = settings[name] ~= nil or nil
      return nil
    end
    seen[name] = true
    return value
  end
  local function wrong(name, value, what)
    check.fail("%s: '%s' must be %s, got %s; give it with --set or as an option", path, name, what, check.show(value))
  end
  function s.text(name)
    local value = get(name)
    return value ~= nil and tostring(value) or nil
  end
  function s.number(name)
    local value = get(name)
    if value == nil then return nil end
    return tonumber(value) or wrong(name, value, "a number")
  end
  function s.count(name)
    local value = s.number(name)
    if value == nil then return nil end
    return math.tointeger(value) or wrong(name, value, "an integer")
  end
  function s.yes(name, default)
    local value = get(name)
    if value == nil then return default end
    local word = tostring(value):lower()
    if not (TRUE[word] or FALSE[word]) then wrong(name, value, "true or false") end
    return TRUE[word] or false
  end
  function s.assume(name, value, why)
    assumed[#assumed + 1] = { name = name, text = ("%s = %s: %s"):format(name, value, why) }
  end
  function s.aside(name, why) aside[#aside + 1] = ("%s: %s"):format(name, why) end
  function s.refuse(what, value)
    check.fail("%s: %s of %s is not known: %s", path, what, stack.name, check.show(value))
  end
  function s.result()
    local unread = {}
    for _, name in ipairs(check.names(settings)) do
      if not seen[name] then unread[#unread + 1] = name end
    end
    return assumed, unread, aside
  end
  return s
end

-- --- what the settings of stacks mean ---
-- Each stack's function gets a reader of its flat settings: s.text, s.number, s.count and s.yes(name, default) note
-- what is read; s.assume(name, value, why).

-- A trainer's arguments without the axes of size 1.
local function grid(fields)
  for name, size in pairs(fields) do
    if size == 1 and name ~= "zero" then fields[name] = nil end
  end
  return fields
end

-- Lengths, of which files say the longest alone.
local function lengths(s, prompt, response)
  if prompt then s.assume("prompt", prompt, "the longest that is admitted") end
  return prompt, response and { max = response } or nil
end

local ESTIMATORS <const> = { gae = "ppo", ppo = "ppo", grpo = "grpo", dapo = "dapo", rloo = "rloo",
  rloo_vectorized = "rloo", reinforce_baseline = "rloo", group_norm = "grpo", reinforce_plus_plus = "grpo",
  ["reinforce++"] = "grpo", reinforce = "grpo", distillation = "opd" }

local function algorithm(s, word)
  if not word then return nil end
  return ESTIMATORS[word] or s.refuse("the algorithm", word)
end

local ENGINES <const> = { vllm = "vllm", sglang = "sglang", trtllm = "tensorrt-llm" }

local function engine(s, word)
  if not word then return nil end
  return ENGINES[word] or s.refuse("the engine", word)
end

-- --- verl: hydra's arguments, or its YAML ---

local ACTOR <const>, ROLLOUT <const> = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout."

local function verl_trainer(s)
  local m = ACTOR .. "megatron."
  local megatron = s.text(ACTOR .. "strategy") == "megatron" or s.count(m .. "tensor_model_parallel_size") ~= nil
  local t
  if megatron then
    t = grid { zero = 1, tp = s.count(m .. "tensor_model_parallel_size"),
      pp = s.count(m .. "pipeline_model_parallel_size"), cp = s.count(m .. "context_parallel_size"),
      ep = s.count(m .. "expert_model_parallel_size"), etp = s.count(m .. "expert_tensor_parallel_size") }
    if t.ep and not t.etp then t.etp = 1 end
    if s.yes(m .. "optimizer_offload") then s.aside(m .. "optimizer_offload", "states leave with the trainer") end
    if s.text(m .. "override_transformer_config.recompute_granularity") == "full" then t.recompute = "full" end
  else
    t = grid { zero = 3, cp = s.count(ACTOR .. "ulysses_sequence_parallel_size") }
    if s.yes("actor_rollout_ref.model.enable_gradient_checkpointing", true) then t.recompute = "full" end
  end
  local rank = s.count "actor_rollout_ref.model.lora_rank"
  if rank and rank > 0 then t.peft = { kind = "lora", rank = rank } end
  return t, s.yes(m .. "param_offload") or s.yes(ACTOR .. "fsdp_config.param_offload") or false
end

local function verl_gpus(s)
  local all = (s.count "trainer.nnodes" or 1) * (s.count "trainer.n_gpus_per_node" or 8)
  local apart = s.count "rollout.nnodes"
  if not apart or apart < 1 then return all end
  return all + apart * (s.count "rollout.n_gpus_per_node" or 8), all
end

local function verl(s)
  local samples = s.count(ROLLOUT .. "n") or 1
  local prompt, response = lengths(s, s.count "data.max_prompt_length", s.count "data.max_response_length")
  local mini = s.count(ACTOR .. "ppo_mini_batch_size")
  local gpus, train_gpus = verl_gpus(s)
  local t, park = verl_trainer(s)
  local threshold = s.number "async_training.staleness_threshold"
  local q = {
    model = s.text "actor_rollout_ref.model.path", gpus = gpus, train_gpus = train_gpus,
    algorithm = algorithm(s, s.text "algorithm.adv_estimator"), prompts = s.count "data.train_batch_size",
    samples = samples, mini = mini and mini * samples, epochs = s.count(ACTOR .. "ppo_epochs"), prompt = prompt,
    response = response, park = park, train = t, steps = s.count "trainer.total_training_steps",
    ref = s.yes(ACTOR .. "use_kl_loss") or s.yes "algorithm.use_kl_in_reward" or false,
    staleness = threshold and math.max(math.ceil(threshold), 1) or nil,
    rollout = { tp = s.count(ROLLOUT .. "tensor_model_parallel_size"),
      memory_utilization = s.number(ROLLOUT .. "gpu_memory_utilization"),
      software = engine(s, s.text(ROLLOUT .. "name")), max_num_seqs = s.count(ROLLOUT .. "max_num_seqs"),
      max_cudagraph_capture_size = s.yes(ROLLOUT .. "enforce_eager") and 0 or nil },
  }
  if q.mini and q.prompts and q.mini >= q.prompts * samples then q.mini = nil end
  q.packing = s.yes(ACTOR .. "use_dynamic_bsz") or false
  if q.packing then q.tokens_per_gpu = s.count(ACTOR .. "ppo_max_token_len_per_gpu") end
  return q
end

-- --- NeMo-RL: YAML ---

local function nemo_trainer(s)
  local m, d = "policy.megatron_cfg.", "policy.dtensor_cfg."
  local t
  if s.yes(m .. "enabled") then
    t = grid { zero = 1, tp = s.count(m .. "tensor_model_parallel_size"),
      pp = s.count(m .. "pipeline_model_parallel_size"), cp = s.count(m .. "context_parallel_size"),
      ep = s.count(m .. "expert_model_parallel_size"), etp = s.count(m .. "expert_tensor_parallel_size") }
    if t.ep and not t.etp then t.etp = 1 end
    if s.yes(m .. "activation_checkpointing") then t.recompute = "full" end
    return t
  end
  if s.yes(d .. "enabled") == false then s.refuse("the trainer", "neither megatron_cfg nor dtensor_cfg") end
  t = grid { zero = 3, tp = s.count(d .. "tensor_parallel_size"), cp = s.count(d .. "context_parallel_size") }
  if s.yes(d .. "activation_checkpointing") then t.recompute = "full" end
  return t
end

local function nemo(s)
  local gpus = (s.count "cluster.num_nodes" or 1) * (s.count "cluster.gpus_per_node" or 8)
  local longest = s.count "policy.max_total_sequence_length"
  local g = "policy.generation."
  local backend = s.text(g .. "backend")
  local cfg = g .. (backend or "vllm") .. "_cfg."
  local apart
  if not s.yes(g .. "colocated.enabled", true) then
    apart = (s.count(g .. "colocated.resources.num_nodes") or 1) * (s.count(g .. "colocated.resources.gpus_per_node")
      or s.count "cluster.gpus_per_node" or 8)
  end
  local prompts, samples = s.count "grpo.num_prompts_per_step", s.count "grpo.num_generations_per_prompt" or 1
  local mini = s.count "policy.train_global_batch_size"
  local penalty = s.number "loss_fn.reference_policy_kl_penalty"
  local q = {
    model = s.text "policy.model_name", gpus = gpus, train_gpus = apart and gpus - apart, prompts = prompts,
    samples = samples, mini = mini and prompts and mini < prompts * samples and mini or nil,
    steps = s.count "grpo.max_num_steps", train = nemo_trainer(s), refit = apart and "broadcast" or nil,
    ref = penalty and penalty > 0 or nil,
    rollout = { tp = s.count(cfg .. "tensor_parallel_size"),
      memory_utilization = s.number(cfg .. "gpu_memory_utilization"), software = engine(s, backend),
      max_cudagraph_capture_size = s.yes(cfg .. "enforce_eager") and 0 or nil },
  }
  if penalty == 0 then q.ref = false end
  if s.yes "grpo.async_grpo.enabled" then q.staleness = s.count "grpo.async_grpo.max_trajectory_age_steps" or 1 end
  if longest then
    q.response = { max = longest }
    s.assume("response.max", longest, "a prompt counts in it")
    q.packing = s.yes "policy.sequence_packing.enabled" or false
    local each = s.count "policy.train_micro_batch_size" or 1
    if q.packing then q.tokens_per_gpu = longest * each end
  end
  return q
end

-- --- slime: Megatron's flags in a shell script ---

local function slime(s)
  local trains = (s.count "actor_num_nodes" or 1) * (s.count "actor_num_gpus_per_node" or 8)
  local colocated, rolls = s.yes "colocate", s.count "rollout_num_gpus"
  local prompts, samples = s.count "rollout_batch_size", s.count "n_samples_per_prompt" or 1
  local mini = s.count "global_batch_size"
  local prompt, response = lengths(s, s.count "rollout_max_prompt_len", s.count "rollout_max_response_len")
  local q = {
    model = s.text "hf_checkpoint", gpus = colocated and trains or trains + (rolls or trains),
    train_gpus = not colocated and trains or nil, prompts = prompts, samples = samples, prompt = prompt,
    response = response, algorithm = algorithm(s, s.text "advantage_estimator"),
    mini = mini and prompts and mini < prompts * samples and mini or nil,
    ref = s.yes "use_kl_loss" or (s.number "kl_coef" or 0) > 0 or false,
    train = grid { zero = 1, tp = s.count "tensor_model_parallel_size", pp = s.count "pipeline_model_parallel_size",
      cp = s.count "context_parallel_size", ep = s.count "expert_model_parallel_size",
      etp = s.count "expert_tensor_parallel_size" },
    rollout = { tp = s.count "rollout_num_gpus_per_engine", software = "sglang",
      memory_utilization = s.number "sglang_mem_fraction_static" },
  }
  if s.text "recompute_granularity" == "full" then q.train.recompute = "full" end
  if s.yes "use_dynamic_batch_size" then q.tokens_per_gpu = s.count "max_tokens_per_gpu" end
  return q
end

-- --- OpenRLHF: flags ---

local function openrlhf(s)
  local trains = (s.count "actor_num_nodes" or 1) * (s.count "actor_num_gpus_per_node" or 8)
  local engines, tp = s.count "vllm_num_engines" or 0, s.count "vllm_tensor_parallel_size" or 1
  local colocated = s.yes "colocate_all_models"
  local samples, prompts = s.count "n_samples_per_prompt" or 1, s.count "rollout_batch_size"
  local mini = s.count "train_batch_size"
  local prompt, response = lengths(s, s.count "prompt_max_len", s.count "generate_max_len")
  local q = {
    model = s.text "pretrain", gpus = colocated and trains or trains + engines * tp,
    train_gpus = not colocated and trains or nil, prompts = prompts, samples = samples, prompt = prompt,
    response = response, algorithm = algorithm(s, s.text "advantage_estimator" or "gae"),
    mini = mini and prompts and mini < prompts * samples and mini or nil, epochs = s.count "max_epochs",
    ref = (s.number "init_kl_coef" or 0.01) > 0, staleness = s.yes "async_train" and 1 or nil,
    train = grid { zero = s.count "zero_stage" or 2, tp = s.count "ds_tensor_parallel_size",
      cp = s.count "ring_attn_size" },
    rollout = { tp = tp, memory_utilization = s.number "vllm_gpu_memory_utilization", software = "vllm",
      max_cudagraph_capture_size = s.yes "enforce_eager" and 0 or nil },
  }
  if s.yes "gradient_checkpointing" then q.train.recompute = "full" end
  return q
end

-- --- TRL: GRPOConfig ---

local function trl(s)
  local samples = s.count "num_generations" or 8
  local gpus = s.count "num_processes"
  local each = (s.count "per_device_train_batch_size" or 8) * (s.count "gradient_accumulation_steps" or 1)
  local prompt, response = lengths(s, s.count "max_prompt_length" or 512, s.count "max_completion_length" or 256)
  return {
    model = s.text "model_name_or_path", gpus = gpus, samples = samples,
    prompts = gpus and gpus * each // samples or nil, prompt = prompt, response = response,
    ref = (s.number "beta" or 0) > 0, epochs = s.count "num_iterations",
    train = { zero = s.count "zero_stage" or s.count "deepspeed_config.zero_stage" or 0,
      recompute = s.yes("gradient_checkpointing", true) and "full" or nil },
    rollout = { tp = s.count "vllm_tensor_parallel_size", software = "vllm",
      memory_utilization = s.number "vllm_gpu_memory_utilization" or 0.3 },
  }
end

-- --- prime-rl: TOML ---

local function prime(s)
  local samples, batch = s.count "orchestrator.rollouts_per_example" or 1, s.count "orchestrator.batch_size"
  local trains = s.count "deployment.num_train_gpus" or s.count "trainer_gpus" or 1
  local rolls = s.count "deployment.num_infer_gpus" or s.count "inference_gpus" or 1
  local longest = s.count "orchestrator.sampling.max_tokens"
  return {
    model = s.text "model.name" or s.text "trainer.model.name", gpus = trains + rolls, train_gpus = trains,
    samples = samples, prompts = batch and batch // samples, response = longest and { max = longest },
    staleness = s.count "max_async_level" or s.count "orchestrator.max_async_level" or 1,
    steps = s.count "max_steps", ref = false,
    train = grid { zero = 3, cp = s.count "trainer.model.cp" },
    rollout = { tp = s.count "inference.parallel.tp", software = "vllm",
      memory_utilization = s.number "inference.gpu_memory_utilization" },
  }
end

-- --- AReaL: YAML, with sglang:d4p1t1+d4p1t1 ---

local function allocation(text)
  local rolls, trains = (text or ""):match "^[%a]*:?(d[%w]+)%+[%a]*:?(d[%w]+)$"
  if not rolls then return nil end
  local function size(word, letter) return math.tointeger(tonumber(word:match(letter .. "(%d+)") or 1)) end
  local function axes(word)
    return { d = size(word, "d"), p = size(word, "p"), t = size(word, "t"), c = size(word, "c"), e = size(word, "e") }
  end
  return axes(rolls), axes(trains)
end

local function areal(s)
  local mode = s.text "allocation_mode"
  local rolls, trains = allocation(mode)
  if not rolls then return s.refuse("allocation_mode", mode) end
  local trained = trains.d * trains.p * trains.t * trains.c
  local longest, ahead = s.count "gconfig.max_new_tokens", s.count "rollout.max_head_offpolicyness"
  return {
    model = s.text "actor.path", gpus = trained + rolls.d * rolls.p * rolls.t, train_gpus = trained,
    prompts = s.count "train_dataset.batch_size", samples = s.count "gconfig.n_samples" or 1,
    response = longest and { max = longest }, staleness = ahead and ahead > 0 and ahead or nil,
    ref = (s.number "actor.kl_ctl" or 0) > 0, tokens_per_gpu = s.count "actor.mb_spec.max_tokens_per_mb",
    train = grid { zero = 1, tp = trains.t, pp = trains.p, cp = trains.c, ep = trains.e },
    rollout = { tp = rolls.t, software = mode:find "^vllm" and "vllm" or "sglang",
      memory_utilization = s.number "sglang.mem_fraction_static" },
  }
end

-- The stacks: names of settings that only it has, and its reader.
local STACKS <const> = {
  { name = "verl", marks = { "actor_rollout_ref.model.path", "data.train_batch_size", "actor_rollout_ref.rollout.n" },
    read = verl },
  { name = "NeMo-RL", marks = { "grpo.num_prompts_per_step", "policy.model_name", "policy.generation.backend" },
    read = nemo },
  { name = "slime", marks = { "hf_checkpoint", "rollout_batch_size", "rollout_max_response_len" }, read = slime },
  { name = "OpenRLHF", marks = { "pretrain", "rollout_batch_size", "generate_max_len", "vllm_num_engines" },
    read = openrlhf },
  { name = "TRL", marks = { "num_generations", "max_completion_length", "model_name_or_path" }, read = trl },
  { name = "prime-rl", marks = { "orchestrator.batch_size", "orchestrator.rollouts_per_example", "max_async_level" },
    read = prime },
  { name = "AReaL", marks = { "allocation_mode", "gconfig.n_samples", "actor.path" }, read = areal },
}

local function stack_of(settings, path, wanted)
  local best, most = nil, 0
  for _, one in ipairs(STACKS) do
    local count = 0
    for _, name in ipairs(one.marks) do count = count + (settings[name] ~= nil and 1 or 0) end
    if wanted and one.name:lower() == wanted:lower() then return one end
    if count / #one.marks > most then best, most = one, count / #one.marks end
  end
  if not best or wanted then
    check.fail("%s: no stack of reinforcement learning has such settings; known: verl, NeMo-RL, slime, OpenRLHF, TRL, "
      .. "prime-rl, AReaL", path)
  end
  return best
end

local schema = { files = check.list(check.string(), { min = 1, max = 16 }), stack = check.string { optional = true } }

--- Reads the configuration of a run: a shell script, YAML, TOML or JSON. Of several files the first counts.
---@param arguments table
---  files  the paths
---  stack  the stack's name, by default the one whose settings they are
---@return table run  { stack, question = arguments of tperf.rl that the files give, assumed = { name, text } of
---  arguments that follow from others, unread = names of settings that are not modelled, notes = texts }
function rl.read(arguments)
  local o = check.record("tperf.import.rl", arguments, schema)
  local settings, notes = {}, {}
  for _, path in ipairs(o.files) do
    local file = files.open(path)
    if file.kind == "shell" then add_script(file, settings) else add_tree(file, settings, notes, 0) end
  end
  local stack = stack_of(settings, o.files[1], o.stack)
  local s = reader(stack, o.files[1], settings)
  local question = stack.read(s)
  local assumed, unread, aside = s.result()
  table.move(aside, 1, #aside, #notes + 1, notes)
  return { stack = stack.name, question = question, assumed = assumed, unread = unread, notes = notes }
end

return rl
