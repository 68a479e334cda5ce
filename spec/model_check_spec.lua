-- tperf.check: what blocks say beside what the description says.
local program = require "program"
local tperf = require "tperf"

local HIDDEN <const>, FFN <const>, LAYERS <const>, VOCAB <const> = 1024, 4096, 12, 32000

local function model_of(blocks, more)
  local m = { name = "m", layers = LAYERS, hidden = HIDDEN, heads = 16, ffn = FFN, seq = 512, vocab = VOCAB,
    biases = false, positions = "rotary", norm = "rmsnorm",
    architecture = tperf.architecture { name = "a", layer = blocks } }
  for name, value in pairs(more or {}) do m[name] = value end
  return tperf.model(m)
end

local mlp = tperf.block("mlp", function(m, p)
  return { p:column { name = "up", n_in = m.hidden, n_out = m.ffn },
    p:row { name = "down", n_in = m.ffn, n_out = m.hidden } }
end)

local function row_of(found, name)
  for _, row in ipairs(found.blocks) do
    if row.block == name then return row end
  end
end

local function warns(found, text)
  for _, warning in ipairs(found.warnings) do
    if warning:find(text, 1, true) then return true end
  end
  return false
end

describe("tperf.check", function()
  for _, name in ipairs { "llama-3.1-8b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3", "nemotron-h-56b", "gpt2",
    "gemma-2-27b", "mamba2-2.7b", "qwen3-next-80b-a3b", "flan-t5-xxl" } do
    it("finds the description's own counts in the blocks of " .. name, function()
      local found = tperf.check(name)
      local counted = tperf.model(name):parameters()
      assert.equal(counted.total + counted.mtp, found.parameters.counted)
      assert.near(1, found.flops_per_token.counted / found.flops_per_token.described, 0.005)
      for _, one in ipairs(found.cache) do assert.near(one.read, one.token, 0.01 * one.token + 1) end
      for _, warning in ipairs(found.warnings) do
        assert.is_nil(warning:find("description", 1, true), warning)
        assert.is_nil(warning:find("cached token", 1, true), warning)
      end
    end)
  end

  -- A layer has 2 products of HIDDEN x FFN weights and no attention; the ends two tables. By hand.
  it("counts what an MLP without attention has, and says what the description adds", function()
    local found = tperf.check(model_of { mlp })
    assert.equal(LAYERS * 2 * HIDDEN * FFN + 2 * VOCAB * HIDDEN + HIDDEN,
      found.parameters.counted)
    assert.equal(2 * HIDDEN * FFN, row_of(found, "mlp").parameters)
    -- A sum of n products takes n - 1 additions.
    assert.equal(FFN * (2 * HIDDEN - 1) + HIDDEN * (2 * FFN - 1), row_of(found, "mlp").flops_per_token)
    assert.is_true(warns(found, "parameters, the description says"))
    assert.is_false(warns(found, "cached token")) -- it reads none, and memory counts none
    assert.is_false(row_of(found, "mlp").reads_context)
  end)

  it("tells how work and weights shrink, and names the axis and the block if they do not", function()
    local whole = tperf.block("whole", function(m, p)
      return { tperf.op.linear { name = "x", tokens = p.micro_batch * p.seq, n_in = m.hidden, n_out = m.hidden } }
    end)
    local found = tperf.check(model_of { mlp, whole })
    local good, bad = row_of(found, "mlp"), row_of(found, "whole")
    assert.near(1 / 8, good.axes.tp.work, 1e-3)
    assert.near(1 / 8, good.axes.tp.weights, 1e-12)
    assert.near(1 / good.axes.cp.gpus, good.axes.cp.work, 1e-12)
    assert.near(1, good.axes.cp.weights, 1e-12)
    assert.equal(1, bad.axes.tp.work)
    assert.is_true(warns(found, "block 'whole' of 'dense/gqa/full' does all of its work on each of 8 GPUs of tp"))
    assert.is_true(warns(found, "block 'whole' of 'dense/gqa/full' does all of its work on each of 4 GPUs of cp"))
    assert.is_false(warns(found, "block 'mlp'"))
  end)

  it("says in which modes a block works, and whether it reads the context", function()
    local picky = tperf.block("picky", function(m, p)
      if p.mode == "prefill" then error "no prompts" end
      local bytes = p.mode == "decode" and 1e3 * p.context or 1e3
      return { tperf.op.custom { name = "x", forward = { bytes = bytes } },
        p:column { name = "c", n_in = m.hidden, n_out = 64 } }
    end)
    local found = tperf.check(model_of { picky })
    local row = row_of(found, "picky")
    assert.is_true(row.train)
    assert.is_true(row.decode)
    assert.truthy(row.prefill:find("no prompts", 1, true))
    assert.is_true(row.reads_context)
    assert.is_true(warns(found, "block 'picky' of 'dense/gqa/full' has no ops in mode 'prefill': no prompts"))
    assert.near(1e3, found.cache[1].read, 1e-9)
  end)

  it("lists kinds of layers", function()
    local groups = { { count = 4, key = "a", blocks = { mlp } }, { count = 4, key = "b", blocks = { mlp, mlp } },
      { count = 4, key = "a", blocks = { mlp } } }
    local found = tperf.check(model_of({ mlp }, { architecture = tperf.architecture { name = "g", groups = groups } }))
    assert.same({ { key = "a", layers = 8 }, { key = "b", layers = 4 } }, found.kinds)
  end)

  it("is printed by tperf params --check", function()
    local result = program.ask "tperf params llama-3.1-8b --check"
    assert.equal(0, result.code, result.err)
    assert.truthy(result.out:find("8030261248%s+8030261248"), result.out)
    assert.truthy(result.out:find("work at tp 8", 1, true))
  end)
end)
