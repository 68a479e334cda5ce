-- The host program's locale: with a decimal comma the library reads and prints what it does without one, and the
-- program's own locale is as it was. The locale is made here; where localedef is missing, these specs are pending.
local program = require "program"

local LOCALE <const> = "de_DE.UTF-8"

local folder, made

setup(function()
  folder = program.folder()
  made = program.shell(("localedef -i de_DE -f UTF-8 %s/%s"):format(folder, LOCALE)).code == 0
end)
teardown(function() program.remove(folder) end)

-- What a script prints; `locale`: it sets that first.
local function printed(script, locale)
  local path = folder .. "/script.lua"
  program.write(path, (locale and ("assert(os.setlocale %q)\n"):format(locale) or "") .. script)
  local run = program.shell(("LOCPATH=%s %s run --trust %s"):format(folder, program.quote(program.path), path))
  assert.equal(0, run.code, run.err)
  return run.out
end

local SCRIPT <const> = [[
local tperf = require "tperf"
local c, t = tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 16, dp = 2, pp = 2,
  simulate = { schedule = "1f1b" } }
local rows = { { x = 1.5, y = 0.25, name = "Zebra" }, { x = 2.5, y = 1e-7, name = "apfel" },
  { x = 3.25, y = 0.5, name = "Apfel" } }
for _, kind in ipairs { "text", "csv", "json", "markdown", "html" } do
  io.write(tperf.report[kind](rows), tperf.report[kind]({ c }, { "time", "memory.total", "mfu" }))
end
io.write(tperf.report.json { 1, 5.5, 1.5 }, tperf.report.layout(c), tostring(tperf.system "h100-sxm"), "\n")
for _, kind in ipairs { "lines", "scatter" } do
  local plot = tperf.plot[kind] { rows = rows, x = "x", y = "y", logy = true }
  io.write(plot:svg(), plot:text())
end
io.write(t:svg(), t:text(), t:html())
local report = tperf.report.new { title = "t" }
report:table(rows)
for _, kind in ipairs { "text", "markdown", "html", "json" } do io.write(report:render(kind)) end
local served = tperf.serve { step_time = { fixed = 1e-3 }, load = { rate = 5 }, count = 20, prompt = 16, output = 4 }
io.write(tperf.report.json(served))
local swept = tperf.sweep { x = tperf.vary { 0.5, 1.5 }, run = function(p) return p.x * 1.5 end, progress = false }
io.write(tperf.report.csv(swept))
io.write(tostring(tperf.op.norm { tokens = 3, width = 7 }), tperf.units.format(2.5e9, "bytes/s"),
  tperf.report.json { tperf.units.parse("2.5 GB", "bytes") }, tperf.report.launch(c, "megatron", { model = "gpt2" }))
io.write(tperf.report.json(tperf.system("h100-sxm"):with { network = { fast = { efficiency = 0.75 } } }))
for _, f in ipairs {
  function() tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 1.5 } end,
  function() tperf.op.linear { tokens = 1.5, n_in = 2, n_out = 2 } end,
  function() tperf.op.dropout { elements = -1.5 } end,
  function() tperf.collective { system = "h100-sxm", kind = "all_reduce", bytes = "1,5 GB", gpus = 8 } end,
  function() tperf.serve { step_time = { fixed = 1.5e10 }, load = { rate = 5 }, count = 2, prompt = 1, output = 1 } end,
} do
  io.write(select(2, pcall(f)):gsub("^.-:%d+: ", ""), "\n")
end
]]

describe("a locale with a decimal comma", function()
  it("changes nothing that the library prints", function()
    if not made then return pending "no localedef" end
    local plain = printed(SCRIPT)
    assert.truthy(#plain > 20000)
    assert.equal(plain, printed(SCRIPT, LOCALE))
  end)

  it("is the script's own again after each call, also after an error", function()
    if not made then return pending "no localedef" end
    assert.equal("1,5 1,5 1,5 1,5\n", printed([[
      local tperf = require "tperf"
      local seen = { tostring(1.5) }
      tperf.train { model = "gpt2", system = "h100-sxm", global_batch = 8, dp = 8 }
      seen[2] = ("%.1f"):format(1.5)
      pcall(tperf.train, { model = 5 })
      seen[3] = tostring(1.5)
      tperf.plot.lines { rows = { { x = 1, y = 1 }, { x = 2, y = 2 } }, x = "x", y = "y" }:svg()
      seen[4] = tostring(1.5)
      print(table.concat(seen, " "))
    ]], LOCALE))
  end)

  it("may be set after the library is loaded, too", function()
    if not made then return pending "no localedef" end
    assert.equal('[1.5]\n', printed(([[
      local tperf = require "tperf"
      tperf.report.json { 2.5 }
      assert(os.setlocale %q)
      io.write((tperf.report.json { 1.5 }:gsub("%%s", "")), "\n")
    ]]):format(LOCALE)))
  end)

  it("changes nothing for a program in C", function()
    if not made then return pending "no localedef" end
    local built = program.shell(("${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Wall -Werror "
      .. "-o %s/check src/tools/check_locale.c src/base/error.c src/base/units.c src/io/yaml_in.c src/io/surrogates.c "
      .. "$(pkg-config --cflags --libs yaml-0.1) -lm && LOCPATH=%s %s/check %s"):format(folder, folder, folder, LOCALE))
    assert.equal("1.500 GB 1 1 2.5 1\n", built.out, built.err)
  end)
end)
