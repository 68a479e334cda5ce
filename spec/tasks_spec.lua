-- The tasks of a step (include/tperf/step.h): they add up to the passes of the closed form, and their collectives and
-- memory agree with the reported ones.
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"
local yaml = require "tperf.core".yaml
local program = require "program"

local SEED <const>, CASES <const> = 70131, cases(14, 120)
local STACK = {
  compute = 1.2, attention = 1.4, memory = 1.5, comm = 1.3, host = 3e-5, overlap = 0.7, optimizer = 0.5,
  kernel = "flash", name = "spec",
}
local EQUAL = { base = "default", layers_from_description = false }
local AXES = {
  tensor = { { tp = 1 }, { tp = 2 }, { tp = 8 } }, context = { { tp = 2, cp = 4 }, { tp = 4, cp = 2 } },
  summa = { { tp1 = 4, tp2 = 2 }, { tp1 = 2, tp2 = 2 } },
}
local SCHEDULES = { "1f1b", "gpipe", "interleaved_1f1b", "1f1b_overlap", "zb1p", "dualpipe", "zb_h1", "zbv" }

local function question(pick, rules)
  local strategy, pp, dp = pick { "tensor", "context", "summa" }, pick { 1, 2, 4 }, pick { 1, 2, 8 }
  local model = { name = "spec", layers = 16, hidden = 2048, heads = 16, ffn = 8192, seq = 2048 }
  if rules ~= EQUAL then model.vocab = 32000 end
  local q = {
    model = model, system = pick { "h100-sxm", "subramanian2024/B200" }, strategy = strategy, pp = pp, dp = dp,
    zero = pick { 0, 1, 2, 3 }, recompute = pick { "none", "full" }, simulate = pp > 1 and pick(SCHEDULES) or true,
    software = pick { "none", STACK }, rules = rules, global_batch = dp * pp * pick { 4, 6 },
    data_overlap = pick { true, true, false },
  }
  for axis, size in pairs(pick(AXES[strategy])) do q[axis] = size end
  return q
end

local function shown(q)
  return ("%s %s pp %d dp %d zero %d %s %s"):format(q.strategy, q.simulate, q.pp, q.dp, q.zero, q.recompute,
    q.software == "none" and "bare" or "stack")
end

local function near(expected, got, what)
  if math.abs(expected - got) <= 1e-9 * math.max(math.abs(expected), 1e-6) then return end
  error(("%s: %.17g, not %.17g"):format(what, got, expected))
end

-- Tasks that wait for each other run one after the other; a gap is filled by one that runs beside them or, before a
-- pass's message, by the host that delays it.
local function check_row(list, length, what)
  local now, beside = 0, 0
  for _, task in ipairs(list) do
    if not (task.stop >= task.start and task.start >= -1e-15) then error(what .. ": " .. task.kind) end
    if not (task.seconds <= (task.stop - task.start) * (1 + 1e-9)) then error(what .. ": " .. task.kind) end
    if task.beside then
      beside = math.max(beside, task.stop)
    else
      local from = task.start > now and beside > now * (1 + 1e-9) and math.min(beside, task.start) or now
      if task.kind ~= "message" then near(from, task.start, what .. ": " .. task.kind) end
      if not (task.start >= now * (1 - 1e-9)) then error(what .. ": " .. task.kind) end
      now = task.stop
    end
  end
  assert.is_true(now <= length * (1 + 1e-9) + 1e-15, what)
end

