-- Overlap: expert exchanges with the other micro-batch, products in chunks, buckets of gradients.
local cases = require "cases"
local experts_only = require "experts_only"
local picker = require "picker"
local tperf = require "tperf"

local SEED <const>, CASES <const> = 163, cases(80, 400)
local STACK <const>, MODEL <const> = experts_only.STACK, experts_only.model(16)

local function trained(change)
  local q = {
    model = MODEL, system = "h100-sxm", gpus = 128, ep = 32, global_batch = 512, software = "none", explain = true,
  }
  for key, value in pairs(change) do q[key] = value end
  return tperf.train(q)
end

local function refusal(change)
  local ok, message = pcall(trained, change)
  assert.is_false(ok)
  return tostring(message)
end

local function ops_of(c)
  local found = {}
  for _, op in ipairs(c.kinds[1].ops) do found[op.name] = op end
  return found, c.kinds[1].ops
end

local function work(pass) return pass.compute_time + pass.exposed_memory_time end

-- Seconds of a layer's kernels between dispatch and combine, of all others, and of the exchanges.
local function halves(c, pass)
  local inside, outside, ops, exchanged = 0, 0, select(2, ops_of(c)), {}
  local is_inside = false
  for _, op in ipairs(ops) do
    if op.name == "combine" then is_inside = false end
    if is_inside then inside = inside + work(op[pass]) else outside = outside + work(op[pass]) end
    if op.name == "dispatch" then is_inside = true end
    if op.name == "dispatch" or op.name == "combine" then exchanged[op.name] = op[pass].comm_time end
  end
  return inside, outside, exchanged
end

