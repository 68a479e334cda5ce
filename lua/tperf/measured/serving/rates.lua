--- Rates of one engine on any device, one row each with whatever its source printed: tokens a second of prompts or of
--- outputs, times to a token, and times of whole batches.
local cases = require "tperf.measured.serving.cases"
local engines = require "tperf.measured.serving.engines"
local lists = require "tperf.base.lists"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local names = require "tperf.describe.model.hub.names"
local read = require "tperf.measured.read"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local rates = {
  name = "rates of engines",
  columns = { "engine", "gpu", "gpus", "model", "precision", "tp", "concurrency", "mode", "isl", "osl", "out_tokens_s",
    "prefill_tokens_s", "ttft_s", "tpot_s", "e2e_s", "quality" },
}

-- Weights by the first pattern that a row's precision contains: dtypes of weights and products, or a mix of
-- llama.cpp's. w4a8: 4-bit weights under activations of 8 bits.
local PRECISIONS <const> = {
  { "^q4 %(ollama default%)", mix = "q4_k_m" }, { "^w4a8", weights = "int4", products = "int8" },
  { "^w8a8", weights = "int8", products = "int8" }, { "^int8$", weights = "int8", products = "int8" },
  { "weights int8", weights = "int8", products = "bf16" }, { "^fp8", weights = "fp8" }, { "^fp4", weights = "fp4" },
  { "^nvfp4", weights = "fp4" }, { "^mxfp4", weights = "fp4" }, { "%f[%w]b?f16", weights = "bf16" },
  { "^fp16", weights = "bf16" },
}

-- The size of a file in bytes. It is in GiB, also where a source says GB (llama.cpp prints GiB).
local function size_of(precision)
  local size = read.positive(precision:lower():match "([%d.]+) gi?b")
  return size and size * 2 ^ 30
end

local READ_BY_ALL <const> = 8.5 -- bits of a mixture's weights that every token reads: q8_0

local function within(bits) return { bits = math.max(math.min(bits, 16), 1) } end

-- The description's `stored` of a file of so many bytes, a mix of its publisher's making: all weights take the same or,
-- in mixtures, what every token reads has 8 bits (Unsloth's dynamic mixes, ggml-org's gpt-oss) and experts the rest.
local function stored_in(m, size)
  local p = m:parameters()
  local experts = p.components and p.components.experts or 0
  local even = within(8 * size / p.total)
  if experts == 0 then return { method = "a file's size", layers = even, head = even, table = even } end
  local wide = within(math.max(READ_BY_ALL, even.bits))
  local rest = within((8 * size - (p.total - experts) * wide.bits) / experts)
  return { method = "a file's size", layers = wide, experts = rest, head = wide, table = wide }
end

-- The model of a row, changed to how it is stored, and the dtypes that the row asks for. nil and a reason.
local function stored_as(row, called, machine)
  local size = size_of(row.precision)
  local m = model(called)
  if size and not row.precision:find "F16" then return m:with { stored = stored_in(m, size) }, nil, nil end
  local text = row.precision:lower()
  for _, one in ipairs(PRECISIONS) do
    if text:find(one[1]) then
      if (one.weights == "fp4" or one.mix) and m.stored then return m, nil, nil end -- as published
      local peaks = system(machine).accelerator.tensor
      local products = one.products or one.weights
      if products and not peaks[products] then products = "bf16" end
      return m, one.mix or one.weights, one.weights and products or nil
    end
  end
  return nil, nil, read.unknown(row.precision, "precision")
end

local function is_llama_cpp(row) return row.engine:lower():find "llama%.?cpp" ~= nil end

-- The engine's profile. Tables that say "vLLM or SGLang" tell in their notes that DeepSeek ran on SGLang.
local function software_of(row)
  local text = row.engine:lower()
  if is_llama_cpp(row) then
    local old = row.engine_version:find "202[34]"
    if old then return "llama-cpp-2024" end
    return row.engine_version:find "vulkan" and "llama-cpp-2026-vulkan" or "llama-cpp-2026"
  end
  if text:find "neuronx" then return "neuronx-2.18" end
  local name = text:find "sglang" and row.model:find "DeepSeek" and "sglang" or text:find "vllm" and "vllm"
    or text:find "tensorrt" and "tensorrt-llm" or text:find "sglang" and "sglang"
  if not name then return nil end
  local version = text:find "ascend" and "" or row.engine_version
  return engines.profile { engine = name, engine_version = version, date = row.date }
end

local SOME <const> = 1024 -- tokens of prompts that a row does not tell, of which its tokens' times hardly depend