describe("the tasks of a step", function()
  it("make up its passes, and end when the iteration does", function()
    local pick, count, seen = picker(SEED), 0, {}
    for case = 1, CASES do
      local q = question(pick, case % 2 == 0 and EQUAL or nil)
      local what = shown(q)
      seen[q.strategy], seen[q.simulate] = true, true
      local c, t = tperf.train(q)
      local lists, last = require "tperf.timeline.tasks".lists(t), 0
      for d = 1, t.devices do
        for _, op in t:queue(d) do
          local list = lists[op.type][lists.chunks[op.stage].list]
          if not op.overlapped then near(op.stop - op.start, list.length, what) end
        end
        for task in t:tasks(d) do last, count = math.max(last, task.stop), count + 1 end
      end
      for _, pass in ipairs { "forward", "backward", "backward_input", "backward_weight" } do
        for _, list in ipairs(lists[pass]) do check_row(list, list.length, what .. " " .. pass) end
      end
      near(c.simulated.time, last, what)
    end
    assert.is_true(count > 500 * CASES)
    for _, kind in ipairs(SCHEDULES) do assert.is_true(seen[kind], kind) end
    for kind in pairs(AXES) do assert.is_true(seen[kind], kind) end
  end)

  it("have messages that travel beside passes arrive before those that wait for them", function()
    local c, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 8, pp = 4, dp = 2, global_batch = 16,
      micro_batch = 1, schedule = "interleaved_1f1b", virtual_stages = 2, overlap_p2p = true, software = STACK,
      simulate = true }
    local starts, arrivals, stop = {}, {}, 0
    local function key(pass, stage, microbatch) return ("%s %d %d"):format(pass, stage, microbatch) end
    for d = 1, t.devices do
      for _, op in t:queue(d) do starts[key(op.type, op.stage, op.microbatch)] = op.start end
      for task in t:tasks(d) do
        stop = math.max(stop, task.stop)
        if task.kind == "message" then
          local to = task.stage + (task.pass == "forward" and 1 or -1)
          arrivals[key(task.pass, to, task.microbatch)] = task.stop
        end
      end
    end
    local sent, waiting = 0, 0
    for what, start in pairs(starts) do
      local arrival = arrivals[what]
      if arrival then
        sent = sent + 1
        assert.is_true(arrival <= start * (1 + 1e-9), what)
        if start - arrival < 1e-9 then waiting = waiting + 1 end
      end
    end
    assert.equal(2 * c.microbatches * (t.stages - 1), sent)
    assert.is_true(waiting >= 2 * (t.stages - 1) and waiting < sent)
    near(c.simulated.time, stop, "the end")
  end)

  it("add up to the parts of the reported time if stages are equal", function()
    local pick = picker(SEED + 1)
    for _ = 1, cases(12, 100) do
      local q = question(pick, EQUAL)
      q.simulate = true
      q.schedule = q.pp > 1 and pick { "1f1b", "gpipe" } or "1f1b"
      local c, t = tperf.train(q)
      local sum, last = {}, 0
      for task in t:tasks(1) do
        local after = task.kind == "collective" and not task.pass -- gradients of replicated parameters
        local part = (task.beside and "beside " or "") .. (after and "reduce gradients" or task.kind)
        sum[part] = (sum[part] or 0) + task.seconds
        last = math.max(last, task.stop)
      end
      local b = c.breakdown
      near(b.compute + b.memory, sum.kernel, shown(q) .. " kernels")
      near(b.pipeline_comm, sum.message or 0, shown(q) .. " messages")
      near(b.data_comm, (sum["gather weights"] or 0) + (sum["reduce gradients"] or 0), shown(q) .. " exchanges")
      near(b.optimizer, (sum.optimizer or 0) + (sum.launches or 0), shown(q) .. " optimizer")
      near(c.time, last, shown(q) .. " all")
    end
  end)

  it("follow a custom schedule, too", function()
    tperf.schedule.define("spec_own", function(s)
      for d = 1, s.devices do
        for m = 1, s.microbatches do s:forward(d, d, m) end
        for m = 1, s.microbatches do s:backward_input(d, d, m) end
        for m = 1, s.microbatches do s:backward_weight(d, d, m) end
      end
    end)
    local c, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 4, dp = 2, global_batch = 16,
      simulate = "spec_own" }
    local last, kernels = 0, 0
    for d = 1, 4 do
      for task in t:tasks(d) do
        last = math.max(last, task.stop)
        if task.kind == "kernel" then kernels = kernels + 1 end
      end
    end
    near(c.simulated.time, last, "the end")
    -- 11 ops a layer, 32 layers, 8 micro-batches: forward, and backward; 4 products a layer and the head wait.
    assert.equal(8 * (2 * (32 * #c.layers + #c.first + #c.last) + 4 * 32 + 1), kernels)
    assert.equal(8, t.peak.held[1].microbatches)
  end)

  it("of an overlapped pair share its time", function()
    local _, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 4, pp = 4, dp = 2, global_batch = 32,
      simulate = "1f1b_overlap" }
    local longer = 0
    for task in t:tasks(2) do
      if task.stop - task.start > 1.01 * task.seconds and task.kind == "kernel" then longer = longer + 1 end
    end
    assert.is_true(longer > 100)
  end)
end)

