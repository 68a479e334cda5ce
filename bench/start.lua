--- The start of the program and of its library: wall seconds of whole processes, the fastest of several. Run by
--- `make bench`; bench/record.sh counts instructions.
local core = require "tperf.core"
local clock = core.search.clock

local RUNS <const> = 10
local program = arg[-1] or "./tperf"

local CASES = { -- name, arguments
  { "program alone", "--version" },
  { "a train", "train llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8" },
  { "a search", "search llama-3.1-70b -s h100-sxm -g 1024 -b 1024 -j 1" },
}

for _, case in ipairs(CASES) do
  local name, arguments = table.unpack(case)
  local best = math.huge
  for _ = 1, RUNS do
    local start = clock()
    assert(os.execute(("%s %s > /dev/null 2>&1"):format(program, arguments)))
    best = math.min(best, clock() - start)
  end
  print(("%-16s %8.1f ms"):format(name, 1e3 * best))
end