describe("overlap_moe_a2a", function()
  it("hides each exchange behind the kernels that Megatron-LM runs beside it", function()
    local plain, c = trained {}, trained { overlap_moe_a2a = true }
    local f_inside, f_outside, f = halves(plain, "forward")
    local b_inside, b_outside, b = halves(plain, "backward")
    local hidden = math.min(b.combine, f_outside) + math.min(f.dispatch, b_inside) + math.min(b.dispatch, f_inside)
      + math.min(f.combine, b_outside)
    assert.is_true(hidden > 0)
    local pairs_of = plain.microbatches - 1 -- one micro-batch's forward pass and another's backward pass stand alone
    assert.near(plain.time - pairs_of * MODEL.layers * hidden, c.time, 1e-9 * c.time)
  end)

  it("exposes what the compute beside it does not hide", function()
    local slow = { system = tperf.system("h100-sxm"):with { network = { slow = { bandwidth = 5e9 } } } }
    local plain = trained(slow)
    slow.overlap_moe_a2a = true
    local c = trained(slow)
    local f_inside, f_outside = halves(plain, "forward")
    local b_inside, b_outside = halves(plain, "backward")
    local all = f_inside + f_outside + b_inside + b_outside
    assert.near(plain.time - (plain.microbatches - 1) * MODEL.layers * all, c.time, 1e-9 * c.time)
  end)

  it("hides more of a dispatch's backward exchange if weight gradients are delayed", function()
    local kind = { moe_dispatcher = "deepep", ep = 8, system = "gb200-nvl72", overlap_moe_a2a = true }
    local now = trained(kind)
    kind.delay_wgrad = true
    assert.is_true(trained(kind).time <= now.time)
  end)

  it("pairs passes in the schedule that overlaps them, and keeps one micro-batch more", function()
    local c, plain = trained { overlap_moe_a2a = true, pp = 4, schedule = "interleaved_1f1b", virtual_stages = 2 },
      trained { pp = 4, schedule = "interleaved_1f1b", virtual_stages = 2 }
    assert.equal("interleaved_1f1b_overlap", c.schedule)
    assert.is_true(c.overlap_moe_a2a)
    assert.is_true(c.memory.activations > plain.memory.activations)
    assert.is_true(trained({ overlap_moe_a2a = true }).memory.activations > trained({}).memory.activations)
    local one = trained { gpus = 32, global_batch = 32, overlap_moe_a2a = true } -- a single micro-batch has no other
    assert.near(trained({ gpus = 32, global_batch = 32 }).time, one.time, 1e-12)
  end)

  -- Megatron-Core pairs the first layer forward with the last one backward, which then lets go of what it kept.
  it("keeps one layer more without a pipeline, not a second micro-batch", function()
    for _, change in ipairs { {}, { micro_batch = 2 }, { recompute = "full" } } do
      local plain = trained(change)
      change.overlap_moe_a2a = true
      local more, layer = trained(change).memory.activations - plain.memory.activations, 0
      for _, op in ipairs(plain.kinds[1].ops) do layer = layer + op.saved_bytes end
      assert.near(layer, more, 0.07 * layer + 1) -- the embedding's mask, too, an L-th of it
      change.global_batch = 128 * (change.micro_batch or 1) -- a single micro-batch has no other
      local alone = trained(change)
      assert.equal(1, alone.microbatches)
      assert.near(plain.memory.activations, alone.memory.activations, 1)
    end
  end)

  it("hides no other collective", function()
    local q = { schedule = "1f1b_overlap", tp = 4, etp = 1, pp = 2, system = "gb200-nvl72", ep = 8 }
    local all = trained(q)
    q.overlap_moe_a2a = true
    local experts = trained(q)
    assert.is_true(experts.time > all.time)
  end)

  it("takes as long in simulation as in its closed form if stages are equal", function()
    local pick, overlapped = picker(SEED), 0
    for _ = 1, CASES do
      local pp, micro_batch = pick { 1, 1, 2, 4 }, pick { 1, 2 }
      local schedule = pick { "1f1b", "interleaved_1f1b" }
      local q = {
        model = MODEL, system = pick { "h100-sxm", "gb200-nvl72" }, pp = pp, dp = 32, ep = pick { 8, 32 },
        micro_batch = micro_batch, zero = pick { 0, 1, 2, 3 }, recompute = pick { "none", "full" },
        schedule = pp > 1 and schedule or "1f1b", virtual_stages = pp > 1 and schedule ~= "1f1b" and 2 or nil,
        software = pick { "none", STACK }, global_batch = 32 * micro_batch * pp * pick { 2, 4 }, simulate = true,
        moe_dispatcher = pick { "alltoall", "allgather", "deepep", "hybridep" },
        overlap_moe_a2a = pick { true, true, false }, overlap_grad_reduce = pick { true, false },
        overlap_param_gather = pick { true, false }, bucket_size = pick { 1e6, 1e9 },
        overlap_p2p = false, -- a message that only pairs hide can be longer than a pair: spec/step_spec.lua
      }
      q.delay_wgrad = q.overlap_moe_a2a and pick { true, false }
      q.overlap_param_gather_with_optimizer_step = q.overlap_param_gather and pick { true, false }
      local c = tperf.train(q)
      assert.is_true(math.abs(c.simulated.time / c.time - 1) < 1e-9,
("%s pp %d zero %d %s"):format(q.schedule, pp, q.zero, q.moe_dispatcher))
      assert.is_true(c.least_time <= c.simulated.time)
      if c.breakdown.tensor_comm > 0 and q.overlap_moe_a2a then overlapped = overlapped + 1 end
    end
    assert.is_true(overlapped > CASES / 4)
  end)

  it("is explained by terms that add up", function()
    for _, change in ipairs {
      { overlap_moe_a2a = true }, { overlap_moe_a2a = true, moe_dispatcher = "deepep", pp = 2, software = STACK },
      { overlap_grad_reduce = true, overlap_param_gather = true, software = STACK },
      { tp = 4, etp = 1, overlap_tp = "ring", software = STACK }, { tp = 4, etp = 1, overlap_tp = "async" },
    } do
      local c, sum = trained(change), 0
      for i = 1, #c.sum - 1 do sum = sum + c.sum[i].seconds end
      assert.near(c.time, sum, 1e-9 * c.time)
    end
  end)

  it("is refused if nothing overlaps", function()
    assert.is_truthy(refusal({ overlap_moe_a2a = true, schedule = "gpipe" }):find "schedule 'gpipe' cannot")
    assert.is_truthy(refusal({ overlap_moe_a2a = true, model = "llama-3.1-8b", ep = 1 }):find "has none")
    assert.is_truthy(refusal({ delay_wgrad = true }):find "which is not on")
    assert.is_truthy(refusal({ overlap_param_gather = false, overlap_param_gather_with_optimizer_step = true })
      :find "which is off")
  end)
end)

describe("collectives that share multiprocessors", function()
  it("slow the kernels that they hide behind", function()
    local function with(sms)
      return { compute = 1, attention = 1, memory = 1, comm = 1, host = 0, overlap = 1, comm_sms = sms, name = "spec" }
    end
    local free, shared = trained { software = with(0), overlap_moe_a2a = true },
      trained { software = with(33), overlap_moe_a2a = true }
    assert.is_true(shared.time > free.time)
    -- Kernels on 132 multiprocessors lose a quarter of them while they hide a collective.
    local tp = { model = "llama-3.1-8b", ep = 1, tp = 8, software = with(0) }
    local before = trained(tp)
    tp.software = with(33)
    local after, lost = trained(tp), 0
    for i, op in ipairs(before.kinds[1].ops) do
      local other = after.kinds[1].ops[i]
      local comm, beside = other.backward.comm_time - op.backward.comm_time, 0
      for _, one in ipairs(op.backward.comms) do beside = beside + (one.beside and one.time or 0) end
      assert.near(math.max(0, math.min(beside / 4, beside / 4 + work(op.backward) - beside)), comm, 1e-12)
      lost = lost + comm
    end
    assert.is_true(lost > 0)
  end)
end)

