-- Options of tperf.search: threads, filters, fixed sizes, lists, odd sizes, Ctrl-C, and refusals.
local cases = require "cases"
local tperf = require "tperf"
local exact = require "exact"
local program = require "program"
local published = require "published"
local steps = require "steps"

local MODEL = tperf.model { name = "m", layers = 24, hidden = 4096, heads = 32, ffn = 16384, seq = 2048 }

local function search(change)
  local request = {
    model = MODEL, system = published.system("H200", 8), gpus = 16, global_batch = 16, strategy = "all",
  }
  for field, value in pairs(change or {}) do
    if value == "none" then request[field] = nil else request[field] = value end
  end
  return tperf.search(request)
end

-- A smaller machine, of several domains too, for searches whose every candidate is compared.
local SMALLER <const> = cases({ gpus = 8, global_batch = 8, system = published.system("H200", 4) }, {})

local function search_smaller(change)
  for field, value in pairs(SMALLER) do change[field] = change[field] or value end
  return search(change)
end

local function each(found, visit)
  assert.is_true(#found > 0)
  for _, c in ipairs(found) do visit(c) end
end

describe("tperf.search", function()
  it("gives the same bytes with 1, 2 and 8 threads", function()
    for _, change in ipairs {
      { top = 50 }, { keep = "all" }, { top = 50, prune = false },
      { top = 5, gpus = { 8, 12, 16 }, rules = "subramanian2024" },
      { top = 3, infeasible = true, strategy = "summa" }, { top = 20, where = function(c) return c.pp == 2 end },
    } do
      local texts = {}
      for i, threads in ipairs(cases({ 1, 8 }, { 1, 2, 8 })) do
        change.threads = threads
        local found = search_smaller(change)
        local list = found.candidates and { found } or found
        local rows = {}
        for _, answer in ipairs(list) do table.move(answer, 1, #answer, #rows + 1, rows) end
        assert.is_true(#rows > 0)
        texts[i] = tperf.report.json(table.move(rows, 1, 50, 1, {})) .. exact(found)
      end
      for i = 2, #texts do assert.equal(texts[1], texts[i]) end
    end
  end)

  it("orders candidates by throughput, memory, strategy as asked, and sizes", function()
    local function key(c) -- after throughput and memory
      local number = { tensor = 1, summa = 2, context = 3 }
      return {
        number[c.strategy], c.dp, c.tp or c.tp1, c.cp or c.tp2 or 0, c.pp, c.micro_batch, c.panels or 1,
        c.fast.tp or c.fast.tp1, c.fast.cp or c.fast.tp2 or 0, c.fast.dp, c.fast.pp,
      }
    end
    local function before(a, b)
      if a.throughput ~= b.throughput then return a.throughput > b.throughput end
      if a.memory.total ~= b.memory.total then return a.memory.total < b.memory.total end
      local x, y = key(a), key(b)
      for i = 1, #x do
        if x[i] ~= y[i] then return x[i] < y[i] end
      end
      return false
    end
    local found, ties = search { keep = "all", rules = "subramanian2024" }, 0
    for i = 2, #found do
      assert.is_true(before(found[i - 1], found[i]))
      if found[i - 1].throughput == found[i].throughput then ties = ties + 1 end
    end
    assert.is_true(ties > 10)
  end)

  it("returns the best across strategies", function()
    local function of(strategy) return search { strategy = strategy, rules = "subramanian2024" } end
    local merged = {}
    for _, strategy in ipairs { "tensor", "context" } do
      for _, c in ipairs(of(strategy)) do merged[#merged + 1] = c end
    end
    table.sort(merged, function(a, b) return a.throughput > b.throughput end)
    local both = of { "tensor", "context" }
    for i = 1, 10 do assert.equal(merged[i].throughput, both[i].throughput) end
    assert.equal(of "tensor".candidates + of "context".candidates, both.candidates)
  end)

  it("tries candidates that two strategies share once under the default rules", function()
    local both, shared = search { strategy = { "tensor", "context" }, keep = "all" }, 0
    for _, c in ipairs(both) do assert.is_true(c.strategy == "tensor" or c.cp > 1) end
    local tensor, context = search { strategy = "tensor" }, search { strategy = "context", keep = "all" }
    for _, c in ipairs(context) do shared = shared + (c.cp == 1 and 1 or 0) end
    assert.is_true(shared > 0)
    assert.equal(tensor.candidates + context.candidates - shared, both.candidates)
  end)

  describe("where", function()
    it("returns the first of the filtered list of all candidates", function()
      local function wanted(c) return c.pp > 1 and c.fast.dp > 1 and c.memory.total < 100e9 end
      local list = {}
      for _, c in ipairs(search { keep = "all" }) do
        if c.feasible and wanted(c) then list[#list + 1] = c end
      end
      local found = search { where = wanted, top = 7 }
      assert.equal(7, #found)
      for i, c in ipairs(found) do assert.equal(exact(list[i]), exact(c)) end
      assert.equal(search().candidates, found.candidates) -- counted before the filter
    end)

    it("is given whole configurations", function()
      local seen
      search { where = function(c) seen = c return true end }
      for _, field in ipairs {
        "strategy", "gpus", "dp", "pp", "micro_batch", "microbatches", "time", "throughput", "mfu",
      } do
        assert.is_not_nil(seen[field], field)
      end
      assert.is_true(seen.memory.total > 0 and seen.breakdown.compute > 0 and seen.fast.dp > 0)
    end)

    it("is given what the search returns, whichever field it reads first", function()
      for _, first in ipairs { "idle", "time", "no_such_field" } do
        local offered = {}
        local found = search { top = 1, where = function(c)
          local _ = c[first]
          offered[#offered + 1] = c
          return true
        end }
        local same = 0
        for _, c in ipairs(offered) do
          if c.time == found[1].time and exact(c) == exact(found[1]) then same = same + 1 end
        end
        assert.truthy(same > 0, first)
      end
    end)

    it("may raise: the error reaches the script", function()
      local _, message = pcall(search, { where = function(c) error("no " .. c.strategy, 0) end })
      assert.truthy(message:find "^no %a+$", message)
      assert.is_true(#search() > 0) -- nothing is left behind
    end)

    it("may itself search", function()
      local inner
      search {
        strategy = "tensor", top = 1,
        where = function() inner = search { strategy = "context", gpus = 8 } return true end,
      }
      assert.equal(exact(search { strategy = "context", gpus = 8 }), exact(inner))
    end)

    it("that accepts nothing gives no result, and the reason", function()
      local found = search { where = function() return false end }
      assert.equal(0, #found)
      assert.is_true(found.candidates > 0 and found.feasible > 0)
      assert.truthy(found.reason and found.reason:find("where", 1, true), found.reason)
    end)
  end)

  describe("with sizes fixed", function()
    local all = search_smaller { keep = "all" }
    local texts = {} -- of those that were compared before
    local function check(change, fits)
      local expected, got = {}, {}
      for i, c in ipairs(all) do
        if fits(c) then
          texts[i] = texts[i] or exact(c)
          expected[#expected + 1] = texts[i]
        end
      end
      change.keep = "all"
      local found = search_smaller(change)
      for i, c in ipairs(found) do got[i] = exact(c) end
      assert.equal(table.concat(expected, "\n"), table.concat(got, "\n"))
      assert.equal(#expected, found.candidates)
      return #expected
    end
    local function one_of(...)
      local set = {}
      for _, v in ipairs { ... } do set[v] = true end
      return set
    end

    it("searches only those", function()
      local some = 0
      some = some + check({ pp = 4 }, function(c) return c.pp == 4 end)
      some = some + check({ pp = { 1, 3, 8 } }, function(c) return one_of(1, 3, 8)[c.pp] end)
      some = some + check({ dp = { 2, 8 } }, function(c) return one_of(2, 8)[c.dp] end)
      some = some + check({ micro_batch = { 1, 4 } }, function(c) return one_of(1, 4)[c.micro_batch] end)
      some = some + check({ dp = 4, pp = 2, micro_batch = 2 }, function(c)
        return c.dp == 4 and c.pp == 2 and c.micro_batch == 2
      end)
      assert.is_true(some > cases(300, 500))
    end)

    it("takes the given placement, even if a larger one would fit", function()
      for _, fast in ipairs { { dp = 2 }, { dp = 2, pp = 2 }, { dp = 1, pp = 1 } } do
        local function fits(c)
          for axis, size in pairs(fast) do
            if c.fast[axis] ~= size then return false end
          end
          return true
        end
        local found, expected = search_smaller { keep = "all", fast = fast }, 0
        each(found, function(c) assert.truthy(fits(c)) end)
        for _, c in ipairs(all) do expected = expected + (fits(c) and 1 or 0) end
        assert.is_true(#found > 0 and #found >= expected)
      end
    end)

    it("knows each strategy's axes and their placements", function()
      for _, case in ipairs {
        { "tensor", { tp = { 1, 2, 4 } }, function(c) return one_of(1, 2, 4)[c.tp] end },
        { "tensor", { fast = { tp = 2 } }, function(c) return c.fast.tp == 2 end },
        { "context", { tp = 2, cp = { 2, 4 } }, function(c) return c.tp == 2 and one_of(2, 4)[c.cp] end },
        { "summa", { tp2 = 4, panels = 8 }, function(c) return c.tp2 == 4 and c.panels == 8 end },
      } do
        local strategy, change, fits = table.unpack(case)
        local count = 0
        for _, c in ipairs(search_smaller { strategy = strategy, keep = "all" }) do
          count = count + (fits(c) and 1 or 0)
        end
        change.strategy, change.keep = strategy, "all"
        local found = search_smaller(change)
        assert.truthy(change.panels or change.fast and #found >= count or #found == count)
        each(found, function(c) assert.truthy(fits(c)) end)
      end
    end)

    it("gives the reason if no candidate has them", function()
      for _, change in ipairs {
        { pp = 7 }, { dp = 3 }, { micro_batch = 5 }, { fast = { dp = 3 } }, { tp = 5, strategy = "tensor" },
      } do
        local found = search(change)
        assert.equal(0, found.candidates)
        assert.is_string(found.reason)
      end
    end)
  end)

  it("answers for lists of systems and GPU counts as one by one, systems outermost", function()
    local systems, counts = { published.system("A100", 4), published.system("B200", 8) }, { 4, 24, 32 }
    local answers = search { system = systems, gpus = counts }
    assert.equal(6, #answers)
    for i, system in ipairs(systems) do
      for j, gpus in ipairs(counts) do
        local answer = answers[(i - 1) * 3 + j]
        assert.equal(gpus, answer.gpus)
        assert.equal(system.name, answer.system.name)
        assert.equal(system.network.fast.domain, answer.system.network.fast.domain)
        assert.equal(exact(search { system = system, gpus = gpus }), exact(answer))
      end
    end
    assert.equal(1, #search { gpus = { 8 } }) -- a list of one
  end)

  it("uses the given sequence length instead of the model's", function()
    local longer = MODEL:with { seq = 4096 }
    local found = search { seq = 4096 }
    for _, c in ipairs(found) do
      assert.equal(4096, c.seq)
      c.seq = nil -- which the other question does not say
    end
    assert.equal(exact(search { model = longer }), exact(found))
  end)

  it("ranks configurations that do not fit, if asked", function()
    local small = published.system("H200", 8):with { accelerator = { hbm = { capacity = 1e9 } } }
    local none, some = search { system = small }, search { system = small, infeasible = true }
    assert.equal(0, #none)
    assert.truthy(none.reason:find "none of %d+ candidates fits in 1.000 GB of memory", none.reason)
    assert.equal(10, #some)
    each(some, function(c) assert.is_false(c.feasible) end)
  end)

  -- Without pruning every shape is laid out. The default leaves out those of larger micro-batches that cannot fit.
  it("counts the same feasible candidates without laying out all of them", function()
    local names = { "gpt-oss-20b", "jamba-v0.1", "deepseek-v3", "llama-3.1-70b", "t5-11b", "qwen3-next-80b-a3b" }
    local precisions = { "bf16", "fp8-block", "fp8-current" }
    for i = 1, cases(2, #names) do
      local gpus = cases(32, 256)
      for j = cases(i, 1), cases(i, #precisions) do
        local question = { model = names[i], system = "h100-sxm", gpus = gpus, global_batch = cases(gpus, 768),
          software = "none", strategy = i == 2 and "context" or nil, precision = precisions[j],
          recompute = { "none", "full" } }
        local found = tperf.search(question)
        question.prune = false
        local all = tperf.search(question)
        assert.same({ all.candidates, all.feasible }, { found.candidates, found.feasible }, names[i])
        assert.is_true(found.feasible > 0 and found.feasible < found.candidates, names[i])
      end
    end
  end)

  it("reports progress", function()
    local last = 0
    search { progress = function(done)
      assert.is_true(done > last)
      last = done
    end }
    assert.is_true(last > 0)
  end)
end)

describe("odd sizes", function()
  local MOST = 1 << 31
  -- 2^4 3^2 5 7 has 60 divisors; 2^4 3^4 5 7 11 13 17 19 has 1600, the most below 2^31.
  local COMPOSITES = { tensor = 2095133040, summa = cases(1260, 2095133040), context = cases(1260, 2095133040) }

  local MOST_STEPS = 100000000 -- far fewer than GPUs

  -- Asserts that a search answers or gives a reason, in few steps, with plausible numbers.
  local function sound(change, some)
    local _, found = steps.count(function() return search(change) end, MOST_STEPS)
    assert.equal(some, found.candidates > 0)
    if found.candidates == 0 or found.feasible == 0 then assert.is_string(found.reason) end
    for _, c in ipairs(found) do
      assert.is_true(c.time > 0 and c.time < math.huge and c.memory.total > 0)
      local axes = (c.tp or c.tp1) * (c.cp or c.tp2 or 1)
      assert.equal(found.gpus, axes * c.dp * c.pp)
      assert.equal(found.global_batch, c.dp * c.micro_batch * c.microbatches)
    end
    return found
  end

  for _, strategy in ipairs { "tensor", "summa", "context" } do
    it("of GPUs, batches and domains, for " .. strategy, function()
      local COMPOSITE = COMPOSITES[strategy]
      local function with(change)
        change.strategy, change.infeasible = strategy, true
        return change
      end
      sound(with { gpus = 1, global_batch = 1 }, true)
      sound(with { gpus = 1, global_batch = MOST }, true)
      sound(with { gpus = 1009, global_batch = 1009 }, true)   -- a prime: data parallelism alone
      sound(with { gpus = 1009, global_batch = 64 }, false)
      sound(with { gpus = 2147483647, global_batch = 2147483647 }, true) -- also a prime
      sound(with { gpus = MOST, global_batch = MOST }, true)
      if cases(strategy == "tensor", true) then sound(with { gpus = MOST, global_batch = 1 }, false) end
      sound(with { gpus = COMPOSITE, global_batch = COMPOSITE }, true)
      if cases(strategy == "tensor", true) then sound(with { gpus = COMPOSITE, global_batch = 2147483647 }, false) end
      sound(with { gpus = 64, global_batch = 2147483647 }, true) -- nothing divides the batch: one replica
      sound(with { gpus = 64, global_batch = 7 }, true)
      sound(with { gpus = 4, system = published.system("H200", 6) }, true) -- the domain is larger than the machine
      sound(with { gpus = 64, system = published.system("H200", MOST) }, true)
      local half = published.system("H200", COMPOSITE // 2)
      sound(with { gpus = COMPOSITE, global_batch = COMPOSITE, system = half }, true)
      sound(with { gpus = 64, system = published.system("H200", 7) }, true) -- shares no factor
      sound(with { seq = MOST, gpus = 64 }, true)
    end)
  end

  it("give one candidate for one GPU and one sample", function()
    local found = search { strategy = "tensor", gpus = 1, global_batch = 1, keep = "all", recompute = { "none" } }
    assert.equal(1, #found)
    local c = found[1]
    assert.same({ 1, 1, 1, 1, 1 }, { c.tp, c.dp, c.pp, c.micro_batch, c.microbatches })
    for _, placed in pairs(c.fast) do assert.equal(1, placed) end
    assert.same({ 0, 0, 0, 0 }, {
      c.breakdown.tensor_comm, c.breakdown.data_comm, c.breakdown.pipeline_comm, c.breakdown.bubble,
    })
  end)

  it("without candidates are explained, with the nearest numbers of GPUs that have some", function()
    local question = { model = "llama-3.1-70b", system = "h100-sxm", global_batch = 1024 }
    local function reason(gpus, change)
      question.gpus = gpus
      local asked = {}
      for name, value in pairs(question) do asked[name] = value end
      for name, value in pairs(change or {}) do asked[name] = value end
      return tperf.search(asked).reason
    end
    -- of 80 layers and a batch of 1024, with tp a divisor of 64: 504 = 8 x 63 stages, 512 = 8 x 64
    assert.truthy(reason(509):find("; tp = 509 does not divide the 64 heads; 504 or 512 GPUs have one", 1, true))
    assert.falsy(reason(509):find("ep", 1, true))
    assert.truthy(reason(509, { ep = 2 }):find("ep = 2 has no experts to spread; try 1", 1, true))
    assert.truthy(reason(256, { tp = 3 }):find(": tp = 3 does not divide the 64 heads; try 2 or 4", 1, true))
  end)

  it("that do not fill the fast domain keep every placement that cannot grow, by rule", function()
    local found, seen = search { strategy = "tensor", gpus = 12, global_batch = 12, keep = "all" }, {}
    each(found, function(c)
      local used = c.fast.tp * c.fast.dp * c.fast.pp
      assert.is_true(used <= 8)
      seen[used] = true
      for _, axis in ipairs { "tp", "dp", "pp" } do
        for factor = 2, c[axis] // c.fast[axis] do
          local larger = c[axis] % (c.fast[axis] * factor) == 0 and used * factor <= 8
          assert.is_false(larger, ("%s %d of %d beside %d"):format(axis, c.fast[axis], c[axis], used))
        end
      end
    end)
    assert.is_true(seen[4] and seen[6])
    local none = search { strategy = "tensor", gpus = 12, global_batch = 12, rules = "subramanian2024" }
    assert.equal(0, none.candidates)
    assert.equal("12 GPUs do not fill fast domains of 8 exactly, as the rules 'subramanian2024' demand", none.reason)
  end)
end)

describe("tperf.search refuses", function()
  local function refusal(change, message)
    it(message, function()
      local ok, got = pcall(function() search(change) end)
      assert.is_false(ok)
      assert.truthy(got:find(message, 1, true), got)
      assert.truthy(got:find "^spec/search_options_spec.lua:%d+: ", got)
    end)
  end
  refusal({ gpus = 0 }, "'gpus' must be")
  refusal({ gpus = {} }, "'gpus' must be")
  refusal({ gpus = { 8, -1 } }, "'gpus[2]' must be an integer from 1 to 2147483648, got -1")
  refusal({ gpus = (1 << 31) + 1 }, "got 2147483649")
  refusal({ gpus = 1e300 }, "got 1e+300")
  refusal({ gpus = 0 / 0 }, "got nan")
  refusal({ gpus = "none" }, "'gpus' is missing")
  refusal({ global_batch = 2.5 }, "'global_batch' must be an integer from 1 to 2147483648, got 2.5")
  refusal({ global_batch = "none" }, "'global_batch' is missing")
  refusal({ gpu = 8 }, "unknown field 'gpu' (did you mean 'gpus'?)")
  refusal({ cp = 2, strategy = "tensor" }, "'cp' is an axis of strategy context, not of tensor")
  refusal({ schedule = "1f1b", virtual_stages = 4 }, "'virtual_stages' = 4 wants a schedule that interleaves")
  refusal({ fast = { cp = 2 }, strategy = "tensor" }, "unknown field 'fast.cp'")
  refusal({ strategy = "suma" }, "unknown strategy \"suma\" (did you mean 'summa'?)")
  refusal({ strategy = {} }, "'strategy' is an empty list")
  refusal({ strategy = { "tensor", "tensor" } }, "strategy 'tensor' is named twice")
  refusal({ strategy = "context", attention = "recompute" }, "has no attention 'recompute'")
  refusal({ system = {} }, "system")
  refusal({ system = "none" }, "system")
  refusal({ model = "none" }, "model")
  refusal({ top = 0 }, "'top' must be an integer from 1 to 1048576, got 0")
  refusal({ keep = "some" }, "'keep' must be one of")
  refusal({ threads = 0 }, "'threads' must be an integer from 1 to 1024, got 0")
  refusal({ where = 1 }, "'where' must be a function")
  refusal({ rules = "paper" }, "rules")
  refusal({ seq = 0 }, "'seq' must be an integer from 1 to 2147483648, got 0")
end)

describe("Ctrl-C", function()
  it("ends a search with the best so far, marked incomplete", function()
    -- 'where' signals the program once some hundred configurations have been seen
    local result = program.script([[
      local tperf = require "tperf"
      local function search(where)
        return tperf.search {
          model = "subramanian2024/gpt3_1T", system = "h200-sxm", gpus = 32, global_batch = 32, strategy = "all",
          rules = "subramanian2024", threads = 2, infeasible = true, top = 1 << 20, where = where,
        }
      end
      local whole, seen = search(), 0
      local found = search(function()
        seen = seen + 1
        if seen == 200 then io.popen("kill -INT " .. io.open("/proc/self/stat"):read "n"):close() end
        return true
      end)
      print(whole.complete, found.complete, #found >= 200, #found < #whole / 2)
      print(found[1].throughput >= found[#found].throughput)
    ]], "--trust")
    assert.equal("true\tfalse\ttrue\ttrue\ntrue\n", result.out, result.err)
    assert.equal(0, result.code)
    program.remove(result.folder)
  end)

  it("reaches a search that is deep in the core, on every thread", function()
    local folder = program.folder()
    program.write(folder .. "/long.lua", [[
      local tperf = require "tperf"
      print((io.open("/proc/self/stat"):read "n"))
      io.stdout:flush()
      local found = tperf.search { -- minutes of work
        model = { name = "m", layers = 5040, hidden = 61440, heads = 480, ffn = 245760, seq = 46080 },
        system = tperf.system "h200-sxm":with { network = { fast = { domain = 720 } } },
        gpus = 522547200, global_batch = 522547200, strategy = "all", schedule = "1f1b", threads = 2,
        prune = false, infeasible = true,
      }
      print(found.complete, (found.candidates > 0) == (found.reason ~= "interrupted before the first candidate"))
    ]])
    local result = program.shell([[
      timeout -s KILL 600 ]] .. program.quote(program.absolute()) .. [[ run --trust long.lua > out & job=$!
      while ! test -s out; do sleep 0.02; done
      read pid < out
      # One thread looks at the keyboard from the start, the third is the core's second.
      while test "$(ls /proc/$pid/task | wc -l)" -lt 3; do sleep 0.02; done
      until computed $pid 10; do running $pid || break; sleep 0.02; done
      kill -INT $pid
      wait $job; code=$?; tail -n 1 out; exit $code]], folder)
    program.remove(folder)
    assert.equal("false\ttrue\n", result.out, result.err)
    assert.equal(0, result.code)
  end)

  it("of `tperf search` prints the best so far and says so", function()
    local folder = program.folder()
    program.write(folder .. "/m.yaml", "name: m\nlayers: 24\nhidden: 1536\nheads: 12\nffn: 6144\nseq: 92160\n")
    local result = program.shell([[
      timeout -s KILL 600 sh -c 'echo $$ > pid; exec ]] .. program.quote(program.absolute()):gsub("'", "") .. [[ \
        search m.yaml -s h200-sxm -g 522547200 -b 522547200 --strategy all --csv' > out & job=$!
      while ! test -s pid; do sleep 0.02; done
      read pid < pid
      until computed $pid 20; do running $pid || break; sleep 0.02; done
      kill -INT $pid
      wait $job; code=$?; wc -l < out; exit $code]], folder)
    program.remove(folder)
    assert.truthy(result.err:find "interrupted: the best so far", result.err)
    assert.equal("11", result.out:match "%d+") -- a header and ten rows
    assert.equal(0, result.code)
  end)
end)