describe("the peak of memory", function()
  it("equals the reported one if a device's chunks are equal", function()
    local pick = picker(SEED + 2)
    for case = 1, cases(50, 150) do
      local q = question(pick, case % 2 == 0 and EQUAL or nil)
      q.schedule, q.simulate = q.pp > 1 and pick { "1f1b", "gpipe", "zb1p", "1f1b_overlap" } or "1f1b", true
      q.recompute_layers = pick { 1, 2 }
      local c, t = tperf.train(q)
      local peak, alive, held = c.memory.peak, 0, 0
      near(c.memory.total, peak.total, shown(q))
      for _, bytes in pairs(peak.alive) do alive = alive + bytes end
      near(peak.total, alive, shown(q) .. " alive")
      for _, item in ipairs(peak.held) do held = held + item.microbatches end
      assert.equal(t.peak_activations[peak.device], held, shown(q))
      local most = 0
      for _, step in ipairs(t:memory(peak.device)) do most = math.max(most, step.memory) end
      near(peak.total, most, shown(q) .. " track")
      local op = t:op { type = peak.moment.pass == "overlapped" and "forward" or peak.moment.pass,
        stage = peak.moment.stage, microbatch = peak.moment.microbatch }
      assert.equal(peak.device, op.device)
      assert.equal(peak.time, op.start)
    end
  end)

  it("of a bidirectional schedule counts the head's activations once or twice, not for all micro-batches", function()
    local c = tperf.train { model = { name = "spec", layers = 32, hidden = 2048, heads = 32, ffn = 11008, seq = 2048,
      vocab = 128256 }, system = "h100-sxm", pp = 4, global_batch = 32, schedule = "dualpipe", simulate = true }
    assert.is_true(c.memory.peak.total <= c.memory.total)
    assert.is_true(c.memory.peak.total > 0.9 * c.memory.total)
  end)
end)

