--- Closed loops: mean TTFT and TPOT at a fixed number of requests in flight, one row each.
local cases = require "tperf.measured.serving.cases"
local conditions = require "tperf.measured.serving.conditions"
local engines = require "tperf.measured.serving.engines"
local lists = require "tperf.base.lists"
local model = require "tperf.base.catalogue".shared(require "tperf.describe.model")
local read = require "tperf.measured.read"
local system = require "tperf.base.catalogue".shared(require "tperf.describe.system")

local closed = {
  name = "closed loop",
  columns = { "engine", "gpu", "model", "precision", "mode", "mtp", "tp", "pp", "attention_dp", "concurrency", "isl",
    "osl", "osl_mean", "ttft_s", "tpot_s" },
}

-- Why a row is left out; nil if it is not.
local function refusal(row, known)
  if row.duplicate_of ~= "" or known.copies[row] then return "the same measurement as another row" end
  if row.quality ~= "" and row.quality ~= "clean" then return "conditions are not clear: " .. row.quality end
  if row.mode ~= "agg" then return "pools of their own for prefill and decoding" end
  local _, mtp = known.of(row)
  if not (mtp or row.mtp):find "^no" then return "multi-token prediction, whose acceptance the row does not tell" end
  if row.attention_dp ~= "1" then return "attention repeated over replicas inside of an engine" end
end

local function length(origin, tokens)
  local n = read.count(tokens)
  return n and origin == "InferenceX" and cases.below(n) or n
end

-- A question's prompts: one token each after prefixes of English text that are sent again and again.
local function cached_prompts(question)
  question.host = engines.reads_english(question.software, question.tp * question.pp > 1)
  question.prefix = { tokens = question.prompt - 1, groups = conditions.PROMPTS }
  question.prompt, question.engine.prefix_caching = 1, true
  return question
end

local function question_of(row, options, known)
  local reason = refusal(row, known)
  if reason then return nil, reason end
  local about
  about, reason = cases.subject(row.gpu, row.model, options, row.precision)
  if not about then return nil, reason end
  local c, tp, pp = read.count(row.concurrency), read.count(row.tp), read.count(row.pp)
  local origin = known.of(row) or row.origin
  local prompt, output = length(origin, row.isl), length(origin, row.osl)
  if not (c and tp and pp and prompt and output) then return nil, "lengths, concurrency, tp or pp are missing" end
  local engine, kv, part, experts = engines.launched(row, c, origin)
  local question = { model = about.model, system = about.system, tp = tp, pp = pp, ep = read.count(row.moe_ep),
    etp = read.count(row.moe_tp), weight_dtype = about.stored, precision = about.recipe,
    compute_dtype = about.products, kv_dtype = kv or "bf16",
    load = { concurrency = c }, count = 10 * c, prompt = prompt, output = output,
    engine = engine, memory_utilization = part, experts = experts,
    software = options.software or engines.profile(row), rules = options.rules }
  return known.cached(row) and math.type(prompt) and prompt > 1 and cached_prompts(question) or question
end

-- Throughput is concurrency over E2E on both sides, by Little's law. Benchmarks report all their requests.
local function compare(collect, row, question, answer)
  if not answer.e2e then return false end
  local about = { engine = row.engine, gpu = question.system, model = question.model, row = row,
    source = read.text(row.origin, row.engine), label = row.id }
  local r = answer.whole or answer
  local ttft, tpot, n = read.positive(row.ttft_s), read.positive(row.tpot_s), read.positive(row.osl_mean)
  local measured = ttft and tpot and n and ttft + (n - 1) * tpot
  collect.add(about, "E2E", r.e2e.mean, measured)
  collect.add(about, "TPOT", r.tpot and r.tpot.mean, tpot)
  collect.add(about, "TTFT", r.ttft.mean, ttft)
  collect.add(about, "throughput", 1 / r.e2e.mean, measured and 1 / measured)
  return true
end

-- What rows do not state, but the table does.
local function known_of(rows, options)
  local copies, of = conditions.copies(rows)
  local cached = conditions.cached(rows, function(row)
    local about = cases.subject(row.gpu, row.model, options, row.precision)
    if not about then return nil end
    local peaks = system(about.system).accelerator.tensor
    return model(about.model), peaks[about.products or "fp8"] or peaks.bf16
  end)
  return { copies = copies, of = of, cached = cached }
end

--- The rows that are not left out for what they state.
function closed.kept(rows, options)
  local known = known_of(rows, options)
  return lists.where(rows, function(row) return not refusal(row, known) end)
end

--- Each row is a separate closed loop.
function closed.cases(rows, _, options, tell)
  local known = known_of(rows, options)
  return cases.one_by_one(rows, tell, function(row) return question_of(row, options, known) end, compare)
end

return closed
