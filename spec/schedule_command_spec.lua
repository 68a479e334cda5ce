-- tperf schedule on the command line: times per device and per stage, and options from a file.
local program = require "program"

local function rows_of(command, folder)
  local result = program.ask("tperf schedule " .. command .. " --csv", folder)
  assert.equal(0, result.code, result.err)
  return require "csv".parse(result.out)
end

local function refused(command, message, folder)
  local result = program.ask("tperf schedule " .. command, folder)
  assert.equal(2, result.code, result.out)
  assert.truthy(result.err:find(message, 1, true), result.err)
end

describe("tperf schedule", function()
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  -- (M v + P - 1) (F + B) of a stage: P = 4, v = 2, M = 16; the published visualizer's dashboard divides its times by v
  -- (52.50), its command line does not.
  it("takes the times of a device, or of a stage", function()
    local shape = "interleaved_1f1b -d 4 --stages 8 -m 16 "
    assert.equal(52.5, tonumber(rows_of(shape .. "--times f=1,b=2")[1].makespan))
    assert.equal(105, tonumber(rows_of(shape .. "--times-per-stage f=1,b=2")[1].makespan))
    local one = "1f1b -d 4 -m 16 "
    assert.equal(rows_of(one .. "--times f=1,b=2")[1].makespan, rows_of(one .. "--times-per-stage f=1,b=2")[1].makespan)
  end)

  it("takes a time for each stage", function()
    for _, row in ipairs(rows_of "1f1b gpipe -d 4 -m 1 --times-per-stage f=1:2:3:4,b=10:20:30:40") do
      assert.equal(1 + 2 + 3 + 4 + 10 + 20 + 30 + 40, tonumber(row.makespan)) -- one after the other
    end
  end)

  it("shows schedules with another number of stages as rows with the reason", function()
    local rows = rows_of "1f1b zbv -d 4 -m 16 --times-per-stage f=1:2:1:1,b=2"
    assert.same({ "1f1b", "zbv" }, { rows[1].schedule, rows[2].schedule })
    assert.equal("'times.forward' has no value for stage 5 of 8", rows[2].reason)
    rows = rows_of "zbv 1f1b -d 2 -m 16 --times-per-stage f=1:2:1:1,b=2"
    assert.equal("'times.forward[3]': there are only 2 stages", rows[2].reason)
    local text = program.ask("tperf schedule zbv 1f1b -d 2 -m 16 --times-per-stage f=1:2:1:1,b=2").out
    assert.truthy(text:find("\n1f1b: 'times.forward[3]': there are only 2 stages\n", 1, true), text)
  end)

  it("takes its help's example", function()
    local example = program.ask("tperf help schedule").out:match "\n( *{ schedules:[^\n]*\n[^\n]*)"
    program.write(folder .. "/s.yaml", assert(example))
    for _, row in ipairs(rows_of("-c s.yaml", folder)) do assert.truthy(tonumber(row.makespan), row.reason) end
  end)

  it("takes everything from a file; the command line takes precedence", function()
    program.write(folder .. "/s.yaml", [[
schedules: [interleaved_1f1b, 1f1b]
devices: 4
microbatches: 16
times-per-stage: { forward: 1, b: 2 }
p2p: 0.5
group_size: 4
memory-limit: 100
rules: pp-visualization
svg: x.svg
]])
    local options = "-d 4 -m 16 --times-per-stage f=1,b=2 --p2p 0.5 --group-size 4 --memory-limit 100 "
      .. "--rules pp-visualization"
    assert.same(rows_of("interleaved_1f1b 1f1b " .. options), rows_of("--config s.yaml", folder))
    assert.truthy(program.slurp(folder .. "/x-1f1b.svg"):find "^<svg")
    -- Without --group-size, which means nothing to 1f1b: a file may hold options for its other schedules.
    assert.same(rows_of("1f1b -m 8 " .. options:gsub("%-m 16", ""):gsub("%-%-group%-size 4", "")),
      rows_of("-c s.yaml 1f1b -m 8", folder))
    assert.equal(2, program.shell("tperf schedule -c s.yaml 1f1b -m 8 --group-size 4", folder).code)
    assert.equal(19 * 1.5, tonumber(rows_of("-c s.yaml gpipe --times f=0.5,b=1 --rules default --p2p 0",
      folder)[1].makespan))
    program.write(folder .. "/s.json", [[{ "schedules": "1f1b", "devices": 2, "microbatches": 4,
      "times_per_stage": { "f": { "1": 1, "2": 2 }, "b": [2, 4] }, "text": true }]])
    assert.same(rows_of "1f1b -d 2 -m 4 --times-per-stage f=1:2,b=2:4", rows_of("-c s.json", folder))
    assert.truthy(program.shell("tperf schedule -c s.json", folder).out:find("device 1 |", 1, true))
  end)

  it("refuses invalid options by name", function()
    refused("1f1b -d 4 -m 8 --times f=1 --times-per-stage f=1", "--times and --times-per-stage exclude each other")
    refused("1f1b -d 4 -m 8 --times f=1:2",
      "--times: forward takes a number (--times-per-stage takes one for each stage)")
    refused("1f1b -d 4 -m 8 --times-per-stage f=1:x",
      '--times-per-stage: forward takes a number, or one for each stage as in 0.8:1.2, got "1:x"')
    refused("1f1b -d 4 -m 8 --times-per-stage g=1", "--times-per-stage: 'g' is none of f, b, d, w, o")
    refused("1f1b -d 4 -m 8 --times f=1,forward=1", "--times: forward is given twice")
    for text, message in pairs {
      ["devics: 4"] = "c.yaml: unknown option 'devics' (did you mean 'devices'?)",
      ["devices: x"] = "c.yaml: --devices: an integer is needed, got 'x'",
      ["text: 1"] = "c.yaml: 'text' must be true or false, got 1",
      ["times: 4"] = "--times: times by pass are needed, got 4",
      ["times: { f: [1, 2] }"] = "--times: forward takes a number",
      ["config: d.yaml"] = "c.yaml: a file of options names no further one",
    } do
      program.write(folder .. "/c.yaml", text .. "\n")
      local result = program.shell("tperf schedule -c c.yaml 1f1b -d 4 -m 8", folder)
      assert.equal(2, result.code, text)
      assert.truthy(result.err:find(message, 1, true), result.err)
    end
    refused("-c nofile", "nofile: No such file or directory")
  end)
end)