-- What a row's mode says of its requests: { prompt, output, count, load, cached = tokens before the prompt, decodes =
-- whether only the tokens after the first count }. nil: unknown.
local function load_of(row)
  local mode, c = row.mode, read.count(row.concurrency) or 1
  local isl, osl = read.count(row.isl), read.count(row.osl)
  local function number(pattern) return read.count(((mode:match(pattern) or ""):gsub(",", ""))) end
  local tokens, before = number "of ([%d,]+) tokens", number "after ([%d,]+)"
  if mode:find "^prefill" then
    return { prompt = tokens or isl, cached = before, output = 1, count = 1, load = { concurrency = 1 } }
  elseif mode:find "^decode" then
    local output = tokens or osl or 256
    return { prompt = before or 1, output = output, count = 1, load = { concurrency = 1 }, decodes = true }
  elseif mode:find "^single stream" and osl and not isl then
    return { prompt = SOME, output = osl, count = 1, load = { concurrency = 1 }, decodes = true }
  elseif not (isl and osl) then
    return nil
  end
  local one = { prompt = isl, output = osl, count = c, load = { concurrency = c } }
  if mode:find "^closed loop" then
    one.prompt, one.output, one.count = cases.below(isl), cases.below(osl), 10 * c
  end
  local rate = read.positive(mode:match "rate ([%d.]+)/s")
  one.count = number "([%d,]+) requests" or one.count
  if rate then one.load = { rate = rate } end
  return one
end

-- GPUs of an engine: all, where a row names no axis. Where tp counts cores of chips, chips.
local function layout_of(row, gpus)
  local pp, dp = read.count(row.pp) or 1, read.count(row.dp) or 1
  local tp = read.count(row.tp) or row.ep == "" and math.max(gpus // (pp * dp), 1) or 1
  if tp * pp * dp > gpus and tp > gpus // (pp * dp) then tp = math.max(gpus // (pp * dp), 1) end
  return tp, pp, dp
end

local function refusal(row)
  if row.quality == "C" then return "quality C" end
  if row.model:find "%-310%-" then return "no system describes the GPU Ascend 310" end -- whatever the column says
  if row.spec_decode ~= "" and row.spec_decode ~= "no" then
    return "speculation, whose acceptance the row does not tell"
  end
  if row.disagg == "yes" then return "pools of their own for prefill and decoding" end
  if row.mode:find "prefix" then return "a prefix cache whose share the row does not tell" end
end

-- The model of models/ that a row's name stands for. What names of tests say behind a format says nothing of it.
local function called_of(name)
  local base = name:gsub("[ :]", "-"):gsub("%-[Ww]%d[Aa]%d.*$", "")
  return names.model(base) or cases.model(base)
end

local function question_of(row, options)
  local reason = refusal(row)
  if reason then return nil, reason end
  local machine, unknown = cases.system(row.gpu, options)
  if not machine then return nil, unknown end
  local called = called_of(row.model)
  if not called then return nil, "no model describes " .. row.model end
  local one = load_of(row)
  if not (one and one.prompt and one.output) then return nil, "lengths or a mode are missing" end
  local m, weights, products = stored_as(row, called, machine)
  if not m then return nil, products end
  local tp, pp, dp = layout_of(row, read.count(row.gpus) or 1)
  local software = options.software or software_of(row)
  local question = { model = m, system = machine, tp = tp, pp = pp, weight_dtype = weights, compute_dtype = products,
    kv_dtype = row.kv_dtype == "fp8" and "fp8" or "bf16", software = software, load = one.load, count = one.count,
    prompt = one.prompt, output = one.output, engine = {}, rules = options.rules, keep = "requests" }
  if dp > 1 then question.replicas = dp end
  if is_llama_cpp(row) or not software then question.sampling = "none" end
  if not software then question.host = { front_end = 0, front_end_token = 0, step = 0, request = 0, token = 0 } end
  if one.cached then
    question.prefix = { tokens = one.cached, groups = 1 }
    question.engine.prefix_caching, question.count = true, 2
  end
  return question, nil, one
end

-- Prompt tokens a second: of the last request, where the first one only fills the cache. nil: prompts differ.
local function prefill_of(r, one)
  local ttft = one.cached and cases.ttft(r.requests[#r.requests]) or r.ttft and r.ttft.mean
  local at_once = one.load.concurrency
  return ttft and at_once and math.type(one.prompt) and one.prompt * at_once / ttft
end

-- The figures of an answer beside a row's.
local function compare(collect, row, question, r, one)
  local about = { engine = row.engine, gpu = question.system, model = question.model.name, row = row,
    source = row.source, label = row.model }
  local out, tpot = read.positive(row.out_tokens_s), read.positive(row.tpot_s)
  collect.add(about, "prefill", prefill_of(r, one), read.positive(row.prefill_tokens_s))
  if one.decodes then
    collect.add(about, "TPOT", r.tpot and r.tpot.mean, tpot or out and 1 / out)
    return true
  end
  collect.add(about, "TTFT", r.ttft and r.ttft.mean, read.positive(row.ttft_s))
  collect.add(about, "TPOT", r.tpot and r.tpot.mean, tpot)
  local whole = r.whole or r
  collect.add(about, "throughput", whole.tokens_per_second, out)
  local batch = one.load.concurrency and one.count == one.load.concurrency
  collect.add(about, "E2E", batch and r.duration or whole.e2e and whole.e2e.mean, read.positive(row.e2e_s))
  return true
end

--- The rows that are not left out for what they state.
function rates.kept(rows) return lists.where(rows, function(row) return not refusal(row) end) end

--- Each row is a run of its own.
function rates.cases(rows, _, options, tell)
  return cases.one_by_one(rows, tell, function(row) return question_of(row, options) end, compare)
end

return rates
