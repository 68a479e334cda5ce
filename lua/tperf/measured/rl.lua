--- Measured steps of reinforcement learning, one a row: the step and the phases that its source gives. Rows of quality
--- A and B, whose model, GPUs, batch and mean or longest response are stated, follow from the tokens of a step, or are
--- those of a recipe that their source names; what they leave open tperf.rl assumes.
local cases = require "tperf.measured.serving.cases"
local check = require "tperf.base.check"
local engines = require "tperf.measured.serving.engines"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local read = require "tperf.measured.read"

local rl = {
  name = "step of reinforcement learning",
  columns = { "algorithm", "mode", "staleness_k", "model_hf", "gpu", "gpus_total", "gpus_train", "train_tp", "gen_tp",
    "prompts_per_step", "samples_per_prompt", "prompt_len_mean", "resp_len_mean", "resp_len_max", "step_s", "gen_s",
    "gen_kind", "quality" },
}

local ALGORITHMS <const> = { "PPO", "DAPO", "RLOO", "GRPO" } -- the first whose name a row's begins with

local function algorithm_of(row)
  for _, name in ipairs(ALGORITHMS) do
    if row.algorithm:find("^" .. name) then return name:lower() end
  end
end

local PROMPT <const> = 150 -- tokens where a row does not say: mathematical questions

-- What sources do not print and the recipes that they name do: NeMo-RL's examples/configs/grpo_math_8B*.yaml; DAPO's
-- paper (arXiv 2503.14476, section 4.1), whose mini-batches verl's scripts cut into 32 prompts.
local RECIPES <const> = {
  { source = "^NeMo%-RL v0%.3", prompts = 64, samples = 32, most = 4096, mini = 512, tokens = 4096 },
  { source = "^verl docs one%-step%-off", prompts = 512, samples = 16, mini = 32 * 16 },
  -- TinyZero's README pins its engine, and its configuration (verl/trainer/config/ppo_trainer.yaml) uses no graphs.
  { source = "TinyZero", engine = "0.6.3", graphs = 0 },
}

local function recipe_of(row)
  for _, one in ipairs(RECIPES) do
    if row.source:find(one.source) then return one end
  end
  return {}
end

-- Prompts and samples of a step. Tokens of a step, if they are given, tell what is not.
local function batch_of(row, prompt)
  local recipe, mean = recipe_of(row), read.positive(row.resp_len_mean)
  local tokens = read.positive(row.tokens_per_step or "")
  local prompts = read.count(row.prompts_per_step) or recipe.prompts
  local samples = read.count(row.samples_per_prompt) or recipe.samples
  local all = tokens and mean and math.floor(tokens / (mean + prompt) + 0.5)
  if all and prompts and not samples then samples = math.max(math.floor(all / prompts + 0.5), 1) end
  if all and all > 0 and not prompts then prompts, samples = all, 1 end
  return prompts, samples or 1, tokens and prompts and tokens / (prompts * (samples or 1)) - prompt
end

-- A number with thousands separated, such as "16,384"; nil: none.
local function tokens_in(text, pattern)
  local number = text:match(pattern)
  return number and read.count((number:gsub(",", "")))
end

-- Lengths of responses. NeMo-RL's bins are as long as a prompt and its response may be together.
local function response_of(row, prompt, bin, implied)
  local mean, most = read.positive(row.resp_len_mean), read.count(row.resp_len_max) or recipe_of(row).most
  if bin and most then most = math.max(math.min(most, bin - prompt), 1) end
  if not mean and implied and implied >= 1 then mean = implied end
  if not mean then return most and { max = most } end
  if most and mean > most then mean = most end
  local clip = read.positive(row.clip_ratio)
  if not (clip and most and clip < 1 and mean > clip * most and mean < most) then clip = nil end
  return { mean = mean, max = most, clip = clip }
end

-- Stacks train as Megatron-Bridge's recipes for tests do: nothing in them is tuned to a machine.
local TRAINERS <const> = { Megatron = "megatron-bridge-26.08-functional" }

