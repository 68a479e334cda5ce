-- `--set PATH=VALUE`, tables in 80 columns, and the descriptions printed by `list`.
local program = require "program"
local tperf = require "tperf"

local function shell(command) return program.ask(command) end

describe("--set", function()
  it("changes a system as system:with does", function()
    local found = shell "tperf train llama-2-7b -s h100-sxm -b 64 --tp 8 --csv --set system.network.fast.domain=4"
    assert.equal(0, found.code, found.err)
    local machine = tperf.system "h100-sxm":with { network = { fast = { domain = 4 } } }
    local c = tperf.train { model = "llama-2-7b", system = machine, global_batch = 64, tp = 8 }
    local other = tperf.train { model = "llama-2-7b", system = "h100-sxm", global_batch = 64, tp = 8 }
    assert.truthy(found.out:find(require "tperf.output.number".text(c.time), 1, true), found.out)
    assert.is_true(c.time > other.time)
  end)

  it("changes models, several fields at a time, with units and lists", function()
    local one = shell "tperf show llama-2-7b --json --set model.layers=48,model.ffn=8192 --set model.hidden=2048"
    assert.equal(0, one.code, one.err)
    for _, field in ipairs { '"layers": 48', '"ffn": 8192', '"hidden": 2048' } do
      assert.truthy(one.out:find(field, 1, true), field)
    end
    one = shell "tperf show h100-sxm --json --set 'system.network.fast.bandwidth=900 GB/s'"
    assert.truthy(one.out:find('"bandwidth": 900000000000', 1, true), one.out)
    one = shell "tperf show typical --json --set 'software.gpus=[8,16]'"
    assert.truthy(one.out:find '"gpus": %[8, 16%]', one.out)
  end)

  it("removes a profile's errors when its numbers change", function()
    local one = shell "tperf train llama-2-7b -s h100-sxm -b 64 --software typical --set software.host=0"
    assert.equal(0, one.code, one.err)
    assert.truthy(one.out:find("software typical (changed)", 1, true))
    assert.is_nil(one.out:find "nine tenths")
  end)

  it("works on every command that names a model or a system", function()
    for _, command in ipairs {
      "search llama-2-7b -s h100-sxm -g 8 -b 64 --top 1", "train llama-2-7b -s h100-sxm -b 64 --tp 8",
      "infer llama-2-7b -s h100-sxm -p 128 -n 8", "collective all_reduce -s h100-sxm -g 8 -n 1MiB",
      "serve llama-2-7b -s h100-sxm --rate 1 --count 2 --prompt 64 --output 4",
    } do
      local plain, set = shell("tperf " .. command .. " --json"), shell("tperf " .. command
        .. " --json --set system.network.fast.domain=4,system.accelerator.hbm.bandwidth=1TB/s")
      assert.equal(0, set.code, command .. ": " .. set.err)
      assert.are_not.equal(plain.out, set.out, command)
    end
    local one = shell "tperf memory llama-2-7b -s h100-sxm -b 64 --tp 8 --json --set model.layers=16"
    assert.truthy(one.out:find '"layers": 16', one.err)
    assert.truthy(shell("tperf params llama-2-7b --set model.layers=1").out:find "total")
  end)

  local WRONG <const> = {
    ["model.layer=9"] = "unknown field 'model.layer' (did you mean 'layer_pattern', 'layers'",
    ["system.network.fast.domian=9"] = "unknown field 'system.network.fast.domian' (did you mean 'domain'?)",
    ["model.layers=x"] = "'model.layers' must be an integer",
    ["model.layers="] = "--set model.layers: a value is needed",
    ["layers=9"] = "PATH starts with model., system. or software., got 'layers'",
    ["sytem.name=a"] = "(did you mean 'system'?)",
    ["system=1"] = "'system' has fields; name one: system.FIELD=VALUE",
    ["model.layers=1,model.layers=2"] = "it is set twice",
    ["software.host=0"] = "--set software.… changes what --software names, and there is none; "
      .. "add --software typical",
    ["model"] = "PATH=VALUE is needed, got 'model'",
    ["model.layers"] = "PATH=VALUE is needed, got 'model.layers'",
    ["model.a.b=1,model.a=2"] = "it is set twice",
    ["model.a=2,model.a.b=1"] = "another --set gives a part of it",
  }
  for text, message in pairs(WRONG) do
    it("names the mistake in " .. text, function()
      local one = shell("tperf train llama-2-7b -s h100-sxm -b 64 --set " .. program.quote(text))
      assert.are_not.equal(0, one.code)
      assert.truthy(one.err:find(message, 1, true), one.err)
    end)
  end
end)

