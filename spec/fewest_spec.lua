-- The smallest machine that holds a model, against every smaller number and sums by hand.
local json = require "tperf.input.json"
local program = require "program"
local tperf = require "tperf"

-- The result of tperf.search on a number of GPUs, over everything that tperf.fewest leaves open.
local function searched(model, system, gpus)
  return tperf.search { model = model, system = system, gpus = gpus, global_batch = gpus, micro_batch = 1, top = 1,
    zero = { 1, 2, 3 }, strategy = { "tensor", "context" } }
end

describe("tperf.fewest", function()
  it("finds the first number of GPUs that holds a training run", function()
    for _, case in ipairs { { "llama-2-7b", "rtx-4090" }, { "llama-2-7b", "h100-sxm" }, { "llama-3.1-8b", "l4" } } do
      local model, system = table.unpack(case)
      local answer = tperf.fewest { model = model, system = system }
      local domain, c = tperf.system(system).network.fast.domain, answer.configuration
      assert.is_true(c.feasible)
      assert.equal(answer.gpus, c.gpus)
      assert.equal(searched(model, system, answer.gpus)[1].time, c.time)
      for gpus = 1, answer.gpus - 1 do
        if gpus <= domain or gpus % domain == 0 then
          assert.equal(0, searched(model, system, gpus).feasible, ("%s on %d %s"):format(model, gpus, system))
        end
      end
      assert.is_true(answer.before.gpus < answer.gpus)
      assert.truthy(answer.before.reason:find "too much$", answer.before.reason)
    end
  end)

  it("takes whole domains beyond the first", function()
    local answer = tperf.fewest { model = "kimi-k2", system = "gb200-nvl72" }
    assert.equal(0, answer.gpus % 72)
    assert.equal(answer.gpus - 72, answer.before.gpus)
  end)

  it("respects the options given", function()
    local free = tperf.fewest { model = "llama-2-7b", system = "rtx-4090" }
    local bound = tperf.fewest { model = "llama-2-7b", system = "rtx-4090", zero = 1, recompute = "none", pp = 1 }
    assert.is_true(bound.gpus > free.gpus)
    local c = bound.configuration
    assert.same({ 1, "none", 1 }, { c.zero, c.recompute, c.pp })
  end)

  it("finds the fewest GPUs that serve, against weights and cache by hand", function()
    local model = tperf.model "llama-3.1-70b"
    local answer = tperf.fewest { model = "llama-3.1-70b", system = "h100-sxm", prompt = 4096, generate = 1024,
      batch = 32 }
    -- 2 bytes a parameter; per token and layer, 8 heads of keys and of values, 128 wide; a tenth of memory stays free.
    local bytes = 2 * model:parameters().total + 32 * 5120 * 80 * 2 * 8 * 128 * 2
    assert.is_true(answer.gpus >= bytes / 72e9)
    assert.equal(3, math.ceil(bytes / 72e9))
    local c = answer.configuration
    assert.near(bytes, (c.memory.weights + c.memory.cache) * answer.gpus, 0.1 * bytes)
    assert.equal(32, c.batch)
    assert.equal(1, tperf.fewest { model = "llama-2-7b", system = "h100-sxm", prompt = 128, generate = 8 }.gpus)
  end)

  it("refuses problems that no number of GPUs solves, and unknown arguments", function()
    for message, given in pairs {
      ["tperf.fewest: no split of"] = { model = "llama-2-7b", system = "h100-sxm", tp = 7 },
      ["must be at most the model's context of 4096 tokens"] = { model = "llama-2-7b", system = "h100-sxm",
        prompt = 5000, generate = 8 },
      ["leave out 'gpus': it finds the number of GPUs"] = { model = "llama-2-7b", system = "h100-sxm", gpus = 8 },
      ["'system' is missing"] = { model = "llama-2-7b" },
      ["not even 131072 GPUs hold it"] = { model = "gpt3-175b", system = "h100-sxm", seq = 1 << 26, tp = 1, pp = 1,
        strategy = "tensor" },
      ["unknown field 'zer'"] = { model = "llama-2-7b", system = "h100-sxm", zer = 1 },
      ["needs a table of arguments, got 5"] = 5,
    } do
      local ok, text = pcall(tperf.fewest, given)
      assert.is_false(ok, message)
      assert.truthy(text:find(message, 1, true), text)
      assert.truthy(text:find "^spec/fewest_spec.lua:%d+: ", text)
    end
  end)
end)

describe("tperf memory --fewest", function()
  it("prints the number, the configuration and the reason against fewer", function()
    local result = program.ask "tperf memory llama-2-7b -s rtx-4090 --fewest"
    local gpus = tperf.fewest({ model = "llama-2-7b", system = "rtx-4090" }).gpus
    local expected = "\n%d GPUs: 2[2-5][.%%d]+ GB of 25.25 GB on the fullest\n%d GPUs are too few: none of"
    assert.truthy(result.out:find(expected:format(gpus, gpus - 1)))
    local serving = program.ask "tperf memory llama-2-7b -s rtx-4090 --fewest -p 512 -n 64 -b 4"
    assert.truthy(serving.out:find("max_batch", 1, true) and serving.out:find("\n1 GPU: 14.72 GB", 1, true))
    local row = json.decode(program.ask("tperf memory llama-2-7b -s rtx-4090 --fewest --json").out, "tperf")[1]
    assert.same({ gpus, gpus - 1 }, { row.gpus, row.before.gpus })
    assert.truthy(program.ask("tperf memory llama-2-7b -s rtx-4090 --fewest --csv").out:find "^gpus,")
  end)

  it("refuses options that do not go with it", function()
    for options, message in pairs {
      ["--fewest -g 8"] = "--gpus does not go with --fewest", ["--fewest --dp 8"] = "--dp does not go with --fewest",
      ["-p 512"] = "--prompt needs --fewest", ["--fewest -p 512"] = "--generate is missing",
    } do
      local result = program.ask("tperf memory llama-2-7b -s h100-sxm " .. options)
      assert.same({ 2, "" }, { result.code, result.out })
      assert.truthy(result.err:find("tperf: " .. message, 1, true), result.err)
    end
  end)
end)
