-- Recomputation by module: bytes worked out by hand, time per op, closed form against simulation, names.
local near = require "near"
local picker = require "picker"
local program = require "program"
local tperf = require "tperf"

local roomy = tperf.system("h100-sxm"):with { accelerator = { hbm = { capacity = "1000 TB" } } }

-- arXiv 2205.05198, section 4.1: s, b, h, a of one layer on one GPU.
local S <const>, B <const>, H <const>, A <const>, L <const> = 1024, 2, 2048, 16, 4
local paper = {
  name = "paper", layers = L, hidden = H, heads = A, ffn = 4 * H, seq = S, vocab = 32000, dropout = true,
  biases = true, norm = "layernorm", activation = "gelu",
}

local function train(o)
  local given = {
    model = paper, system = roomy, global_batch = 2 * B, micro_batch = B, schedule = "1f1b", software = "none",
    attention = "unfused",
  }
  for name, value in pairs(o) do given[name] = value end
  if o.attention == false then given.attention = nil end
  return tperf.train(given)
end

local function kept(ops)
  local sum = 0
  for _, op in ipairs(ops) do sum = sum + op.saved_bytes end
  return sum
end

describe("a layer of arXiv 2205.05198", function()
  local sbh, scores = S * B * H, A * S * S * B

  it("keeps 34 s b h + 5 a s^2 b, less what its modules recompute", function()
    local cases = {
      { nil, 34, 5 }, { "core_attn", 34, 0 },
      { "mlp", 34 - 16, 5 },                        -- inputs of GELU and of the second product, 8 s b h each
      { "layernorm", 34 - 4, 5 },                   -- inputs of both first products, 2 s b h each
      { { "core_attn", "mlp" }, 34 - 16, 0 },
      { { "layernorm", "mlp", "core_attn" }, 34 - 16 - 4, 0 },
    }
    for _, case in ipairs(cases) do
      local c = train { recompute_modules = case[1] }
      near(case[2] * sbh + case[3] * scores, kept(c.layers), tostring(case[1]))
    end
  end)

  it("keeps the scores' 5 a s^2 b unless core_attn is recomputed", function()
    near(34 * sbh, kept(train { recompute = "selective" }.layers), "by itself")
    near((34 - 16) * sbh + 5 * scores, kept(train { recompute = "selective", recompute_modules = "mlp" }.layers), "mlp")
  end)

  it("saves only the 4 bytes of a row's log-sum-exp for fused attention", function()
    local all = kept(train { attention = "flash" }.layers)
    near(all - 4 * A * S * B, kept(train { attention = "flash", recompute_modules = "core_attn" }.layers), "flash")
    near(all, kept(train { attention = "flash", recompute = "selective" }.layers), "as ever")
  end)

  it("is recomputed as a whole in the first layers of each chunk, or in every N-th", function()
    local none, full = train { recompute = "none" }, train { recompute = "full" }
    for first = 1, L do
      local c = train { recompute_method = "block", recompute_num_layers = first }
      near(none.memory.activations + first / L * (full.memory.activations - none.memory.activations),
        c.memory.activations, "bytes of " .. first)
      near(none.time + first / L * (full.time - none.time), c.time, "seconds of " .. first)
    end
    near(none.time + 1 / 2 * (full.time - none.time),
      train { recompute_method = "every", recompute_num_layers = 2 }.time, "every second")
    near(none.time + 1 / 4 * (full.time - none.time),
      train { recompute_method = "every", recompute_num_layers = 3 }.time, "one of four is the third")
    local virtual = { pp = 2, schedule = "interleaved_1f1b", virtual_stages = 2, micro_batch = 1 }
    virtual.recompute_method, virtual.recompute_num_layers = "block", 1 -- one layer in each chunk: all
    local all = train(virtual)
    virtual.recompute_method = nil
    near(train(virtual).time, all.time, "a chunk each")
    assert.same({ "full", "block", 1 }, { all.recompute, all.recompute_method, all.recompute_num_layers })
  end)

  it("keeps one input per group under the method uniform, by either name", function()
    local a = train { recompute = "full", recompute_layers = 2 }
    local b = train { recompute_method = "uniform", recompute_num_layers = 2 }
    assert.equal(a.memory.total, b.memory.total)
    near(train { recompute = "full" }.memory.activations - 2 * 2 * sbh, b.memory.activations, "two inputs fewer")
  end)
end)

