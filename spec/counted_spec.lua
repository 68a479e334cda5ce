-- The limit on instructions counts what a script did: it ends in the same place in every run, however busy the machine
-- is, also where some of its instructions are slow and the program looks at each.
local program = require "program"

local EXE <const> = program.quote(program.absolute())
-- Slow instructions, slow calls, threads that end between two counts, large blocks, sorting, matching and writing; then
-- a loop that says how far it came.
local SCRIPT <const> = [[
  local a, b = ("a"):rep(1e6) .. "x", ("a"):rep(1e6) .. "y"
  local t, u, f = {}, {}, assert(io.open("x.csv", "w"))
  for i = 1, 1e5 do t[i] = i end
  for i = 1, 1e5 do t[i] = nil end
  for n = 1, 60 do
    if a == b or a > b then error() end
    next(t)
    local c = coroutine.wrap(function() for k = 1, 500 do t.x = k end coroutine.yield() end)
    c()
    for i = 1, 100 do u[i] = i * n % 101 end
    table.sort(u, function(x, y) return x < y end)
    f:write(("%d,%s\n"):format(n, ("x"):rep(n):find("x*y")))
  end
  f:close()
  local n = 0
  while true do
    n = n + 1
    if n % 100 == 0 then io.stderr:write(n, "\n") end
  end
]]

describe("the limit on instructions", function()
  it("is reached in the same place on an idle and on a busy machine", function()
    local folder, seen = program.folder(), {}
    finally(function() program.remove(folder) end)
    program.write(folder .. "/s.lua", SCRIPT)
    local busy = "taskset -c 0 sh -c 'while :; do :; done' & b=$!; trap 'kill $b' EXIT; "
    for i, before in ipairs { "", "command -v taskset > /dev/null && { " .. busy .. "}; " , "" } do
      local pinned = i == 2 and "$(command -v taskset > /dev/null && echo taskset -c 0) " or ""
      local command = before .. "rm -f x.csv; " .. pinned .. EXE .. " run --max-instructions 6e6 s.lua 2>&1 | tail -n 2"
      seen[i] = program.shell(command, folder).out
      assert.truthy(seen[i]:find "^%d+\n.*more than 6000000 instructions %(", seen[i])
    end
    assert.equal(seen[1], seen[2])
    assert.equal(seen[1], seen[3])
  end)

  it("ends a script that does little but slow instructions, and says so", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/s.lua", "local a, b = ('a'):rep(1e7) .. 'x', ('a'):rep(1e7) .. 'y'\n"
      .. "while true do if a == b then break end end")
    local result = program.shell("timeout 100 " .. EXE .. " run --max-instructions 4e6 s.lua", folder)
    assert.equal(1, result.code)
    local message = "more than 4000000 instructions, by the time that slow ones took"
    assert.truthy(result.err:find(message, 1, true), result.err)
  end)
end)
