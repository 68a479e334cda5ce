-- busted's output handler: one dot a test, then what failed and where, then "N passed, M failed".
return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local MARKS = { success = ".", pending = "p", failure = "F", error = "E" }
  local WIDTH = 100
  local column = 0

  local function mark(status)
    io.write(MARKS[status] or "?")
    column = column + 1
    if column % WIDTH == 0 then io.write("\n") end
    io.flush()
  end

  local function describe(kind, item)
    local trace = item.element.trace or item.trace or {}
    io.write(("\n%s %s:%s: %s\n"):format(kind, trace.short_src or "?", trace.currentline or "?", item.name))
    local message = item.message
    if message == nil then return end
    if type(message) ~= "string" then message = require("pl.pretty").write(message) end
    io.write((message:gsub("[^\n]+", "  %0")), "\n")
    if options.verbose and item.trace and item.trace.traceback then io.write(item.trace.traceback, "\n") end
  end

  function handler.testEnd(_, _, status)
    mark(status)
    return nil, true
  end

  function handler.fileError()
    mark "error"
    return nil, true
  end

  function handler.suiteEnd()
    if column % WIDTH ~= 0 then io.write("\n") end
    for _, item in ipairs(handler.pendings) do describe("PENDING", item) end
    for _, item in ipairs(handler.failures) do describe("FAILED", item) end
    for _, item in ipairs(handler.errors) do describe("ERROR", item) end
    local failed = handler.failuresCount + handler.errorsCount
    if handler.successesCount + failed == 0 then failed = 1 end -- no tests ran: a typo in a name must not pass
    io.write(("%d passed, %d failed\n"):format(handler.successesCount, failed))
    io.flush()
    return nil, true
  end

  busted.subscribe({ "test", "end" }, handler.testEnd, { predicate = handler.cancelOnPending })
  busted.subscribe({ "error", "file" }, handler.fileError)
  busted.subscribe({ "failure", "file" }, handler.fileError)
  busted.subscribe({ "error", "describe" }, handler.fileError)
  busted.subscribe({ "failure", "describe" }, handler.fileError)
  busted.subscribe({ "suite", "end" }, handler.suiteEnd)
  return handler
end
