-- Which models a machine trains and serves, against the questions themselves at the lengths on both sides.
local fits = require "tperf.question.fits"
local json = require "tperf.input.json"
local program = require "program"
local tperf = require "tperf"

local function row_of(model, gpus, seq)
  return fits.run { system = "rtx-4090", models = { model }, gpus = gpus, seq = seq }[1]
end

describe("what fits", function()
  it("is the longest sequence with which training fits, and not the next", function()
    local adapters = { kind = "qlora", rank = 16, targets = "all-linear" }
    for _, gpus in ipairs { 1, 2 } do
      local seq = row_of("llama-3.1-8b", gpus).qlora
      assert.truthy(seq >= 2048 and seq < 131072)
      for _, length in ipairs { seq, 2 * seq } do
        local c = tperf.train { model = "llama-3.1-8b", system = "rtx-4090", global_batch = gpus, dp = gpus,
          zero = gpus > 1 and 3 or nil, seq = length, recompute = "full", peft = adapters }
        assert.equal(length == seq, c.feasible)
      end
    end
  end)

  it("is the longest context of one request", function()
    local row = row_of "qwen2.5-14b"
    assert.is_false(row.full) -- 14.8 billion parameters of 16 bytes
    assert.is_false(row.serve16) -- of two bytes
    for _, length in ipairs { row.serve4, 2 * row.serve4 } do
      local fitting, why = pcall(tperf.infer, { model = "qwen2.5-14b", system = "rtx-4090", batch = 1,
        prompt = length - 2, generate = 2, weight_dtype = "int4" })
      assert.equal(length == row.serve4, fitting)
      assert.truthy(fitting or why:find "does not fit")
    end
  end)

  it("tells models that do not fit from those that are not asked so", function()
    local row = row_of "t5-11b"
    assert.is_nil(row.serve4)
    assert.is_false(row.full)
    assert.is_false(row_of("llama-3.1-405b").serve4)
    assert.equal(3000, row_of("llama-3.1-8b", 1, 3000).qlora)
  end)

  it("is a table, with the length of doubtful ones marked, and JSON", function()
    local out = program.ask("tperf fits llama-3.1-8b t5-11b -s rtx-4090").out
    assert.truthy(out:find "\nllama%-3%.1%-8b +8%.03B +[%dk? ]+\n")
    assert.truthy(out:find "\nt5%-11b +11%.3B +[%dk? ]+ +%-  +%-  +%-\n")
    local rows = json.decode(program.ask("tperf fits llama-3.1-8b -s rtx-4090 --json").out)
    assert.equal(row_of("llama-3.1-8b").qlora, rows[1].qlora)
    assert.equal(2, program.ask("tperf fits llama-3.1-8b").code)
  end)
end)
