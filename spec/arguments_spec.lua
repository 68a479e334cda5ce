-- Every row of the registry of arguments: another value than the default changes what its question says, and survives
-- the way from a search through a configuration back to tperf.train; the commands have an option for it.
local arguments = require "tperf.question.arguments"
local ask = require "tperf.cli.ask.arguments"
local check = require "tperf.base.check"
local tperf = require "tperf"

-- A question that every argument can be put to: a mixture with latent attention, replicas, stages and a host.
local MODEL <const> = tperf.model "deepseek-v2-lite"
local function base()
  return { model = MODEL, system = "h100-sxm", gpus = 16, global_batch = 64, tp = 1, pp = 2, ep = 4, dp = 8,
    micro_batch = 1, zero = 1, schedule = "1f1b", recompute = "none", top = 1, infeasible = true }
end

-- Values that differ from the defaults where the checker does not tell one, and what else they need.
local VALUES <const> = {
  model = { tperf.model("deepseek-v2-lite"):with { layers = 20 } }, system = { "b200-sxm" }, global_batch = { 128 },
  gpus = { 32, dp = 16 }, dp = { 4, gpus = 8 }, pp = { 4, gpus = 32 }, seq = { 2048 }, rules = { "default" },
  software = { "megatron-core-2024" }, strategy = { "context", cp = 2, gpus = 32 }, attention = { "unfused" },
  precision = { { recipe = "fp8-current", parameters = "narrow" } }, tp = { 2, gpus = 32 },
  tp1 = { 2, tp2 = 1 }, tp2 = { 2, tp1 = 2 },
  cp = { 2, strategy = "context", gpus = 32 }, ulysses = { 2, strategy = "context", cp = 2, gpus = 64, ep = 1,
    model = "llama-3.1-8b" },
  cp_kind = { "ring", strategy = "context", cp = 2, gpus = 32 }, etp = { 2, tp = 2, gpus = 32 }, shard = { 4 },
  panels = { 8, tp1 = 2, tp2 = 2 }, fast = { { dp = 4 } }, schedule = { "zb1p" },
  virtual_stages = { 3, schedule = "interleaved_1f1b" }, recompute_modules = { "mlp", recompute = "selective" },
  recompute_keep = { "core_attn", recompute = "selective" },
  recompute_method = { "block", recompute = "full", recompute_num_layers = 4 },
  recompute_num_layers = { 3, recompute = "full" }, recompute_layers = { 3, recompute = "full" },
  offload_modules = { "core_attn" }, offload_layers = { 2 }, offload_optimizer = { 0.5 },
  offload_params = { true, zero = 3 },
  delay_wgrad = { true, overlap_moe_a2a = true }, overlap_moe_a2a = { true },
  overlap_param_gather_with_optimizer_step = { true, overlap_param_gather = true },
  overlap_param_gather = { false }, overlap_grad_reduce = { false }, bucket_size = { 1e6 },
  cuda_graphs = { "full_iteration" }, pipeline_layout = { { 20, 7 } }, gradients = { "bf16" }, master = { "bf16" },
  moments = { "bf16" }, gradient_reduce = { "all_reduce" }, sequence_parallel = { false, tp = 2, gpus = 32 },
  recompute = { "full" }, ep = { 8 }, first_stage_layers = { 10 }, last_stage_layers = { 10 },
  sharding = { "deepspeed" },
  peft = { { kind = "lora", rank = 8 } }, frozen = { { "embedding" } }, packing = { { mean = 512 } },
  reference = { "precomputed", objective = "dpo" }, rank_order = { "pp-tp-ep-dp" }, reserve = { 0.99 },
  overlap_p2p = { false, schedule = "interleaved_1f1b", virtual_stages = 3 },
  micro_batch = { 2 }, zero = { 3 }, reshard_after_forward = { false, zero = 3 },
  overlap_tp = { "none", tp = 2, gpus = 32 }, imbalance = { 2, ep = 8 }, routing = { "balanced", ep = 8 },
}
local SUMMA <const> = { tp1 = true, tp2 = true, panels = true } -- strategy summa has no experts
-- Where the number of GPUs follows from it, or it from that number.
local GPUS <const> = { gpus = true, dp = true, pp = true, ep = true, cp = true }
-- Another value gives another time or memory, but for these.
local SAME <const> = { rules = "the default's name", placement = "the order of ranks is the fastest here",
  strategy = "its axes say it already", delay_wgrad = "all is hidden here",
  account_for_loss = "27 layers come out as 14 and 13 both ways" }

