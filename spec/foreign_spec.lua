-- What others wrote: names and texts that act on a terminal, files without an end, and what is left behind.
local program = require "program"

local EXE <const> = program.quote(program.absolute()) -- for `timeout`

local folder
before_each(function() folder = program.folder() end)
after_each(function() program.remove(folder) end)

local function shell(command) return program.shell(command, folder) end

-- Escape, C1 control, override, isolate, zero-width space, tag, a byte that is not UTF-8.
local ACTS <const> = { "\27[2J", "\xC2\x9B2J", "\u{202E}", "\u{2066}", "\u{200B}", "\u{E0041}", "\x9B2J" }

local function acts_in(text)
  for _, one in ipairs(ACTS) do
    if text:find(one, 1, true) then return ("%q"):format(one) end
  end
end

describe("texts of others", function()
  local EVIL <const> = table.concat(ACTS, "x")

  -- Runs a command whose output must show the text, escaped.
  local function shows(command, code)
    local result = shell(command)
    local all = result.out .. result.err
    assert.equal(code, result.code, all)
    assert.truthy(all:find("27[2J", 1, true) or all:find("1B[2J", 1, true) or all:find("\\u001b[2J", 1, true), all)
    assert.is_nil(acts_in(all), command)
  end

  it("do nothing to a terminal in messages", function()
    program.write(folder .. "/s.lua", ("error %q"):format(EVIL))
    for command, code in pairs { ["train " .. program.quote(EVIL) .. " -s h100-sxm -b 8"] = 1,
      [program.quote(EVIL)] = 2,
      ["train gpt2 --" .. program.quote(EVIL)] = 2, ["run --" .. program.quote(EVIL)] = 2,
      ["run " .. program.quote(EVIL)] = 1, ["run s.lua"] = 1 } do
      shows("tperf " .. command, code)
    end
  end)

  it("do nothing to a terminal in tables", function()
    program.write(folder .. "/t.csv",
      ("gpu,dtype,m,n,k,time_s\nH100,bf16,4096,4096,4096,0.0003\n%s,bf16,4096,4096,4096,3e-4\n")
      :format(EVIL))
    shows("tperf validate t.csv", 0)
    shell("mkdir -p data/models && cp " .. program.quote(require "lfs".currentdir() .. "/models/gpt2.yaml")
      .. " data/models/" .. program.quote(EVIL .. ".yaml"))
    for _, form in ipairs { "", "--json", "--csv" } do shows("TPERF_PATH=data tperf list models " .. form, 0) end
  end)

  it("keep their meaning in JSON", function()
    program.write(folder .. "/s.lua", ("io.write(require 'tperf'.report.json { { a = %q } })"):format(EVIL))
    local text = shell("tperf run s.lua").out
    assert.is_nil(acts_in(text))
    local back = require "tperf.core".yaml(text, "x")
    assert.equal((EVIL:gsub("x\x9B2J$", "x\u{FFFD}2J")), back[1].a)
  end)
end)

