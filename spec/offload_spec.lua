-- Activations and optimizer states offloaded to the host: bytes and seconds by hand, monotonicity, simulation,
-- refusals.
local cases = require "cases"
local near = require "near"
local picker = require "picker"
local program = require "program"
local tperf = require "tperf"

local LINK <const>, HOST <const> = 0.85 * 64e9, 76.8e9 -- an H100's link, PCIe Gen5; its share of the host's memory
local L <const> = 8
local plain = {
  name = "plain", layers = L, hidden = 2048, heads = 16, ffn = 8192, seq = 2048, vocab = 32000, norm = "rmsnorm",
  gated = true, positions = "rotary",
}

local function train(o)
  local given = {
    model = plain, system = "h100-sxm", global_batch = 4, micro_batch = 1, schedule = "1f1b", software = "none",
  }
  for name, value in pairs(o) do given[name] = value end
  return tperf.train(given)
end

local function sum(ops, field)
  local all = 0
  for _, op in ipairs(ops) do all = all + (field == "saved_bytes" and op.saved_bytes or op[field].time) end
  return all
end

describe("offloaded activations", function()
  local none = train {}
  local bytes = sum(none.layers, "saved_bytes")
  local forward, backward = sum(none.layers, "forward"), sum(none.layers, "backward")

  it("leave the GPU by layers, and add the time of copies that the layers do not hide", function()
    local copy = bytes / LINK
    local late = math.max(copy - forward, 0) + math.max(copy - backward, 0)
    assert.is_true(late > 0, "a layer that hides its copies shows nothing")
    for n = 1, L do
      local c = train { offload_layers = n }
      near(none.memory.activations - n * bytes, c.memory.activations, "activations")
      near(none.memory.passing + math.min(n, 2) * bytes, c.memory.passing, "that come back")
      near(n * bytes, c.host_memory, "host")
      near(none.time + 4 * n * late, c.time, "time")
      near(4 * n * late, c.breakdown.offload, "its part")
    end
  end)

  it("take no time if the link is fast enough", function()
    local fast = tperf.system("h100-sxm"):with { host = { bandwidth = "10 TB/s" } }
    local c = train { offload_layers = L, system = fast }
    assert.equal(none.time, c.time)
    assert.is_nil(c.breakdown.offload)
    assert.is_true(c.memory.total < none.memory.total)
  end)

  it("leave the GPU by modules: the input of each", function()
    local rows, h, f = 2048, 2048, 8192
    local inputs = { attn_norm = h, qkv_linear = h, core_attn = 3 * h, attn_proj = h, mlp_norm = h }
    for name, width in pairs(inputs) do
      local c = train { offload_modules = name }
      near(L * 2 * rows * width, c.host_memory, name)
      near(none.memory.activations - L * 2 * rows * width, c.memory.activations, name)
    end
    local moe = tperf.model(plain):with { experts = { count = 4, top_k = 2, ffn = f } }
    near(L * 2 * 2 * rows * (h + 2 * f),
      train { model = moe, offload_modules = { "moe_act", "expert_fc1" } }.host_memory, "experts")
  end)

  it("reach the host whole in 8 bits: attention's own output and inputs that several products share, too", function()
    local gated = { attention_gate = true }
    local latent = { kv_heads = 16, mla = { kv_rank = 512, q_rank = 1536, nope_dim = 128, rope_dim = 64, v_dim = 128 } }
    for name, more in pairs { plain = {}, gated = gated, latent = latent } do
      local model = tperf.model(plain):with(more)
      local resident = train { model = model, precision = "fp8-current" }
      local c = train { model = model, precision = "fp8-current", offload_layers = 3 }
      near(3 * sum(resident.layers, "saved_bytes"), c.host_memory, name)
      near(resident.memory.activations - c.host_memory, c.memory.activations, name)
    end
  end)

  it("are also those of modules of multi-token prediction", function()
    local model = tperf.model(plain):with { mtp = 1 }
    local c = train { model = model, offload_modules = "attn_norm" }
    near((L + 1) * 2 * 2048 * 2048, c.host_memory, "host")
    near(train { model = model }.memory.activations - c.host_memory, c.memory.activations, "GPU")
  end)

  it("are not also part of what the widest kernel reads", function()
    local model = tperf.model(plain):with { vocab = 1024 } -- its logits are narrower than the MLP
    local passing = train { model = model }.memory.passing
    near(passing + 2 * bytes, train { model = model, offload_layers = L }.memory.passing, "passing")
  end)

  it("are counted once per micro-batch in flight", function()
    local c = train { pp = 4, offload_layers = 1 }
    near(4 * bytes, c.host_memory, "four in flight on the first stage")
  end)
end)

