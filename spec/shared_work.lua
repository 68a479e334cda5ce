-- What the processes of one run promise, however they were started: the same bytes for any number of them.
local csv = require "tperf.input.csv"
local program = require "program"

local SCRIPT = [[
local tperf = require "tperf"
local function show(rows, ...)
  for _, row in ipairs(rows) do
    local texts = {}
    for i, name in ipairs { ... } do texts[i] = tostring(row[name]) end
    print(table.concat(texts, " "))
  end
end
tperf.strategy.define { name = "mine", extends = "tensor" }
show(tperf.sweep {
  model = "subramanian2024/gpt3", system = "subramanian2024/B200", global_batch = 256, top = 2,
  gpus = tperf.vary { 64, 128 }, strategy = tperf.vary { "tensor", "context", "mine" },
  ["system.accelerator.hbm.capacity"] = tperf.linspace(20e9, 200e9, 4),
}, "strategy", "gpus", "capacity", "time", "candidates", "reason")
show(tperf.sweep {
  run = tperf.train, cache = "points.db", model = "gpt3-175b", system = "h100-sxm", software = "torchtitan-2024",
  global_batch = tperf.vary { 64, 512, 520 }, tp = tperf.vary { 4, 8 }, pp = tperf.vary { 8, 16 }, dp = 8,
  fields = { "time", "memory.total" },
}, "global_batch", "tp", "pp", "time", "memory.total", "reason")
show(tperf.sweep { run = tperf.collective, system = "h100-sxm", kind = "all_reduce", gpus = tperf.vary { 8, 64 },
  bytes = tperf.logspace(1e3, 1e9, 5) }, "bytes", "gpus", "time")
local seen = 0
show(tperf.sweep { run = function(o) seen = seen + o.x return { seen = seen } end, x = tperf.vary { 1, 2, 3 } }, "seen")
show({ tperf.search { model = "gpt2", system = "h100-sxm", gpus = 16, global_batch = 64 }[1] }, "tp", "pp", "dp",
  "time")
]]

