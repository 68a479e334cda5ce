-- tperf in a browser, in headless Chromium: `make check-page`. visit.mjs walks through the page once; its record is
-- checked here, against the program's own answers.
local program = require "program"
local random_questions = require "page.questions"
local core = require "tperf.core"
local json = require "tperf.output.json"

local PAGE, AXE = os.getenv "TPERF_PAGE", os.getenv "TPERF_AXE"
local COUNT <const> = 200 -- random questions

local ask = require "tperf.page"

local function answer(question) return assert(core.yaml(ask(json.encode(question)), "answer")) end

local function contains(text, part) assert.truthy(tostring(text):find(part, 1, true), tostring(text)) end

-- A script that returns a model.
local MODEL <const> = [[
local tperf = require "tperf"
local mlp = tperf.block("mlp", function(m, p)
  return { p:column { name = "up", n_in = m.hidden, n_out = 4096 }, p:row { name = "down", n_in = 4096,
    n_out = m.hidden } }
end)
return tperf.model { name = "own", layers = 4, hidden = 1024, seq = 512, vocab = 32000,
  architecture = tperf.architecture { name = "own", layer = { mlp } } }]]

-- A script whose pictures try to run code, to load something and to lead elsewhere.
local PICTURES <const> = [=[
  local inside = [[<meta xmlns="http://www.w3.org/1999/xhtml" http-equiv="refresh" content="0;url=about:blank#gone"/>
    <script>window.ran = 1; location = "about:blank"</script><image href="https://example.org/a.png" onload="ran = 1"/>
    <foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="https://example.org/"></iframe></foreignObject>]]
  for name, look in pairs { a = "", b = "<style>svg { --x: 1 }</style>" } do
    local file = io.open(name .. ".svg", "w")
    file:write('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">', look, inside, "</svg>")
    file:close()
  end
  local file = io.open("c.html", "w")
  file:write(inside)
  file:close()]=]

-- The system's file with twice the memory.
local function larger(machine)
  return (machine:gsub("80 GB", "160 GB"):gsub("visible: 79.1 GiB", "visible: 158.2 GiB"))
end