describe("offloaded optimizer states", function()
  local parameters = tperf.model(plain):parameters().total
  local none = train { dp = 4, software = { name = "spec", compute = 1, attention = 1, memory = 1, comm = 1, host = 0,
    overlap = 1, optimizer = 0.5 } }

  it("leave the GPU in proportion", function()
    for _, part in ipairs { 0.25, 0.5, 1 } do
      local c = train { dp = 4, offload_optimizer = part }
      near(part * 12 * parameters / 4, c.host_memory, "host")
      assert.near((1 - part) * 12 * parameters / 4, c.memory.optimizer, 1)
      -- 4 bytes of gradient out, 12 read and 12 written with the gradient and the weight, 2 bytes of weight back
      local seconds = (4 + 2) / LINK + (24 + 4 + 2) / HOST
      near(part * parameters / 4 * seconds, c.breakdown.optimizer, "seconds")
    end
  end)

  it("leave the rest to the GPU's own update", function()
    local half = train { dp = 4, offload_optimizer = 0.5, software = { name = "spec", compute = 1, attention = 1,
      memory = 1, comm = 1, host = 0, overlap = 1, optimizer = 0.5 } }
    local host = 0.5 * parameters / 4 * ((4 + 2) / LINK + (24 + 4 + 2) / HOST)
    -- of 2 x 12 + 3 x 4 + 2 bytes, two passes over the gradient stay for all parameters: its norm, and clearing it
    local part = (0.5 * (24 + 2) + 2.5 * 4) / (24 + 12 + 2)
    near(part * none.breakdown.optimizer + host, half.breakdown.optimizer, "seconds")
  end)
end)

it("offloading more takes less of the GPU's memory, and is never faster", function()
  local last
  for n = 0, L do
    local c = train { offload_layers = n > 0 and n or nil, offload_optimizer = n / L }
    if last then
      assert.is_true(c.memory.total < last.memory.total or n <= 2 and c.memory.total <= last.memory.total, n)
      assert.is_true(c.host_memory > (last.host_memory or 0), n)
      assert.is_true(c.time >= last.time, n)
    end
    last = c
  end
end)