describe("a collective's record", function()
  local function all(c)
    local list = {}
    for _, ops in ipairs { c.layers, c.first, c.last } do
      for _, op in ipairs(ops) do
        for _, pass in ipairs { op.forward, op.backward } do table.move(pass.comms, 1, #pass.comms, #list + 1, list) end
      end
    end
    for _, exchange in ipairs(c.exchanges) do table.move(exchange.comms, 1, #exchange.comms, #list + 1, list) end
    table.move(c.messages, 1, #c.messages, #list + 1, list)
    return list
  end

  it("has its time, and bytes that its links can carry in that time", function()
    local pick, seen, count = picker(SEED + 3), {}, 0
    for _ = 1, 120 do
      local q = question(pick)
      q.simulate, q.software = nil, "none"
      if pick { true, false } and q.strategy == "tensor" then
        q.model, q.seq, q.ep, q.dp, q.global_batch = "mixtral-8x7b", 2048, 2, 8, 8 * q.pp * 4
      end
      local c, network = tperf.train(q), tperf.system(q.system).network
      for _, comm in ipairs(all(c)) do
        local panels = c.panels or 1
        local one = tperf.collective { system = q.system, kind = comm.kind, bytes = comm.bytes, gpus = comm.gpus,
          fast = comm.fast }
        if panels == 1 then near(one, comm.time, comm.kind) end
        assert.is_true(comm.fast_bytes <= network.fast.bandwidth * comm.time * (1 + 1e-9), comm.kind)
        local nics = network.slow.nics_per_gpu * network.slow.bandwidth
        assert.is_true(comm.nic_bytes <= nics * comm.time * (1 + 1e-9), comm.kind)
        assert.is_true(comm.fast_bytes + comm.nic_bytes > 0)
        assert.equal(comm.gpus > comm.fast, comm.nic_bytes > 0, comm.kind)
        seen[comm.algorithm], count = true, count + 1
      end
    end
    assert.is_true(count > 1000)
    for _, name in ipairs { "ring", "rings", "pairwise", "send" } do assert.is_true(seen[name], name) end
  end)

  it("has the bytes of its algorithm", function()
    local function record(fast)
      local c = tperf.train { model = "llama-3.1-70b", system = "h100-sxm", tp = 8, dp = 4, global_batch = 4,
        fast = { tp = fast, dp = 1, pp = 1 } }
      for _, op in ipairs(c.layers) do
        if op.name == "qkv" then return op.forward.comms[1] end
      end
    end
    local whole = 2 * 8192 * 8192 -- tokens x width, 16 bits
    local inside, across = record(8), record(2)
    assert.same({ "all_gather", "ring" }, { inside.kind, inside.algorithm })
    near(7 / 8 * whole, inside.fast_bytes, "in a domain")
    assert.equal(0, inside.nic_bytes)
    assert.equal("rings", across.algorithm)
    near(7 / 8 * whole, across.fast_bytes, "across domains, fast")
    near(7 / 8 * whole / 2, across.nic_bytes, "across domains, a GPU's NICs") -- two rings, one through each GPU
  end)
end)

describe("a timeline of tasks", function()
  local function timeline()
    local _, t = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", tp = 2, pp = 2, dp = 2, global_batch = 8,
      simulate = true, software = "typical" }
    return t
  end

  it("is a trace whose threads' events nest", function()
    local t, count = timeline(), 0
    local events, stop = assert(yaml(t:trace(), "trace")).traceEvents, {}
    for d = 1, 2 do
      for task in t:tasks(d) do count = count + #task.resources end
    end
    table.sort(events, function(a, b) return (a.ts or 0) < (b.ts or 0) end)
    for _, event in ipairs(events) do
      if event.ph == "X" then
        local thread = event.pid .. " " .. event.tid
        assert.is_true(event.ts >= (stop[thread] or 0) - 1e-3, event.name) -- microseconds
        stop[thread] = event.ts + event.dur
        if event.pid > 1 then count = count - 1 end
      end
    end
    assert.equal(0, count)
    assert.is_nil(t:trace({ tasks = false }):find "all_gather")
  end)

  it("is a picture with a row for each resource", function()
    local t = timeline()
    local svg = t:svg { from = 0, to = 0.05 }
    for _, name in ipairs { "compute", "fast links", "host" } do
      assert.truthy(svg:find(">" .. name .. "<", 1, true))
    end
    assert.truthy(svg:find("<title>all_gather over tp for attention qkv, ", 1, true))
    assert.is_nil(t:svg { tasks = false }:find("fast links", 1, true))
  end)

  it("is a page with each list of tasks once", function()
    local t = timeline()
    local data = assert(yaml(t:html():match '<script type="application/json" id="data">(.-)</script>', "data"))[1]
    local tasks = data.tasks
    assert.equal(t.iteration_time, data["end"])
    for d = 1, 2 do assert.equal(0, #tasks.placed[d] % 4) end
    assert.equal(#tasks.lists, #tasks.lengths)
    assert.is_true(#tasks.lists < 12)
  end)

  it("is written by the program", function()
    local folder = program.folder()
    local run = "tperf train llama-3.1-8b -s h100-sxm -b 8 --tp 2 --pp 2 --dp 2 --timeline "
    assert.equal("", program.shell(run .. "a.svg", folder).err)
    assert.truthy(program.slurp(folder .. "/a.svg"):find("fast links", 1, true))
    local wrong = program.shell(run .. "a.gif", folder)
    assert.truthy(wrong.err:find("must end in .svg, .png, .pdf, .html, .json or .txt, got 'a.gif'", 1, true))
    local without = program.shell("PATH=/nowhere " .. run .. "a.png", folder)
    assert.truthy(without.err:find("cannot write 'a.png': rsvg-convert (librsvg)", 1, true))
    program.remove(folder)
  end)

  it("needs a model, not bare times", function()
    local t = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 2 }
    local ok, message = pcall(t.tasks, t, 1)
    assert.is_false(ok)
    assert.truthy(message:find("tasks are a model's", 1, true))
  end)
end)
