-- Impossible questions are refused by name with the nearest possible one, and do not hide possible ones.
local program = require "program"
local tperf = require "tperf"
local json = require "tperf.input.config" and require "tperf.core".yaml

local function shell(command) return program.ask(command) end

local function says(command, message, code)
  local result = shell(command)
  assert.truthy(result.err:find(message, 1, true), command .. ": " .. result.err)
  assert.equal(code or 1, result.code)
  return result
end

local function refuses(message, f, ...)
  local ok, got = pcall(f, ...)
  assert.is_false(ok, message)
  assert.truthy(got:find(message, 1, true), got)
  assert.truthy(got:find "^spec/refusal_spec.lua:%d+: ", got)
end

describe("an option with a dimension", function()
  local SERVE = "tperf infer llama-3.1-8b -s h100-sxm -g 2 -p 128 -n 16 "

  it("needs its unit if a bare number is ambiguous", function()
    for _, option in ipairs { "--tpot", "--ttft" } do
      for _, number in ipairs { "20", "0.5", "1e-3", "-3" } do
        local text = ("%s: a unit is needed, got '%s'; write '%sms' or '%ss'"):format(option, number, number, number)
        says(SERVE .. option .. "=" .. number, text, 2)
      end
    end
    assert.equal(0, shell(SERVE .. "--tpot 20ms --ttft 2s").code)
    says("tperf run scripts/inference_pareto.lua --tpot 20", "--tpot: a unit is needed, got '20'", 2)
    assert.equal(0, shell("tperf collective send -s h100-sxm -g 2 -n 1048576").code) -- bytes are a count
    local asked = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 2, prompt = 128, generate = 16, tpot = "20" }
    refuses("'tpot': a unit is needed, got '20'; write '20ms' or '20s'", tperf.search_inference, asked)
    asked.tpot = "20 ms"
    local found = tperf.search_inference(asked)
    asked.tpot = 0.02 -- a number is in seconds, as everywhere
    assert.equal(#found, #tperf.search_inference(asked))
    assert.truthy(#found > 0)
  end)
end)

describe("a model's heads", function()
  local function model(changes)
    local description = { name = "m", layers = 2, hidden = 1000, heads = 10, seq = 128 }
    for name, value in pairs(changes) do description[name] = value end
    return tperf.model(description)
  end

  it("divide its width, unless their size is given", function()
    refuses("m: 'heads' (7) does not divide 'hidden' (1000): try 5 or 8, or give 'head_dim'", model, { heads = 7 })
    refuses("tperf.model:with: m: 'heads' (7) does not divide", function() model {}:with { heads = 7 } end)
    assert.equal(128, model { heads = 7, head_dim = 128 }.head_dim)
  end)
end)

describe("a sweep", function()
  local ASKED = { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 8, progress = false }

  local function sweep(changes)
    local asked = {}
    for _, from in ipairs { ASKED, changes } do
      for name, value in pairs(from) do asked[name] = value end
    end
    return tperf.sweep(asked)
  end

  it("shows refused points as rows with a reason", function()
    local rows = sweep { run = tperf.train, tp = tperf.vary { 2, 3, 8, 64 }, pp = 2 }
    assert.equal(4, #rows)
    assert.equal(tperf.train { model = "llama-3.1-8b", system = "h100-sxm", global_batch = 8, tp = 8, pp = 2 }.time,
      rows[3].time)
    for i, reason in pairs { [2] = "tp = 3 does not divide the 32 heads; try 2 or 4",
      [4] = "tp = 64 does not divide the 32 heads; try 32" } do
      assert.same({ reason, false }, { rows[i].reason, rows[i].feasible })
      assert.is_nil(rows[i].time)
      assert.is_nil(rows[i].result)
    end
  end)

  it("shows them for custom functions, searches and a model's fields, too", function()
    local function seconds(asked) return { seconds = tperf.train(asked).time } end
    local own = sweep { tp = tperf.vary { 1, 3 }, run = seconds }
    assert.truthy(own[1].seconds > 0)
    assert.equal("tp = 3 does not divide the 32 heads; try 2 or 4", own[2].reason)
    local rows = sweep { gpus = 8, ["model.heads"] = tperf.vary { 32, 24 }, ["model.kv_heads"] = tperf.vary { 8, 7 } }
    for i = 1, 4 do assert.equal(i == 1, rows[i].feasible) end
    assert.equal("llama-3.1-8b: 'kv_heads' (7) must divide 'heads' (32)", rows[2].reason)
    assert.same({ 0, 0 }, { rows[2].candidates, rows[2].fitting })
    local axes = sweep { gpus = 8, strategy = tperf.vary { "tensor", "context" }, cp = 2 }
    assert.equal("'cp' is an axis of strategy context, not of tensor", axes[1].reason)
    assert.truthy(axes[2].time > 0)
    local sizes = tperf.sweep {
      run = tperf.collective, system = "h100-sxm", kind = "all_reduce", bytes = 1e6, gpus = 16,
      fast = tperf.vary { 3, 8 }, progress = false,
    }
    assert.truthy(sizes[1].reason:find "fast = 3 does not divide the group of 16 GPUs")
    assert.truthy(sizes[2].time > 0)
  end)

  it("fails if all are refused, or if an argument is invalid", function()
    refuses("tperf.sweep: none of 2 points is possible; the first: tp = 3 does not", sweep,
      { run = tperf.train, tp = tperf.vary { 3, 5 } })
    refuses("tperf.train: unknown field 'globl_batch'", sweep, { run = tperf.train, globl_batch = tperf.vary { 1, 2 } })
    refuses("'tp' must be an integer", sweep, { run = tperf.train, tp = tperf.vary { 1, "two" } })
    refuses("mine", sweep, { tp = tperf.vary { 1, 2 }, run = function() error "mine" end })
  end)

  it("keeps no refused point in a cache", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for _, row in ipairs(tperf.sweep { run = tperf.train, model = "llama-3.1-8b", system = "h100-sxm",
        global_batch = 8, tp = tperf.vary { 1, 3 }, cache = "points.db" }) do print(row.time, row.reason) end]])
    local first = program.shell("tperf run s.lua", folder)
    assert.truthy(first.out:find "nil\ttp = 3 does not divide the 32 heads", first.err)
    assert.equal(first.out, program.shell("tperf run s.lua", folder).out)
    program.remove(folder)
  end)