it("a simulated offload takes as long as the closed form, and has tasks for its copies", function()
  local pick, copies = picker(31), 0
  for _ = 1, cases(24, 60) do
    local pp = pick { 1, 2, 4 }
    local c, t = train {
      model = { name = "equal", layers = 8, hidden = 2048, heads = 16, ffn = 8192, seq = 2048 }, pp = pp,
      rules = { base = "default", layers_from_description = false }, tp = pick { 1, 2 }, dp = pick { 1, 2 },
      global_batch = 16, simulate = true, offload_layers = pick { 1, 2 }, offload_optimizer = pick { 0, 0.5, 1 },
      explain = true,
    }
    assert.near(c.time, c.simulated.time, 1e-9 * c.time)
    assert.near(c.time, c.sum[#c.sum].seconds, 1e-9 * c.time)
    for task in t:tasks(1) do
      for _, resource in ipairs(task.resources) do copies = copies + (resource == "copy" and 1 or 0) end
    end
  end
  assert.is_true(copies > cases(24, 60))
end)

describe("offloaded weights", function()
  local function ask(o)
    o.model, o.system, o.gpus, o.zero, o.global_batch = "llama-3.1-8b", "h100-sxm", 8, 3, 8
    o.sharding, o.weights, o.recompute = "fsdp", "fp32", "full"
    return tperf.train(o)
  end

  it("leave the GPU, and are copied to it before each gather", function()
    local shard <const> = 4 * 8030261248 / 8 -- bytes in fp32 on one of 8 GPUs
    local here = ask { offload_optimizer = 1, data_overlap = false }
    local there = ask { offload_params = true, data_overlap = false }
    assert.near(shard, here.memory.weights - there.memory.weights, 1)
    -- Forward and backward; nothing comes back after the step.
    assert.near(2 * shard / LINK, there.breakdown.data_comm - here.breakdown.data_comm, 1e-4)
    assert.near(shard / LINK, here.breakdown.optimizer - there.breakdown.optimizer, 1e-4)
  end)

  it("take the same time in the simulation", function()
    local c, simulated = ask { offload_params = true }, ask { offload_params = true, simulate = true }
    assert.near(1, simulated.time / c.time, 0.01)
  end)

  it("are of ZeRO 3, with all of the optimizer", function()
    for message, o in pairs {
      ["'offload_params' is of zero = 3"] = { zero = 1, offload_params = true },
      ["'offload_params' has all of the optimizer"] = { zero = 3, offload_params = true, offload_optimizer = 0.5 },
    } do
      assert.error_matches(function()
        tperf.train { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 8, zero = o.zero,
          offload_params = true, offload_optimizer = o.offload_optimizer }
      end, message)
    end
  end)
end)

describe("offload options", function()
  local function refused(o, words)
    local ok, message = pcall(train, o)
    assert.is_false(ok, words)
    assert.truthy(tostring(message):find(words, 1, true), message)
  end

  it("are possible on every GPU behind PCIe, at the rate of its generation and lanes", function()
    -- bytes/s of a direction: 16 lanes of Gen3, Gen4, Gen5; 8 of Gen5
    for name, rate in pairs { ["v100-sxm"] = 16e9, ["rtx-4090"] = 32e9, ["a800-sxm-80gb"] = 32e9, ["h20"] = 64e9,
      ["rtx-5090"] = 64e9, ["rtx-5060-ti"] = 32e9, mi300x = 64e9 } do
      assert.equal(rate, tperf.system(name).host.bandwidth, name)
    end
  end)

  it("are refused without a host, and if contradictory", function()
    for name, value in pairs { offload_layers = 1, offload_modules = "core_attn", offload_optimizer = 0.5 } do
      refused({ system = "gaudi3", [name] = value }, ("'%s' needs the host of system 'gaudi3'"):format(name))
    end
    assert.is_true(train { system = "gaudi3", offload_optimizer = 0 }.time > 0)
    refused({ offload_layers = 1, recompute = "full" }, "makes again")
    refused({ offload_layers = 1, offload_modules = "core_attn" }, "not both")
    refused({ offload_modules = "moe_act" }, "has no experts")
    refused({ offload_optimizer = 2 }, "offload_optimizer")
  end)

  it("appear as options and columns, and systems give the sources of their links", function()
    local text = program.ask("tperf train llama-3.1-8b -s gb200-nvl72 -b 64 --dp 8 --offload-layers 4 "
      .. "--offload-optimizer 0.5").out
    assert.truthy(text:find("4 layers, optimizer 50 %", 1, true), text)
    assert.truthy(text:find("The host's memory holds", 1, true), text)
    for _, name in ipairs { "h100-sxm", "h200-sxm", "a100-sxm-80gb", "b200-sxm", "gb200-nvl72", "gb300-nvl72" } do
      assert.truthy(#tperf.system(name).host.source > 40, name)
    end
  end)
end)
