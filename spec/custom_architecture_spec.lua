-- User-defined architectures, from the example scripts: the same numbers as the built-in blocks.
local program = require "program"
local tperf = require "tperf"

-- Runs a script in an empty folder; returns its standard output.
local function run(script, arguments)
  local folder = program.folder()
  program.write(folder .. "/script.lua", program.slurp(script))
  local result = program.shell("tperf run script.lua " .. (arguments or ""), folder)
  program.remove(folder)
  assert.equal("", result.err)
  assert.equal(0, result.code)
  return result.out
end

-- The blocks of scripts/gqa.lua, without running the rest of the script.
local function scripts_architecture()
  local text = program.slurp "scripts/gqa.lua"
  local from = assert(text:find("local attention = ", 1, true))
  local to = select(2, assert(text:find("local mine = [^\n]+\n")))
  local chunk = "local tperf = require 'tperf'\nlocal op = tperf.op\n" .. text:sub(from, to) .. "return mine"
  return assert(load(chunk))(), select(2, text:sub(from, to):gsub("\n", ""))
end

describe("scripts/gqa.lua", function()
  local mine, lines = scripts_architecture()

  it("writes a layer in about thirty lines", function() assert.is_true(lines <= 34) end)

  for _, kv_heads in ipairs { 64, 8, 1 } do
    local model = tperf.model "llama-3.1-70b":with { kv_heads = kv_heads }

    it(("has the built-in block's ops with %d key-value heads"):format(kv_heads), function()
      for _, tp in ipairs { 1, 4, 8 } do
        local function ops(m)
          local list = tperf.layer { model = m, system = "h100-sxm", tp = tp, micro_batch = 2 }
          for _, one in ipairs(list) do one.name = nil end
          return list
        end
        assert.same(ops(model), ops(model:with { architecture = mine }))
      end
    end)

    it(("finds the built-in block's configurations with %d key-value heads"):format(kv_heads), function()
      local function found(m)
        local result = tperf.search {
          model = m, system = "h100-sxm", gpus = 64, global_batch = 64, strategy = "tensor", top = 10,
        }
        local list = { candidates = result.candidates, feasible = result.feasible }
        for i, c in ipairs(result) do list[i] = { c.tp, c.pp, c.dp, c.micro_batch, c.time, c.memory.total } end
        return list
      end
      local expected = found(model)
      assert.is_true(#expected > 0)
      assert.same(expected, found(model:with { architecture = mine }))
    end)
  end

  it("runs", function()
    local out = run("scripts/gqa.lua", "--gpus 32 --batch 32")
    for _, kind in ipairs { "multi%-head +64", "grouped%-query +8", "multi%-query +1" } do assert.matches(kind, out) end
  end)
end)

describe("scripts/moe.lua", function()
  local out = run("scripts/moe.lua", "--gpus 64 --batch 128")

  it("places a mixture between its dense equivalents", function()
    local function speed(model) return tonumber(out:match("\n" .. model .. "[^\n]- ([%d.e+]+)\n")) end
    local small, moe, large = speed "2 experts wide", speed "mixtral%-8x7b", speed "8 experts wide"
    assert.is_true(small > moe)
    assert.is_true(moe > large)
    -- It stores every expert's parameters but computes with the active ones: its speed is closer to the small model's.
    assert.is_true(moe / large > small / moe)
  end)

  it("sweeps expert parallelism up to the number of experts", function()
    for _, ep in ipairs { 1, 2, 4, 8 } do assert.truthy(out:find(("\n +%d +46702792704"):format(ep))) end
    assert.falsy(out:find "\n +16 +46702792704")
  end)
end)

describe("tperf.architecture", function()
  local block = tperf.block("nothing", function() return {} end)

  it("refuses anything but a list of blocks", function()
    assert.error_matches(function() tperf.architecture { name = "x", layer = {} } end, "'layer' must be a list")
    assert.error_matches(function() tperf.architecture { name = "x", layer = { print } } end,
      "'layer%[1%]' must be a block")
    assert.error_matches(function() tperf.architecture { name = "x", layer = { block }, frist = {} } end,
      "unknown field 'frist' %(did you mean 'first'%?%)")
    assert.error_matches(function() tperf.model "gpt2":with { architecture = {} } end,
      "'architecture' must be what tperf.architecture returned")
  end)

  it("says which block returned no list of ops, and which axis a strategy lacks", function()
    local function lay(build)
      local mine = tperf.architecture { name = "mine", layer = { tperf.block("odd", build) } }
      tperf.layer { model = tperf.model "gpt2":with { architecture = mine }, system = "h100-sxm" }
    end
    assert.error_matches(function() lay(function() return 5 end) end, "block 'odd' returned 5, not a list of ops")
    assert.error_matches(function() lay(function() return { 5 } end) end,
      "block 'odd' returned a list with 5 at %[1%], where an op must be")
    assert.error_matches(function() lay(function() return { op = 1 } end) end, "with 1 at %[\"op\"%]")
    assert.error_matches(function()
      lay(function() return { tperf.op.collective { name = "c", kind = "all_gather", axis = "zz", bytes = 1 } } end)
    end, "op 'c' communicates over the axis 'zz', which the strategy lacks")
    assert.error_matches(function()
      lay(function(m, p) return { p:column { name = "c", n_in = m.hidden, n_out = -4 } } end)
    end, "op.linear 'c': 'n_out' must not be negative, got %-4")
  end)
end)

describe("a stream of few features", function()
  -- Whatever a strategy's least width is, what nothing cuts is not below it.
  it("is admitted where nothing cuts it, and refused where something does", function()
    local narrow = tperf.block("narrow", function(m, p)
      return { p:column { name = "up", n_in = m.hidden, n_out = 64 }, p:row { name = "down", n_in = 64,
        n_out = m.hidden } }
    end)
    local m = tperf.model { name = "m", layers = 4, hidden = 48, seq = 64, vocab = 1000,
      architecture = tperf.architecture { name = "narrow", layer = { narrow } } }
    for _, cut in ipairs { { strategy = "tensor" }, { strategy = "context" }, { strategy = "summa" } } do
      cut.model, cut.system, cut.global_batch, cut.dp = m, "h100-sxm", 8, 8
      assert.is_true(tperf.train(cut).time > 0)
    end
    assert.error_matches(function()
      tperf.train { model = m, system = "h100-sxm", global_batch = 8, tp = 4, dp = 2 }
    end, "leaves fewer than 128 features")
  end)
end)

describe("docs/architectures.md", function()
  it("shows code that runs", function()
    local page, ran = program.slurp "docs/architectures.md", 0
    for code in page:gmatch "```lua\n(.-)```" do
      local prelude = code:find("require", 1, true) and "" or "local op = require 'tperf'.op\nreturn "
      local makes_model = code:find("local model", 1, true)
      local result = assert(load(prelude .. code .. (makes_model and "return model" or "")))()
      if makes_model then
        assert.equal(5, #tperf.layer { model = result, system = "h100-sxm", tp = 2 })
      elseif prelude ~= "" then
        assert.equal(1e8, result:counts().forward.comms[1].bytes)
      end
      ran = ran + 1
    end
    assert.equal(10, ran)
  end)

  it("names every op", function()
    local page = program.slurp "docs/architectures.md"
    for _, name in ipairs { "linear", "grouped_linear", "attention", "norm", "elementwise", "embedding",
      "cross_entropy", "router", "scan", "collective", "custom" } do
      assert.is_function(tperf.op[name])
      assert.truthy(page:find("`" .. name .. "`", 1, true), name)
    end
  end)
end)