local function widest(text)
  local most = 0
  for line in text:gmatch "[^\n]+" do -- tables only: a rule has no words
    if line:find "^─" then most = math.max(most, utf8.len(line)) end
  end
  return most
end

describe("tables", function()
  for _, command in ipairs {
    "search llama-3.1-70b -s h100-sxm -g 256 -b 512 --top 2",
    "memory llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8",
    "train llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8 --explain",
    "infer llama-3.1-70b -s h100-sxm --tp 8 -p 512 -n 16 --ops", "schedule 1f1b zb1p -d 4 -m 8",
    "serve --step-time fixed=5ms --rate 10 --count 5 --prompt 100 --output 20 --steps",
    "serve --step-time fixed=5ms --rate 10 --count 5 --prompt 100 --output 20 --requests",
    "list software", "list rules", "list recipes",
    "infer deepseek-v3 -s h200-sxm -g 16 -p 100 -n 100 --gpu-hour 2 --top 2",
    "serve llama-3.1-8b -s h100-sxm --rate 5 --slo tpot=50ms --prompt 100 --output 20 --count 100",
  } do
    it("of `tperf " .. command .. "` fit 80 columns, and --wide has all", function()
      local narrow, wide = shell("tperf " .. command), shell("tperf " .. command .. " --wide")
      assert.equal(0, narrow.code, narrow.err)
      assert.equal(0, wide.code, wide.err)
      assert.is_true(widest(narrow.out) > 20 and widest(narrow.out) <= 80, narrow.out)
      assert.is_true(widest(wide.out) > 80, wide.out)
      for word in (narrow.out:match "%(%-%-wide also shows ([^)]*)%)" or ""):gmatch "[^,]+" do
        assert.truthy(wide.out:find(word:match "%S.*", 1, true), word)
      end
    end)
  end

  it("keep all parts of the memory's sum", function()
    local out = shell("tperf memory llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8").out
    local stages = require "tperf.cli.answer.stages"
    for _, part in ipairs(stages.parts) do assert.truthy(out:find(stages.titles[part] or part, 1, true), part) end
  end)
end)

describe("tperf list", function()
  it("describes each model and system in 80 columns", function()
    for _, kind in ipairs { "models", "systems" } do
      for line in shell("tperf list " .. kind).out:gmatch "[^\n]+" do
        assert.truthy(line:find "^%S+%s+%S.*%S$", line)
        assert.is_true(utf8.len(line) <= 80, line)
      end
    end
    local out = shell("tperf list models").out
    assert.truthy(out:find("deepseek%-v3 +61 layers of 7168, 671B, 37.%dB active\n"), out)
  end)

  it("distinguishes calibrated systems from datasheets", function()
    local out = shell("tperf list systems").out
    assert.truthy(out:find "\nh100%-sxm [^\n]* measured\n", out)
    assert.truthy(out:find "\nh800%-sxm [^\n]* of h100%-sxm\n", out)
    assert.truthy(out:find "\nsubramanian2024/A100 [^\n]* datasheet\n", out)
  end)

  it("names an invalid file, and lists the others", function()
    local folder = program.folder()
    program.shell("mkdir models; echo 'name: mine' > models/mine.yaml", folder)
    local one = program.shell("TPERF_PATH=. tperf list models", folder)
    assert.equal(0, one.code)
    assert.truthy(one.out:find "\nmine +cannot be used: ", one.out)
    assert.truthy(one.out:find "\ngpt2 +12 layers", one.out)
    program.remove(folder)
  end)
end)
