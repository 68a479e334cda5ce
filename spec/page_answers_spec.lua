-- The web page's questions, asked of the program itself; spec/page tests the page.
local program = require "program"
local core = require "tperf.core"
local json = require "tperf.output.json"

local ask = require "tperf.page"

local function answer(question)
  return assert(core.yaml(ask(type(question) == "string" and question or json.encode(question)), "answer"))
end

local function values(changes)
  local all = { model = "llama-3.1-8b", system = "h100-sxm", gpus = "16", batch = "64" }
  for name, value in pairs(changes or {}) do all[name] = value end
  return all
end

local function contains(text, part) assert.truthy(tostring(text):find(part, 1, true), tostring(text)) end

-- What a script prints.
local function run(script)
  local path = program.temporary ".lua"
  program.write(path, script)
  local result = program.shell("tperf run " .. path)
  assert.equal("", result.err)
  return result.out
end

describe("a page's question", function()
  it("that is invalid is refused in a sentence", function()
    for question, message in pairs {
      ["{"] = "a question is an object", ["3"] = "a question is an object", ["{}"] = "no question",
      ['{ "ask": "plann" }'] = "(did you mean 'plan'?)",
      ['{ "ask": "plan", "values": { "gpus": "8" } }'] = "MODEL is missing",
    } do
      contains(answer(question).error, message)
    end
  end)

  it("names the option that is wrong", function()
    for message, changes in pairs {
      ["--batch: an integer is needed, got 'x'"] = { batch = "x" },
      ["--nonesuch: tperf search has no such option"] = { nonesuch = "1" },
      ["--gpus: one number is needed"] = { gpus = "8,16" },
      ["--seq"] = { seq = "0" },
      ["(did you mean 'llama-3.1-8b'?)"] = { model = "llama-3.1-8" },
    } do
      contains(answer({ ask = "plan", values = values(changes) }).error, message)
    end
  end)

  it("for lists returns all choices", function()
    local lists = answer { ask = "lists" }
    for _, name in ipairs { "models", "systems", "software", "schedules", "strategies", "rules" } do
      local listed = program.ask("tperf list " .. name .. " --json").out
      for _, one in ipairs(lists[name]) do contains(listed, one) end
      assert.is_true(#lists[name] > 1)
    end
  end)
end)

describe("Plan", function()
  local plan = answer { ask = "plan", values = values() }

  it("answers as its command and as its script do", function()
    local rows = program.ask(plan.command .. " --wide").out
    local first = run(plan.script)
    for c, cell in ipairs(plan.table.rows[1].cells) do
      contains(rows, cell)
      local title = plan.table.columns[c].title
      if title == "time" or title == "memory" or title == "mfu" then contains(first, cell) end
    end
    contains(program.ask(plan.command).err, ("%d candidates, %d feasible"):format(plan.candidates, plan.feasible))
  end)

  it("says first what people ask: whether it fits, days and dollars", function()
    local p = answer { ask = "plan", values = values { tokens = "1e12", ["gpu-hour"] = "2" } }
    local c = require "tperf".search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 64 }[1]
    local cost = require "tperf".cost(c, { tokens = 1e12, price = 2 })
    local told = {}
    for i, fact in ipairs(p.facts) do told[i] = fact[1] .. " " .. fact[2] end
    contains(told[1], "Does it fit? " .. c.fit)
    contains(told[2], ("%.3g days"):format(cost.days))
    contains(told[3], ("$%.4gk"):format(cost.dollars / 1e3))
    local titles = {}
    for i = 1, 5 do titles[i] = p.table.columns[i].title end
    assert.same({ "time", "memory", "days", "cost", "mfu" }, titles)
    contains(p.table.columns[5].help, "Model FLOP/s utilisation")
    contains(answer({ ask = "plan", values = values { tokens = "many" } }).error, "--tokens")
  end)

  it("shows for one configuration what `tperf train` prints", function()
    local d = answer { ask = "detail", row = 1, width = 600, values = values() }
    local found = require "tperf".search { model = "llama-3.1-8b", system = "h100-sxm", gpus = 16, global_batch = 64 }
    local c, sum = found[1], 0
    for r = 1, #d.time.rows - 1 do sum = sum + d.time.rows[r].sort[2] end
    assert.is_true(math.abs(sum - c.time) < 1e-9 * c.time)
    assert.equal(c.memory.total, d.memory.rows[#d.memory.rows].sort[2])
    assert.equal(c.memory.total / (79.1 * 2 ^ 30), d.used)
    contains(d.chart, "<svg")
    contains(d.times, "<svg")
    assert.equal(nil, d.reason)
  end)

  it("shows the closest configurations if nothing fits, and a remedy", function()
    local question = values { model = "llama-3.1-405b", gpus = "8" }
    local none = answer { ask = "plan", values = question }
    assert.equal(0, none.feasible)
    contains(none.reason, "too much; it would fit with")
    assert.is_true(#none.table.rows > 0)
    local d = answer { ask = "detail", row = 1, values = question }
    assert.is_true(d.used > 1)
    contains(d.reason, "does not fit")
  end)

  it("states the interval for nine tenths of a stack's runs", function()
    local d = answer { ask = "detail", row = 1, values = values { software = "megatron-core" } }
    contains(d.interval, "Nine in ten comparable runs")
  end)

  it("draws the timeline, unless it has too many passes", function()
    local t = answer { ask = "timeline", row = 1, values = values { pp = "4" } }
    contains(t.html, 'id="chart1"')
    local slow = { ask = "timeline", row = 1, values = values { pp = "16", gpus = "16", batch = "384",
      ["micro-batch"] = "1" } }
    t = answer(slow)
    assert.is_true(t.waits)
    contains(t.reason, "take a moment to draw")
    slow.all = true
    contains(answer(slow).html, 'id="chart1"')
    t = answer { ask = "timeline", row = 1, values = values { pp = "16", gpus = "16", batch = "8192",
      ["micro-batch"] = "1" } }
    contains(t.reason, "too many to draw")
  end)

  it("writes a stack's launch file, or says why it cannot", function()
    local text = answer { ask = "launch", row = 1, stack = "megatron", values = values() }.text
    contains(text, "--tensor-model-parallel-size")
    contains(answer { ask = "launch", row = 1, stack = "nonesuch", values = values() }.reason, "no stack")
  end)

  it("reads a file again once it has changed", function()
    local path = program.temporary ".yaml"
    local text = program.slurp "systems/h100-sxm.yaml"
    program.write(path, text)
    local before = answer { ask = "plan", values = values { system = path } }
    program.write(path, (text:gsub("80 GB", "160 GB"):gsub("79.1 GiB", "158 GiB")))
    local after = answer { ask = "plan", changed = true, values = values { system = path } }
    assert.is_true(after.feasible > before.feasible)
  end)
end)

describe("Compare", function()
  local given = { model = "llama-3.1-8b", systems = "h100-sxm,b200-sxm", gpus = "8..32", batch = "64" }

  it("has the best of every system and size, as its script finds it", function()
    local c = answer { ask = "compare", values = given }
    assert.equal(6, #c.table.rows)
    local printed = run(c.script)
    for _, row in ipairs(c.table.rows) do
      local time
      for i, column in ipairs(c.table.columns) do time = column.title == "time" and row.cells[i] or time end
      contains(printed, time)
    end
    contains(c.chart, "2 series: h100-sxm, b200-sxm")
  end)

  it("states why a system or a size is missing", function()
    local c = answer { ask = "compare", values = { model = "llama-3.1-405b", systems = "h100-sxm", gpus = "8,128",
      batch = "64" } }
    assert.equal(1, #c.table.rows)
    assert.matches("^h100%-sxm, 8 GPUs: none of %d+ candidates fits", c.missing[1])
  end)

  it("changes domains and memories", function()
    given.hbm, given.domain = "0.5", "4"
    local c = answer { ask = "compare", values = given }
    contains(c.script, "network = { fast = { domain = 4 } }")
    contains(c.script, "capacity * 0.5")
    for _, row in ipairs(c.table.rows) do
      for i, column in ipairs(c.table.columns) do
        if column.title == "memory" and row.cells[1] == "h100-sxm" then assert.is_true(row.sort[i] <= 40e9) end
      end
    end
    given.hbm, given.domain = nil, nil
  end)

  it("draws the fronts of serving, as its script finds them", function()
    local c = answer { ask = "front", values = { model = "llama-3.1-8b", systems = "h100-sxm", gpus = "8",
      prompt = "1000", generate = "200" } }
    local _, lines = run(c.script):gsub("\n", "")
    assert.equal(#c.table.rows, lines)
    contains(c.chart, "<svg")
  end)

  it("limits the number of systems and sizes", function()
    contains(answer { ask = "compare", values = values { system = nil, systems = "" } }.error, "at least one system")
    given.gpus = "1..65536"
    contains(answer { ask = "compare", values = given }.error, "--gpus: at most 12")
  end)
end)

describe("Schedules", function()
  it("have the command's figures, and reasons for impossible ones", function()
    local s = answer { ask = "schedules", values = { names = "1f1b,dualpipe", devices = "3", microbatches = "6",
      times = "f=1,b=2" } }
    assert.equal(1, s.count)
    contains(s.refused[1], "dualpipe needs an even number of devices")
    local rows = assert(core.yaml(program.ask(s.command .. " --json").out, "rows"))
    contains(s.html, ("%.2f %%"):format(100 * rows[1].bubble))
  end)
end)

describe("Serve", function()
  local given = { model = "llama-3.1-8b", system = "h100-sxm", rate = "4", count = "40", prompt = "100..500",
    output = "mean=50" }

  it("answers as its command and as its script do", function()
    local s = answer { ask = "serve", values = given }
    local printed, own = program.ask(s.command).out, run(s.script)
    for _, row in ipairs(s.latencies.rows) do
      contains(printed, row.cells[3])
      contains(own, row.cells[1])
    end
    for _, row in ipairs(s.details.rows) do contains(printed, row.cells[2]) end
  end)

  it("draws the percentiles as the load grows", function()
    contains(answer({ ask = "load", latency = "tpot", values = given }).chart, "3 series: p50, p90, p99")
  end)
end)

describe("tperf page", function()
  local function fragment(words) return program.ask("tperf page --print " .. words).out:match "#(%S+)" end

  -- Decodes RFC 1951's stored blocks, which the link has in base64 for addresses.
  local function unpacked(code)
    local path = program.temporary()
    program.write(path, code:gsub("-", "+"):gsub("_", "/") .. ("="):rep(-#code % 4))
    local bytes = program.shell("base64 -d " .. path).out
    local out, at, last = {}, 1, 0
    while last == 0 do
      local length, complement
      last, length, complement, at = string.unpack("<BI2I2", bytes, at)
      assert.equal(0xFFFF, length ~ complement)
      out[#out + 1] = bytes:sub(at, at + length - 1)
      at = at + length
    end
    assert.equal(#bytes + 1, at)
    return table.concat(out)
  end

  -- Links name the page's file, so it must have been built.
  local built = program.ask("tperf page --print").code == 0
  local check = built and it or pending

  check("spells a question as the options do", function()
    assert.equal("plan?batch=64&fast=dp=2,tp=8&gpus=16&model=llama-3.1-8b&recompute=none,full&system=h100-sxm",
      fragment "search llama-3.1-8b -s h100-sxm -g 16 -b 64 --fast tp=8,dp=2 --recompute none,full")
    assert.equal("schedules?devices=4&f=0.8:1.2&microbatches=8&names=1f1b,zbv&per=stage",
      fragment "schedule 1f1b zbv -d 4 -m 8 --times-per-stage f=0.8:1.2")
    assert.equal("compare?for=serving&generate=100&gpus=8&model=llama-3.1-8b&prompt=500&systems=h100-sxm",
      fragment "infer llama-3.1-8b -s h100-sxm -g 8 -p 500 -n 100")
    assert.equal("serve?model=llama-3.1-8b&rate=5&slo=ttft=500ms&system=h100-sxm",
      fragment "serve llama-3.1-8b -s h100-sxm --rate 5 --slo ttft=500ms")
  end)

  check("carries files along, long ones too", function()
    local code = fragment "run scripts/moe.lua --top 3":match "file%.script%.lua=([^&]*)"
    assert.equal(program.slurp "scripts/moe.lua", unpacked(code))
    local path = program.temporary ".lua"
    local long = ("-- %s\n"):format(("x"):rep(1000)):rep(200)
    program.write(path, long)
    assert.equal(long, unpacked(fragment("run " .. path):match "file%.script%.lua=([^&]*)"))
  end)

  check("says what it cannot open", function()
    for words, message in pairs {
      ["nonesuch"] = "the page has no view for 'nonesuch'; it has: infer, rl, run, schedule, search, serve",
      ["search --nonesuch"] = "unknown option '--nonesuch'", ["run"] = "SCRIPT is missing",
    } do
      local result = program.ask("tperf page --print " .. words)
      contains(result.err, message)
      assert.equal(2, result.code)
    end
    local result = program.ask "tperf page --print run nonesuch.lua"
    contains(result.err, 'cannot open "nonesuch.lua"')
    assert.equal(1, result.code)
  end)

  check("hands the link to the browser", function()
    local folder = program.folder()
    program.write(folder .. "/browser", '#!/bin/sh\nprintf %s "$1" > "$(dirname "$0")/opened"\n')
    local result = program.shell("chmod +x browser; BROWSER=$PWD/browser tperf page serve llama-3.1-8b", folder)
    assert.equal(result.out, program.slurp(folder .. "/opened") .. "\n")
    program.remove(folder)
  end)
end)

describe("a page's content security policy", function()
  it("names a text by its SHA-256 in base64", function()
    -- The digest of "abc" is the first example of FIPS 180-2.
    local policy_hash = require "tperf.output.hover".policy_hash
    assert.equal("'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='", policy_hash "abc")
  end)
end)

describe("a page's answer", function()
  -- The page sets charts as markup, for its tips and colours; all else as text.
  it("has names of somebody's files as text, never as markup", function()
    local NAME <const> = [[</script><meta http-equiv="refresh" content="0;url=https://example.org"><img src=x>]]
    local machine, config = program.temporary ".yaml", program.temporary ".json"
    program.write(machine, (program.slurp "systems/h100-sxm.yaml":gsub("name: h100%-sxm", "name: '" .. NAME .. "'")))
    program.write(config, (program.slurp "spec/data/hf/qwen2.5-7b.json":gsub('"model_type"',
      json.encode { _name_or_path = NAME }:match "^{(.-)}%s*$" .. ',"model_type"', 1)))
    local given = values { model = config, system = machine, pp = "2" }
    local serving = { model = config, system = machine, rate = "4", count = "20", prompt = "100", output = "20" }
    local compared = { model = config, systems = machine, gpus = "8", batch = "64" }
    local fronts = { model = config, systems = machine, gpus = "8", prompt = "100", generate = "10" }
    local seen = 0
    for _, question in ipairs {
      { ask = "detail", row = 1, width = 600, values = given }, { ask = "timeline", row = 1, values = given },
      { ask = "compare", values = compared }, { ask = "front", values = fronts },
      { ask = "load", latency = "ttft", values = serving },
    } do
      local a = answer(question)
      assert.equal(nil, a.error)
      for _, field in ipairs { "chart", "times", "html" } do
        if a[field] then
          seen = seen + 1
          assert.is_nil(a[field]:find("<meta", 1, true) or a[field]:find("<img", 1, true), question.ask)
        end
      end
    end
    assert.equal(6, seen)
  end)
end)

describe("Serve and RL", function()
  it("tell how many users have room with so much context", function()
    local asked = { model = "llama-3.1-8b", system = "h100-sxm", rate = "5", prompt = "500", output = "100",
      count = "50", replicas = "2" }
    local users = tonumber(answer({ ask = "serve", context = "32768", values = asked }).facts[1][2])
    local r = require "tperf".serve { model = "llama-3.1-8b", system = "h100-sxm", prompt = 500, output = 100,
      count = 50, load = { rate = 5 }, seed = 0 }
    assert.equal(2 * (r.cache_tokens // 32768), users) -- every layer of this model keeps the whole context
    contains(answer({ ask = "serve", context = "x", values = asked }).error, "--context")
  end)

  it("answer a step as its command does", function()
    local a = answer { ask = "rl", values = { model = "qwen2.5-7b", system = "h100-sxm", gpus = "8", prompts = "32",
      samples = "8", prompt = "120", response = "mean=1000,max=4096", ["train-tp"] = "2", ["rollout-tp"] = "2" } }
    local printed = program.ask(a.command).out
    for _, row in ipairs(a.phases.rows) do
      for _, cell in ipairs(row.cells) do contains(printed, cell) end
    end
    contains(run(a.script), a.facts[1][2])
  end)
end)