end)

describe("tperf infer", function()
  local PROMPT = "tperf infer llama-3.1-70b -p 2048 -n 256 "
  local SERVE = PROMPT .. "-s h100-sxm "

  it("shows the points that fit beside those that do not, each with its reason", function()
    local result = shell(SERVE .. "-b 64 --tp 2,3,8")
    assert.equal(0, result.code)
    assert.truthy(result.out:find("\n 8   1   1     64 +621 "), result.out)
    assert.truthy(result.out:find("\ntp 2: 'batch' = 64 does not fit: it needs ", 1, true), result.out)
    assert.truthy(result.out:find("\ntp 3: 'tp' = 3 does not divide the 64 heads; try 2 or 4\n", 1, true))
    local rows = json(shell(SERVE .. "-b 64 --tp 2,3,8 --json").out, "json")
    assert.same({ false, false, true }, { rows[1].feasible, rows[2].feasible, rows[3].feasible })
    assert.equal("'tp' = 3 does not divide the 64 heads; try 2 or 4", rows[2].reason)
    assert.truthy(shell(SERVE .. "-b 64 --tp 2,8 --csv").out:find "^[^\n]*,reason\n2,[^\n]*does not fit")
    local none = shell(SERVE .. "-b 64 --tp 2,3 --csv")
    assert.same({ 1, "tperf: none of 2 combinations has figures; each row says why\n" }, { none.code, none.err })
    assert.truthy(none.out:find "\n3,[^\n]*does not divide the 64 heads")
  end)

  it("leaves out figures that do not apply", function()
    local folder = program.folder()
    local text = program.slurp "systems/h100-sxm.yaml"
    local bare, count = text:gsub("\n +power:[^\n]*", ""):gsub("\nprice:.*", "\n")
    assert.truthy(#bare < #text, count)
    program.write(folder .. "/bare.yaml", bare)
    local result = shell(PROMPT .. "--tp 8 -s " .. folder .. "/bare.yaml")
    assert.same({ 0, ('tperf: uses "%s/bare.yaml", which tperf does not ship\n'):format(folder) },
      { result.code, result.err })
    assert.falsy(result.out:find("energy", 1, true))
    assert.truthy(result.out:find("cache_sequence", 1, true))
    local prompt = shell "tperf infer llama-3.1-70b -s h100-sxm -p 2048 -n 1 --tp 8"
    assert.equal(0, prompt.code)
    assert.matches("^tperf: h100%-sxm: 1%.3 dollars a GPU%-hour: [^\n]+\n$", prompt.err)
    assert.falsy(prompt.out:find("step", 1, true))
    program.remove(folder)
  end)
end)

describe("tperf schedule", function()
  it("compares the schedules that allow the sizes, with reasons for the others", function()
    local result = shell "tperf schedule 1f1b dualpipe gpipe -d 3 -m 8"
    assert.equal(0, result.code)
    assert.truthy(result.out:find "\n1f1b +3 .*\ngpipe +3 .*\n\ndualpipe needs an even number of devices, not 3\n$")
    local rows = json(shell("tperf schedule 1f1b dualpipe gpipe -d 3 -m 8 --json").out, "json")
    assert.same({ "1f1b", "gpipe", "dualpipe" }, { rows[1].schedule, rows[2].schedule, rows[3].schedule })
    assert.equal("dualpipe needs an even number of devices, not 3", rows[3].reason)
    says("tperf schedule dualpipe dualpipe_v -d 3 -m 7", "dualpipe needs an even number of")
  end)
end)

describe("a message", function()
  local function train(changes)
    local asked = { model = "gpt3-175b", system = "h100-sxm", global_batch = 1536 }
    for name, value in pairs(changes) do asked[name] = value end
    return tperf.train(asked)
  end

  it("about a pipeline names the excess and the limit", function()
    local chunks = "schedule 'interleaved_1f1b' puts 8 chunks of layers on each of pp = 16 devices, 128 in all, more "
      .. "than the model's 96 layers; 'virtual_stages' up to 6 fits"
    refuses(chunks, train, { pp = 16, schedule = "interleaved_1f1b", virtual_stages = 8 })
    assert.truthy(train { pp = 16, schedule = "interleaved_1f1b", virtual_stages = 6 }.time > 0)
    refuses("96 layers; pp up to 48 fits", train, { pp = 96, schedule = "interleaved_1f1b" })
    refuses("pp = 200 is more than the model's 96 layers", train, { pp = 200 })
    assert.equal(7, train { pp = 7 }.pp)
    refuses("pp = 7 does not divide the model's 96 layers, as the rules 'subramanian2024' demand; try 6 or 8", train,
      { pp = 7, rules = "subramanian2024" })
  end)

  it("about too few micro-batches names the least number", function()
    refuses("dualpipe on 8 devices needs at least 14 micro-batches, not 12", train,
      { pp = 8, tp = 8, dp = 16, micro_batch = 2, schedule = "dualpipe", global_batch = 384 })
    refuses("micro-batches in multiples of 4 and groups of 4 avoid it", train,
      { pp = 4, tp = 8, micro_batch = 2, schedule = "interleaved_1f1b", virtual_stages = 4, global_batch = 10 })
  end)

  it("about a placement says that a domain is too small, whatever the software", function()
    for _, software in ipairs { "typical", "none" } do
      refuses("dp = 4, tp = 4 in a fast domain of 8", train,
        { tp = 4, dp = 4, fast = { tp = 4, dp = 4 }, software = software })
    end
  end)

  it("about a size names the nearest ones that are admitted", function()
    refuses("tp = 7 does not divide the 96 heads; try 6 or 8", train, { tp = 7 })
    refuses("tp = 6 neither divides the 8 key and value heads nor is divided by them; try 4 or 8", train,
      { tp = 6, model = tperf.model "llama-3.1-8b":with { hidden = 3072, heads = 24 } })
    refuses("dp = 7 does not divide 'global_batch' of 1536; try 6 or 8", train, { dp = 7 })
    refuses("ep = 3 does not divide the 8 experts; try 2 or 4", train, { model = "mixtral-8x7b", ep = 3, dp = 3 })
    local found = tperf.search { model = "gpt3-175b", system = "h100-sxm", gpus = 64, global_batch = 64, tp = 64 }
    assert.truthy(found.reason:find("tp = 64 does not divide the 96 heads; try 32", 1, true), found.reason)
    found = tperf.search { model = "gpt3-175b", system = "h100-sxm", gpus = 64, global_batch = 64, tp = 3 }
    assert.truthy(found.reason:find("tp = 3 does not divide 64; try 2 or 4", 1, true), found.reason)
  end)

  it("about an unknown option suggests equivalents", function()
    for given, meant in pairs {
      ["--tensor"] = "'--strategy' or '--tp' or", ["--tensor-model-parallel-size"] = "'--tp' or",
      ["--pipeline-model-parallel-size"] = "'--sequence-parallel' or '--pp'", ["--global-batch-size"] = "'--batch'",
      ["--num-gpus"] = "'--gpus'?",
      ["--expert-parallel"] = "'--ep'", ["-tp"] = "'--tp'?", ["--seq-length"] = "'--seq'?",
    } do
      says("tperf train gpt2 " .. given .. " 2", ("unknown option '%s' (did you mean %s"):format(given, meant), 2)
    end
    says("tperf train --model gpt2", "there is no option '--model': MODEL is an argument of its own", 2)
  end)

  it("about an unknown function names the nearest", function()
    refuses("tperf has no 'serch' (did you mean 'search'?)", function() tperf.serch {} end)
    refuses("tperf.plot has no 'scater' (did you mean 'scatter'?)", function() tperf.plot.scater {} end)
    refuses("tperf.op has no 'liner' (did you mean 'linear'?)", function() tperf.op.liner {} end)
    assert.is_nil(tperf[1])
  end)

  it("about a file has no usage text", function()
    for _, command in ipairs { "search -g 8", "train", "memory" } do
      local name, rest = command:match "^(%w+)(.*)$"
      local result = says(("tperf %s nosuch.json -s h100-sxm -b 8%s"):format(name, rest), 'cannot open "nosuch.json"')
      assert.falsy(result.err:find("--seq", 1, true))
      assert.truthy(shell(("tperf %s spec/data/hf/gpt2.json -s h100-sxm -b 8%s"):format(name, rest)).err:find(
        "sequences as long as its context; --seq sets training's", 1, true))
    end
  end)
end)

describe("a constructor of ops", function()
  local op = tperf.op

  it("refuses fields that it does not have, with the nearest", function()
    local elements = 8
    for name, given in pairs {
      activation = { kind = "gelu", elements = elements }, residual = { elements = elements },
      rotary = { elements = elements }, bias = { tokens = 2, width = 4 }, gelu = { elements = elements },
      dropout = { elements = elements }, collective = { kind = "all_reduce", axis = "tp", bytes = 8 },
      linear = { tokens = 1, n_in = 2, n_out = 3 }, custom = {},
    } do
      assert.truthy(op[name](given))
      given.nam = "x"
      refuses("unknown field", op[name], given)
      refuses("(did you mean 'name'?)", op[name], given)
      refuses("op." .. name .. " needs a table of ", op[name])
    end
    refuses([[op.activation: unknown field "nonsense"; it has dtype, elements, fused, gated, kept_element, kind, name]],
      op.activation, { kind = "gelu", elements = 8, nonsense = 1 })
    refuses([[op.activation: unknown kind "silo" (did you mean 'silu'?)]], op.activation, { kind = "silo" })
    refuses("op.bias: 'tokens' must be an integer, got nil", op.bias, { width = 4 })
  end)
end)

describe("a search", function()
  local function search(changes)
    local asked = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, keep = "all" }
    for name, value in pairs(changes) do asked[name] = value end
    return tperf.search(asked)
  end

  it("tries equal candidates once", function()
    local none = search { recompute = "none" }
    assert.equal(none.candidates, search { recompute = { "none", "selective" } }.candidates)
    assert.equal("selective", search { recompute = { "selective", "none" } }[1].recompute)
    assert.equal(2 * none.candidates, search { recompute = { "none", "selective" }, attention = "unfused" }.candidates)
    local cut = search { recompute = "none", tp = { 2, 4, 8 } } -- where sequence parallelism makes a difference
    local both = search { recompute = "none", sequence_parallel = { true, false } }
    assert.equal(none.candidates + cut.candidates, both.candidates)
    for name, value in pairs {
      recompute = "none", zero = 1, sequence_parallel = true, schedule = "1f1b", tp = 2, micro_batch = 1,
    } do
      assert.equal(search { [name] = value }.candidates, search { [name] = { value, value } }.candidates, name)
    end
  end)

  it("over all strategies leaves grids of one GPU to one-dimensional tensor parallelism", function()
    local grids = 0
    for _, c in ipairs(search { strategy = "all" }) do
      if c.strategy == "summa" then
        grids = grids + 1
        assert.truthy(c.tp1 > 1 or c.tp2 > 1)
      end
    end
    assert.truthy(grids > 0)
    assert.equal(1, search { strategy = "summa", tp2 = 1 }[1].tp2) -- found if asked for
  end)
end)
