--- The engine that served a row of a table: its profile in software/ by release, or by date if the row has no release,
--- and the settings that the benchmark launched it with.
local read = require "tperf.measured.read"
local serving = require "tperf.question.serve.engine"

local engines = {}

-- The release of "0.11.2" as 0.00110002, of "1.0.0rc3" as 1; nil if the row has none.
local function release_of(version)
  local major, minor, patch = version:match "^(%d+)%.(%d+)%.?(%d*)"
  return major and tonumber(major) + tonumber(minor) / 1e4 + (tonumber(patch) or 0) / 1e8
end

-- Profiles by engine, the newest last: each covers releases below `before`, or dates below `until_date` without a
-- release.
local PROFILES <const> = {
  vllm = {
    { name = "vllm-0.2", before = 0.0003, until_date = "2024" },
    { name = "vllm-0.6", before = 0.0008, until_date = "2025" },
    { name = "vllm-0.11", before = 0.0013, until_date = "2025-12" },
    { name = "vllm-0.15" },
  },
  ["tensorrt-llm"] = {
    { name = "tensorrt-llm-0.9", before = 1, until_date = "2025" },
    { name = "tensorrt-llm-1.0", before = 1.0001, until_date = "2025-09" },
    { name = "tensorrt-llm-1.1", before = 1.0002, until_date = "2026" },
    { name = "tensorrt-llm-1.2" },
  },
  sglang = {
    { name = "sglang-0.5.5", before = 0.000500055, until_date = "2025-12" },
    { name = "sglang-0.5", before = 0.000500095, until_date = "2026-03-23" }, -- 0.5.9; pull request 21019
    { name = "sglang-0.5.10" },
  },
}

local ENGINES <const> = { trtllm = "tensorrt-llm" }

--- The profile of a row's engine; nil if there is none.
---@param row table  with engine, engine_version and date, which may be missing
---@return string?
function engines.profile(row)
  local name = read.text(row.engine, ""):lower()
  local version, date = read.text(row.engine_version, ""), read.text(row.date, "9999")
  local release = release_of(version)
  for _, profile in ipairs(PROFILES[ENGINES[name] or name] or {}) do
    local newest = not profile.before
    if newest or release and release < profile.before or not release and date < profile.until_date then
      return profile.name
    end
  end
end

--- The host's costs if the clock starts behind the front end.
---@param software string|table?
---@param several boolean  true: several GPUs serve together
function engines.behind_front_end(software, several)
  local host = serving.host(serving.of(software), nil, several)
  host.front_end, host.front_end_token = 0, 0
  return host
end

local ENGLISH <const> = 2e-6 -- seconds of a tokenizer for a token of English text (docs/serving.md)

--- The host's costs for prompts of English text.
function engines.reads_english(software, several)
  local host = serving.host(serving.of(software), nil, several)
  host.front_end_token = math.min(host.front_end_token, ENGLISH)
  return host
end

