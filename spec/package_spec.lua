-- What users install: `make install` in a clean root, the Debian package, the library for stock Lua.
local cases = require "cases"
local program = require "program"

local function run(command)
  local result = program.shell(command)
  assert.equal(0, result.code, command .. "\n" .. result.out .. result.err)
  return result.out
end

local function with_folder(test)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  return test(folder)
end

-- Runs the program without this shell's environment, this folder or this source tree.
local function alone(path, arguments) return run(("cd / && env -i %s %s"):format(path, arguments)) end

local VERSION <const> = program.slurp("VERSION"):match "%S+"

describe("make install", function()
  it("lets everybody read what it installs, whatever the umask", function()
    with_folder(function(root)
      run(("umask 077; make VARIANT=release install install-lua install-c PREFIX=/usr/local DESTDIR=%s/d"):format(root))
      assert.equal("", run(("find %s/d \\( ! -perm -o=r -o -type d ! -perm -o=x \\)"):format(root)))
    end)
  end)

  it("in a clean root gives a working program with all its dependencies", function()
    with_folder(function(root)
      run(("make VARIANT=release install PREFIX=/usr/local DESTDIR=%s"):format(root))
      local tperf = root .. "/usr/local/bin/tperf"
      assert.truthy(alone(tperf, "--version"):find(VERSION, 1, true))
      assert.truthy(alone(tperf, "train llama-2-7b -s h100-sxm -b 64 --tp 8"):find "software megatron%-core%-2026")
      assert.equal(run "find models systems software kernels recipes scripts meta docs -type f | wc -l",
        run(("cd %s/usr/local/share/tperf && find . -type f ! -path './page/*' | wc -l"):format(root)))
      -- Every page that help, messages and answers name is there.
      local cited = run "grep -rhoE 'docs/[a-z_]+[.]md' lua/tperf src README.md | sort -u"
      assert.truthy(select(2, cited:gsub("\n", "")) > 10)
      for page in cited:gmatch "[^\n]+" do program.slurp(("%s/usr/local/share/tperf/%s"):format(root, page)) end
      -- It shows its own files, not the source tree's.
      local shown = program.shell(("cd / && env -i %s show h100-sxm"):format(tperf))
      assert.equal(root .. "/usr/local/share/tperf/systems/h100-sxm.yaml:\n", shown.err)
      program.write(root .. "/own.lua", 'print(require "tperf".system "h100-sxm".network.fast.domain)')
      assert.equal("8\n", run(("cd %s && env -i %s run own.lua"):format(root, tperf)))
    end)
  end)
end)