describe("a layer of experts", function()
  local moe = {
    name = "moe", layers = L, hidden = 1024, heads = 16, ffn = 4096, seq = S, vocab = 32000, gated = true,
    norm = "rmsnorm", experts = { count = 8, top_k = 2, ffn = 512, shared = 1 },
    mla = { q_rank = 256, kv_rank = 128, nope_dim = 64, rope_dim = 32, v_dim = 48 },
  }
  local tokens, rows = S * B, 2 * S * B -- each token has a row in each of two experts
  local function of(modules)
    return train { model = moe, recompute_modules = modules, attention = "flash" }
  end
  local all = kept(of().layers)

  it("saves the memory of Megatron-Core's recomputed modules", function()
    local mla = 16 * (2 * (64 + 32) + 48) -- queries, keys, values of every head
    local expected = {
      moe_act = 2 * rows * 512,                                        -- input of the experts' second product
      layernorm = 2 * 2 * tokens * 1024,                               -- input of the latents' products; of the router
      mla_up_proj = 2 * tokens * mla + 2 * tokens * (256 + 128),       -- and the inputs of the products up
      shared_experts = 2 * tokens * 3 * 512,                           -- halves of its activation, its second product
      -- scores in fp32; rows sent, halves of their activation, inputs of the second product; shared experts
      moe = 4 * tokens * 8 + 2 * rows * (1024 + 3 * 512) + 2 * tokens * 3 * 512,
    }
    for name, bytes in pairs(expected) do near(all - bytes, kept(of(name).layers), name) end
    near(all - expected.moe - expected.layernorm - expected.mla_up_proj,
      kept(of { "moe", "layernorm", "mla_up_proj", "moe_act", "shared_experts" }.layers), "all at once")
  end)

  it("keeps the stream once for queries and latents, with or without a latent for the queries", function()
    local without = {}
    for name, value in pairs(moe) do without[name] = value end
    without.mla = { kv_rank = 128, nope_dim = 64, rope_dim = 32, v_dim = 48 }
    local direct = kept(train { model = without, attention = "flash" }.layers)
    near(all - 2 * 2 * tokens * 256, direct, "less the norm's and the second product's input")
  end)

  it("takes longer by exactly its modules' forward passes", function()
    local none = of()
    local function seconds(match)
      local sum = 0
      for _, op in ipairs(none.layers) do
        if match(op) then sum = sum + op.forward.time end
      end
      return sum
    end
    local routed = { fc1 = true, silu = true, gelu = true, fc2 = true }
    local function of_block(name)
      return function(op) return op.block == name and op.name ~= "norm" and op.name ~= "residual" end
    end
    local matches = {
      moe_act = function(op) return op.block == "moe" and routed[op.name] and not op.name:find "^fc" end,
      layernorm = function(op) return op.name == "norm" end,
      mla_up_proj = function(op) return op.name:find "^q%-[nu]" or op.name:find "^kv%-[nu]" or op.name == "rotary"
        or op.name == "k-rope" end,
      shared_experts = function(op) return op.name:find "^shared%-" end,
      moe = of_block "moe", core_attn = function(op) return op.name == "attention" end,
    }
    for name, match in pairs(matches) do
      local c = of(name)
      assert.is_true(seconds(match) > 0, name)
      near(2 * L * seconds(match), c.time - none.time, name) -- two micro-batches
    end
  end)
end)

-- torchtitan, distributed/activation_checkpoint.py: of wq wk wv wo w1 w3 w2 every second product is recomputed.
it("operator checkpointing keeps every other product's output, and attention's", function()
  local m = tperf.model "llama-3.1-8b"
  local c = train { model = m, attention = "flash", recompute_modules = "op", micro_batch = 1, global_batch = 1 }
  local queries, values, w1 = m.hidden, m.kv_heads * m.head_dim, m.ffn
  local outputs = m.hidden + queries + values + queries + w1 + m.hidden
  near(2 * m.seq * outputs + 4 * m.seq * m.heads, kept(c.layers), "bytes")
  local none = train { model = m, attention = "flash", micro_batch = 1, global_batch = 1 }
  local by = {}
  for i, op in ipairs(none.layers) do by[op.block .. op.name] = { op, c.layers[i] } end
  local function again(name)
    local plain, marked = table.unpack(by[name])
    return (marked.backward.time - plain.backward.time) / plain.forward.time
  end
  near(1024 / 6144, again "attentionqkv", "wk")
  near(1, again "attentionproj", "wo")
  near(1 / 2, again "mlpfc1", "w3")
  near(1, again "mlpnorm", "norms")
  assert.equal(0, again "mlpfc2")
  assert.equal(0, again "attentionattention")
end)

