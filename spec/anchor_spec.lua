-- tperf.anchor and --anchor: a run that is so much slower than predicted gives that factor back, in every unit and from
-- logs, and the profile that it moves goes to what-ifs.
local cases = require "cases"
local program = require "program"
local tperf = require "tperf"

local run = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 64, zero = 3 }

local function with(more)
  local question = {}
  for _, fields in ipairs { run, more } do
    for name, value in pairs(fields) do question[name] = value end
  end
  return question
end

-- The profile that the run gets by default if everything takes `factor` times as long.
local function slower(factor)
  local p = tperf.software "fsdp2-2026"
  return p:with { compute = p.compute * factor, attention = p.attention * factor, memory = p.memory * factor,
    comm = p.comm * factor, host = p.host * factor }
end

describe("an anchor", function()
  local FACTOR <const> = 1.3
  local slow = tperf.train(with { software = slower(FACTOR) })

  it("finds by how much a run is slower, in every unit", function()
    local units = {
      { "%.12g s", slow.time }, { "%.12gms", slow.time * 1e3 }, { "%.12g tokens/s", slow.tokens_per_second },
      { "%.12gk tokens/s/GPU", slow.tokens_per_second / 8 / 1e3 }, { "%.12g samples/s", slow.throughput },
      { "%.12g %% MFU", slow.mfu * 100 },
    }
    for i, unit in ipairs(units) do
      if i % cases(3, 1) == 0 then
        local a = tperf.anchor(run, unit[1]:format(unit[2]))
        assert.near(FACTOR, a.factor, 1e-6)
        assert.near(slow.time, a.seconds, 1e-9 * slow.time)
        assert.equal(tperf.train(run).time, a.predicted)
      end
    end
  end)

  it("goes to what-ifs with the profile that it moved", function()
    local a = tperf.anchor(run, slow.time .. " s")
    for _, more in ipairs { {}, { gpus = 16 }, { system = "b200-sxm", precision = "mxfp8" } } do
      local question = with(more)
      question.software = slower(FACTOR)
      local expected = tperf.train(question).time
      question.software = a.software
      assert.near(expected, tperf.train(question).time, 1e-6 * expected)
    end
    local c, reach = tperf.train(with { software = a.software }), tperf.software "typical".reach
    assert.near(reach[1] * c.time, c.interval.low, 1e-9)
    assert.near(reach[2] * c.time, c.interval.high, 1e-9)
    assert.is_nil(a.software.error)
    assert.is_true(a.inside)
    assert.is_false(tperf.anchor(run, 3 * slow.time .. " s").inside)
  end)

  it("reads logs: the median of all iterations but the first three", function()
    local path = program.temporary ".log"
    for line, measured in pairs {
      [" iteration %d/ 100 | elapsed time per iteration (ms): %.1f | lr"] = { 99e3, 98e3, 97e3, 9e3, 8e3, 8e3 },
      ["completed step: %d, seconds: %.3f, TFLOP/s/device: 392"] = { 60, 50, 40, 7, 9, 8 },
      ["step: %d  loss: 1.0  memory: 9GiB  tps: %.0f"] = { 1, 2, 3, 8192, 8000, 8200 },
    } do
      local lines = { "starting" }
      for i, value in ipairs(measured) do lines[i + 1] = line:format(i, value) end
      program.write(path, table.concat(lines, "\n") .. "\n")
      local seconds = tperf.anchor(run, path).seconds
      local tokens = slow.tokens_per_second * slow.time / 8
      assert.near(line:find "tps" and tokens / 8192 or 8, seconds, 1e-9)
    end
    program.write(path, "completed step: 1, seconds: 5\n")
    assert.error_matches(function() tperf.anchor(run, path) end, "has 1 lines with the time of an iteration")
    os.remove(path)
  end)

  it("refuses what is no rate, or no run of these arguments", function()
    for said, reason in pairs {
      ["12 parsecs"] = '"12 parsecs" is no measured rate', ["0 s"] = '"0 s" is no measured rate',
      ["nowhere.log"] = "nowhere.log: No such file", ["900 s"] = "are the arguments those of the run",
      ["1 ms"] = "are the arguments those of the run",
    } do
      assert.error_matches(function() tperf.anchor(run, said) end, reason)
    end
    assert.error_matches(function() tperf.anchor(with { software = "none" }, "9 s") end, "moves a software profile")
    assert.error_matches(function() tperf.anchor(run, 9) end, "needs the arguments of tperf.train")
  end)

  it("is told, and written for --software", function()
    local folder = program.folder()
    local base <const> = "tperf train llama-3.1-8b -s h100-sxm -g 8 -b 64 --zero 3 "
    local ran = program.shell(base .. ("--anchor '%.12g s' --anchor-to mine.yaml --csv"):format(slow.time), folder)
    assert.equal(0, ran.code, ran.err)
    assert.truthy(ran.err:find("memory, comm and host take 1.3 times as long; what-ifs: --software mine.yaml", 1, true))
    local again = program.shell(base .. "--software ./mine.yaml --csv", folder)
    assert.equal(ran.out, again.out)
    assert.truthy(program.ask(base .. "--anchor-to x.yaml").err:find("--anchor-to needs --anchor", 1, true))
    program.remove(folder)
  end)
end)