describe("tperf in a browser", function()
  if not PAGE then return pending "`make check-page` builds the page and looks at it" end
  local seen, questions = nil, random_questions(COUNT, 20)
  local config, machine = program.slurp "spec/data/hf/qwen2.5-7b.json", program.slurp "systems/h100-sxm.yaml"
  local words = "search llama-3.1-8b -s b200-sxm -g 16 -b 64 --recompute full"

  setup(function()
    local folder = program.folder()
    local link = program.shell("tperf page --print " .. words).out:match "#%S+"
    program.write(folder .. "/input.json", json.encode {
      questions = questions, config = config, link = link, system = larger(machine),
      pictures = PICTURES, model = MODEL,
    })
    local result = program.shell(("node spec/page/visit.mjs %s %s %s/input.json %s/output.json %s"):format(
      program.quote(PAGE), program.quote(AXE), folder, folder, os.getenv "TPERF_PICTURES" or ""))
    assert.equal("", result.err)
    seen = assert(core.yaml(program.slurp(folder .. "/output.json"), "output"))
    program.remove(folder)
  end)

  it("finishes the walk", function() assert.equal(nil, seen.failure) end)

  it("is one file that makes no network requests and logs no errors", function()
    assert.same({}, seen.log)
    for _, url in ipairs(seen.requests) do assert.matches("^file:.*/tperf%.html$", url) end
    local page = program.slurp(PAGE)
    assert.is_true(#page <= 3 << 20)
    contains(page, "default-src 'none'")
    for _, loose in ipairs { "unsafe-inline", "'unsafe-eval'", "http:", "https:" } do
      assert.falsy(page:match 'Content%-Security%-Policy" content="([^"]*)"':find(loose, 1, true), loose)
    end
  end)

  it("answers as the program does, to the last digit", function()
    assert.equal(COUNT, #seen.answers)
    local refused = 0
    for i, question in ipairs(questions) do
      local own, theirs = answer(assert(core.yaml(question, "question"))), seen.answers[i]
      if own.error then
        refused = refused + 1 -- here the message names the line of this file, too
        contains(own.error, theirs.error)
      else
        assert.same(own, theirs, question)
      end
    end
    assert.is_true(refused < COUNT // 4)
  end)

  it("has the command's own table in Plan", function()
    local rows = program.shell "tperf search llama-3.1-70b -s h100-sxm -g 1024 -b 1024 --tokens 2e12 --wide".out
    assert.equal(11, #seen.plan)
    for line = 2, #seen.plan do
      for cell in seen.plan[line]:gmatch "[^|]+" do contains(rows, cell) end
    end
    contains(seen.title, "Plan")
    assert.is_true(seen.timeline > 100)
    contains(seen.recipe, "--tensor-model-parallel-size")
  end)

  it("says on the first screen whether it fits, how long it takes and what it costs", function()
    for _, first in ipairs(seen.first) do
      local text = table.concat(first.facts, "; ")
      for _, part in ipairs { "Does it fit?", "The run takes", " days", "It costs$", "A step" } do
        contains(text, part)
      end
      assert.same({ true, true, first.width < 800 }, { first.shown, first.memory, first.answerFirst }, first.width)
    end
    contains(seen.headingTip, "Model FLOP/s utilisation")
    contains(seen.trains, "megatron")
    assert.falsy(seen.trains:find("vllm", 1, true))
    assert.same({ true, false }, seen.stale)
    assert.same({ "Users at 4096 tokens", "First token", "Each further token", "Fleet" }, seen.served)
    assert.equal(0, seen.steady)
  end)

  it("sorts, and lets the keyboard choose", function()
    assert.equal("descending", seen.sortedBy)
    assert.is_true(table.concat(seen.sorted) ~= table.concat(seen.plan))
    assert.equal(#seen.sorted, #seen.plan)
    assert.equal(1, seen.chosen)
  end)

  it("shows a tip for what is under the pointer", function()
    assert.matches("%d", seen.figureTip)
    assert.matches("^device %d+: .* of micro%-batch %d+", seen.chartTip)
  end)

  it("lays out no shape of a chart out of sight, and keeps its place", function()
    assert.same({ false, true }, seen.laidOut)
    assert.equal(0, seen.spare)
  end)

  it("shows an error, its field and the remedy", function()
    assert.equal("“Global batch”: an integer is needed, got '10x'.", seen.wrong)
    assert.equal("plan-batch", seen.marked)
    assert.is_true(seen.mended)
    contains(seen.address, "batch=512")
    contains(seen.reason, "it would fit with gpus = ")
  end)

  it("reads pasted configurations, valid and invalid ones", function()
    local path = program.temporary ".json"
    program.write(path, config)
    local rows = program.shell(("tperf search %s -s h100-sxm -g 64 -b 128 --tokens 2e12 --wide"):format(path)).out
    assert.is_true(#seen.pasted > 1)
    for cell in seen.pasted[2]:gmatch "[^|]+" do contains(rows, cell) end
    contains(seen.pastedWrong, "unknown architecture")
    contains(seen.pastedBroken, "config.json:")
  end)

  it("gives the same results from a link in a fresh profile", function()
    assert.same(seen.pasted, seen.shared)
    assert.equal(config, seen.sharedText)
  end)

  it("opens with the question of `tperf page`, and takes edited numbers", function()
    local rows = program.shell("tperf " .. words .. " --tokens 2e12 --wide").out -- the page shows every column
    for cell in seen.linked[2]:gmatch "[^|]+" do contains(rows, cell) end
    local path = program.temporary ".yaml"
    program.write(path, larger(machine))
    rows = program.shell(("tperf search llama-3.1-8b -s %s -g 16 -b 64 --recompute full --tokens 2e12 "
      .. "--wide"):format(path)).out
    for cell in seen.edited[2]:gmatch "[^|]+" do contains(rows, cell) end
    assert.is_true(table.concat(seen.edited) ~= table.concat(seen.linked))
  end)

  it("runs scripts in their sandbox", function()
    assert.equal(program.shell "tperf run scripts/best_configuration.lua".out, seen.shipped)
    assert.equal("é 42\n", seen.printed)
    assert.equal(1, seen.drawn)
    assert.equal("a.svg", seen.written)
    assert.equal(1280, seen.image)
    local path = program.temporary ".lua"
    program.write(path, MODEL)
    assert.equal(program.shell("tperf params " .. path).out, seen.asked)
    contains(seen.refused, "os.execute is not available to scripts")
    contains(seen.syntax, "script.lua:1: unexpected symbol near '='")
    assert.equal("stopped\n", seen.stopped)
    assert.equal("x = = 1", seen.kept)
  end)

  it("keeps to its own data and address, whatever a link or a script holds", function()
    assert.is_true(seen.hostileSame)
    assert.equal(3, #seen.hostileTold)
    contains(seen.hostileTold[1], "a text that no field takes")
    contains(seen.hostileTold[3], "config.json inflates to more than 4 MiB")
    assert.same({ 2, 0, true }, { seen.pictures, seen.inside, seen.stayed })
  end)

  it("fits every width in both themes, without accessibility violations", function()
    assert.is_true(#seen.views >= 18)
    for _, view in ipairs(seen.views) do
      local name = ("%s %d %s"):format(view.view, view.width, view.dark and "dark" or "light")
      assert.is_true(view.overflow <= 0, name)
      assert.is_true(view.charts > 0 or view.view == "script" or view.view == "rl", name)
      if view.violations then assert.same({}, view.violations, name) end
    end
  end)
end)
