-- Every script of scripts/ runs, on small arguments, and what it writes is right.
local csv = require "csv"
local program = require "program"

local here = io.popen("pwd"):read "l"

-- Runs a script as a user does; the folder that it wrote to must be removed.
local function run(name, arguments)
  local folder = program.folder()
  local result = program.shell(("tperf run --out %s %s/scripts/%s.lua %s"):format(folder, here, name, arguments or ""),
    folder)
  result.folder = folder
  assert.equal(0, result.code, result.err)
  assert.equal("", result.err)
  return result
end

describe("scripts/sweep_nvlink.lua", function()
  it("finds what tperf.search finds", function()
    local tperf = require "tperf"
    local result = run("sweep_nvlink", "--gpus 256,4096 --domains 4,64 --systems subramanian2024/A100 --top 2")
    local rows = csv.rows(result.folder .. "/sweep_nvlink.csv")
    assert.equal(8, #rows)
    for _, row in ipairs(rows) do
      local found = tperf.search {
        model = "subramanian2024/gpt3_1T", gpus = tonumber(row.gpus), global_batch = 4096, top = 2,
        system = tperf.system "subramanian2024/A100":with { network = { fast = { domain = tonumber(row.domain) } } },
      }[tonumber(row.rank)]
      assert.equal(found.time, tonumber(row.time))
      assert.near(1e12 / found.tokens_per_second, tonumber(row.training_time), 1)
    end
    assert.truthy(result.out:find("domains of 64 instead of 4 GPUs make training %d+%.%d%d times as fast"))
    program.remove(result.folder)
  end)

  it("says which options there are", function()
    local result = program.shell("tperf run scripts/sweep_nvlink.lua --modle x")
    assert.equal(2, result.code)
    assert.truthy(result.err:find("unknown option '--modle' (did you mean '--model'?)", 1, true))
    local help = program.shell("tperf run scripts/sweep_nvlink.lua --help")
    assert.equal(0, help.code)
    for _, option in ipairs { "model", "gpus", "batch", "top" } do
      assert.truthy(help.out:find("--" .. option .. " ", 1, true))
    end
  end)
end)

describe("scripts/strong_scaling.lua", function()
  -- The published results of the original solver, nine systems, three strategies, two models.
  it("gives the published throughputs, and fits where they do", function()
    local result = run("strong_scaling", "--no-figures --rules subramanian2024")
    local found = {}
    for _, row in ipairs(csv.rows(result.folder .. "/strong_scaling.csv")) do
      local system, model = row.system:match "[^/]*$", row.model:match "[^/]*$"
      found[table.concat({ row.strategy, model, system, row.domain, row.gpus }, " ")] = tonumber(row.throughput)
    end
    local compared, infeasible = 0, 0
    for _, row in ipairs(csv.rows "spec/data/training/strong_scaling.csv") do
      local key = table.concat({ row.strategy, row.model, row.system, row.domain, row.gpus }, " ")
      local expected = tonumber(row.throughput)
      if expected then
        compared = compared + 1
        assert.near(expected, found[key] or 0, 1e-9 * expected, key)
      else
        infeasible = infeasible + 1
        assert.is_nil(found[key], key)
      end
    end
    assert.same({ 360, 117 }, { compared, infeasible })
    program.remove(result.folder)
  end)
end)