--- Registers the specs.
---@param spec table        the spec file's environment
---@param start fun(n: integer, arguments: string): string  the command line that runs tperf in n processes
---@param counts integer[]  numbers of processes
---@param whole boolean     those of every shipped script and of fits, too
return function(spec, start, counts, whole)
  local it, before_each, after_each, assert = spec.it, spec.before_each, spec.after_each, spec.assert
  local it_if_whole = whole and it or function() end
  local folder
  before_each(function() folder = program.folder() end)
  after_each(function() program.remove(folder) end)

  local function run(n, arguments, where) return program.shell(start(n, arguments), where or folder) end

  local function columns(path)
    return program.shell(("tperf sweep --csv --db %s 'SELECT tp, pp, global_batch, time, software FROM points "
      .. "ORDER BY tp, pp, global_batch'"):format(path), folder).out
  end

  it("prints the same bytes with any number of processes", function()
    program.write(folder .. "/s.lua", SCRIPT)
    local plain = program.shell("tperf run s.lua", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    assert.is_true(#plain.out > 2500, #plain.out)
    local points = columns "points.db"
    for _, n in ipairs(counts) do
      program.shell("rm -f points.db", folder)
      local result = run(n, "run s.lua")
      assert.equal(plain.out, result.out, result.err)
      assert.equal(0, result.code, result.err)
      assert.equal(points, columns "points.db")
    end
  end)

  -- A small part of the two scripts that search and simulate for a minute.
  local SMALLER = {
    sweep_memory = "--model subramanian2024/gpt3 --gpus 64,128 --figure-gpus 128 --capacities 4 --bandwidths 3 "
      .. "--batch 64",
    serving_fleet = "--model llama-3.1-8b --systems h100-sxm --rate 30 --tp 1,2 --prompt 300 --output 60",
  }

  it_if_whole("gives the bytes of the plain program for every shipped script", function()
    local count, into = 0, program.quote(folder)
    for path in io.popen "ls scripts/*.lua":lines() do
      count = count + 1
      local name = path:match "([^/]*)%.lua$"
      local arguments = ("%s %s"):format(path, SMALLER[name] or "")
      local plain = program.shell(("tperf run --out %s/plain %s"):format(into, arguments))
      assert.equal(0, plain.code, plain.err)
      for _, n in ipairs(counts) do
        local result = run(n, ("run --out %s/spread %s"):format(into, arguments), ".")
        assert.equal(plain.out, result.out, name .. ": " .. result.err)
        local difference = program.shell("rm -f */.tperf-written; diff -r plain spread; rm -r spread", folder)
        assert.equal("", difference.out, name)
      end
      program.shell("rm -r plain", folder)
    end
    assert.is_true(count >= 22)
  end)

  it("walks a large search on all processes, whatever its options", function()
    local sizes = ("local GPUS <const>, ROWS <const> = %d, %d\n"):format(whole and 192 or 96, whole and 3000 or 200)
    program.write(folder .. "/s.lua", sizes .. [[
      local tperf = require "tperf"
      local parts = 0
      local function search(q)
        q.model, q.gpus, q.global_batch, q.strategy = "gpt3-175b", q.gpus or GPUS, GPUS, "all"
        q.system = q.system or "h100-sxm"
        q.progress = function() parts = parts + 1 end
        local found = tperf.search(q)
        for _, one in ipairs(found[1] and found[1].tp and { found } or found) do
          print(one.candidates, one.feasible, one.reason, #one)
          for i = 1, math.min(#one, 2000) do
            local c = one[i]
            print(c.strategy, c.tp, c.pp, c.dp, c.cp, c.micro_batch, c.zero, c.schedule, c.time, c.memory.total)
          end
        end
      end
      search { top = 300 }
      search { gpus = { GPUS // 2, GPUS }, system = { "h100-sxm", "a100-sxm-80gb" } }
      search { infeasible = true, top = ROWS, threads = 2 }
      search { where = function(c) return c.tp == 8 end }
      search { simulate = true, top = 2 }
      if ... == "spread" then io.stderr:write(parts, "\n") end]])
    local plain = program.shell("tperf run s.lua", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    for _, n in ipairs(counts) do
      local result = run(n, "run --trust -j 2 s.lua spread")
      assert.equal(plain.out, result.out, result.err)
      local parts = n > 1 and tonumber(result.err:match "^(%d+)") -- calls of `progress`
      assert.is_true(not parts or parts >= 4 * 4 * n, result.err) -- four for each process
    end
  end)

  it("sends the varying arguments, and gets the rows asked for", function()
    local report = {}
    for _, fields in ipairs { '{ "time", "memory.total", "tp" }', "nil" } do
      program.write(folder .. "/s.lua", ([[
        local tperf = require "tperf"
        local q = { run = tperf.train, model = "gpt3-175b", global_batch = 1536, fields = %s,
          system = tperf.vary { "h100-sxm", "a100-sxm-80gb" }, gpus = tperf.vary { 100, 1024 },
          ["software.host"] = tperf.vary { "2us", "3us" },
          tperf.grid { tp = { 1, 8 }, pp = { 8 } }, tperf.zip { micro_batch = { 1, 5 }, zero = { 1, 2 } } }
        tperf.report.save("rows.json", tperf.sweep(q))
        local count = 0
        function q.each(row)
          count = count + 1
          print(count, row.system, row.gpus, row.host, row.tp, row.zero, row.time)
        end
        tperf.sweep(q)
        q.each, q.gpus = nil, tperf.vary { 100, 300 }
        print(pcall(tperf.sweep, q))]]):format(fields))
      local plain = program.shell("tperf run --out . s.lua && mv rows.json plain.json", folder)
      assert.same({ "", 0 }, { plain.err, plain.code })
      assert.truthy(plain.out:find("none of 32 points is possible", 1, true), plain.out)
      for _, n in ipairs(counts) do
        assert.equal(plain.out, run(n, "run --out . s.lua").out)
        report[#report + 1] = program.slurp(folder .. "/rows.json")
        assert.equal(program.slurp(folder .. "/plain.json"), report[#report])
      end
    end
    assert.is_true(#report[1] < #report[#report] / 20)
  end)

  it("finds the fields of whole answers when they are read, as they were at the sweep", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local mine, batches = { base = "default" }, { 60, 64 }
      local hbm = { accelerator = { hbm = { capacity = 50e9 } } }
      local q = { run = tperf.train, model = "gpt3-175b", tp = 8, dp = 8, rules = mine, pp = tperf.vary { 4, 8 },
        system = tperf.system("h100-sxm"):with(hbm), global_batch = tperf.vary(batches), micro_batch = 2 }
      local rows = tperf.sweep(q)
      mine.base, batches[2], q.system, q.tp = "subramanian2024", 128, nil, 1
      table.sort(rows, function(a, b) return (a.time or 0) < (b.time or 0) end)
      for _, row in ipairs(rows) do
        print(row.pp, row.feasible, row.time, row.reason, row.nothing, #(row.stages or {}), row.kinds and #row.kinds)
        row.own, row.mfu, row.throughput = 1, nil, 2
        local names = {}
        for name, value in pairs(row) do names[#names + 1] = name .. "=" .. tostring(value):gsub("table.*", "") end
        print(table.concat(names, " "))
        if row.result then print(row.result.exchanges[1].section, row.result.mfu, row.result.throughput) end
        if row.time then print(tperf.cost(row, { tokens = 1e12 }).days) end
        tperf.report.save(("row%d.json"):format(_), { row })
      end]])
    local plain = program.shell("tperf run --out . s.lua && rm manifest.json && mkdir plain && mv *.json plain", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    for _, text in ipairs { "divide", "does not fit", "feasible=true" } do assert.truthy(plain.out:find(text), text) end
    for _, n in ipairs(counts) do
      assert.equal(plain.out, run(n, "run --out . s.lua").out)
      assert.equal("", program.shell("for f in row*.json; do cmp $f plain/$f; done", folder).out)
    end
  end)

  it("hands out rows with all their fields, however a script looks at them", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      for _, fields in ipairs { { "time", "memory.total" }, false } do
        local rows = tperf.sweep { run = tperf.train, model = "gpt3-175b", system = "h100-sxm", tp = 8, dp = 8,
          fields = fields or nil, pp = 8, global_batch = tperf.vary { 60, 64, 128, 256, 512, 1024, 2048, 4096 } }
        table.sort(rows, function(a, b) return rawget(a, "global_batch") > b.global_batch end)
        print(getmetatable(rows[1]) == nil, next(rows[2]), rows[7].time, rows[8].reason)
        local own = setmetatable(rows[3], { __index = { own = 1 } })
        rawset(rows[4], "time", 0)
        print(own.own, own.time, rawget(own, "time"), rows[4].time, rawequal(own, rows[3]), rawlen(rows))
        rows[5].time, rows[6].mine = nil, true
        print(rows[5].time, rows[6].mine, rows[6].time)
        for _, row in ipairs(rows) do
          print(row.time, row["memory.total"] or row.memory and row.memory.total, row.mine, row.reason)
        end
      end]])
    local plain = program.shell("tperf run s.lua", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    for _, n in ipairs(counts) do assert.equal(plain.out, run(n, "run s.lua").out) end
  end)

  it("sends of long lists what each process needs", function()
    program.write(folder .. "/s.lua", ("local N <const> = %d\n"):format(whole and 1201 or 301) .. [[
      local tperf = require "tperf"
      local sizes, counts, points = {}, {}, {}
      for i = 1, N do sizes[i], counts[i], points[i] = 1000 * i, 8 * i, { bytes = 1e6 + i, gpus = 8 * i } end
      points[7] = { bytes = 5, gpus = 16, ["system.network.slow.bandwidth"] = "40 GB/s" }
      local function sweep(name, q)
        q.run, q.system, q.fields, q.kind = tperf.collective, "h100-sxm", { "time" }, q.kind or "all_reduce"
        tperf.report.save(name, tperf.sweep(q))
      end
      local kinds = { "all_reduce", "all_gather" }
      sweep("zip.json", { kind = tperf.vary(kinds), tperf.zip { bytes = sizes, gpus = counts } })
      sweep("inner.json", { kind = tperf.vary(kinds), points })
      sweep("outer.json", { bytes = tperf.vary(sizes), gpus = tperf.vary { 8, 100000 } })]])
    local plain = program.shell("tperf run --out . s.lua && rm manifest.json && mkdir plain && mv *.json plain", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    for _, n in ipairs(counts) do
      local result = run(n, "run --out . s.lua")
      assert.same({ "", 0 }, { result.err, result.code })
      for _, name in ipairs { "zip", "inner", "outer" } do
        assert.equal("", program.shell(("cmp %s.json plain/%s.json"):format(name, name), folder).out)
      end
    end
  end)

  -- The runs of two stacks, without some columns that tables may lack.
  local function write_runs(path)
    local rows = {}
    for line in io.lines "spec/data/measured/steps.csv" do
      if #rows == 0 or line:find "SimuMax" or line:find "torchtitan" then rows[#rows + 1] = line end
    end
    program.write(path .. ".all", table.concat(rows, "\n") .. "\n")
    local list, names = csv.read(path .. ".all")
    local kept, lacks = {}, { sp = true, notes = true, tflops_kind = true, mem_note = true }
    for _, name in ipairs(names) do
      if not lacks[name] then kept[#kept + 1] = name end
    end
    for i, row in ipairs(list) do
      local fields = {}
      for k, name in ipairs(kept) do fields[k] = '"' .. row[name]:gsub('"', '""') .. '"' end
      list[i] = table.concat(fields, ",")
    end
    program.write(path, table.concat(kept, ",") .. "\n" .. table.concat(list, "\n") .. "\n")
  end

  it_if_whole("fits the stacks of a table on all processes", function()
    write_runs(folder .. "/runs.csv")
    local plain = program.shell("tperf calibrate --csv --software plain runs.csv", folder)
    assert.same({ "", 0 }, { plain.err, plain.code })
    local spread = run(3, "calibrate --csv --software spread runs.csv")
    assert.same({ plain.out, 0 }, { spread.out, spread.code })
    assert.equal("", program.shell("diff -r plain spread", folder).out)
    program.write(folder .. "/s.lua", [[
      local profile, ranks = require "tperf.measured.calibrate.profile", require "tperf.core".ranks
      local send, sent = ranks.send, 0
      function ranks.send(...)
        sent = sent + 1
        return send(...)
      end
      local stacks, names = profile.stacks { "runs.csv" }
      profile.fit_all(stacks, names)
      print(#names, sent)]])
    local result = run(3, "run --trust s.lua")
    local stacks, sent = result.out:match "^(%d+)\t(%d+)"
    assert.is_true(tonumber(stacks) >= 2, result.out .. result.err)
    assert.is_true(tonumber(sent) > 2, result.out) -- more than the two processes' settings
  end)

  it("ends with one error, that of the first failing point", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local rows = tperf.sweep { run = tperf.collective, system = "h100-sxm", kind = "all_reduce", gpus = 8, top = 5,
        bytes = tperf.vary { 1, 2, 3, 4 } }]])
    local result = run(2, "run s.lua")
    assert.matches("s.lua:2: tperf.collective: unknown field 'top'; there are algorithm, bytes, [%l, ]+ "
      .. "%(rank 1, point 1 %(bytes = 1%)%)", result.err)
    local _, count = result.err:gsub("unknown field", "")
    assert.equal(1, count)
  end)

  it("holds each process to --max-memory", function()
    program.write(folder .. "/s.lua", [[
      local tperf = require "tperf"
      local rows = tperf.sweep { model = "llama-3.1-405b", system = "h100-sxm", global_batch = 4096, keep = "all",
        gpus = tperf.vary { 8192, 4096 }, strategy = "all" }]])
    local result = run(2, "run --max-memory 30MB s.lua")
    assert.not_equal(0, result.code)
    assert.truthy(result.err:find("not enough memory", 1, true), result.err)
  end)
end