-- The trainer's layout and what its column about memory says.
local function trainer_of(row)
  local words = (row.train_backend .. " " .. row.zero_fsdp_offload):lower()
  local t = { zero = (words:find "fsdp" or words:find "dtensor" or words:find "zero%-3") and 3 or 1 }
  for _, axis in ipairs { "tp", "pp", "cp", "ep" } do
    local size = read.count(row["train_" .. axis])
    if size and size > 1 then t[axis] = size end
  end
  if t.ep then t.etp = 1 end
  if row.zero_fsdp_offload:find "CPU Adam" or row.zero_fsdp_offload:find "CPU optimizer"
    or row.zero_fsdp_offload:find "optimizer offload" then
    t.offload_optimizer = 1
  end
  t.software = TRAINERS[row.train_backend:match "^%a+"]
  local rank = row.train_backend:match "LoRA r(%d+)"
  if rank then t.peft = { kind = "lora", rank = tonumber(rank) } end
  local kept = row.zero_fsdp_offload:find "no activation"
  if not kept and (row.zero_fsdp_offload:find "activation" or row.zero_fsdp_offload:find "full recompute") then
    t.recompute = "full"
  end
  return t
end

-- The month so many before that of a date such as "2026-02"; a date of fewer words stays as it is.
local function earlier(date, months)
  local year, month = date:match "^(%d%d%d%d)-(%d%d)"
  if not year then return date end
  local n = year * 12 + month - 1 - months
  return ("%04d-%02d"):format(n // 12, n % 12 + 1)
end

-- Stacks pin an engine that is some months older than they: NeMo-RL 0.4 of 2025-12 has vLLM 0.11 of 2025-10.
local LAG <const> = 3

-- The engine's profile, by its release or by the date of the row.
local function engine_of(row)
  local name = row.gen_engine:find "SGLang" and "sglang" or "vllm"
  local release = row.gen_engine:match "%d+%.%d+[%d.]*" or recipe_of(row).engine or ""
  return engines.profile { engine = name, engine_version = release,
    date = earlier(read.text(row.date, "9999"), LAG) }
end

-- verl's thresholds are parts of a step.
local function mode_of(row)
  local stale = read.positive(row.staleness_k)
  if row.mode == "colocated" then return "colocated" end
  return stale and "async" or "split", stale and math.ceil(stale), read.count(row.gpus_train)
end

-- Responses of an optimizer step: NeMo-RL says responses, verl prompts.
local function mini_of(row, all, samples)
  local text = row.mini_micro_budget
  local mini = read.count(text:match "T%-GBS (%d+)" or "")
  local of_prompts = read.count(text:match "^mini (%d+) prompts" or text:match "^mini (%d+), micro" or "")
  mini = mini or of_prompts and of_prompts * samples or recipe_of(row).mini
  return mini and mini < all and all % mini == 0 and mini or nil
end

local function refusal(row)
  if row.quality ~= "A" and row.quality ~= "B" then return "quality " .. read.text(row.quality, "unknown") end
  if not read.count(row.gpus_total) then return "gpus_total is not given" end
  if row.algorithm:find "agent" or row.algorithm:find "SWE" then return "agents, whose tools take an unknown time" end
  if not algorithm_of(row) then return read.unknown(row.algorithm, "algorithm") end
end

-- Whether a pass that only some runs do is one of this one's: a row without it says 0 s.
local function passes_of(row)
  local ref -- else the algorithm's
  if row.kl_ref ~= "" then ref = not row.kl_ref:find "^no" end
  if ref == nil and read.positive(row.ref_s or "") then ref = true end
  return ref, row.logprob_s == "0" and "none" or nil
end

-- Whether the trainer leaves its GPUs to the engine: NeMo-RL's always does, others if a row says so.
local function parks(row) return (row.source:find "NeMo" or row.zero_fsdp_offload:find "offload") ~= nil end

local function question_of(row, options)
  local reason = refusal(row)
  if reason then return nil, reason end
  local machine, unknown = cases.system(row.gpu, options)
  if not machine then return nil, unknown end
  local prompt = math.floor((read.positive(row.prompt_len_mean) or PROMPT) + 0.5)
  local prompts, samples, implied = batch_of(row, prompt)
  if not prompts then return nil, "prompts_per_step is not given" end
  local bin = tokens_in(row.mini_micro_budget, "([%d,]+) tok/bin") or recipe_of(row).tokens
  local response = response_of(row, prompt, bin, implied)
  if not response then return nil, "neither the mean nor the longest response is given" end
  local mode, stale, train_gpus = mode_of(row)
  local ref, old = passes_of(row)
  return {
    model = row.model_hf, system = machine, gpus = read.count(row.gpus_total), algorithm = algorithm_of(row),
    mode = mode, staleness = stale, train_gpus = train_gpus, prompts = prompts, samples = samples, prompt = prompt,
    response = response, ref = ref, old = old, park = parks(row), tokens_per_gpu = bin,
    mini = mini_of(row, prompts * samples, samples),
    packing = row.mini_micro_budget:find "packing off" == nil, train = trainer_of(row),
    refit = mode ~= "colocated" and row.source:find "NeMo" and "broadcast" or nil,
    rollout = { tp = read.count(row.gen_tp), memory_utilization = read.positive(row.gpu_memory_utilization),
      software = engine_of(row), max_cudagraph_capture_size = recipe_of(row).graphs },
  }
end

local WIDEST <const> = 32 -- GPUs of an engine
local NODE <const> = 8 -- GPUs that tensor parallelism cuts a layer over

-- Makes a trainer's replica larger: first its experts, then its layers within a node, then over nodes.
local function widen(t, experts)
  if experts and (t.ep or 1) < NODE then
    t.ep, t.etp = 2 * (t.ep or 1), 1
  elseif (t.tp or 1) < NODE then
    t.tp = 2 * (t.tp or 1)
  else
    t.pp = 2 * (t.pp or 1)
  end
end

-- The answer with the smallest engine that has room and the smallest replica of the trainer that fits, if the row does
-- not say how large they are.
local function answer(question)
  local t, rolls = question.train, question.rollout
  local free_engine, free_trainer = not rolls.tp, not (t.tp or t.pp or t.cp or t.ep or t.zero == 3)
  local a, reason
  while true do
    local larger, wrong = cases.answer(question, require "tperf.question.rl".run)
    if larger then a, reason = larger, nil elseif not a then reason = wrong end
    if not larger and free_engine and wrong:find "no room" and (rolls.tp or 1) < math.min(WIDEST, question.gpus) then
      rolls.tp = 2 * (rolls.tp or 1)
    elseif larger and free_trainer and not a.memory[2].fits then
      widen(t, model(question.model).experts)
    else
      return a, reason
    end
  end
end

-- A metric's column -> the phase that it measures.
local PHASES <const> = { logprob_s = "old", ref_s = "ref", update_s = "update", critic_s = "critic", refit_s = "refit" }

-- Seconds by name of phase. Timers of refits in colocated steps hold what must leave and wake for them; some of
-- log-probabilities the reference's, too.
local function phases_of(a, row)
  local times = {}
  for _, one in ipairs(a.phases) do times[one.name] = one.time end
  times.refit = a.refit.time + (times.offload or 0) + (times.wake or 0)
  if row.notes and row.notes:find "logprob includes the reference" then
    times.old = (times.old or 0) + (times.ref or 0)
  end
  return times
end

local function add_all(collect, row, question, a)
  local about = { engine = read.text(row.gen_engine, "vLLM"), gpu = question.system, model = row.model_hf,
    source = row.source, row = row, label = row.id }
  local around = a.intervals.step
  about.spread = { around.low / a.step, around.high / a.step }
  collect.add(about, "step_s", a.step, read.positive(row.step_s))
  about.spread = nil
  if row.gen_kind == "full" then collect.add(about, "gen_s", a.rollout.drained, read.positive(row.gen_s)) end
  local times = phases_of(a, row)
  for _, metric in ipairs(check.names(PHASES)) do
    collect.add(about, metric, times[PHASES[metric]], read.positive(row[metric]))
  end
end

--- One case for each figure of a row.
function rl.cases(rows, _, options, tell)
  local collect = cases.collector()
  for i, row in ipairs(rows) do
    tell(i, #rows)
    local question, reason = question_of(row, options)
    local a
    if question then a, reason = answer(question) end
    if a then add_all(collect, row, question, a) else collect.leave_out(reason) end
  end
  return collect.result()
end

return rl
