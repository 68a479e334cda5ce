--- Checks that a command can write its outputs before it starts its work. An option's `writes` says what its value
-- names: "file", "folder", "plot" (a file in a plot's format) or "prefix" (of file names).
local options = require "tperf.input.options"
local output = require "tperf.output.file"

local outputs = {}

local CHECKS = {
  file = function(path)
    require "tperf.output.render".check(path) -- a picture as .png or .pdf
    output.check(path)
  end,
  folder = function(path)
    output.make_folder(path)
    output.check(path .. "/comm_group.json")
  end,
  plot = function(path, name) require "tperf.plot.figure".check(path, name) end,
  prefix = function(path) output.check(path .. "-*.svg") end,
}

--- Raises if one of the command's output files could not be written.
function outputs.check(command, values)
  for _, option in ipairs(options.of(command)) do
    local path = option.writes and values[(option.long:gsub("-", "_"))]
    if path then CHECKS[option.writes](path, "--" .. option.long) end
  end
end

return outputs
