-- What speculation costs: passes of what drafts, verification of all drafts, memory. Bounds are of bytes over the
-- bandwidth of an H100, 3.35 TB/s: Llama 3.1 8B has 218.1 million parameters a layer and 128,256 x 4,096 in its head.
local program = require "program"
local tperf = require "tperf"

local BANDWIDTH <const> = 3.35e12
local HEAD <const>, LAYER <const> = 2 * 128256 * 4096 / BANDWIDTH, 2 * 218.1e6 / BANDWIDTH -- s
local LAYERS <const> = 32

local function ask(method, tokens, acceptance, more)
  local q = { model = "llama-3.1-8b", system = "h100-sxm", load = { concurrency = 1 }, count = 8, prompt = 128,
    output = 256 }
  q.engine = method and { speculation = { method = method, tokens = tokens, acceptance = acceptance } } or nil
  for name, value in pairs(more or {}) do
    if name == "part" then q.engine.speculation.part = value else q[name] = value end
  end
  return tperf.serve(q)
end

local function warned(r, text)
  for _, warning in ipairs(r.warnings or {}) do
    if warning:find(text, 1, true) then return true end
  end
  return false
end

describe("drafts", function()
  it("take a pass through a layer and the head each", function()
    -- Without accepted drafts each step gives a token. 4 and 7 drafts are verified in graphs of the same size, 8.
    local three = ask("eagle", 7, 0).tpot.mean - ask("eagle", 4, 0).tpot.mean
    assert.truthy(three > 3 * (HEAD + LAYER) and three < 3 * 2 * (HEAD + LAYER), three)
    -- A draft model as large as the model takes all layers.
    local whole = ask("draft_model", 1, 0, { part = 1 }).tpot.mean - ask("ngram", 1, 0).tpot.mean
    assert.truthy(whole > HEAD + LAYERS * LAYER and whole < 1.6 * (HEAD + LAYERS * LAYER), whole)
  end)

  it("of n-grams take none, but are verified", function()
    local none, one, many = ask().tpot.mean, ask("ngram", 1, 0).tpot.mean, ask("ngram", 7, 0).tpot.mean
    assert.truthy(one >= none and many >= one and many < 1.2 * none)
  end)

  it("have an optimum: of 2, 4 and 7 drafts 2 are the fastest, and all are faster than none", function()
    -- Measured on an H100 with vLLM 0.8 (its pull request 16937): 133 tokens/s, 202, 198 and 170.
    local rates = { ask(nil, nil, nil, { software = "vllm-0.11" }).throughput }
    for i, k in ipairs { { 2, 0.568 }, { 4, 0.542 }, { 7, 0.527 } } do
      rates[i + 1] = ask("eagle", k[1], k[2], { software = "vllm-0.11" }).throughput
    end
    assert.truthy(rates[2] > rates[3] and rates[3] > rates[4] and rates[4] > rates[1], table.concat(rates, " "))
    -- and 32 are slower than none, as on an A100
    assert.truthy(ask("eagle", 32, 0.5, { software = "vllm-0.11" }).throughput < rates[1])
  end)

  it("take memory: of weights, and of every token's keys and values", function()
    local none, eagle, ngram = ask(), ask("eagle", 2, 0.5), ask("ngram", 2, 0.5)
    assert.equal(none.num_blocks, ngram.num_blocks)
    assert.near(1 + 1 / LAYERS, eagle.memory.weights / none.memory.weights, 1e-9)
    local room = none.memory.cache - (eagle.memory.weights - none.memory.weights)
    assert.near(room / (1 + 1 / LAYERS) / none.memory.cache, eagle.num_blocks / none.num_blocks, 1e-3)
  end)

  it("are said in every answer, with what is assumed of them", function()
    assert.is_true(warned(ask("eagle", 3, 0.7), "3 drafts a step take as many passes through 0.0312 of the model's"))
    assert.is_true(warned(ask("ngram", 3, 0.7), "3 drafts a step are looked up at no cost"))
    assert.is_true(warned(ask("draft_model", 3, 0.7), "passes through 0.1 of the model's layers"))
    local line = tperf.serve { step_time = { fixed = 1e-3 }, load = { concurrency = 1 }, count = 4, prompt = 4,
      output = 8, engine = { speculation = { method = "eagle", tokens = 2, acceptance = 0.5 } } }
    assert.is_true(warned(line, "2 drafts a step take no time of their own beside 'step_time'"))
    local q = { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, output = 100, rate = 5, tp = 1,
      max_num_seqs = 256, max_num_batched_tokens = 2048,
      engine = { speculation = { method = "eagle", tokens = 2, acceptance = 0.7 } } }
    assert.is_true(warned(tperf.search_serving(q), "speculation: 2 drafts"))
    local run = program.shell("tperf serve llama-3.1-8b -s h100-sxm --prompt 100 --output 100 --rate 2 --count 200 "
      .. "--speculation eagle:3 --acceptance 0.7")
    assert.matches("tperf: speculation: 3 drafts", run.err)
  end)

  it("is searched in neither method nor number", function()
    for name, value in pairs { tokens = { 1, 2, 4 }, method = { "eagle", "ngram" } } do
      local engine = { speculation = { method = "eagle", tokens = 2, acceptance = 0.7 } }
      engine.speculation[name] = value
      local ok, message = pcall(tperf.search_serving, { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100,
        output = 100, rate = 5, engine = engine })
      assert.is_false(ok)
      assert.matches("engine.speculation." .. name, message, 1, true)
    end
  end)
end)

