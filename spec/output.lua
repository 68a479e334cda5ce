-- busted's output handler: one dot per test, then the failures with their places, then "N passed, M failed". If
-- SPEC_RECORD names a file, it prints no dots but appends "test PLACE: NAME" to the file as each test starts, which
-- shows where a process crashed, and at the end "end PASSED FAILED SECONDS".
return function(options)
  local busted = require "busted"
  require "asserts" -- here, as busted has made its failures of luassert's errors by now
  require "quick"
  local handler = require "busted.outputHandlers.base"()
  local MARKS = { success = ".", pending = "p", failure = "F", error = "E" }
  local WIDTH = 100
  local column = 0
  local record = os.getenv "SPEC_RECORD" and assert(io.open(os.getenv "SPEC_RECORD", "w"))

  local function note(...)
    record:write(...)
    record:flush()
  end

  local function mark(status)
    if record then return end
    io.write(MARKS[status] or "?")
    column = column + 1
    if column % WIDTH == 0 then io.write("\n") end
    io.flush()
  end

  -- short_src has the end of a long path only.
  local function place(trace)
    local path = (trace.source or ""):match "^@(.*)" or trace.short_src or "?"
    return ("%s:%s"):format(path, trace.currentline or "?")
  end

  local function describe(kind, item)
    io.write(("\n%s %s: %s\n"):format(kind, place(item.element.trace or item.trace or {}), item.name))
    local message = item.message
    if message == nil then return end
    if type(message) ~= "string" then message = require("pl.pretty").write(message) end
    io.write((message:gsub("[^\n]+", "  %0")), "\n")
    if options.verbose and item.trace and item.trace.traceback then io.write(item.trace.traceback, "\n") end
  end

  function handler.testStart(element)
    local name = handler.getFullName(element):gsub("\n", " ")
    if record then note("test ", place(element.trace or {}), ": ", name, "\n") end
    return nil, true
  end

  function handler.testEnd(_, _, status)
    mark(status)
    return nil, true
  end

  function handler.fileError()
    mark "error"
    return nil, true
  end

  function handler.suiteEnd(suite)
    if column % WIDTH ~= 0 then io.write("\n") end
    for _, item in ipairs(handler.pendings) do describe("PENDING", item) end
    for _, item in ipairs(handler.failures) do describe("FAILED", item) end
    for _, item in ipairs(handler.errors) do describe("ERROR", item) end
    local failed = handler.failuresCount + handler.errorsCount
    local passed = handler.successesCount
    if record then
      note(("\nend %d %d %.2f\n"):format(passed, failed, suite.duration))
    elseif passed + failed == 0 then
      failed = 1 -- no tests ran: a typo in a name must not pass
    end
    io.write(("%d passed, %d failed\n"):format(passed, failed))
    io.flush()
    return nil, true
  end

  busted.subscribe({ "test", "start" }, handler.testStart, { predicate = handler.cancelOnPending })
  busted.subscribe({ "test", "end" }, handler.testEnd, { predicate = handler.cancelOnPending })
  busted.subscribe({ "error", "file" }, handler.fileError)
  busted.subscribe({ "failure", "file" }, handler.fileError)
  busted.subscribe({ "error", "describe" }, handler.fileError)
  busted.subscribe({ "failure", "describe" }, handler.fileError)
  busted.subscribe({ "suite", "end" }, handler.suiteEnd)
  return handler
end
