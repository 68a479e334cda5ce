-- Lists of names come from the core's tables, and the pages that spell them out name them all.
local core = require "tperf.core"
local program = require "program"
local schedulers = require "tperf.describe.schedulers"
local tperf = require "tperf"

describe("the table of", function()
  it("algorithms has each name once, and docs/model.md says them all", function()
    local seen, page = {}, program.slurp "docs/model.md"
    local list = page:match "the `algorithm` of its price: (.-)%.\n"
    for _, name in ipairs(core.algorithms) do
      assert.is_nil(seen[name])
      seen[name] = true
      assert.truthy(list:find(name, 1, true), name)
    end
    assert.is_true(seen.ring and seen["two-shot"] and seen.send)
  end)

  it("schedulers is what profiles and tperf.serve take, and docs/serving.md says them all", function()
    local page = program.slurp "docs/serving.md"
    assert.equal("vllm", schedulers.names[1])
    for _, name in ipairs(schedulers.names) do
      assert.truthy(page:find(('`"%s"`'):format(name), 1, true), name)
      local r = tperf.serve { step_time = { fixed = 1e-3 }, load = { rate = 10 }, count = 20, prompt = 8, output = 4,
        engine = { scheduler = name } }
      assert.equal(20, r.finished)
    end
  end)

  it("curves is what a system's file takes", function()
    local h100 = tperf.system "h100-sxm"
    for _, row in ipairs(core.curves) do
      if row.by_dtype then
        local ok, message = pcall(h100.with, h100, { accelerator = { compute_efficiency = { [row.name] = {
          bf16 = { [row.numbers[1].name] = "fast" } } } } })
        assert.is_false(ok)
        assert.truthy(tostring(message):find(("compute_efficiency.%s.bf16"):format(row.name), 1, true), message)
      end
    end
  end)
end)