describe("make install-c", function()
  it("gives a library and headers that the page's program links with", function()
    with_folder(function(root)
      run(("make VARIANT=release install-c PREFIX=%s"):format(root))
      program.write(root .. "/example.c", program.slurp "docs/c_library.md":match "```c\n(.-)```")
      local printed = run(("cd %s && cc -std=c11 -Wall -Wextra -Werror example.c "
        .. "$(PKG_CONFIG_PATH=lib/pkgconfig pkg-config --cflags --libs tperf) && env -i ./a.out"):format(root))
      -- twice: 7 slow and 56 fast hops, and 63/64 of the vector at 360 GB/s on both tiers
      local expected = 2 * (7 * 5e-6 + 56 * 1e-6 + 63 / 64 * 2^30 / 360e9)
      assert.equal(("%.6f s\n"):format(expected), printed)
    end)
  end)

  it("compiles nothing again for another prefix", function()
    with_folder(function(root)
      run(("make VARIANT=release install-c PREFIX=%s/one"):format(root))
      assert.is_nil(run(("make VARIANT=release install-c PREFIX=%s/two"):format(root)):find "  CC  ")
    end)
  end)

  it("gives headers that one program can include together", function()
    run [[for header in include/tperf/*.h; do echo "#include \"$header\""; done |
      ${CC:-cc} -std=c11 -I. -Iinclude -Wall -Wextra -Werror -fsyntax-only -x c -]]
  end)
end)

describe("make install-lua", function()
  it("puts the data beside the library, where stock Lua finds it", function()
    with_folder(function(root)
      run(("make VARIANT=release install-lua LUA_SHARE=%s/share LUA_LIB=%s/lib"):format(root, root))
      program.write(root .. "/ask.lua", [[
        local tperf = require "tperf"
        local path = require "tperf.base.catalogue".find("systems", "h100-sxm")
        print(tperf.version, tperf.system "h100-sxm", tperf.model "gpt2", path)]])
      local found = run(("cd / && env -i PATH=\"$PATH\" LUA_PATH='%s/share/?.lua;%s/share/?/init.lua' "
        .. "LUA_CPATH='%s/lib/?.so' lua5.4 %s/ask.lua"):format(root, root, root, root))
      assert.equal(("%s\th100-sxm\tgpt2\t%s/share/tperf/data/systems/h100-sxm.yaml\n"):format(VERSION, root), found)
    end)
  end)

  it("is what the rockspec builds, under the program's version", function()
    local path = run "ls *.rockspec":match "%S+"
    assert.equal(("tperf-%s-1.rockspec"):format(VERSION), path)
    local spec = {}
    assert(loadfile(path, "t", spec))()
    assert.equal(VERSION .. "-1", spec.version)
    assert.same({ "make", "lua-module", "install-lua" },
      { spec.build.type, spec.build.build_target, spec.build.install_target })
    local variables = spec.build.install_variables
    assert.same({ "$(LUADIR)", "$(LIBDIR)" }, { variables.LUA_SHARE, variables.LUA_LIB })
  end)
end)

describe("the Debian package", function()
  local tools = program.shell("command -v dpkg-deb dpkg-shlibdeps").code == 0
  local test = tools and it or pending

  cases(function() end, test)("installs with dpkg -i and answers", function()
    with_folder(function(folder)
      -- As `make deb` does: objects of its own, and the shared Lua.
      run(("make -j2 VARIANT=release B=%s/objects PREFIX=/usr DESTDIR=%s/stage LUA_ARCHIVE= install"):format(folder,
        folder))
      -- Compressing takes longer than all the rest.
      run(("DPKG_DEB_COMPRESSOR_TYPE=none packaging/deb.sh %s/stage %s %s/tperf.deb"):format(folder, VERSION, folder))
      local about = run(("dpkg-deb -f %s/tperf.deb"):format(folder))
      assert.truthy(about:find("Version: " .. VERSION .. "\n", 1, true))
      assert.truthy(about:find "Depends: [^\n]*liblua5%.4%-0[^\n]*libsqlite3%-0[^\n]*libyaml%-0%-2", about)
      run(([[mkdir -p %s/root/var/lib/dpkg/info %s/root/var/lib/dpkg/updates && cd %s && : > root/var/lib/dpkg/status &&
        dpkg --root=%s/root --force-not-root --force-depends --log=/dev/null -i tperf.deb]]):format(folder,
        folder, folder, folder))
      local tperf = folder .. "/root/usr/bin/tperf"
      assert.truthy(alone(tperf, "--version"):find(VERSION, 1, true))
      assert.truthy(alone(tperf, "list systems"):find "h100%-sxm")
      run(("cd %s/root && md5sum --quiet -c var/lib/dpkg/info/tperf.md5sums"):format(folder))
      for _, path in ipairs { "copyright", "changelog.gz", "NEWS.gz" } do
        assert.truthy(#run(("cat %s/root/usr/share/doc/tperf/%s"):format(folder, path)) > 50, path)
      end
    end)
  end)
end)

describe("the Containerfile", function()
  local tools = program.shell("command -v dpkg").code == 0
  local test = tools and it or pending

  test("installs the packages of all libraries that the program loads", function()
    run "make VARIANT=release"
    local image = program.slurp("Containerfile"):match "\nFROM .*"
    local libraries, patterns = {}, {}
    for library in run("ldd build/release/tperf"):gmatch "=> (/%S+)" do
      libraries[#libraries + 1], patterns[#patterns + 1] = library, ("'*%s'"):format(library)
    end
    assert.truthy(#libraries >= 3, "libc, libyaml and SQLite at least")
    local owners = "\n" .. run("dpkg -S " .. table.concat(patterns, " ")) -- it reads all packages' lists each time
    for _, library in ipairs(libraries) do
      local owner = owners:match("\n([^:\n]+):[^\n]*" .. library:gsub("%p", "%%%0") .. "\n")
      assert.truthy(owner, library)
      local listed = owner == "libc6" or image:find("[ \n]" .. owner:gsub("%p", "%%%0") .. "[ \n]")
      assert.truthy(listed, ("%s is in %s, which the image lacks"):format(library, owner))
    end
  end)
end)
