-- The build: outputs and effects of `make`. Everything is a dry run or uses stand-ins for the system's tools, so
-- nothing is installed, and nothing outside a temporary folder is written.
local cases = require "cases"
local program = require "program"

local function sh(command)
  local pipe = assert(io.popen("{ " .. command .. "; } 2>&1"))
  local text = pipe:read "a"
  local _, _, code = pipe:close()
  return text, code
end

local function slurp(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

-- A folder that holds the named real tools and the given stand-ins (scripts), to use as the whole PATH.
local function path_of(real, fakes)
  local dir = (sh "mktemp -d"):gsub("\n", "")
  for _, tool in ipairs(real) do sh(("ln -s \"$(command -v %s)\" %s/%s"):format(tool, dir, tool)) end
  for name, text in pairs(fakes) do
    local file = assert(io.open(dir .. "/" .. name, "w"))
    file:write("#!/bin/sh\n", text, "\n")
    file:close()
    sh(("chmod +x %s/%s"):format(dir, name))
  end
  return dir
end

local TOOLS = { "sh", "cat", "find", "sed", "make", "env", "true" }

describe("make", function()
  it("lists every public target in its help", function()
    local help, code = sh "make help"
    assert.equal(0, code)
    local phony = slurp("Makefile"):match("%.PHONY:(.-)\n%.")
    local count = 0
    for target in phony:gsub("\\\n", " "):gmatch "[%w%-]+" do
      if target ~= "FORCE" then
        count = count + 1
        assert.truthy(help:find("\n  " .. target:gsub("%-", "%%-") .. " +%S"), target .. " is not in make help")
      end
    end
    assert.truthy(count >= 15)
  end)

  it("refuses an unknown variant", function()
    local text, code = sh "make VARIANT=fast"
    assert.equal(2, code)
    assert.truthy(text:find("VARIANT=fast is not one of: release debug asan tsan coverage mpi", 1, true))
  end)

  it("keeps the sanitizers when the caller sets CFLAGS", function()
    local text = sh "make -n -B VARIANT=asan CFLAGS=-O3 build/asan/base/error.o"
    assert.truthy(text:find("-fsanitize=address,undefined", 1, true))
    assert.truthy(text:find("-O3", 1, true))
  end)

  it("keeps the digits, whatever the caller's CFLAGS say", function()
    local text = sh("make -n -B V=1 'CFLAGS=-Ofast -ffp-contract=fast -funsafe-math-optimizations' "
      .. "build/release/base/error.o")
    local last = text:match "[^\n]*$" ~= "" and text:match "[^\n]*$" or text:match "([^\n]*)\n$"
    local after = last:match "%-Ofast %-ffp%-contract=fast %-funsafe%-math%-optimizations(.*)"
    assert.truthy(after and after:find "%-fno%-fast%-math .*%-ffp%-contract=off", text)
  end)

  -- What make would run to build a target with this compiler, which is given what it says of its target.
  local function with_compiler(machine, macros, target)
    local dir = path_of({}, { cc = ("case \"$*\" in *dumpmachine*) echo %s;; *-dM*) echo '%s';; esac"):format(machine,
      macros) })
    local text = sh(("make -n -B V=1 CC=%s/cc HOSTCC=cc %s"):format(dir, target))
    sh("rm -rf " .. dir)
    return text
  end

  it("has the digits of others on 32-bit x86", function()
    local text = with_compiler("i686-linux-gnu", "#define __i386__ 1", "build/release/base/error.o")
    assert.truthy(text:find "%-ffp%-contract=off %-msse2 %-mfpmath=sse ", text)
    text = with_compiler("x86_64-linux-gnu", "#define __x86_64__ 1", "build/release/base/error.o")
    assert.is_nil(text:find("-mfpmath", 1, true))
  end)

  it("links libraries and modules as macOS does", function()
    local text = with_compiler("arm64-apple-darwin23.1.0", "", "build/release/libtperf.dylib")
    assert.truthy(text:find "\n[^\n]*%-dynamiclib [^\n]*%-o build/release/libtperf%.dylib", text)
    assert.is_nil(text:find "%-dynamiclib[^\n]*%-ldl")
    text = with_compiler("arm64-apple-darwin23.1.0", "", "lua-module")
    assert.truthy(text:find "\n[^\n]*%-bundle %-undefined dynamic_lookup ", text)
    text = with_compiler("x86_64-linux-gnu", "", "lua-module")
    assert.truthy(text:find "\n[^\n]*%-shared [^\n]*%-ldl", text)
  end)

  it("finds Lua 5.4 by the name that a distribution gives it, and names what is missing", function()
    local function built(known)
      local dir = path_of({}, { knows = ("case \"$2\" in %s) exit 0;; esac; exit 1"):format(known) })
      local text, code = sh(("make B=%s/build PKG_CONFIG=%s/knows %s/build/flags"):format(dir, dir, dir))
      local flags = code == 0 and slurp(dir .. "/build/flags")
      sh("rm -rf " .. dir)
      return text, code, flags
    end
    for _, name in ipairs { "lua5.4", "lua-5.4", "lua54", "lua" } do
      local text, code = built(("%s\\ *|%s|yaml*|sqlite*"):format(name, name))
      assert.equal(0, code, text)
    end
    local text, code = built "yaml*"
    assert.equal(2, code)
    assert.truthy(text:find("Lua 5.4 is missing", 1, true), text)
    assert.truthy(text:find("SQLite 3.36 or newer is missing (older ones need", 1, true), text)
    assert.is_nil(text:find "libyaml is")
    assert.truthy(text:find("brew, dnf, pkg and apk", 1, true), text)
  end)

  it("refuses to compile with arithmetic that is not exact", function()
    local COMPILE <const> = "echo 'int one;' | ${CC:-cc} -std=c11 -Isrc -include base/exact.h -x c -c -o /dev/null - "
    for _, flags in ipairs { "-ffast-math", "-Ofast", "-ffinite-math-only" } do
      local text, code = sh(COMPILE .. flags)
      assert.not_equal(0, code)
      assert.truthy(text:find("add -fno-fast-math at the end", 1, true), text)
    end
    local text, code = sh(COMPILE .. "-O3")
    assert.equal(0, code, text)
  end)

  it("installs and prints nothing if nothing is missing", function()
    local text, code = sh "make deps deps-test"
    assert.equal(0, code)
    assert.is_nil(text:find "tperf needs")
  end)
end)

describe("the embedded library", function()
  local function embed(flags)
    local dir = (sh "mktemp -d"):gsub("\n", "")
    local text, code = sh(("cc -std=c11 -D_POSIX_C_SOURCE=200809L -o %s/embed src/tools/embed.c %s && "
      .. "%s/embed lua/tperf/base/divisors.lua"):format(dir, flags, dir))
    sh("rm -rf " .. dir)
    assert.equal(0, code, text)
    return text
  end

  it("is compiled, with file names, by the Lua that will run it", function()
    local text = embed "-DTPERF_COMPILES $(pkg-config --cflags --libs lua5.4) -lm -ldl"
    local code = text:match 'code_0%[%] =%s+(".-);'
    assert.truthy(code:find('"\\033\\114\\165\\141', 1, true)) -- ESC Lua
    local plain = code:gsub('"%s*"', ""):gsub("\\(%d%d%d)", function(octal) return string.char(tonumber(octal, 8)) end)
    assert.truthy(plain:find("@lua/tperf/base/divisors.lua", 1, true))
    assert.truthy(text:find 'tperf_embedded_compiler%[%] = "$LuaVersion: Lua 5%.4')
  end)

  it("is plain text if cross-compiled", function()
    assert.truthy(embed "":find('tperf_embedded_compiler[] = "";', 1, true))
    local text = sh "make -n -B VARIANT=release CC=another-cc HOSTCC=cc V=1 build/release/embed"
    assert.truthy(text:find("\ncc [^\n]*%-o build/release/embed "), text)
    assert.is_nil(text:find "TPERF_COMPILES")
    assert.truthy(sh "make -n -B VARIANT=release V=1 build/release/embed":find("-DTPERF_COMPILES", 1, true))
  end)

  it("names file and line in its messages", function()
    local text = program.shell("unset TPERF_LUA_DIR; tperf run --verbose /nowhere.lua").err
    assert.truthy(text:find "lua/tperf/cli/[%w_/]+%.lua:%d+: in ", text)
  end)
end)

describe("make lua-module", function()
  it("lets stock lua5.4 require the library", function()
    local text, code = sh "make VARIANT=release lua-module"
    assert.equal(0, code, text)
    text = sh([[LUA_PATH='lua/?.lua;lua/?/init.lua' LUA_CPATH='build/release/lua-module/?.so' lua5.4 -e '
      local tperf = require "tperf"
      print(tperf.version, tperf.system "subramanian2024/A100")']])
    assert.equal(slurp("VERSION"):match "%S+" .. "\tsubramanian2024/A100\n", text)
  end)
end)

describe("make install", function()
  cases(function() end, it)("installs a program that finds its data, despite blanks, and uninstalls all", function()
    local folder = (sh "mktemp -d"):gsub("\n", "")
    local dir = folder .. "/a stage/usr/our own"
    local to = ("PREFIX='/usr/our own' DESTDIR='%s/a stage'"):format(folder)
    local text, code = sh("make VARIANT=release install " .. to)
    assert.equal(0, code, text)
    text = sh(("cd / && '%s/bin/tperf' list systems"):format(dir))
    assert.truthy(text:find("\nsubramanian2024/A100 ", 1, true), text)
    text = slurp(dir .. "/share/man/man1/tperf.1")
    assert.truthy(text:find "^%.TH TPERF 1")
    for shell, path in pairs { bash = "bash-completion/completions/tperf", zsh = "zsh/site-functions/_tperf",
      fish = "fish/vendor_completions.d/tperf.fish" } do
      text = slurp(dir .. "/share/" .. path)
      assert.truthy(text:find("written by `tperf completion " .. shell .. "`", 1, true), path)
    end
    sh("make uninstall " .. to)
    assert.equal("", (sh(("find %s -type f"):format(folder))))
    sh("rm -rf " .. folder)
  end)
end)

describe("make deps", function()
  local function deps(target, fakes, real)
    local tools = { table.unpack(TOOLS) }
    for _, tool in ipairs(real or {}) do tools[#tools + 1] = tool end
    local dir = path_of(tools, fakes)
    local text, code = sh(("PATH=%s make %s SHELL=/bin/sh"):format(dir, target))
    local log = io.open(dir .. "/log")
    local calls = log and log:read "a"
    if log then log:close() end
    sh("rm -rf " .. dir)
    return text, code, calls
  end

  local RECORD = "echo \"$@\" >> \"${0%/*}/log\""

  it("installs missing packages as root, and says so", function()
    local text, code, calls = deps("deps", { id = "echo 0", ["apt-get"] = RECORD })
    assert.equal(0, code)
    assert.truthy(text:find("tperf needs: liblua5.4-dev libyaml-dev libsqlite3-dev pkg-config", 1, true))
    assert.equal("install -y -qq --no-install-recommends liblua5.4-dev libyaml-dev libsqlite3-dev pkg-config\n", calls)
  end)

  it("installs the named MPI", function()
    local found = { id = "echo 0", ["apt-get"] = RECORD, ["pkg-config"] = "exit 0" }
    local _, code, calls = deps("deps-mpi", found)
    assert.equal(0, code)
    assert.equal("install -y -qq --no-install-recommends libopenmpi-dev openmpi-bin\n", calls)
    _, _, calls = deps('deps-mpi MPI_PACKAGES="libmpich-dev mpich"', found)
    assert.equal("install -y -qq --no-install-recommends libmpich-dev mpich\n", calls)
  end)

  it("installs what the Debian package needs if one tool of two is missing", function()
    local found = { id = "echo 0", ["apt-get"] = RECORD, ["dpkg-shlibdeps"] = "exit 0" }
    local _, code, calls = deps("deps-deb", found)
    assert.equal(0, code)
    assert.equal("install -y -qq --no-install-recommends dpkg-dev lintian\n", calls)
    found.lintian = "exit 0"
    _, _, calls = deps("deps-deb", found)
    assert.is_nil(calls)
  end)

  it("names the command that installs an MPI if one is missing", function()
    local text, code = deps("mpi", { ["pkg-config"] = "exit 0" })
    assert.equal(2, code)
    assert.truthy(text:find("there is no mpicc here; 'make deps-mpi' installs Open MPI", 1, true), text)
  end)

  it("refreshes the package lists when the first try fails", function()
    local once = "case \"$1\" in update) : > \"${0%/*}/fresh\";; esac; " .. RECORD .. "; [ -e \"${0%/*}/fresh\" ]"
    local _, code, calls = deps("deps-test", { id = "echo 0", ["apt-get"] = once })
    local line = "install -y -qq --no-install-recommends lua5.4 lua-busted lua-check\n"
    assert.equal(0, code)
    assert.equal(line .. "update -qq\n" .. line, calls)
  end)

  it("uses sudo when it is not root", function()
    local sudo = "echo sudo >> \"${0%/*}/log\"; \"$@\""
    local text, code, calls = deps("deps", { id = "echo 1000", sudo = sudo, ["apt-get"] = RECORD })
    assert.equal(0, code)
    assert.truthy(text:find("+ sudo env DEBIAN_FRONTEND=noninteractive apt-get install", 1, true))
    assert.truthy(calls:find "^sudo\ninstall ")
  end)

  it("stops with the command to type when it has no rights", function()
    local text, code, calls = deps("deps", { id = "echo 1000", ["apt-get"] = RECORD })
    assert.equal(2, code)
    local packages = "liblua5.4-dev libyaml-dev libsqlite3-dev pkg-config"
    assert.truthy(text:find("as root, type: apt-get install " .. packages, 1, true))
    assert.is_nil(calls)
  end)

  it("stops with the names of the packages if there is no apt-get", function()
    local text, code = deps("deps", { id = "echo 0" })
    assert.equal(2, code)
    assert.truthy(text:find("there is no apt-get here", 1, true))
  end)

  it("stops with the command to type when apt-get fails", function()
    local text, code = deps("deps", { id = "echo 0", ["apt-get"] = "echo 'E: no network' >&2; exit 100" })
    assert.equal(2, code)
    assert.truthy(text:find("E: no network", 1, true))
    assert.truthy(text:find("could not install them; as root, type: apt-get install", 1, true))
  end)

  it("is suggested by a plain make if packages are missing", function()
    local text, code = deps("all", {})
    assert.equal(2, code)
    assert.truthy(text:find("'make deps' installs them", 1, true))
  end)
end)
