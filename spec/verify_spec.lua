local program = require "program"
local reference = require "sha256"

local SCRIPT = [[
local tperf = require "tperf"
local helper = require "helper"
local o = tperf.args { summary = "a test", gpus = "64,128", rules = "default" }
local rows = tperf.sweep {
  model = "subramanian2024/gpt3", system = "machine.yaml", global_batch = 256, gpus = tperf.vary(o.gpus),
  rules = o.rules, top = 1, cache = "points.db",
}
tperf.report.save("rows.csv", rows, { "gpus", "time", "memory.total" })
helper.write("sub/notes.txt", "best is " .. rows[1].time .. " s with " .. rows[1].pp .. " stages\n")
print "done"
]]
local HELPER = [[
return { write = function(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end }
]]

describe("tperf run --out and tperf verify", function()
  local folder, path
  before_each(function()
    folder = program.folder()
    path = folder .. "/out"
    local system = program.slurp "systems/subramanian2024/B200.yaml"
    program.write(folder .. "/machine.yaml", system)
    program.write(folder .. "/s.lua", SCRIPT)
    program.write(folder .. "/helper.lua", HELPER)
    program.shell("mkdir -p out/sub", folder)
  end)
  after_each(function() program.remove(folder) end)

  local function shell(command) return program.shell(command, folder) end

  local function ran(options, arguments)
    local result = shell(("tperf run %s --out out s.lua %s"):format(options or "", arguments or ""))
    assert.equal(0, result.code, result.err)
    return program.slurp(path .. "/manifest.json")
  end

  it("list what the run depended on and what it wrote", function()
    local text = ran("", "--gpus 64")
    local core = require "tperf.core"
    local manifest = core.yaml(text, "manifest.json")
    assert.same({ "--gpus", "64" }, manifest.arguments)
    assert.same({ "default" }, manifest.rules)
    assert.equal(core.version, manifest.tperf)
    assert.same({ file = "s.lua", sha256 = reference(SCRIPT) }, manifest.script)
    local files = {}
    for _, list in ipairs { manifest.inputs, manifest.outputs } do
      for _, item in ipairs(list) do
        if item.file:find "^kernels/" then
          assert.equal(reference(program.slurp(item.file)), item.sha256)
        else
          files[item.file] = item.sha256
        end
      end
    end
    assert.same({
      ["./helper.lua"] = reference(HELPER), ["machine.yaml"] = reference(program.slurp(folder .. "/machine.yaml")),
      ["models/subramanian2024/gpt3.yaml"] = reference(program.slurp "models/subramanian2024/gpt3.yaml"),
      ["rows.csv"] = reference(program.slurp(path .. "/rows.csv")),
      ["software/megatron-core-2026.yaml"] = reference(program.slurp "software/megatron-core-2026.yaml"),
      ["software/typical.yaml"] = reference(program.slurp "software/typical.yaml"),
      ["sub/notes.txt"] = reference(program.slurp(path .. "/sub/notes.txt")), ["stdout.txt"] = reference "done\n",
    }, files)
    assert.same({ "points.db" }, manifest.kept)
    assert.is_nil(manifest.stamp)
    assert.falsy(text:find(folder, 1, true)) -- nothing of this machine
    assert.equal(text, ran("--threads 3", "--gpus 64")) -- nor of this run
    assert.truthy(ran("--stamp"):find '"date": "20%d%d%-%d%d%-%d%dT')
  end)

  it("find nothing changed if nothing has", function()
    ran()
    local result = shell "tperf verify out"
    assert.same({ "3 of 3 outputs are the same, to the byte\n",
      'tperf: uses "machine.yaml", which tperf does not ship\n', 0 }, { result.out, result.err, result.code })
  end)

  it("report what changed, to the figure", function()
    ran()
    shell [[sed -i 's/2500 TFLOP/1250 TFLOP/' machine.yaml && grep -q 1250 machine.yaml]]
    local result = shell "tperf verify out"
    assert.equal(1, result.code)
    assert.truthy(result.out:find("machine.yaml: has changed since the run\n", 1, true), result.out)
    assert.truthy(result.out:find "\nrows.csv: changed\n  line 2, time: %d+%.%d+ %-> %d+%.%d+ %(%+%d+%.?%d* %%%)\n")
    assert.truthy(result.out:find("\nsub/notes.txt: changed\n  line 1: %d+%.%d+ %-> %d+%.%d+ "), result.out)
    assert.truthy(result.out:find("\n1 of 3 outputs are the same", 1, true))
  end)

  it("report outputs that were changed, are gone, are new or are not written any more", function()
    ran()
    shell [[echo x >> out/rows.csv && rm out/sub/notes.txt]]
    local result = shell "tperf verify out"
    assert.equal(1, result.code)
    assert.truthy(result.out:find("rows.csv: was changed after the run, which still writes what it did\n", 1, true))
    assert.truthy(result.out:find("sub/notes.txt: is gone\n", 1, true))
    local refused = shell "tperf run --out out s.lua"
    assert.truthy(refused.err:find("cannot write 'rows.csv': it has changed since a run of tperf wrote it", 1, true))
    shell "rm out/rows.csv"
    ran()
    program.write(folder .. "/s.lua", (SCRIPT:gsub("sub/notes", "sub/other")))
    result = shell "mkdir own; export TMPDIR=\"$PWD/own\"; tperf verify out; code=$?; ls -d own/* >&2; exit $code"
    assert.equal(1, result.code)
    assert.truthy(result.err:find "No such file", result.err) -- nothing stays behind
    for _, line in ipairs { "s.lua: has changed since the run", "sub/notes.txt: is not written any more",
      "sub/other.txt: is new", "2 of 3 outputs are the same, to the byte" } do
      assert.truthy(result.out:find(line, 1, true), result.out)
    end
  end)

  it("fail clearly", function()
    local function fails(command, message, code)
      local result = shell(command)
      assert.equal(code or 1, result.code)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
    fails("tperf verify", "DIR is missing", 2)
    fails("tperf verify nowhere", "nowhere/manifest.json")
    program.write(path .. "/manifest.json", '{"format": 1, "script": 7}')
    fails("tperf verify out", "is no manifest of `tperf run --out`")
    fails("tperf run --out out s.lua", "is no manifest of `tperf run --out`; it is where a run's manifest goes")
    shell "rm out/manifest.json"
    ran()
    program.write(folder .. "/s.lua", "error 'broken'")
    fails("tperf verify out", "the script fails now: s.lua:1: broken")
    fails("tperf run --out out s.lua", "broken")
    assert.truthy(program.slurp(path .. "/manifest.json")) -- of the run before, which wrote what it lists
    program.write(folder .. "/s.lua", "io.open('manifest.json', 'w'):close()")
    fails("tperf run --out out s.lua", "cannot write 'manifest.json': that is where the run's manifest goes")
    program.write(folder .. "/s.lua", "io.open('a.csv', 'w'):close() os.rename('a.csv', 'x/../stdout.txt')")
    fails("tperf run --out out s.lua", "cannot write 'x/../stdout.txt': that is where what the script prints goes")
  end)

  it("name the build, and say if another one verifies", function()
    local core = require "tperf.core"
    program.write(folder .. "/s.lua", "print(1)")
    local text = ran()
    assert.equal(core.sources, core.yaml(text, "m").build)
    program.write(path .. "/manifest.json", (text:gsub('"build": "[^"]*"', '"build": "1-2"')))
    assert.truthy(shell("tperf verify out").out:find("another engine: tperf's build was 1-2 and is " .. core.sources, 1,
      true))
    assert.truthy(shell("tperf version").out:find(core.sources, 1, true))
    -- Outputs that differ may owe that to the other build; changed.md says which answers are others.
    program.write(path .. "/manifest.json", (text:gsub('"build": "[^"]*"', '"build": "1-2"'):gsub(
      "(stdout.txt\"[^%x]*sha256[^%x]*)%x%x%x%x", "%10000")))
    local told = shell("tperf verify out")
    assert.equal(1, told.code)
    assert.truthy(told.out:find("\nthey differ because tperf changed\n%(.*docs/changed.md lists"), told.out)
  end)

  it("list modules that LUA_PATH finds as seen from the script, and LUA_PATH", function()
    shell "mkdir -p lib"
    program.write(folder .. "/lib/mine.lua", "return { a = 7 }")
    program.write(folder .. "/s.lua", "print(require 'mine'.a)")
    local run = ("LUA_PATH='%s/lib/?.lua;;' tperf "):format(folder)
    assert.equal(0, shell(run .. "run --out out s.lua").code)
    local manifest = require "tperf.core".yaml(program.slurp(path .. "/manifest.json"), "m")
    assert.equal(folder .. "/lib/?.lua;;", manifest.lua_path)
    local from = {}
    for _, item in ipairs(manifest.inputs) do from[item.file] = item.from or "tperf" end
    assert.equal("script", from["lib/mine.lua"])
    assert.equal("1 of 1 outputs are the same, to the byte\n", shell(run .. "verify out").out)
    assert.truthy(shell("tperf verify out").out:find("LUA_PATH was ", 1, true))
  end)

  it("let two runs share a folder and a cache", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local file = io.open("o.csv", "w")
      local n = 0
      for i = 1, 2e6 do n = n + i % 7 end
      file:write(n, "\n")
      file:close()
      print(n)
      tperf.sweep { run = function(o) return o.x end, x = tperf.vary { 1, 2, 3 }, cache = "c.db", key = "k" }
    ]])
    for _ = 1, 5 do
      shell "rm -rf out"
      local both = shell "for i in 1 2 3; do (tperf run --out out s.lua || echo failed) & done; wait"
      assert.is_nil(both.out:find("failed", 1, true), both.err)
      assert.equal("2 of 2 outputs are the same, to the byte\n", shell("tperf verify out").out)
    end
  end)

  it("keep what the script prints, in whatever way", function()
    local lines = {
      'print("a", 1, 2.0, nil)', 'io.write("b ", 3, " ", 0.5, "\\n")', 'io.stdout:write("c\\n"):write "d\\n"',
      'io.output():write "e\\n"', 'local tperf = require "tperf"', 'tperf.report.print({ { f = 6 } }, { "f" })',
      'tperf.plot.bars { rows = { { g = 7, n = "h" } }, x = "n", y = "g" }:print()',
      'io.open("own.txt", "w"):write("not printed"):close()' }
    program.write(folder .. "/s.lua", table.concat(lines, "\n"))
    local plain = shell "tperf run s.lua"
    assert.truthy(plain.out:find("^a\t1\t2.0\tnil\nb 3 0.5\nc\nd\ne\n"), plain.out .. plain.err)
    local recorded = shell "LC_ALL=C tperf run --out out s.lua"
    assert.same({ plain.out, "", 0 }, { recorded.out, recorded.err, recorded.code })
    assert.equal(plain.out, program.slurp(path .. "/stdout.txt"))
    assert.equal("2 of 2 outputs are the same, to the byte\n", shell("tperf verify out").out)
    lines[3] = 'io.stdout:write("C\\n")'
    program.write(folder .. "/s.lua", table.concat(lines, "\n"))
    local changed = shell "tperf verify out"
    assert.equal(1, changed.code)
    assert.truthy(changed.out:find("stdout.txt: changed\n  line 3: c -> C\n", 1, true), changed.out)
    program.write(folder .. "/s.lua", "return")
    shell "tperf run --out out s.lua"
    assert.is_nil(io.open(path .. "/stdout.txt")) -- of the run before
    assert.truthy(shell("tperf verify out").out:find("there is nothing to compare", 1, true))
  end)

  it("point at the script's line that writes an invalid value", function()
    for code, message in pairs {
      ["\nio.write(1, {})"] = "s.lua:2: bad argument #2 to 'write' (string expected, got table)",
      ["\nio.stdout:write(nil)"] = "s.lua:2: bad argument #1 to 'write' (string expected, got nil)",
    } do
      program.write(folder .. "/s.lua", code)
      local result = shell "tperf run --out out s.lua"
      assert.equal("tperf: " .. message .. "\n", result.err)
    end
  end)

  it("work for scripts that end themselves", function()
    program.write(folder .. "/s.lua", "io.open('a.txt', 'w'):close() os.exit(0)")
    ran()
    assert.equal("1 of 1 outputs are the same, to the byte\n", shell("tperf verify out").out)
  end)
end)
