--- Measured steps of reinforcement learning, one a row: the step and the phases that its source gives. Rows of quality
--- A and B, whose model, GPUs, batch and mean response are stated; what they leave open tperf.rl assumes.
local cases = require "tperf.measured.serving.cases"
local check = require "tperf.base.check"
local engines = require "tperf.measured.serving.engines"
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

-- A number with thousands separated, such as "16,384"; nil: none.
local function tokens_in(text, pattern)
  local number = text:match(pattern)
  return number and read.count((number:gsub(",", "")))
end

-- Lengths of responses. NeMo-RL's bins are as long as a prompt and its response may be together.
local function response_of(row, prompt, bin)
  local mean, most = read.positive(row.resp_len_mean), read.count(row.resp_len_max)
  if bin and most then most = math.max(math.min(most, bin - prompt), 1) end
  if most and mean > most then mean = most end
  local clip = read.positive(row.clip_ratio)
  if not (clip and most and clip < 1 and mean > clip * most and mean < most) then clip = nil end
  return { mean = mean, max = most, clip = clip }
end

-- Stacks train as Megatron-Bridge's recipes for tests do: nothing in them is tuned to a machine.
local TRAINERS <const> = { Megatron = "megatron-bridge-26.08-functional" }

-- The trainer's layout and what its column about memory says.
local function trainer_of(row)
  local t = { zero = (row.train_backend .. row.zero_fsdp_offload):lower():find "fsdp" and 3 or 1 }
  for _, axis in ipairs { "tp", "pp", "cp", "ep" } do
    local size = read.count(row["train_" .. axis])
    if size and size > 1 then t[axis] = size end
  end
  if t.ep then t.etp = 1 end
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
  return engines.profile { engine = name, engine_version = row.gen_engine:match "%d+%.%d+[%d.]*" or "",
    date = row.date and earlier(row.date, LAG) }
end

local function mode_of(row)
  local stale = read.count(row.staleness_k)
  if row.mode == "colocated" then return "colocated" end
  return stale and "async" or "split", stale, read.count(row.gpus_train)
end

local function refusal(row)
  if row.quality ~= "A" and row.quality ~= "B" then return "quality " .. read.text(row.quality, "unknown") end
  for _, name in ipairs { "gpus_total", "prompts_per_step" } do
    if not read.count(row[name]) then return name .. " is not given" end
  end
  if not read.positive(row.resp_len_mean) then return "the mean response is not given" end
  if row.algorithm:find "agent" or row.algorithm:find "SWE" then return "agents, whose tools take an unknown time" end
  if not algorithm_of(row) then return read.unknown(row.algorithm, "algorithm") end
end

local function question_of(row, options)
  local reason = refusal(row)
  if reason then return nil, reason end
  local machine, unknown = cases.system(row.gpu, options)
  if not machine then return nil, unknown end
  local prompt = math.floor((read.positive(row.prompt_len_mean) or PROMPT) + 0.5)
  local bin = tokens_in(row.mini_micro_budget, "([%d,]+) tok/bin")
  local mode, stale, train_gpus = mode_of(row)
  local ref -- else the algorithm's
  if row.kl_ref ~= "" then ref = not row.kl_ref:find "^no" end
  return {
    model = row.model_hf, system = machine, gpus = read.count(row.gpus_total), algorithm = algorithm_of(row),
    mode = mode, staleness = stale, train_gpus = train_gpus, prompts = read.count(row.prompts_per_step),
    samples = read.count(row.samples_per_prompt) or 1, prompt = prompt, response = response_of(row, prompt, bin),
    ref = ref,
    mini = read.count(row.mini_micro_budget:match "T%-GBS (%d+)" or ""), tokens_per_gpu = bin,
    packing = row.mini_micro_budget:find "packing off" == nil, train = trainer_of(row),
    refit = mode ~= "colocated" and row.source:find "NeMo" and "broadcast" or nil,
    rollout = { tp = read.count(row.gen_tp), memory_utilization = read.positive(row.gpu_memory_utilization),
      software = engine_of(row) },
  }
end

-- A metric's column -> the phase that it measures.
local PHASES <const> = { logprob_s = "old", ref_s = "ref", update_s = "update", critic_s = "critic", refit_s = "refit" }

local function phases_of(a)
  local times = {}
  for _, one in ipairs(a.phases) do times[one.name] = one.time end
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
  local times = phases_of(a)
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
    if question then a, reason = cases.answer(question, require "tperf.question.rl".run) end
    if a then add_all(collect, row, question, a) else collect.leave_out(reason) end
  end
  return collect.result()
end

return rl
