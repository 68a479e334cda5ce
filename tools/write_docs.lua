-- Writes the files generated from the comments and schemas of lua/tperf, docs/api.md and meta/tperf.lua, and the
-- outputs of the examples in some pages. Run by `make docs`.
package.path = "./tools/?.lua;./spec/?.lua;" .. package.path
local examples = require "examples"
local output = require "tperf.output.file"
local program = require "program"
local reference = require "apidoc.reference"

for _, problem in ipairs(reference.problems()) do io.stderr:write("tperf: ", problem, "\n") end
for path, text in pairs(reference.pages()) do output.write(path, text) end
for _, path in ipairs(examples.pages) do
  local done, text = pcall(examples.refresh, program.slurp(path))
  if done then output.write(path, text) else io.stderr:write(("tperf: %s: %s\n"):format(path, text)) end
end
