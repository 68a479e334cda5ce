return {
  summary = "print the version",
  run = function(_, arguments)
    if arguments[1] then return false, "version takes no arguments" end
    print("tperf " .. require "tperf.core".version)
  end,
}