local function other(row)
  local d = check.describe(row.check)
  if d.kind == "boolean" then return not d.default end
  if d.kind == "one_of" then d = check.describe(d.choices[1]) end
  local usual = row.default or row.usual or d.default
  for _, name in ipairs(d.names or {}) do
    if name ~= usual then return name end
  end
end

-- The base question with a row's other value, or with its default and all that the other value needs.
local function question_of(row, usual)
  local q, value = base(), VALUES[row.name] or { other(row) }
  for name, more in pairs(value) do
    if name ~= 1 then q[name] = more end
  end
  if not usual then q[row.name] = value[1] end
  if SUMMA[row.name] then
    q.model, q.strategy, q.ep, q.tp = "llama-3.1-8b", "summa", nil, nil
    q.gpus = 16 * (q.tp1 or 1) * (q.tp2 or 1)
  end
  return q
end

local function answers(c, again)
  assert.near(c.time, again.time, 1e-9 * c.time)
  for name, bytes in pairs(c.memory) do
    if name ~= "peak" then assert.near(bytes, again.memory[name], 1, name) end
  end
  for _, name in ipairs { "tokens_per_second", "feasible", "precision", "placement", "rank_order", "software" } do
    assert.equal(c[name], again[name], name)
  end
end

describe("an argument of training", function()
  for _, row in ipairs(arguments.rows()) do
    it(row.name .. " survives from a search to tperf.train", function()
      local found = tperf.search(question_of(row))
      local c = assert(found[1], found.reason)
      answers(c, tperf.train { configuration = c })
      if GPUS[row.name] or SAME[row.name] then return end
      local usual = tperf.search(question_of(row, true))[1]
      assert.is_true(not usual or usual.time ~= c.time or usual.memory.total ~= c.memory.total
        or usual.feasible ~= c.feasible, "changes nothing")
    end)
  end

  it("is repeated as it was given, whatever was asked before", function()
    local q = question_of { name = "top", check = check.any() }
    q.gpus, q.infeasible, q.top = nil, nil, nil
    local before = tperf.train(q)
    q.compile = true
    local c = tperf.train(q)
    q.compile = nil
    assert.same({ nil, true, nil }, { before.compile, c.compile, tperf.train(q).compile })
  end)

  it("has an option in the commands, but MODEL", function()
    local set = {}
    for _, option in ipairs(ask.options(arguments.rows(), true)) do set[option.argument or option.long] = option end
    for _, row in ipairs(arguments.rows()) do
      assert.is_true(set[row.name] ~= nil or row.name == "model", row.name)
    end
  end)
end)

describe("tperf.schema", function()
  it("has every argument of a question, with what its checker takes", function()
    local train, search = tperf.schema "train", tperf.schema "search"
    for _, row in ipairs(arguments.rows()) do
      assert.is_string(train.properties[row.name].description)
    end
    assert.same({ "model", "system", "global_batch" }, train.required)
    assert.same({ "none", "selective", "full" }, train.properties.recompute.enum)
    assert.same({ minimum = 0, maximum = 3, type = "integer" }, search.properties.zero.anyOf[2].items)
    assert.equal("integer", tperf.schema("serve").properties.engine.properties.max_num_seqs.type)
    assert.same({ "model", "system", "prompt", "generate" }, tperf.schema("infer").required)
  end)

  it("refuses what is no question", function()
    local done, message = pcall(tperf.schema, "learn")
    assert.is_false(done)
    assert.truthy(message:find("\"learn\" is no question: infer, rl, search, serve, train", 1, true), message)
  end)
end)
