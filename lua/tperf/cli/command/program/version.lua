return {
  summary = "print the version, and the checksum of the sources it was built from",
  run = function(_, arguments)
    if arguments[1] then return false, "version takes no arguments" end
    local core = require "tperf.core"
    print(("tperf %s (build %s)"):format(core.version, core.sources))
  end,
}
