-- Dispatching tokens to experts: moe_dispatcher, and node-limited routing.
local core = require "tperf.core"
local placement = require "tperf.question.placement"
local serving = require "tperf.question.infer.deployment"
local tperf = require "tperf"

-- Every choice of `count` of the numbers 1 … n.
local function choices(n, count, visit)
  local chosen = {}
  local function pick(from)
    if #chosen == count then return visit(chosen) end
    for i = from, n do
      chosen[#chosen + 1] = i
      pick(i + 1)
      chosen[#chosen] = nil
    end
  end
  pick(1)
end

-- Parts that a token meets on average, by trying every way to choose groups and experts.
local function tried(experts, top_k, groups, top_groups, parts)
  local sum, ways = 0, 0
  choices(groups, top_groups, function(of)
    local eligible = {}
    for _, group in ipairs(of) do
      for i = 1, experts // groups do eligible[#eligible + 1] = (group - 1) * (experts // groups) + i - 1 end
    end
    choices(#eligible, top_k, function(picked)
      local seen, met = {}, 0
      for _, i in ipairs(picked) do
        local part = eligible[i] * parts // experts
        if not seen[part] then seen[part], met = true, met + 1 end
      end
      sum, ways = sum + met, ways + 1
    end)
  end)
  return sum / ways
end

local function model(groups, top_groups)
  return {
    name = "spec", layers = 4, hidden = 7168, heads = 64, ffn = 2048, gated = true, seq = 4096,
    experts = { count = 256, top_k = 8, ffn = 2048, dense_layers = 0, groups = groups, top_groups = top_groups },
  }
end

local function dispatch_of(c)
  for _, op in ipairs(c.kinds[1].ops) do
    if op.name == "dispatch" then return op.forward.comms[1] end
  end
end

local function trained(change)
  local q = { model = model(8, 4), system = "h800-sxm", gpus = 64, ep = 64, global_batch = 64, software = "none" }
  for key, value in pairs(change) do q[key] = value end
  return tperf.train(q)
end

describe("tokens that choose experts", function()
  it("reach as many parts on average as enumeration gives", function()
    for _, case in ipairs {
      { 8, 2, 1, 1, 2 }, { 8, 3, 1, 1, 4 }, { 12, 3, 4, 2, 12 }, { 12, 3, 4, 2, 4 }, { 12, 3, 4, 2, 2 },
      { 12, 4, 6, 3, 3 }, { 12, 4, 6, 3, 12 }, { 12, 4, 6, 3, 1 },
    } do
      assert.near(tried(table.unpack(case)), core.routed_parts(table.unpack(case)), 1e-12)
    end
  end)

  it("reach no more domains than groups", function()
    assert.is_true(core.routed_parts(256, 8, 8, 4, 8) <= 4)
    assert.is_true(core.routed_parts(256, 8, 1, 1, 8) > 5)
  end)

  it("need consistent groups", function()
    for fault, groups in pairs {
      ["'experts.groups' %(7%) must divide"] = { 7, 4 },
      ["'experts.top_groups' must be from 1 to the 8 groups"] = { 8, 9 },
      ["'experts.groups' and 'experts.top_groups' go together"] = { 8, nil },
    } do
      local ok, message = pcall(tperf.model, model(groups[1], groups[2]))
      assert.is_false(ok)
      assert.is_truthy(tostring(message):find(fault), tostring(message))
    end
  end)
end)

describe("moe_dispatcher", function()
  it("sends every copy by all-to-all by default", function()
    local said, unsaid = trained { moe_dispatcher = "alltoall" }, trained {}
    assert.equal(said.time, unsaid.time)
    assert.same({ "alltoall", nil }, { said.moe_dispatcher, unsaid.moe_dispatcher })
    local comm = dispatch_of(unsaid)
    assert.near(56 / 64 * 8 * 4096 * 7168 * 2, comm.nic_bytes, 1)
  end)

  it("sends one copy to each domain, and one to each GPU there", function()
    local comm = dispatch_of(trained { moe_dispatcher = "deepep" })
    local token = 4096 * 7168 * 2
    assert.near(token * core.routed_parts(256, 8, 8, 4, 8) * 7 / 8, comm.nic_bytes, 1)
    assert.near(token * core.routed_parts(256, 8, 8, 4, 64) * 7 / 8, comm.fast_bytes, 1)
    assert.equal("relayed", comm.algorithm)
    assert.is_true(trained({ moe_dispatcher = "deepep" }).time < trained({}).time)
  end)

  it("gathers all tokens under allgather", function()
    local c = trained { moe_dispatcher = "allgather" }
    local comm = dispatch_of(c)
    assert.same({ "all_gather", 64.0 * 4096 * 7168 * 2 }, { comm.kind, comm.bytes })
    for _, op in ipairs(c.kinds[1].ops) do
      if op.name == "combine" then assert.equal("reduce_scatter", op.forward.comms[1].kind) end
      if op.name == "combine" then assert.equal("all_gather", op.backward.comms[1].kind) end
    end
  end)

  -- github.com/deepseek-ai/DeepEP, docs/legacy.md (V1, normal kernels): 4096 tokens of 7168 numbers, top 8 of 256
  -- experts, at most 4 groups; bandwidth of the bounding tier, own domain included, of combines in 16 bits.
  it("is as fast as DeepEP's kernels measured on H800s", function()
    for _, timed in ipairs { { gpus = 8, nodes = 1, rate = 158e9 }, { gpus = 16, nodes = 2, rate = 43e9 },
      { gpus = 64, nodes = 8, rate = 50e9 } } do
      local groups, chosen = timed.nodes, math.min(timed.nodes, 4)
      local comm = dispatch_of(trained {
        model = groups > 1 and model(groups, chosen) or model(), gpus = timed.gpus, ep = timed.gpus,
        global_batch = timed.gpus, moe_dispatcher = "deepep",
      })
      local copies = core.routed_parts(256, 8, groups, chosen, groups > 1 and groups or timed.gpus)
      local seconds = 4096 * 7168 * 2 * copies / timed.rate
      assert.is_true(math.abs(comm.time / seconds - 1) < 0.15, ("%d GPUs: %g"):format(timed.gpus, comm.time / seconds))
    end
  end)

  it("is bound by the rate at which DeepEP's multiprocessors forward tokens between domains", function()
    local fast = tperf.system "h800-sxm"
    fast = fast:with { network = { slow = { bandwidth = 1e12 }, fast = { bandwidth = 1e13 } } }
    local deepep, hybridep = dispatch_of(trained { moe_dispatcher = "deepep", system = fast }),
      dispatch_of(trained { moe_dispatcher = "hybridep", system = fast })
    assert.near((deepep.fast_bytes + deepep.nic_bytes) / (20 * 11.2e9), deepep.time, 1e-9)
    assert.is_true(hybridep.time < deepep.time)
  end)

  it("takes an all-to-all's time of as many bytes where the NICs have an efficiency and no curve", function()
    local plain = { moe_dispatcher = "deepep", system = "spec/data/small/system.yaml" }
    local comm = dispatch_of(trained(plain))
    -- 64 GPUs, 8 to a domain: the latency of 56 messages, and a NIC's 10 GB/s at 0.7
    local alone = tperf.collective { system = plain.system, kind = "all_to_all", gpus = 64,
      bytes = comm.nic_bytes * 64 / 56 }
    assert.near(alone, comm.time, 1e-9)
    assert.is_true(comm.time > comm.nic_bytes / 0.7e10)
    plain.gpus, plain.ep, plain.moe_dispatcher = 8, 8, "hybridep"
    comm = dispatch_of(trained(plain)) -- within a domain: no NICs, and 0.65 of a port's 100 GB/s
    assert.equal(0, comm.nic_bytes)
    assert.near(2e-6 + comm.fast_bytes / 65e9, comm.time, 1e-9)
  end)

  -- github.com/deepseek-ai/DeepEP, docs/README_Hybrid-EP.md: 4096 tokens of 7168 numbers in 16 bits, top 8 of 8 experts
  -- a GPU, 16 multiprocessors; GB/s of the kernels of a dispatch and of a combine, own domain (NICs) or GPU included.
  it("is as fast as HybridEP's kernels measured on H100s, B200s and GB200s", function()
    for _, timed in ipairs {
      { "b200-sxm", 8, 734.95, 673.84 }, { "gb200-nvl72", 8, 750.15, 684.27 }, { "gb200-nvl72", 16, 661.93, 600.75 },
      { "gb200-nvl72", 36, 612.85, 543.27 }, { "h100-sxm", 16, 71.71, 62.95, nodes = 2 },
      { "h100-sxm", 32, 57.69, 57.46, nodes = 4 }, { "h100-sxm", 64, 49.97, 49.77, nodes = 8 },
    } do
      local system, gpus, there, back = table.unpack(timed)
      local m = model()
      m.experts.count = 8 * gpus
      local comm = dispatch_of(trained { model = m, system = system, gpus = gpus, ep = gpus, global_batch = gpus,
        moe_dispatcher = "hybridep" })
      local bytes = 4096 * 7168 * 2 * core.routed_parts(8 * gpus, 8, 1, 1, timed.nodes or gpus)
      local seconds = (bytes / there + bytes / back) / 2e9
      assert.is_true(math.abs(comm.time / seconds - 1) < 0.12, ("%s %d: %g"):format(system, gpus, comm.time / seconds))
    end
  end)

  it("is searched over", function()
    local found = tperf.search {
      model = model(8, 4), system = "h800-sxm", gpus = 64, global_batch = 64, ep = 64, pp = 1, tp = 1,
      software = "none", moe_dispatcher = { "alltoall", "deepep" }, recompute = "full",
      micro_batch = 1, infeasible = true,
    }
    assert.equal("deepep", found[1].moe_dispatcher)
    assert.near(trained({ moe_dispatcher = "deepep", recompute = "full" }).time, found[1].time, 1e-12)
  end)

  it("is simulated no faster than the lower bound, and drawn", function()
    for _, kind in ipairs { "allgather", "deepep", "hybridep" } do
      local c, t = tperf.train {
        model = model(8, 4), system = "h800-sxm", gpus = 128, pp = 2, ep = 64, global_batch = 512, simulate = true,
        moe_dispatcher = kind, software = "none",
      }
      assert.is_true(c.simulated.time >= c.least_time)
      local drawn = 0
      for task in t:tasks(1) do
        if task.op == "dispatch" and task.kind == "collective" then drawn = drawn + 1 end
      end
      assert.is_true(drawn > 0)
    end
  end)

  it("is refused if the choice does not apply", function()
    local ok, message = pcall(trained, { moe_dispatcher = "deep" })
    assert.is_false(ok)
    assert.is_truthy(tostring(message):find "did you mean 'deepep'")
  end)
end)

-- The exchanges of a step with the given tokens per GPU, experts over all GPUs.
local function serving_exchange(gpus, tokens, dispatcher, system)
  local m = model()
  m.vocab = 1024
  local p = serving.problem("spec", {
    model = m, system = system or "h100-sxm", attention = "flash", prompt = 1, generate = 1, weight_dtype = "bf16",
    kv_dtype = "bf16", sequence_parallel = false, reserve = 0,
  })
  p.o.other_dtype, p.o.moe_dispatcher = p.o.other_dtype or "bf16", dispatcher
  local sizes = serving.own_sizes(p, { tp = 1, ep = gpus })
  local network = p.plan.layout.workload(sizes, tokens, serving.variant(p.strategy, p.o, "decode", 1, 0))
  local found = {}
  local fast = placement.all("spec: ", p.strategy, sizes, { dp = 1, pp = 1 }, p.system.network.fast.domain)[1]
  for _, op in ipairs(network:ops(1, serving.platform(p), fast)) do
    if op.name == "dispatch" or op.name == "combine" then found[op.name] = op.forward.comms[1] end
  end
  return found
end

describe("moe_dispatcher of tperf.serve", function()
  -- DeepEP of sglang 0.5.6.post2 on one, two and four nodes of H100s, 128 tokens of 7168 numbers per GPU, top 8 of
  -- 256 experts: combines in 16 bits (aiconfigurator, commit 095f58a51, Apache-2.0).
  it("is as fast as DeepEP's low-latency kernels measured on one, two and four nodes", function()
    for gpus, seconds in pairs { [8] = 72.4e-6, [16] = 186.2e-6, [32] = 263.3e-6 } do
      local time = serving_exchange(gpus, 128, "deepep").combine.time
      assert.is_true(math.abs(time / seconds - 1) < 0.12, ("%d GPUs: %g"):format(gpus, time / seconds))
    end
  end)

  it("goes by efficiencies and latencies where there are no curves", function()
    for gpus, nodes in pairs { [8] = 1, [32] = 4 } do
      local comm = serving_exchange(gpus, 128, "deepep", "spec/data/small/system.yaml").combine
      local far, near = comm.bytes * (nodes - 1) / nodes / 0.7e10, comm.bytes * 7 / gpus / (0.5 * 100e9)
      assert.near(2e-6 + 5e-6 * math.log(nodes, 2) + math.max(far, near), comm.time, 1e-9)
    end
  end)

  -- DeepEP's normal kernels of sglang 0.5.6 and 0.5.12 there, 20 multiprocessors: combines of 4,096 tokens.
  it("is as fast as DeepEP's normal kernels measured on one, two and four nodes", function()
    for gpus, seconds in pairs { [8] = 973e-6, [16] = 2099e-6, [32] = 3528e-6 } do
      local time = serving_exchange(gpus, 4096, "deepep").combine.time
      assert.is_true(math.abs(time / seconds - 1) < 0.18, ("%d GPUs: %g"):format(gpus, time / seconds))
    end
  end)

  it("uses the normal kernels above 256 tokens per GPU, which send a token once to each node", function()
    local few, many = serving_exchange(32, 256, "deepep").dispatch, serving_exchange(32, 257, "deepep").dispatch
    assert.near(24 / 32 * few.bytes, few.nic_bytes, 1)
    assert.near(3 / 4 * core.routed_parts(256, 8, 1, 1, 4) / 8 * many.bytes, many.nic_bytes, 1)
  end)

  it("defaults to alltoall, and serves faster with deepep", function()
    local function tpot(dispatcher)
      return tperf.serve({
        model = "deepseek-v3", system = "h200-sxm", attention_dp = 32, weight_dtype = "fp8", kv_dtype = "bf16",
        moe_dispatcher = dispatcher, load = { concurrency = 512 }, count = 512, prompt = 16, output = 16,
      }).tpot.mean
    end
    assert.equal(tpot(), tpot "alltoall")
    assert.is_true(tpot "deepep" < tpot "alltoall")
  end)
end)
