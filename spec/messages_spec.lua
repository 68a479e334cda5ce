-- Messages that name the remedy, at the script's line, for errors that once ended inside the library or silently; and
-- output files checked before the work starts.
local program = require "program"
local tperf = require "tperf"

local function message_of(f)
  local ok, message = pcall(function()
    local result = f()
    return result
  end)
  assert.is_false(ok)
  return message
end

local function starts(text, pattern) assert.truthy(text:find("^spec/messages_spec.lua:%d+: " .. pattern), text) end

describe("the library", function()
  it("states the largest number of values", function()
    starts(message_of(function() return tperf.linspace(0, 1, 1e9) end),
      "tperf.linspace: the number of values must be an integer from 2 to 16777216, got 1000000000")
  end)

  it("names the fields of op.bias", function()
    starts(message_of(function() return tperf.op.bias { "b", 4 } end), "op.bias: unknown field")
    starts(message_of(function() return tperf.op.bias { name = "b", width = 4 } end),
      "op.bias: 'tokens' must be an integer, got nil")
    starts(message_of(function() return tperf.op.bias "b" end), "op.bias needs a table of fields, got \"b\"")
  end)

  it("shows values that are not the expected integers", function()
    starts(message_of(function() require "tperf.base.check".fail("%d of %s", 0.5, "x") end), "0.5 of x")
  end)

  it("leaves a column empty that no row has, but refuses typos", function()
    local rows = { { time = 1, gpus = 8 } }
    assert.equal("gpus,reason\n8,\n", (tperf.report.csv(rows, { "gpus", "reason" }):gsub("\r", "")))
    assert.truthy(tperf.report.new { title = "t" }:table(rows, { "gpus", "reason" }):render "markdown":find "reason")
    starts(message_of(function() return tperf.report.csv(rows, { "tim" }) end), ".*no row has a field 'tim' %(did you")
  end)
end)

describe("scripts", function()
  it("get errors of io, os and math at their own line", function()
    for call, message in pairs {
      ["io.open('/etc/x', 'w')"] = "cannot write '/etc/x': it is outside the output folder",
      ["io.open('x', 'q')"] = "bad argument #2 to 'open' (invalid mode)",
      ["io.open(nil)"] = "bad argument #1 to 'open' (string expected, got nil)",
      ["io.open({}, 'w')"] = "bad argument #1 to 'open' (string expected, got table)",
      ["io.output('../x')"] = "cannot write '../x'",
      ["io.lines('nofile')"] = "nofile: No such file or directory",
      ["os.time {}"] = "field 'year' missing in date table",
      ["os.date('%Q', 0)"] = "bad argument #1 to 'date'",
      ["math.randomseed 'x'"] = "bad argument #1 to 'randomseed'",
      ["load {}"] = "bad argument #1 to 'load'",
    } do
      for _, options in ipairs { "", "--out o" } do
        local result = program.script("local x = 1\n" .. call .. "\nreturn x", options)
        assert.equal(1, result.code)
        assert.truthy(result.err:find("tperf: script.lua:2: " .. message, 1, true), result.err)
        program.remove(result.folder)
      end
    end
  end)

  it("list their options", function()
    for path in program.shell("ls scripts/*.lua").out:gmatch "%S+" do
      local result = program.shell("tperf run " .. path .. " --help")
      assert.same({ 0, "" }, { result.code, result.err }, path)
      assert.truthy(result.out:find("^usage: tperf run " .. path:gsub("%p", "%%%0")), path)
    end
  end)
end)

describe("the command line", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function fails(command, message)
    local result = program.shell("tperf " .. command, folder)
    assert.equal(1, result.code, result.out)
    assert.equal("", result.out)
    assert.truthy(result.err:find(message, 1, true), result.err)
  end

  it("refuses a folder as an input file", function()
    fails("calibrate h100-sxm .", "tperf: .: Is a directory")
    fails("validate .", "tperf: .: Is a directory")
    fails("serve --step-time fixed=1ms --trace .", "tperf: .: Is a directory")
  end)

  it("fails with the reason if no row can be predicted", function()
    program.write(folder .. "/a.csv", "gpu,dtype,m,n,k,time_s\nFOO,bf16,4096,4096,4096,1e-3\n")
    fails("validate a.csv", "a.csv: none of 1 rows can be predicted (1 left out: no system describes the GPU FOO)")
    program.write(folder .. "/b.csv", "gpu,dtype,m,n,k,time_s\n")
    fails("validate b.csv", "b.csv: there are no rows below the header line")
    fails("validate a.csv --json", "none of 1 rows")
  end)

  it("leaves out a row with a time that no machine can have", function()
    program.write(folder .. "/a.csv",
      "gpu,dtype,m,n,k,time_s\nH100,bf16,4096,4096,4096,1e-320\nH100,bf16,4096,4096,4096,0.0003\n")
    local result = program.shell("tperf validate a.csv", folder)
    assert.equal(0, result.code)
    assert.falsy(result.out:find "%f[%w]inf%f[%W]" or result.out:find "%f[%w]nan%f[%W]", result.out)
    assert.truthy(result.out:find("1 of 2 rows predicted", 1, true))
  end)

  it("verifies what a script wrote by absolute names", function()
    program.write(folder .. "/s.lua", "io.open(arg[1] .. '/out/a.txt', 'w'):write('1'):close()\n"
      .. "require 'tperf'.report.save(arg[1] .. '/out/b.csv', { { x = 1 } })")
    assert.equal(0, program.shell("tperf run --out out s.lua \"$PWD\"", folder).code)
    for _, name in ipairs { "out", '"$PWD/out"' } do
      local result = program.shell("tperf verify " .. name, folder)
      assert.same({ "2 of 2 outputs are the same, to the byte\n", "", 0 }, { result.out, result.err, result.code })
    end
  end)

  it("checks that it can write before it starts its work", function()
    -- Tables that do not exist: the work would fail with their names.
    fails("validate no.csv --out no/x.csv",
      "cannot write 'no/x.csv': No such file or directory (make the folder first)")
    fails("validate no.csv --out .", "cannot write '.': Is a directory")
    fails("validate no.csv --plot x.gif", "--plot: cannot save 'x.gif': the name must end in .svg, .png, .pdf or .txt")
    fails("calibrate h100-sxm no.csv --out no/x.yaml", "cannot write 'no/x.yaml'")
    fails("calibrate h100-sxm no.csv --plot no/x", "cannot write 'no/x-*.svg'")
    fails("memory nomodel -s h100-sxm -b 8 --svg no/x.svg", "cannot write 'no/x.svg'")
    for _, option in ipairs { "svg", "html", "trace" } do
      fails("schedule noschedule -d 4 -m 8 --" .. option .. " no/x", "cannot write 'no/x'")
    end
    program.write(folder .. "/file", "")
    fails("calibrate --software file/x no.csv", "--software: cannot use the folder file/x: Not a directory")
    fails("calibrate --software new no.csv", "no.csv: No such file")
    assert.equal("file\nnew\n", program.shell("ls", folder).out) -- nothing else was made
  end)
end)