-- --- InferenceX: its launch scripts (github.com/SemiAnalysisAI/InferenceX, benchmarks/*.sh) ---

-- Per engine: its settings, the cache's dtype, the part of the memory that it uses.
local SCRIPTS <const> = {}

-- MiniMax-M2.5's scripts: on B200 until release 0.19 VLLM_MOE_USE_DEEP_GEMM=0, that is Triton, which vLLM also chooses
-- on Hopper for scales of blocks without expert parallelism; from then on larger graphs and smaller steps.
local function minimax(row, settings)
  local release, blackwell = release_of(row.engine_version), row.gpu:find "B200"
  local late = blackwell and (not release or release >= 0.0019)
  if late then
    settings.max_num_batched_tokens = 2 * read.count(row.isl)
    settings.max_cudagraph_capture_size = 2048
  end
  local portable = row.precision == "fp8" and not late and row.moe_ep == "1"
  return (late or row.precision == "fp4") and "fp8", portable and "portable" or nil
end

function SCRIPTS.vllm(row, c)
  local settings = { max_num_seqs = row.gpu:find "B200" and math.max(c, 512) or c, max_num_batched_tokens = 8192,
    max_cudagraph_capture_size = row.model:find "gpt%-oss" and 2048 or nil,
    prefix_caching = false, async_scheduling = true }
  local kv, experts = row.model:find "Llama" and "fp8" or nil, nil
  if row.model:find "MiniMax" then kv, experts = minimax(row, settings) end
  return settings, kv, nil, experts
end

-- Token budget of a step: room for a prompt and the others' decodes, in blocks of 64.
local function one_prompt(isl, c) return (c + isl + 127) // 64 * 64 end

local TENSORRT <const> = {
  { model = "gpt%-oss", settings = function(_, c)
    return { max_num_seqs = c, max_num_batched_tokens = 20000 }, 0.85
  end },
  -- Prompts and answers of 1,024 tokens wait for others, except on 8 GPUs.
  { model = "Llama", settings = function(row, _, isl, osl)
    local waits = isl == 1024 and osl == 1024 and tonumber(row.tp) < 8
    return { max_num_seqs = 2048, max_num_batched_tokens = isl + osl + 200,
      batch_wait_timeout_iters = waits and 20 or 0, batch_wait_max_tokens_ratio = waits and 0.9 or 0 }, 0.9
  end },
  { model = "", settings = function(row, c, isl, osl)
    local least = row.date < "2026" and 0 or 8192
    local waits = row.date >= "2026" and row.precision == "fp8" and isl == 1024 and osl == 1024 and c >= 64
    return { max_num_seqs = 2048, max_num_batched_tokens = math.max(least, one_prompt(isl, c)),
      batch_wait_timeout_iters = waits and 40 or 0, batch_wait_max_tokens_ratio = waits and 0.8 or 0 }, 0.8
  end },
}

-- DeepGEMM's kernels of experts until release 1.1.
local function grouped(row)
  local release = release_of(row.engine_version)
  return row.precision == "fp8" and (release and release < 1.0002 or not release and row.date < "2026") and "grouped"
    or nil
end

function SCRIPTS.trtllm(row, c)
  local isl, osl = read.count(row.isl), read.count(row.osl)
  for _, script in ipairs(TENSORRT) do
    if row.model:find(script.model) then
      local settings, part = script.settings(row, c, isl, osl)
      settings.prefix_caching = false
      return settings, not (row.model:find "gpt%-oss" and row.gpu:find "H[12]00") and "fp8", part, grouped(row)
    end
  end
end

-- SGLang's schedulers poll for requests every so many steps: 30, or 10 below 16 requests in flight.
local function relaxed(c) return c >= 16 and 30 or 10 end

-- By model, on Blackwell and on Hopper: seats, token budget, steps between polls, the cache's dtype, part of the
-- memory.
local SGLANG <const> = {
  { model = "Qwen3%.5", blackwell = function(row, c)
    local four = row.precision == "fp4"
    return four and math.max(c, 128) or 128, 32768, four and 30 or relaxed(c), row.precision ~= "bf16" and "fp8",
      four and 0.85 or 0.82
  end, hopper = function() return 128, 16384, 1, "fp8", 0.8 end },
  { model = "GLM%-5", blackwell = function(row, c)
    if row.precision == "fp4" then return 2048, 32768, 10, "fp8", 0.9 end
    return c, 32768, 1, "fp8", 0.85
  end, hopper = function() return 2048, 8192, 1, nil, 0.85 end },
  { model = "", blackwell = function(_, c) return 256, 16384, relaxed(c), "fp8", 0.82 end,
    hopper = function() return 512, 32768, 1, nil, 0.82 end },
}

function SCRIPTS.sglang(row, c)
  for _, script in ipairs(SGLANG) do
    if row.model:find(script.model) then
      local on_blackwell = row.gpu:find "B200"
      local settings_of = on_blackwell and script.blackwell or script.hopper
      local seats, budget, interval, kv, part = settings_of(row, c)
      return { max_num_seqs = seats, max_num_batched_tokens = budget, prefix_caching = false,
        receive_interval = interval }, kv, part, on_blackwell and "fused" -- --moe-runner-backend flashinfer_trtllm
    end
  end
end

-- --- NVIDIA: what its aiconfigurator writes (src/aiconfigurator/generator/rule_plugin/benchmark/*.rule) ---

-- SGLang's releases for which it asks for --enable-mixed-chunk: the templates of earlier ones misspell the field
-- (config/backend_templates/sglang/cli_args.0.5.1.post1.j2).
local MIXED <const> = 0.000500025

-- NVIDIA's checkpoints in 8 bits say that the cache is, too (hf_quant_config.json), and vLLM does as they say. A step
-- has room for a prompt, 1,500 tokens and the decodes; all requests in flight may run.
local function by_rule(row, c)
  local isl, kv = read.count(row.isl), row.model:find "^nvidia/.*FP8$" and row.engine == "vllm" and "fp8" or nil
  if row.engine == "sglang" then
    return { max_num_seqs = math.max(c, 1024), max_num_batched_tokens = isl + 1500,
      mixed_chunk = (release_of(row.engine_version) or 1) >= MIXED }
  end
  return { max_num_seqs = c, max_num_batched_tokens = c + isl + 1500 }, kv
end

--- The settings that a closed loop's engine was launched with.
---@param row table  of a table of closed loops
---@param c integer  requests in flight
---@param origin string  who launched it
---@return table settings
---@return string|false? kv_dtype
---@return number? memory_utilization
---@return string? experts  the kernels of experts
function engines.launched(row, c, origin)
  if origin == "NVIDIA" and read.count(row.isl) then return by_rule(row, c) end
  local script = origin == "InferenceX" and SCRIPTS[row.engine]
  if script then return script(row, c) end
  return engines.unknown()
end

--- Settings where a table says none: enough for its batches.
function engines.unknown() return { max_num_seqs = 1024, max_num_batched_tokens = 8192 } end

return engines
