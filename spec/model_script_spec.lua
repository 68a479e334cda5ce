-- A Lua file that returns a model is a MODEL of every command.
local json = require "tperf.input.json"
local program = require "program"
local tperf = require "tperf"

local MODEL <const> = [[
local tperf = require "tperf"
local mlp = tperf.block("mlp", function(m, p)
  return { p:column { name = "up", n_in = m.hidden, n_out = m.ffn },
    p:row { name = "down", n_in = m.ffn, n_out = m.hidden } }
end)
return tperf.model { name = "mine", layers = 24, hidden = 4096, heads = 32, ffn = 16384, seq = 2048, vocab = 32000,
  architecture = tperf.architecture { name = "a", layer = { mlp } } }
]]

local FILES <const> = {
  ["mine.lua"] = MODEL, ["none.lua"] = "local x = 1", ["number.lua"] = "return 7",
  ["fields.lua"] = 'return { name = "f", layers = 4, hidden = 512, heads = 8, seq = 512, vocab = 1000 }',
  ["broken.lua"] = "local tperf = require 'tperf'\nreturn tperf.model { name = 'x', layers = -1 }",
  ["outside.lua"] = 'local f = assert(io.open("/tmp/outside-the-sandbox", "w"))\nreturn {}',
}

local function within(run) return program.within(FILES, run) end

-- The first record of a command's JSON.
local function first(result)
  assert.equal(0, result.code, result.err)
  local value = json.decode(result.out, "out")
  return value[1] or value
end

describe("a Lua file as MODEL", function()
  it("answers as a script that asks about what it returns", function()
    local model = load(MODEL)()
    within(function(run)
      local c = first(run "train mine.lua -s h100-sxm -b 64 --tp 8 --json")
      assert.near(tperf.train { model = model, system = "h100-sxm", global_batch = 64, tp = 8 }.time, c.time, 1e-12)
      local found = first(run "search mine.lua -s h100-sxm -g 16 -b 64 --json")
      assert.near(tperf.search { model = model, system = "h100-sxm", gpus = 16, global_batch = 64 }[1].time,
        found.time, 1e-12)
      local r = first(run "infer mine.lua -s h100-sxm --prompt 100 --generate 20 --json")
      assert.near(tperf.infer { model = model, system = "h100-sxm", prompt = 100, generate = 20 }.tpot, r.tpot, 1e-12)
    end)
  end)

  for _, command in ipairs { "memory mine.lua -s h100-sxm -b 64", "memory mine.lua -s h100-sxm -b 64 --fewest",
    "serve mine.lua -s h100-sxm --prompt 100 --output 20 --rate 1", "params mine.lua",
    "train ./mine.lua -s h100-sxm -b 64 --explain", "train fields.lua -s h100-sxm -b 64",
    "train mine.lua -s h100-sxm -b 64 --set model.layers=12" } do
    it("is taken by tperf " .. command, function()
      within(function(run)
        local result = run(command)
        assert.equal(0, result.code, result.err)
        assert.is_true(#result.out > 100)
      end)
    end)
  end

  it("leaves the command's own files as they are named", function()
    within(function(run, folder)
      local away = program.folder()
      for _, command in ipairs { "--timeline FOLDER/t.json", "--timeline FOLDER/t.html", "--chakra FOLDER/traces" } do
        for _, where in ipairs { away, folder } do
          local result = run(("train mine.lua -s h100-sxm -b 8 --pp 2 " .. command):gsub("FOLDER", where))
          assert.equal(0, result.code, result.err)
        end
      end
      assert.is_true(#program.slurp(away .. "/t.json") > 1000)
      assert.is_true(#program.slurp(away .. "/traces/comm_group.json") > 0)
      program.remove(away)
    end)
  end)

  for file, message in pairs {
    ["none.lua"] = "none.lua returns nothing, where a model must be", ["number.lua"] = "number.lua returns 7",
    ["broken.lua"] = "broken.lua: tperf.model: x:", ["absent.lua"] = "cannot open absent.lua",
    ["outside.lua"] = "outside.lua:1: ",
  } do
    it("is refused with a reason: " .. file, function()
      within(function(run)
        local result = run("train " .. file .. " -s h100-sxm -b 64")
        assert.equal(1, result.code)
        assert.truthy(result.err:find(message, 1, true), result.err)
      end)
    end)
  end

  it("is asked about in the page's script view, by any command that takes a model", function()
    within(function(_, folder)
      local link, path = require "tperf.cli.link", folder .. "/mine.lua"
      for words, wanted in pairs {
        ["search %s -s h100-sxm -g 8 -b 64"] = "#script?arguments=-s%20h100-sxm%20-g%208%20-b%2064&command=search"
          .. "&script=mine.lua&file.script.lua=",
        ["memory -s h100-sxm %s"] = "#script?arguments=-s%20h100-sxm&command=memory&script=mine.lua&file.script.lua=",
        ["params %s"] = "#script?command=params&script=mine.lua&file.script.lua=",
      } do
        local list = {}
        for word in words:format(path):gmatch "%S+" do list[#list + 1] = word end
        local made = link.fragment(list)
        assert.equal(wanted, made:sub(1, #wanted))
      end
      for _, other in ipairs { "my machine", "machine.yaml" } do
        assert.error_matches(function() link.fragment { "train", path, "-s", other } end, "the page's script view")
      end
      assert.same({ "infer", "memory", "params", "rl", "search", "serve", "train" }, link.model_commands())
    end)
  end)

  it("is not what tperf.model reads", function()
    within(function(_, folder)
      for _, name in ipairs { folder .. "/mine.lua", "absent.lua" } do
        local ok, message = pcall(tperf.model, name)
        assert.is_false(ok)
        assert.truthy(message:find("dofile", 1, true), message)
      end
    end)
  end)

  it("gives a launch of the layout alone, which says so", function()
    within(function(run)
      local result = run "search mine.lua -s h100-sxm -g 16 -b 64 --tp 8 --launch megatron"
      assert.equal(0, result.code, result.err)
      assert.truthy(result.out:find("--tensor-model-parallel-size 8", 1, true), result.out)
      assert.is_nil(result.out:find("--hidden-size", 1, true))
      assert.truthy(result.err:find("layers of model 'mine' are a script's", 1, true), result.err)
    end)
  end)
end)

describe("model:with { architecture = … }", function()
  it("replaces the architecture that a model has", function()
    local model = load(MODEL)()
    local wide = tperf.architecture { name = "wide", layer = { tperf.block("wide", function(m, p)
      return { p:column { name = "wide", n_in = m.hidden, n_out = 65536 } }
    end) } }
    local other = model:with { architecture = wide }
    local c = tperf.train { model = other, system = "h100-sxm", global_batch = 8 }
    assert.equal("wide", c.kinds[1].ops[1].name)
    assert.equal(2 * 4096 * 65536, c.kinds[1].ops[1].weight_bytes)
    assert.equal("up", tperf.train { model = model, system = "h100-sxm", global_batch = 8 }.kinds[1].ops[1].name)
  end)
end)