it("a simulation of any recomputation takes as long as the closed form", function()
  local pick = picker(516)
  local models = {
    { name = "dense", layers = 16, hidden = 2048, heads = 16, ffn = 8192, seq = 2048 },
    { name = "experts", layers = 16, hidden = 2048, heads = 16, ffn = 8192, seq = 2048,
      experts = { count = 8, top_k = 2, ffn = 1024 } },
  }
  for _ = 1, 150 do
    local model, pp = pick(models), pick { 1, 2, 4 }
    local q = {
      model = model, system = "h100-sxm", pp = pp, tp = pick { 1, 2 }, dp = pick { 1, 4 }, zero = pick { 0, 1, 3 },
      global_batch = 64, software = pick { "none", "megatron-core-simumax-1.2" }, simulate = true, explain = true,
      schedule = "1f1b", reshard_after_forward = pick { true, false }, attention = "flash",
    }
    if pick { true, false } then
      q.recompute_modules = pick { "core_attn", "op", { "layernorm", model.experts and "moe_act" or "mlp" } }
    else
      q.recompute_method, q.recompute_num_layers = pick { "block", "every", "uniform" }, pick { 1, 2, 3 }
    end
    local c = tperf.train(q)
    local sum = c.sum[#c.sum].seconds
    assert.near(c.time, sum, 1e-9 * c.time)
    -- stages of both ends differ from the others: the closed form takes the busiest one
    if pp == 1 then assert.near(c.time, c.simulated.time, 1e-9 * c.time) end
  end
end)

describe("module names", function()
  local function refused(o, words)
    local ok, message = pcall(train, o)
    assert.is_false(ok, words)
    assert.truthy(tostring(message):find(words, 1, true), message)
  end

  it("are refused if they contradict each other or the model", function()
    refused({ recompute = "none", recompute_modules = "mlp" }, "'recompute_modules' needs recompute = \"selective\"")
    refused({ recompute = "full", recompute_modules = "mlp" }, "got \"full\"")
    refused({ recompute_modules = "moe" }, "has moe, but model 'paper' has no experts")
    local op = tperf.op.gelu { elements = 1 }
    local own = tperf.architecture { name = "own", layer = { tperf.block("one", function() return { op } end) } }
    local model = { name = "m", layers = 4, hidden = 64, heads = 4, ffn = 256, seq = 64, vocab = 100 }
    model.architecture = own
    refused({ model = model, recompute_modules = "mlp" }, "no op of architecture 'own' says that it belongs to it")
    refused({ recompute_modules = "mla_up_proj" }, "has no latent attention (mla)")
    refused({ recompute_modules = { "op", "mlp" } }, "cannot be combined")
    refused({ recompute_modules = "core_atn" }, "did you mean 'core_attn'?")
    refused({ recompute_method = "block" }, "needs 'recompute_num_layers'")
    refused({ recompute = "selective", recompute_method = "block", recompute_num_layers = 1 },
      "needs recompute = \"full\"")
    refused({ recompute_layers = 2, recompute_num_layers = 2, recompute = "full" }, "an older name")
  end)

  it("appear as options, columns and JSON", function()
    local command = "tperf train llama-3.1-8b -s h100-sxm -b 64 --tp 2 --pp 2 "
    local text = program.ask(command .. "--recompute-modules mlp,layernorm").out
    assert.truthy(text:find("selective, layernorm+mlp", 1, true), text)
    assert.truthy(program.ask(command .. "--recompute-method block --recompute-num-layers 3").out:find(
      "full, block, 3 layers", 1, true))
    local json = program.ask(command .. "--recompute-modules mlp --json").out
    assert.truthy(json:find '"recompute_modules":%s*%[%s*"mlp"%s*%]', json)
    local wrong = program.ask(command .. "--recompute-modules mpl")
    assert.truthy(wrong.err:find("must be one of core_attn, moe_act", 1, true), wrong.err)
  end)

  it("are searched", function()
    local o = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 8, global_batch = 16, top = 3 }
    o.recompute_modules = { "mlp", "core_attn" }
    for _, c in ipairs(tperf.search(o)) do
      assert.same({ "core_attn", "mlp" }, c.recompute_modules)
      local again = tperf.train { model = o.model, system = o.system, configuration = c }
      assert.near(c.time, again.time, 1e-9 * c.time)
      assert.near(c.memory.total, again.memory.total, 1)
    end
    o.recompute_modules, o.recompute, o.recompute_method, o.recompute_num_layers = nil, "full", "block", 2
    local found = tperf.search(o)[1]
    assert.near(found.time, tperf.train { model = o.model, system = o.system, configuration = found }.time,
      1e-9 * found.time)
  end)
end)
