-- The unit tests in C, which stand beside the core's rooms: src/ROOM/test (src/base/test/unit.h).
local core_program = require "core_program"
local program = require "program"

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

local sources = program.shell("ls src/*/test/*.c").out

for source in sources:gmatch "%S+" do
  local tests = {}
  for name in program.slurp(source):match "\nUNIT_TESTS(%b())":gmatch '{"([^"]+)",' do tests[#tests + 1] = name end

  describe("src/" .. source:match "src/(.*)%.c$", function()
    local built
    setup(function() built = core_program.build(source, folder) end)

    it("has tests", function() assert.is_true(#tests > 0) end)

    for _, name in ipairs(tests) do
      it(name, function()
        local said = core_program.run(built, program.quote(name))
        assert.truthy(said:match "^%d+ checks, 0 failed\n$", said)
      end)
    end
  end)
end