describe("tperf verify of a manifest that others wrote", function()
  local function edited(change)
    local path = folder .. "/out/manifest.json"
    program.write(path, (program.slurp(path):gsub('"inputs": %[', '"inputs": [' .. change, 1)))
  end

  it("reads only regular files, and shows their names", function()
    program.write(folder .. "/s.lua", "require 'tperf'.system 'h100-sxm' print 'done'")
    assert.equal(0, shell("tperf run --out out s.lua && mkfifo pipe").code)
    local list = {}
    for i, name in ipairs { "pipe", "/dev/zero", "/proc/self/environ", "\\u001b[2J\\u009b\\u202e" } do
      list[i] = ('{ "file": "%s", "sha256": "00" },'):format(name)
    end
    list[#list + 1] = '{ "file": "../../../../../../../../dev/zero", "shipped": true, "sha256": "00" },'
    edited(table.concat(list):gsub("%%", "%%%%"))
    local bounded = require "tperf.core".faults and "" or "ulimit -v 4000000; " -- the sanitizers map terabytes
    local result = shell(bounded .. "timeout 60 " .. EXE .. " verify out")
    assert.equal(0, result.code, result.err)
    for _, name in ipairs { "pipe", "/dev/zero", "/proc/self/environ", "\\27[2J\\u{9B}\\u{202E}" } do
      assert.truthy(result.out:find(name .. ": cannot be read", 1, true), result.out)
    end
    assert.is_nil(acts_in(result.out))
  end)

  it("neither waits for a pipe nor calls what the script removed new", function()
    program.write(folder .. "/s.lua", "io.open('a.csv', 'w'):close() os.remove 'a.csv' io.open('b.csv', 'w'):write '1'")
    assert.equal(0, shell("tperf run --out out s.lua").code)
    assert.same({ "1 of 1 outputs are the same, to the byte\n", 0 }, { shell("tperf verify out").out, 0 })
    shell "rm out/b.csv && mkfifo out/b.csv"
    assert.equal("b.csv: is gone\n0 of 1 outputs are the same, to the byte\n",
      shell("timeout 60 " .. EXE .. " verify out").out)
    shell "rm out/manifest.json && mkfifo out/manifest.json"
    for _, command in ipairs { "verify out", "run --out out s.lua" } do
      local result = shell("timeout 60 " .. EXE .. " " .. command)
      assert.equal(1, result.code)
      assert.truthy(result.err:find("scripts read regular files", 1, true), result.err)
    end
  end)

  it("leaves no folder behind, however it ends", function()
    program.write(folder .. "/s.lua", "print 'done'")
    assert.equal(0, shell("tperf run --out out s.lua && mkdir tmp").code)
    program.write(folder .. "/s.lua",
      "require 'tperf.compat.llm_analysis'.dump_configs({}, 'made') io.open('x.csv', 'w')"
      .. " io.stderr:write 'on' while true do end")
    for _, signal in ipairs { "INT", "TERM", "KILL" } do
      local result = shell(([[export TMPDIR="$PWD/tmp"
        %s verify out 2> said & while [ ! -s said ] && running $!; do sleep 0.01; done; ls tmp | wc -l
        kill -%s $!; wait $!
        i=0; while [ -n "$(ls tmp)" ] && [ $i -lt 500 ]; do i=$((i + 1)); sleep 0.01; done; ls tmp; rm said]]):format(
        program.quote(program.absolute()), signal))
      assert.equal("s.lua: has changed since the run\n1\n", result.out, signal)
    end
  end)
end)

describe("a folder that tperf made", function()
  local JSON <const> = "io.open(%q, 'w'):write '{}'"
  local function writes(path, options)
    program.write(folder .. "/s.lua", JSON:format(path))
    return shell(("tperf run %s s.lua"):format(options or ""))
  end

  it("takes files that tools read by name, as does one that --out names", function()
    shell "mkdir own"
    for path, options in pairs { ["a.json"] = "--out made", ["b.json"] = "--out own", ["own/c.json"] = "--out .",
      ["made/d.json"] = "" } do
      if options == "" then assert.equal(0, shell("tperf run --out made /dev/null").code) end
      local result = writes(path, options)
      assert.same({ "", 0 }, { result.err, result.code }, path)
    end
    local result = writes "own/e.json"
    assert.equal("tperf: s.lua:1: cannot write 'own/e.json': other programs read such files by name (--out DIR names a "
      .. "folder for them, '--out .' the current one; --trust lifts this)\n", result.err)
  end)

  it("is not one that has a script's files, or a mark of others", function()
    program.write(folder .. "/s.lua", "io.open('x.csv', 'w'):close() " .. JSON:format "x.json")
    assert.equal(1, shell("tperf run s.lua").code)
    shell "mkdir -p made && tperf run --out made /dev/null; mkdir copy; ln made/.tperf-written copy/.tperf-written"
    assert.equal(1, writes("copy/x.json").code)
  end)

  it("is made by the library's writers, too, but not as the folder of a build", function()
    program.write(folder .. "/s.lua", "require 'tperf.compat.llm_analysis'.dump_configs("
      .. "{ a = require 'tperf.compat.llm_analysis'.get_model_config_by_name 'gpt2' }, arg[1])")
    local result = shell "tperf run s.lua made; ls made"
    assert.equal("a.json\n", result.out, result.err)
    for _, name in ipairs { "node_modules", "build", "conf.d", ".github", "group_vars", "evil.dist-info",
      "Evil.EGG-INFO", "x.app" } do
      assert.equal(1, shell("tperf run s.lua " .. name).code)
      assert.is_nil(require "lfs".attributes(folder .. "/" .. name))
    end
    for name, code in pairs { ["v1.5"] = 0, ["llama-3.1-8b"] = 0, ["runs/a"] = 0, ["theirs/a"] = 1 } do
      shell "mkdir -p theirs"
      assert.equal(code, shell("tperf run s.lua " .. name).code, name)
    end
  end)

  it("cannot be made with a reason, a name and a remedy", function()
    program.write(folder .. "/s.lua", "require 'tperf.compat.llm_analysis'.dump_configs("
      .. "{ a = require 'tperf.compat.llm_analysis'.get_model_config_by_name 'gpt2' }, arg[1])")
    shell "touch file; mkdir other; ln -s other link"
    for name, message in pairs {
      ["node_modules/x"] = "cannot write 'node_modules': it lies in the folder of a build, whose files tools run (name "
        .. "another folder",
      [".github"] = "cannot write '.github': it starts with a dot, or lies in a folder that does (",
      ["../up"] = "cannot write '..': it is outside the output folder (the output folder is ",
      ["link/x"] = "cannot write 'link': a symbolic link or a file is in its way (",
      file = "cannot make the folder 'file': a file has that name (name another folder)",
      ["file/x/y"] = "cannot make the folder 'file': a file has that name (name another folder)",
      [""] = "cannot make the folder \"\": the name of a folder is needed",
    } do
      local result = shell("tperf run s.lua " .. program.quote(name))
      assert.equal(1, result.code, name)
      assert.truthy(result.err:find("s.lua:1: llm_analysis.dump_configs: " .. message, 1, true), result.err)
    end
    local said = shell "tperf run --trust s.lua file/x".err
    assert.truthy(said:find("cannot make the folder 'file': a file has that name (name another", 1, true), said)
    assert.same({ 0, "" }, { shell("tperf run s.lua $PWD/new/a").code, shell("tperf run s.lua $PWD/new/a").err })
  end)

  it("is none of the system's", function()
    program.write(folder .. "/s.lua", "for _, name in ipairs { 'etc/x.csv', 'x.csv' } do\n"
      .. "print((select(2, pcall(io.open, '/' .. name, 'w')):match 'the current folder is the system') ~= nil) end")
    local result = program.shell(("cd / && tperf run %s/s.lua"):format(folder))
    assert.equal("true\ntrue\n", result.out, result.err)
  end)
end)
