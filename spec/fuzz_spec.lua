-- The fuzzers' seeds and findings, kept in spec/data/fuzz, and a few seeded cases of each fuzzer.
package.path = "./tools/?.lua;" .. package.path
local cases = require "cases"
local core = require "tperf.core"
local csv_reader = require "tperf.input.csv"
local program = require "program"
local random = require "fuzz.random"
local wrong = require "fuzz.wrong"

local function files_in(folder)
  local list = {}
  for path in program.shell("ls " .. folder .. "/*").out:gmatch "%S+" do list[#list + 1] = path end
  assert(#list > 0, folder)
  return list
end

describe("the fuzzers' corpus", function()
  for _, path in ipairs(files_in "spec/data/fuzz/yaml") do
    it(path .. " is read or refused with a position, whole and cut anywhere", function()
      local text = program.slurp(path)
      for length = 0, #text do
        local value, message = core.yaml(text:sub(1, length), "f")
        assert.is_true(value ~= nil or message:find "^f:%d+:%d+: ." ~= nil, message)
      end
    end)
  end

  for _, path in ipairs(files_in "spec/data/fuzz/csv") do
    it(path .. " is read or refused at the caller's line", function() wrong.attempt(csv_reader.read, path) end)
  end
end)

describe("the command lines that fuzzing found", function()
  for text in io.lines "spec/data/fuzz/cli/found.txt" do
    it(text .. " ends with an answer or a message", function()
      local folder, line = program.folder(), {}
      for word in text:gmatch "%S+" do line[#line + 1] = word end
      require "fuzz.cli".try(line, random.new(1), folder)
      program.remove(folder)
    end)
  end
end)

describe("the fuzzer of", function()
  for kind, count in pairs { json = cases(60, 300), csv = cases(30, 120), cli = cases(8, 12),
    ask = cases(1, 20) } do
    it(kind .. " finds nothing in " .. count .. " cases", function()
      local fuzzer, folder = require("fuzz." .. kind), program.folder()
      for seed = 1, count do
        local ok, message = xpcall(fuzzer.step, debug.traceback, random.new(seed), folder)
        assert(ok, ("seed %d: %s\ninput: %q"):format(seed, message, wrong.last))
      end
      program.remove(folder)
    end)
  end
end)
