-- Several strategies in one question: searches try all of them, other questions refuse a list by name.
local program = require "program"
local tperf = require "tperf"

local MODEL, SYSTEM = tperf.model "llama-3.1-8b", tperf.system "h100-sxm"

local function with(changes, more)
  local q = { model = MODEL, system = SYSTEM }
  for _, list in ipairs { changes, more or {} } do
    for name, value in pairs(list) do q[name] = value end
  end
  return q
end

local function refusal(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return tostring(message)
end

local function contains(text, part) assert.truthy(text:find(part, 1, true), text) end

describe("a search of ways to serve", function()
  local function found(changes)
    return tperf.search_inference(with({ gpus = 8, prompt = 512, generate = 64, batch = { 1, 16 }, top = 1 << 20 },
      changes))
  end

  it("tries the ways of each strategy of a list, or of all that serve", function()
    local apart = {}
    for _, name in ipairs { "tensor", "context", "stationary" } do apart[name] = found { strategy = name } end
    for _, list in ipairs { { "tensor", "context" }, { "context", "tensor" }, { "tensor" }, "all", { "all" } } do
      local names = (list == "all" or list[1] == "all") and { "tensor", "context", "stationary" } or list
      local together, candidates, least, ways = found { strategy = list }, 0, math.huge, {}
      for _, r in ipairs(together) do ways[r.strategy] = (ways[r.strategy] or 0) + 1 end
      for _, name in ipairs(names) do
        candidates = candidates + apart[name].candidates
        least = math.min(least, -apart[name][1].tokens_per_second_per_gpu)
        assert.equal(#apart[name], ways[name])
      end
      assert.equal(candidates, together.candidates)
      assert.equal(-least, together[1].tokens_per_second_per_gpu) -- no worse than the best of either
      for i = 2, #together do
        assert.is_true(together[i - 1].tokens_per_second_per_gpu >= together[i].tokens_per_second_per_gpu)
      end
    end
  end)

  it("leaves out strategies that lack an axis that is given", function()
    for _, r in ipairs(found { strategy = { "tensor", "context" }, cp = 2, cp_kind = "all_gather" }) do
      assert.same({ "context", 2 }, { r.strategy, r.cp })
    end
    contains(refusal(found, { strategy = { "tensor" }, cp = 2 }), "'cp' is an axis of strategy context, not of tensor")
  end)

  it("says why there are none, for all of them", function()
    contains(found { strategy = { "tensor", "context" }, tp = 3 }.reason, "no sizes of tp")
  end)

  it("is asked so on the command line", function()
    local words = "tperf infer llama-3.1-8b -s h100-sxm -p 512 -n 64 -b 1,16 --csv --strategy tensor,context "
    local rows = program.ask(words .. "-g 8 -k 9999").out
    assert.truthy(rows:find ",context," and rows:find ",tensor,", rows)
    local refused = program.ask(words)
    assert.equal(1, refused.code)
    contains(refused.err, "--strategy must be one strategy, got a list of 2")
  end)
end)

describe("a search of deployments", function()
  it("tries those of each strategy of a list", function()
    local function found(list)
      return tperf.search_serving(with { gpus = 4, rate = 8, prompt = 256, output = 32, count = 100,
        max_num_seqs = 64, slo = { ttft = 1 }, strategy = list, tp = { 1, 2 }, top = 99 })
    end
    local tensor, context = found "tensor", found "context"
    local both = found { "tensor", "context" }
    assert.equal(tensor.candidates + context.candidates, both.candidates)
    assert.equal(math.min(tensor[1].gpus, context[1].gpus), both[1].gpus)
  end)
end)

describe("a question about one strategy", function()
  local ASK <const> = {
    train = with { tp = 8, global_batch = 64 }, infer = with { tp = 8, prompt = 100, generate = 10 },
    layer = with { tp = 8 }, serve = with { tp = 8, prompt = 100, output = 10, count = 10, load = { rate = 1 } },
    saturation = with { tp = 8, prompt = 100, output = 10, slo = { ttft = 1 } },
  }

  it("takes a list of one, and refuses others by name", function()
    for name, q in pairs(ASK) do
      assert.truthy(tperf[name](with(q, { strategy = { "tensor" } })))
      for list, part in pairs { [{ "tensor", "context" }] = "a list of 2", all = '"all"', [{}] = "a list of 0" } do
        contains(refusal(tperf[name], with(q, { strategy = list })), "'strategy' must be one strategy, got " .. part)
      end
    end
  end)

  it("has no lists among the types of its argument", function()
    local meta = program.slurp "meta/tperf.lua"
    local many = { search = true, search_inference = true, search_serving = true }
    local seen = 0
    for name, fields in meta:gmatch "%-%-%-@class tperf%.([%w_]+)%.request(.-)\n\n" do
      local kind = fields:match "%-%-%-@field strategy%? (%S+)"
      if kind then
        assert.equal(many[name] and "string|string[]|table" or "string|table", kind, name)
        seen = seen + 1
      end
    end
    assert.equal(7, seen)
  end)
end)

describe("a list of numbers", function()
  local function gpus(text)
    return program.ask(("tperf search gpt2 -s h100-sxm -b 64 --software none --csv -k 1 -g '%s'"):format(text))
  end

  it("is not one number whose commas separate thousands", function()
    for text, remedy in pairs {
      ["1,024"] = "write 1024", ["1,000,000"] = "write 1000000", ["10,000"] = "write 10000",
      ["1,152"] = "write 1152, or '1, 152' for the list", ["8,192"] = "write 8192, or '8, 192' for the list",
      ["72,144"] = "write 72144, or '72, 144' for the list",
    } do
      local result = gpus(text)
      assert.same({ "", 2 }, { result.out, result.code })
      contains(result.err, ("--gpus: '%s' may be one number; %s\n"):format(text, remedy))
    end
    for _, option in ipairs { "--tp", "--pp", "--micro-batch" } do
      contains(program.ask("tperf search gpt2 -s h100-sxm -b 64 -g 8 " .. option .. " 1,024").err, "may be one number")
    end
  end)

  it("is one where it cannot be a number, or has spaces", function()
    for text, count in pairs { ["8,16"] = 2, ["8,128"] = 2, ["64,128,256"] = 3, ["8, 24"] = 2, ["8, 192"] = 2,
      ["8..64"] = 4, ["1024"] = 1 } do
      local _, lines = gpus(text).out:gsub("\n", "")
      assert.equal(count + 1, lines, text)
    end
  end)
end)
