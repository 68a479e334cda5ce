-- Writes what is generated from the comments and schemas of lua/tperf: docs/api.md and meta/tperf.lua (`make docs`).
package.path = "./tools/?.lua;" .. package.path
local reference = require "apidoc.reference"

for _, problem in ipairs(reference.problems()) do io.stderr:write("tperf: ", problem, "\n") end
for path, text in pairs(reference.pages()) do
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  file:close()
end
