--- Whether what a command is to write can be written: asked before it does its work. An option says what it names by
-- `writes`: "file", "folder", "plot" (a file whose name ends as a plot's may) or "prefix" (of files' names).
local options = require "tperf.input.options"
local output = require "tperf.output.file"

local outputs = {}

local CHECKS = {
  file = function(path) output.check(path) end,
  folder = function(path)
    output.make_folder(path)
    output.check(path .. "/comm_group.json")
  end,
  plot = function(path, name) require "tperf.plot.figure".check(path, name) end,
  prefix = function(path) output.check(path .. "-*.svg") end,
}

--- Fails where one of the files that the command is to write could not be.
function outputs.check(command, values)
  for _, option in ipairs(options.of(command)) do
    local path = values[(option.long:gsub("-", "_"))]
    if option.writes and path then CHECKS[option.writes](path, "--" .. option.long) end
  end
end

return outputs
