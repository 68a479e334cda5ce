-- Processes that --processes starts: as under MPI (mpi_spec), but on one machine and without a launcher.
local cases = require "cases"
local core = require "tperf.core"
local program = require "program"
local shared_work = require "shared_work"

local function command(n, arguments) return "tperf " .. arguments:gsub("^%S+", ("%%0 --processes %d"):format(n)) end

describe("--processes", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  shared_work(_ENV, command, cases({ 3 }, { 1, 2, 3, 5 }), cases(false, true))

  -- A sweep of minutes, with the process of rank 1 in `copy`.
  local LONG <const> = [[
    local tperf = require "tperf"
    local batches = {}
    for i = 1, 2000 do batches[i] = 1024 * i end
    local rows = tperf.sweep {
      cache = "points.db", model = "gpt3-175b", system = "h100-sxm", gpus = 64, threads = 1, prune = false,
      global_batch = tperf.vary(batches),
    }]]
  local SOME_POINTS <const> =
    [[test -s points.db-wal && tperf sweep --db points.db --csv 'SELECT count(*) > 2 AS some FROM points' 2> /dev/null |
      grep -q 1]]

  local PROCESSES <const> = cases(2, 3)

  -- Starts the sweep in so many processes and calls a shell command with $job, the first, and $copies, once some points
  -- are kept; then waits for all of them to end.
  local function disturbed(disturb)
    program.write(folder .. "/s.lua", LONG)
    return program.shell(([[
      rm -f points*; %s run -P %d s.lua & job=$!
      until %s; do kill -0 $job || break; sleep 0.05; done
      copies=$(cat /proc/[0-9]*/stat 2> /dev/null | awk -v job=$job '$4 == job { print $1 }')
      echo $copies | wc -w
      %s
      wait $job; echo status $?
      i=0; while test $i -lt 1500 && running $copies; do i=$((i + 1)); sleep 0.02; done
      running $copies && echo left]]):format(
      program.quote(program.absolute()), PROCESSES, SOME_POINTS, disturb), folder)
  end

  it("leaves no process behind, however the first ends", function()
    for _, signal in ipairs(cases({ "INT", "KILL" }, { "INT", "TERM", "KILL" })) do
      local result = disturbed("kill -" .. signal .. " $job")
      local copies = result.out:match "^(%d+)\nstatus [^0]%d*\n$"
      assert.equal(PROCESSES - 1, tonumber(copies), result.out .. result.err)
      if signal == "INT" then assert.truthy(result.err:find("'points.db' keeps them", 1, true), result.err) end
    end
  end)

  it("ends when one of them dies, with the points kept", function()
    local result = disturbed "kill -KILL ${copies%% *}"
    assert.truthy(result.err:find("s.lua:4: rank %d has ended before the run did"), result.err)
    assert.equal(("%d\nstatus 1\n"):format(PROCESSES - 1), result.out)
  end)

  it("is ignored by a terminal's Ctrl-C but for the first", function()
    local result = disturbed "kill -INT $copies $job"
    assert.truthy(result.err:find("interrupted after %d+ of 2000 points; 'points.db' keeps them"), result.err)
    assert.is_nil(result.err:find "rank")
  end)

  it("needs a number of processes, and no launcher", function()
    for given, message in pairs {
      ["-P 0"] = "--processes: 1 to 1024", ["-P 1025"] = "--processes: 1 to 1024",
      ["-P two"] = "--processes: an integer is needed, got 'two'",
    } do
      local result = program.shell(("tperf run %s s.lua"):format(given), folder)
      assert.truthy(result.err:find(message, 1, true), result.err)
      assert.equal(2, result.code)
    end
    assert.equal(1, core.ranks.count)
  end)

  it("says what happened if no process can be started", function()
    program.write(folder .. "/s.lua", "print(1)")
    local result = program.shell("ulimit -n 20; tperf run -P 64 s.lua", folder)
    assert.truthy(result.err:find("cannot start processes: Too many open files", 1, true), result.err)
    assert.same({ "", 1 }, { result.out, result.code })
  end)

  it("keeps standard input and output for the first", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local name = io.read()
      local rows = tperf.sweep { run = tperf.collective, system = "h100-sxm", kind = "all_reduce", gpus = 8,
        bytes = tperf.linspace(1e3, 1e9, 500) }
      print(name, #rows)]])
    local result = program.shell("echo given | tperf run -P 3 s.lua", folder)
    assert.same({ "given\t500\n", "", 0 }, { result.out, result.err, result.code })
  end)

  it("predicts the rows of a table, in order, as one process does", function()
    program.write(folder .. "/steps.csv", program.slurp "spec/data/measured/steps.csv")
    local function validate(n)
      local result = program.shell(("tperf validate steps.csv -P %d --out rows.csv && cat rows.csv"):format(n), folder)
      assert.same({ "", 0 }, { result.err, result.code })
      return result.out
    end
    local alone = validate(1)
    assert.truthy(alone:find("left out", 1, true))
    assert.equal(alone, validate(cases(3, 4)))
    local piped = program.shell("cat steps.csv | tperf validate /dev/stdin -P 2", folder)
    assert.same({ "", 0 }, { piped.err, piped.code })
    assert.equal(piped.out, alone:sub(1, #piped.out))
  end)
end)
