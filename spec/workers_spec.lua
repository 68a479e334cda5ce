-- spec/run.lua on several files: parallel processes, one line per file, complete failures, and the last line.
local program = require "program"

describe("spec/run.lua", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  -- Runs spec files of these texts as `make test` does; SPEC_RECORD belongs to this file's own process.
  local function run(texts, options)
    for name, text in pairs(texts) do program.write(("%s/%s_spec.lua"):format(folder, name), text) end
    return program.shell(("unset SPEC_RECORD; tperf run --trust spec/run.lua %s %s"):format(options or "",
      program.quote(folder)))
  end

  local PASSES <const> = "it('holds', function() end)"
  local function crash(how)
    return PASSES .. ("\ndescribe('a group', function() it('falls', function() %s end) end)"):format(how)
  end

  it("runs every file in its own process and folder, in parallel, and prints in order of names", function()
    -- Each waits for the other, which would never end if they ran in sequence.
    local function meets(own, other)
      return ([[
        it("meets", function()
          io.open("%s/%s", "w"):write(os.getenv "TMPDIR"):close()
          os.execute "i=0; while test $i -lt 3000 && ! test -s %s/%s; do i=$((i + 1)); sleep 0.02; done"
          assert(io.open("%s/%s"))
        end)]]):format(folder, own, folder, other, folder, other)
    end
    local result = run({ b = meets("b", "a"), a = meets("a", "b") .. "\n" .. PASSES }, "--jobs=2")
    assert.equal("", result.err)
    assert.equal(0, result.code, result.out)
    assert.truthy(result.out:find "^a_spec +2 passed  %d+%.%d s\nb_spec +1 passed  %d+%.%d s\n\n3 passed, 0 failed\n$",
      result.out)
    assert.not_equal(program.slurp(folder .. "/a"), program.slurp(folder .. "/b"))
    assert.is_nil(io.open(program.slurp(folder .. "/a"))) -- nothing stays behind
  end)

  it("shows failures in full, after the lines of all files", function()
    local wrong = PASSES .. "\nit('is wrong', function() assert.equal('one\\ntwo', 'three') end)"
    local result = run { a = wrong, b = PASSES }
    assert.equal(1, result.code)
    assert.truthy(result.out:find "a_spec +1 passed, 1 failed  %d.-\nb_spec +1 passed.-\n%-%-%- ", result.out)
    assert.truthy(result.out:find("\nFAILED " .. folder .. "/a_spec.lua:2: is wrong\n", 1, true), result.out)
    assert.truthy(result.out:find("two'", 1, true) and result.out:find("three", 1, true), result.out)
    assert.truthy(result.out:find "\n2 passed, 1 failed\n$", result.out)
  end)

  it("counts a process that crashes as a failure and says in which test", function()
    for how, words in pairs {
      ["os.execute('kill -KILL ' .. io.open('/proc/self/stat'):read 'n')"] = "was ended by signal 9 in ",
      ["io.stderr:write 'last words'; os.exit(0)"] = "ended with status 0 in ",
    } do
      local result = run { a = crash(how), b = PASSES }
      assert.equal(1, result.code)
      assert.truthy(result.out:find(("\nCRASHED %s/a_spec.lua: its process %s%s/a_spec.lua:2: a group falls\n"):format(
        folder, words, folder), 1, true), result.out)
      assert.truthy(result.out:find "\n1 passed, 1 failed\n$", result.out)
      if how:find "last words" then assert.truthy(result.out:find("last words", 1, true)) end
    end
  end)

  it("counts a file that cannot be read as a failure, and a run without any test", function()
    local result = run { a = "it('is no Lua", b = PASSES }
    assert.equal(1, result.code)
    assert.truthy(result.out:find "unfinished string", result.out)
    assert.truthy(result.out:find "\n1 passed, 1 failed\n$", result.out)
    result = run({ a = PASSES, b = PASSES }, "--filter=nothing")
    assert.equal(1, result.code)
    assert.truthy(result.out:find "\n0 passed, 1 failed\n$", result.out)
  end)
end)
