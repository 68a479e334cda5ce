local program = require "program"
local tperf = require "tperf"

describe("tperf.cost", function()
  local row = { gpus = 1000, tokens_per_second = 1e6 }

  it("follows from the throughput", function()
    local cost = tperf.cost(row, { tokens = 86400e6, price = 2, power = 500 })
    assert.same({ tokens = 86400e6, seconds = 86400, days = 1, gpu_hours = 24000, dollars = 48000, energy = 43.2e9 },
      cost)
  end)

  it("takes tokens from the model, power and price from the system, if it has one", function()
    local cost = tperf.cost(row, { model = "subramanian2024/gpt3_1T", system = "h800-sxm" })
    assert.equal(1e12, cost.tokens)
    assert.equal(700 * 1000 * 1e6, cost.energy)
    assert.is_nil(cost.dollars)
    local price = tperf.system "h100-sxm".price
    assert.truthy(price.source:find "InferenceMAX, cost page %(October 2025%)")
    assert.near(1.3 * 1000 * 1e6 / 3600, tperf.cost(row, { tokens = 1e12, system = "h100-sxm" }).dollars, 1)
    assert.near(2 * 1000 * 1e6 / 3600, tperf.cost(row, { tokens = 1e12, system = "h100-sxm", price = 2 }).dollars, 1)
  end)

  it("is told with the price that it takes from the system", function()
    local train <const> = "tperf train llama-3.1-8b -s %s -g 8 -b 8 --zero 3 --tokens 1e9 %s"
    local says = "tperf: h100-sxm: 1.3 dollars a GPU-hour: InferenceMAX, cost page (October 2025)"
    assert.truthy(program.ask(train:format("h100-sxm", "")).err:find(says, 1, true))
    for _, other in ipairs { { "h100-sxm", "--gpu-hour 2" }, { "h800-sxm", "" }, { "h100-sxm", "--csv" } } do
      assert.is_nil(program.ask(train:format(table.unpack(other))).err:find("a GPU-hour", 1, true), other[2])
    end
    assert.truthy(program.ask("tperf infer llama-3.1-8b -s h100-sxm -p 1000 -n 100").err:find(says, 1, true))
  end)

  it("is empty for a row that does not fit, and refuses other invalid rows with the reason", function()
    assert.same({}, tperf.cost({ gpus = 8, reason = "does not fit" }, { tokens = 1 }))
    local taken, why = pcall(tperf.cost, { { gpus = 8, tokens_per_second = 1 } }, { tokens = 1 })
    assert.is_false(taken)
    assert.truthy(why:find("one configuration, such as found[1]", 1, true))
    for pattern, call in pairs {
      ["how many tokens%?"] = function() tperf.cost(row, { model = "llama-2-7b" }) end,
      ["unknown field 'token'"] = function() tperf.cost(row, { token = 5 }) end,
      ["'tokens' must be"] = function() tperf.cost(row, { tokens = 0 / 0 }) end,
      ["needs a configuration, got 5"] = function() tperf.cost(5, { tokens = 5 }) end,
    } do
      local ok, message = pcall(call)
      assert.is_false(ok)
      assert.truthy(message:find("^spec/cost_spec.lua:%d+: ") and message:find(pattern), message)
    end
  end)
end)

describe("tperf.args", function()
  local function run(declaration, arguments)
    local result = program.script("local o = require 'tperf'.args { summary = 'a test', " .. declaration .. [[ }
      for _, name in ipairs { "gpus", "batch", "deep", "size", "model" } do
        local v = o[name]
        print(name, type(v) == "table" and table.concat(v, " ") or v)
      end]], "", "true")
    local again = program.shell("tperf run script.lua " .. arguments, result.folder)
    program.remove(result.folder)
    return again
  end

  it("reads values and defaults", function()
    local own = 'gpus = "4..32", batch = 8, model = false, { long = "deep", help = "x" }, '
      .. '{ long = "size", value = "B", kind = "bytes", default = 5, help = "x" }'
    assert.equal("gpus\t4 8 16 32\nbatch\t8\ndeep\tnil\nsize\t5\nmodel\tnil\n", run(own, "").out)
    assert.equal("gpus\t3 6\nbatch\t9\ndeep\ttrue\nsize\t" .. 2 ^ 30 .. "\nmodel\tm\n",
      run(own, "--gpus 3..8 --batch=9 --deep --size 1GiB --model m").out)
    assert.truthy(run(own, "--help").out:find("numbers of GPUs; 4..64 is 4,8,16,32,64 (default 4..32)", 1, true))
  end)

  it("refuses unknown options and invalid values", function()
    local function refuses(declaration, arguments, message, code)
      local result = run(declaration, arguments)
      assert.same({ code or 2, "" }, { result.code, result.out })
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
    refuses("batch = 8", "--batch x", "--batch: an integer is needed, got 'x'")
    refuses("batch = 8", "--batch=-4", "--batch: an integer of at least 1 is needed, got '-4'")
    refuses('{ long = "size", value = "N", kind = "integer", min = 2, default = 5, help = "x" }', "--size 1",
      "--size: an integer of at least 2 is needed, got '1'")
    refuses("batch = 8", "--btach 4", "unknown option '--btach' (did you mean '--batch'?)")
    refuses("batch = 8", "8", "unexpected argument '8'")
    for _, text in ipairs { "4..", "0", "8..4", "x", "4,,8", "1e99", "-4" } do
      refuses('gpus = "4"', "--gpus=" .. text, "integers such as 4,8 or 4..64 are needed")
    end
    refuses("bacth = 8", "", "no standard option 'bacth' (did you mean 'batch'?)", 1)
    refuses('gpus = "x"', "", "the default of --gpus: integers such as", 1)
    refuses('{ long = "deep" }', "", "option 1: 'help' is missing", 1)
  end)
end)
