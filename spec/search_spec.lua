-- tperf.search: against the published sheet and program, and against itself: pruning, threads, filters and fixed sizes
-- leave the results unchanged.
local cases = require "cases"
local tperf = require "tperf"
local csv = require "csv"
local exact = require "exact"
local published = require "published"
local near = published.near

local AXES = { tensor = { "tp" }, summa = { "tp1", "tp2" }, context = { "tp", "cp" } }

-- A candidate as the sheet writes it: dp, axes, pp, micro-batch, panels, placements of the axes, of dp and of pp.
local function tuple(c)
  local parts = { c.dp }
  for _, axis in ipairs(AXES[c.strategy]) do parts[#parts + 1] = c[axis] end
  table.move({ c.pp, c.micro_batch }, 1, 2, #parts + 1, parts)
  parts[#parts + 1] = c.panels -- nil for other strategies than summa
  for _, axis in ipairs(AXES[c.strategy]) do parts[#parts + 1] = c.fast[axis] end
  table.move({ c.fast.dp, c.fast.pp }, 1, 2, #parts + 1, parts)
  return table.concat(parts, " ")
end

describe("tperf.search under the published rules", function()
  it("gives the sheet's searches", function()
    local rows = csv.rows "spec/data/training/golden_searches.csv"
    for _, row in ipairs(rows) do
      local n = function(name) return tonumber(row[name]) end
      local strategy = published.strategy[row.strategy]
      local found = tperf.search {
        model = {
          name = "m", layers = n "layers", hidden = n "hidden", heads = n "heads", ffn = 4 * n "hidden", seq = n "seq",
        },
        system = published.system(row.system, row.domain), rules = "subramanian2024", strategy = strategy,
        gpus = n "gpus", global_batch = n "global_batch",
      }
      local at = table.concat({ row.strategy, row.hidden, row.gpus, "" }, " ")
      assert.equal(n "candidates", found.candidates, at)
      assert.equal(n "feasible", found.feasible, at)
      if row.best == "" then
        assert.equal(0, #found)
        assert.truthy(found.reason:find "fits in")
      else
        near(row.throughput, found[1].throughput, at, 1e-12)
        assert.equal(row.best, tuple(found[1]), at)
        assert.is_nil(found.reason)
      end
    end
    assert.equal(11, #rows)
  end)

  local BREAKDOWN = {
    compute = "t_comp", memory = "t_mem", tensor_comm = "t_tp_comm", data_comm = "t_dp_comm",
    pipeline_comm = "t_pp_comm", bubble = "t_bubble",
  }

  local function request_of(row)
    return {
      model = published.model(row.model), system = published.system(row.system, row.nvlink_size),
      rules = "subramanian2024", strategy = published.strategy[row.strategy], gpus = tonumber(row.n_gpus),
      global_batch = tonumber(row.gbs),
    }
  end

  local function key_of(row)
    return table.concat({ row.strategy, row.model, row.system, row.nvlink_size, row.n_gpus, row.gbs }, " ")
  end

  it("agrees with the published program's ten best", function()
    local found, key
    for _, row in ipairs(csv.rows "spec/data/training/best.csv") do
      if key ~= key_of(row) then found, key = tperf.search(request_of(row)), key_of(row) end
      assert.equal(tonumber(row.candidates), found.candidates, key)
      assert.equal(tonumber(row.feasible), found.feasible, key)
      local c, at = found[row.rank + 1], key .. " #" .. row.rank .. " "
      near(row.throughput, c.throughput, at)
      if row["ties_rel1e-12"] == "1" and row["near_rel1e-6"] == "1" then
        near(row.mem * 1e9, c.memory.total, at .. "memory")
        near(row.wts_mem * 1e9, c.memory.weights, at .. "weights")
        near(row.wts_optimizer_states_mem * 1e9, c.memory.optimizer, at .. "optimizer")
        near(row.acts_mem * 1e9, c.memory.activations, at .. "activations")
        assert.same({ tonumber(row.dp), tonumber(row.pp), tonumber(row.mbs) }, { c.dp, c.pp, c.micro_batch }, at)
        for part, column in pairs(BREAKDOWN) do near(row[column], c.breakdown[part], at .. part, 1e-9, c.time) end
      end
    end
  end)

  local function named(row)
    local parts = { row.dp }
    local columns = { tensor = { "tp" }, summa = { "tp1", "tp2" }, context = { "tp1", "tp2" } }
    local axes = columns[published.strategy[row.strategy]]
    for _, axis in ipairs(axes) do parts[#parts + 1] = row[axis] end
    table.move({ row.pp, row.mbs }, 1, 2, #parts + 1, parts)
    if row.nb ~= "" then parts[#parts + 1] = row.nb end
    for _, axis in ipairs(axes) do parts[#parts + 1] = row["nv_" .. axis] end
    table.move({ row.nv_dp, row.nv_pp }, 1, 2, #parts + 1, parts)
    return table.concat(parts, " ")
  end

  it("evaluates every candidate as the published program does", function()
    local by_name, key
    for _, row in ipairs(csv.rows "spec/data/training/candidates.csv") do
      if key ~= key_of(row) then
        local request = request_of(row)
        request.keep = "all"
        local found = tperf.search(request)
        key, by_name = key_of(row), {}
        assert.equal(tonumber(row.candidates), #found, key)
        assert.equal(tonumber(row.candidates), found.candidates, key)
        assert.equal(tonumber(row.all_feasible), found.feasible, key)
        for _, c in ipairs(found) do by_name[tuple(c)] = c end
      end
      local at = key .. ": " .. named(row)
      local c = assert(by_name[named(row)], at)
      near(row.t, c.time, at .. " time")
      near(row.mem * 1e9, c.memory.total, at .. " memory")
      assert.equal(row.feasible == "1", c.feasible, at)
    end
  end)
end)

-- Random small searches: every strategy, rules of any mixture, machines and models of any shape.
local SEARCHES <const> = cases(20, 300)
local random = { seed = tonumber(os.getenv "TPERF_SPEC_SEED") or 20241002 }

local function pick(list) return list[math.random(#list)] end

local function random_rules()
  local set = { base = pick { "default", "subramanian2024" } }
  for _, rule in ipairs(tperf.rules.describe()) do
    if math.random(4) == 1 then set[rule.name] = math.random(2) == 1 end
  end
  return set
end

function random.request()
  local heads = pick { 1, 4, 6, 8, 12, 16 }
  local hidden = heads * pick { 64, 96, 128, 256 }
  return {
    model = {
      name = "random", layers = pick { 1, 2, 6, 8, 12 }, hidden = hidden, heads = heads, ffn = pick { 3, 4 } * hidden,
      seq = pick { 256, 768, 1000, 2048, 8192 },
    },
    system = published.system(pick { "A100", "H200", "B200" }, pick { 1, 2, 4, 6, 8, 64 }, pick { 0.5, 1, 2 }):with {
      accelerator = { hbm = { capacity = 10 ^ (8 + 3 * math.random()) } },
    },
    rules = random_rules(), gpus = pick { 1, 2, 4, 6, 8, 12, 16, 24, 30, 32, 64 },
    global_batch = pick { 1, 4, 7, 12, 16, 48, 64 },
    strategy = pick { "tensor", "summa", "context", "all", { "context", "tensor" } }, top = pick { 1, 3, 10 },
    threads = pick { 1, 2 },
  }
end

local function with(request, change)
  local copy = {}
  for field, value in pairs(request) do copy[field] = value end
  for field, value in pairs(change) do copy[field] = value end
  return copy
end

-- The total order that tperf/search.h promises: throughput, memory, then the strategy in the order asked for.
local function in_order(a, b)
  if a.throughput ~= b.throughput then return a.throughput > b.throughput end
  return a.memory.total <= b.memory.total
end

describe("pruning", function()
  it("never changes the answer: 300 random searches against each candidate of the space", function()
    math.randomseed(random.seed)
    local kept, none, skipped = 0, 0, 0
    for i = 1, SEARCHES do
      local request = random.request()
      local at = ("search %d of seed %d"):format(i, random.seed)
      local pruned, whole = tperf.search(request), tperf.search(with(request, { prune = false }))
      assert.equal(exact(whole), exact(pruned), at)
      local all = tperf.search(with(request, { keep = "all" }))
      assert.equal(all.candidates, #all, at)
      assert.equal(all.candidates, whole.candidates, at)
      assert.equal(whole.feasible, whole.evaluated, at)
      local best, disorder = {}, 0
      for j, c in ipairs(all) do
        if j > 1 and not in_order(all[j - 1], c) then disorder = disorder + 1 end
        if c.feasible then best[#best + 1] = c end
      end
      assert.equal(0, disorder, at)
      assert.equal(#best, pruned.feasible, at)
      assert.equal(math.min(#best, request.top), #pruned, at)
      for j, c in ipairs(pruned) do
        assert.equal(exact(best[j]), exact(c), at)
        kept = kept + 1
      end
      none = none + (#pruned == 0 and 1 or 0)
      skipped = skipped + all.candidates - pruned.feasible
    end
    -- the comparison means something only if cases of every sort occur
    local part = SEARCHES / 300
    assert.is_true(kept > 500 * part and none > 10 * part and none < 200 * part and skipped > 1000 * part,
      ("%d %d %d"):format(kept, none, skipped))
  end)
end)

describe("tp x cp GPUs for fewer tokens", function()
  -- The published model uses integer division, and prices the zero tokens that are left.
  it("are candidates of the published model", function()
    local found = tperf.search { model = { name = "wide", layers = 8, hidden = 61440, heads = 480, ffn = 245760,
      seq = 256 }, system = "subramanian2024/A100", gpus = 960, global_batch = 960, strategy = "context", tp = 480,
      cp = 2, rules = "subramanian2024", infeasible = true }
    assert.is_true(found.candidates > 0)
    assert.is_true(found[1].time > 0)
  end)
end)

describe("machines that differ in the size of their domains", function()
  local function ask(machines, fast)
    return tperf.search { model = "llama-3.1-8b", system = machines, gpus = 16, global_batch = 16, tp = 2, fast = fast,
      top = 5 }
  end

  local function agree(name, fast)
    local machines = {}
    for i = 1, 3 do
      machines[i] = tperf.system(name):with { name = name .. i, network = { fast = { domain = 2 << i } } }
    end
    local together, times = ask(machines, fast), {}
    for i, machine in ipairs(machines) do
      local alone = ask(machine, fast)
      assert.equal(#alone, #together[i])
      for rank, c in ipairs(alone) do assert.equal(c.time, together[i][rank].time) end
      times[i] = alone[1].time
    end
    return times
  end

  it("have the same times beside each other as alone", function()
    local times = agree("h100-sxm", { tp = 2 })
    assert.truthy(times[1] >= times[2] and times[2] >= times[3])
  end)

  it("have slower links between two GPUs of a larger mesh", function()
    local times = agree("mi300x", { tp = 2, dp = 1, pp = 1 })
    assert.truthy(times[1] < times[2] and times[2] < times[3])
  end)
end)
