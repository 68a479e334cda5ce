-- Runs under MPI: the same bytes for any number of processes, and finished work survives however a run ends. The
-- program that runs this was built by `make mpi`; TPERF_MPIRUN names the launcher of its MPI.
local core = require "tperf.core"
local program = require "program"
local shared_work = require "shared_work"

if not core.ranks.built then
  describe("a program without MPI", function()
    it("is a single rank, whatever started it", function()
      local result = program.shell "PMI_RANK=1 PMI_SIZE=2 OMPI_COMM_WORLD_SIZE=2 tperf version"
      assert.same({ "", 0 }, { result.err, result.code })
      assert.equal(1, core.ranks.count)
    end)
  end)
  return
end

local LAUNCHER = os.getenv "TPERF_MPIRUN" or "mpirun"
local version = program.shell(LAUNCHER .. " --version")
local is_open_mpi = (version.out .. version.err):lower():find "open.?mpi" ~= nil
local RUN = ("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 %s%s"):format(LAUNCHER,
  is_open_mpi and " --oversubscribe" or "")

describe("under MPI", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function mpirun(n, arguments)
    return ("%s -n %d %s %s"):format(RUN, n, program.quote(program.absolute()), arguments)
  end

  shared_work(_ENV, mpirun, { 1, 2, 3, 5 }, true)

  local POINTS, KILLS = 200, 10 -- kills of a worker, and as many of rank 0
  local LONG = ([[
local tperf = require "tperf"
local batches = {}
for i = 1, POINTS do batches[i] = 1024 * i end
local rows = tperf.sweep {
  cache = "points.db", model = "gpt3-175b", system = "h100-sxm", gpus = 3072, threads = 1, prune = false,
  global_batch = tperf.vary(batches),
}
tperf.report.save("rows.csv", rows, { "global_batch", "time", "memory.total", "reason" })
]]):gsub("POINTS", POINTS)

  -- Starts a run, and signals one of its processes once that many points are kept; returns the launcher's messages and
  -- the final number of points. The run is nice, so that the shell that waits for the points sees them in time.
  local function disturbed(n, rank, signal, points)
    local result = program.shell(([[
      %s -n %d sh -c 'echo $$ > pid.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec nice -n 19 %s run -j 1 s.lua' & job=$!
      until test "$(tperf sweep --csv --db points.db 'SELECT count(*) >= %d AS enough FROM points' 2> /dev/null |
        tail -n 1)" = 1; do kill -0 $job || break; sleep 0.05; done
      kill -%s $(cat pid.%d)
      wait $job
      echo status $?
      i=0; while test $i -lt 150 && running $(cat pid.*); do i=$((i + 1)); sleep 0.2; done
      running $(cat pid.*) && echo left; rm pid.*
      tperf sweep --csv --db points.db 'SELECT count(*) AS kept FROM points' ]]):format(RUN, n, program.absolute(),
        points,
      signal, rank), folder)
    return result, tonumber(result.out:match "kept\n(%d+)\n$")
  end

  it("keeps finished points if any process is killed, and resumes with another number of them", function()
    program.write(folder .. "/s.lua", LONG)
    local plain = program.shell("tperf run s.lua && mv rows.csv plain.csv && rm points.db", folder)
    assert.equal(0, plain.code, plain.err)
    local least = 0
    for kill = 1, 2 * KILLS do
      least = least + math.random(1, 4)
      local rank = kill % 2 == 0 and 0 or math.random(1, 2)
      local result, kept = disturbed(3, rank, "KILL", least)
      assert.truthy(result.out:find "status [^0]", result.out)
      assert.is_nil(result.out:find "left")
      assert.is_true(kept >= least and kept <= POINTS, result.out .. result.err)
      assert.is_nil(io.open(folder .. "/rows.csv"))
      least = kept
      if least > POINTS / 2 then -- or the run might end before the shell looks
        program.shell("rm points*", folder)
        least = 0
      end
    end
    local result = program.shell(mpirun(2, "run s.lua"), folder)
    assert.equal(0, result.code, result.err)
    assert.equal(program.slurp(folder .. "/plain.csv"), program.slurp(folder .. "/rows.csv"))
  end)

  it("ends cleanly on SIGTERM", function()
    program.write(folder .. "/s.lua", LONG)
    local result, kept = disturbed(2, 0, "TERM", 8)
    local message = "s.lua:4: tperf.sweep: interrupted after (%d+) of 200 points; 'points.db' keeps them"
    assert.equal(tonumber(result.err:match(message)), kept, result.err)
    assert.is_nil(result.out:find "left")
  end)
end)