describe("overlap_tp", function()
  local function llama(change)
    local q = {
      model = "llama-3.1-70b", system = "h100-sxm", tp = 8, gpus = 64, global_batch = 64, software = "none", ep = 1,
    }
    for key, value in pairs(change) do q[key] = value end
    return trained(q)
  end

  it("follows Megatron-LM's default", function()
    local c = llama {}
    assert.equal(c.time, llama({ overlap_tp = "bulk" }).time)
    assert.is_true(llama({ overlap_tp = "none" }).time > c.time)
  end)

  it("exposes the part of a ring that its chunks do not hide, and the last chunk of a pipeline", function()
    local plain, ring = ops_of(llama {}), ops_of(llama { overlap_tp = "ring" })
    local gather = plain.qkv.forward.comms[1].time
    local chunked = work(ring.qkv.forward)
    local share = 25 / 132 -- of the multiprocessors
    assert.near(math.max(gather - chunked * 7 / 8, share * gather), ring.qkv.forward.comm_time, 1e-12)
    assert.is_true(chunked >= work(plain.qkv.forward)) -- eight products of an eighth of the rows
    local part = tperf.collective {
      system = "h100-sxm", kind = "reduce_scatter", bytes = plain.proj.forward.comms[1].bytes / 4, gpus = 8,
    }
    local one = work(ring.proj.forward) / 4
    assert.near(3 * math.max(part - one, share * part) + part, ring.proj.forward.comm_time, 1e-12)
  end)

  it("cuts a product like products of fewer rows, none faster than the whole", function()
    for _, seq in ipairs { 1024, 2048, 8192 } do
      local model = tperf.model "llama-3.1-70b"
      local whole, cut = ops_of(llama { model = model:with { seq = seq } }),
        ops_of(llama { model = model:with { seq = seq }, overlap_tp = "async" })
      local part = ops_of(llama { model = model:with { seq = seq // 8 } })
      for _, name in ipairs { "qkv", "proj" } do
        assert.near(math.max(8 * work(part[name].forward), work(whole[name].forward)), work(cut[name].forward), 1e-12)
        assert.near(work(whole[name].backward), work(cut[name].backward), 1e-12)
      end
    end
  end)

  it("needs sequence parallelism", function()
    local c = llama { overlap_tp = "ring", sequence_parallel = false }
    assert.equal(llama({ sequence_parallel = false }).time, c.time)
  end)

  it("takes as long in simulation as in its closed form, and is drawn beside its product", function()
    for _, kind in ipairs { "none", "ring", "async" } do
      for _, schedule in ipairs { "1f1b", "zb1p" } do
        local c, t = tperf.train {
          model = { name = "spec", layers = 16, hidden = 4096, heads = 32, ffn = 16384, seq = 2048 }, overlap_tp = kind,
          system = "h100-sxm", tp = 8, pp = 4, dp = 2, global_batch = 64, schedule = schedule, software = STACK,
          rules = { base = "default", layers_from_description = false }, simulate = true,
        }
        if schedule == "1f1b" then assert.near(c.time, c.simulated.time, 1e-9 * c.time) end
        local beside = 0
        for task in t:tasks(1) do
          if task.pass == "forward" and task.kind == "collective" and task.beside then beside = beside + 1 end
          assert.is_true(task.stop >= task.start)
        end
        assert.equal(kind ~= "none", beside > 0)
      end
    end
  end)
end)

describe("buckets", function()
  local function dense(change)
    local q = {
      model = "llama-3.1-70b", system = "h100-sxm", tp = 8, gpus = 512, global_batch = 512, ep = 1, software = STACK,
    }
    for key, value in pairs(change) do q[key] = value end
    return trained(q)
  end

  it("delay the step only by the last one", function()
    local on = { overlap_grad_reduce = true, overlap_param_gather = true }
    local usual = dense(on)
    local layer = usual.kinds[1]
    local parameters, exchange = 0, usual.exchanges[1]
    for _, op in ipairs(layer.ops) do parameters = parameters + op.weight_bytes / 2 end
    local bucket = math.max(40e6, 1e6 * 64) / parameters -- in layers
    local late = 0
    for _, e in ipairs(usual.exchanges) do
      local count = e.section == layer.key and layer.count or 1
      late = late + count * (e.gather_late + e.reduce_late)
    end
    for i, ops in ipairs { layer.ops, usual.first, usual.last } do -- replicated parameters
      for _, op in ipairs(ops) do
        for _, comm in ipairs(op.backward.comms) do
          if comm.once then late = late + (i == 1 and layer.count or 1) * comm.time end
        end
      end
    end
    assert.near(late + bucket * (exchange.gather_hidden + exchange.reduce_hidden), usual.breakdown.data_comm,
      1e-9 * usual.time)
    on.bucket_size = 1e6
    assert.is_true(dense(on).time < usual.time)
  end)

  it("overlap nothing if they are off", function()
    assert.near(dense({ data_overlap = false }).time,
      dense({ overlap_grad_reduce = false, overlap_param_gather = false }).time, 1e-12)
    assert.is_true(dense({ overlap_grad_reduce = true }).time < dense({ overlap_grad_reduce = false }).time)
  end)

  it("overlap the optimizer's step if asked to", function()
    local on = { overlap_grad_reduce = true, overlap_param_gather = true }
    local before = dense(on)
    on.overlap_param_gather_with_optimizer_step = true
    local after = dense(on)
    assert.is_true(after.time < before.time)
    assert.is_true(after.time >= before.time - before.breakdown.optimizer)
  end)
end)

describe("a software profile", function()
  it("supplies its stack's defaults for a run", function()
    local habit = { overlap_moe_a2a = true, moe_dispatcher = "deepep" }
    for name, value in pairs(STACK) do habit[name] = value end
    local c = trained { software = habit }
    assert.same({ true, "deepep" }, { c.overlap_moe_a2a, c.moe_dispatcher })
    assert.near(trained({ software = STACK, overlap_moe_a2a = true, moe_dispatcher = "deepep" }).time, c.time, 1e-12)
    local off = trained { software = habit, overlap_moe_a2a = false }
    assert.is_false(off.overlap_moe_a2a)
    assert.equal(off.time, trained({ software = habit, configuration = off }).time)
  end)
end)

describe("exchanges with replicas beside a pipeline's messages", function()
  local GOOD <const> = { tensor = { bf16 = "1 PFLOP/s" }, hbm = { bandwidth = "1 TB/s", capacity = "80 GB" } }
  local NIC <const>, HOP <const> = 2e9, 1e-6 -- bytes/s, seconds

  local function layer(more)
    local asked = { model = "llama-2-7b", global_batch = 64, micro_batch = 1, tp = 8, pp = 4, dp = 8, software = "none",
      schedule = "interleaved_1f1b", virtual_stages = 2, overlap_grad_reduce = true, overlap_param_gather = true,
      explain = true, system = tperf.system { name = "shared", accelerator = GOOD, network = {
        fast = { bandwidth = 450e9, latency = HOP, domain = 8, efficiency = 1 },
        slow = { bandwidth = NIC, latency = HOP, efficiency = 1, nics_per_gpu = 1 } } } }
    for key, value in pairs(more) do asked[key] = value end
    return tperf.train(asked).exchanges[1], asked
  end

  it("have the links for less of a pass, where messages travel beside passes", function()
    local waits, beside = layer { overlap_p2p = false }, layer { overlap_p2p = true }
    -- The boundary, 4,096 tokens of 4,096 in 16 bits over tp 8; 8 chunks, so one for each 4 of 32 layers.
    local each = (HOP + 4096 * 4096 * 2 / 8 / NIC) * 8 / 32
    for _, name in ipairs { "gather", "reduce" } do
      assert.near(each, waits[name .. "_hidden"] - beside[name .. "_hidden"], 1e-12)
      assert.near(each, beside[name .. "_late"] - waits[name .. "_late"], 1e-12)
    end
  end)

  it("do not meet messages within a domain, nor where links carry several things at a time", function()
    local rules = { base = "default", data_overlap_excludes_comm = false }
    for _, more in ipairs { { fast = { pp = 4, tp = 2 } }, { rules = rules } } do
      more.overlap_p2p = false
      local waits = layer(more).reduce_hidden
      more.overlap_p2p = true
      assert.equal(waits, layer(more).reduce_hidden)
    end
  end)

  it("are found by a search as they are timed", function()
    local _, asked = layer { overlap_p2p = true }
    for _, key in ipairs { "tp", "pp", "dp", "schedule", "virtual_stages", "explain" } do asked[key] = nil end
    asked.gpus, asked.tp, asked.schedule, asked.virtual_stages, asked.top = 256, 8, "interleaved_1f1b", 2, 5
    local found = tperf.search(asked)
    assert.is_true(#found > 0)
    for _, c in ipairs(found) do
      assert.equal(c.time, tperf.train { configuration = c, software = "none" }.time)
    end
  end)
end)
