-- tperf.precision: bytes and traffic of one layer under each recipe, worked out by hand from the recipes' sources.
local tperf = require "tperf"

-- Per layer 4 h h weights of attention and 3 h f of a gated MLP; N tokens.
local N <const>, H <const>, F <const>, HEADS <const> = 512, 1024, 4096, 8
local MODEL <const> = {
  name = "small", layers = 4, hidden = H, heads = HEADS, ffn = F, gated = true, norm = "rmsnorm", positions = "rotary",
  seq = N, vocab = 2048, tied_embeddings = false,
}

local function train(precision, more)
  local question = { model = MODEL, system = "h100-sxm", gpus = 8, global_batch = 8, precision = precision,
    software = "none", rules = "default" }
  for name, value in pairs(more or {}) do question[name] = value end
  return tperf.train(question)
end

local function op_of(c, name)
  for _, op in ipairs(c.layers) do
    if op.name == name then return op end
  end
end

local function sum(c, field)
  local all = 0
  for _, op in ipairs(c.layers) do all = all + op[field] end
  return all
end

local B200 <const> = { system = "b200-sxm" }

describe("the activations that a layer saves", function()
  -- Both norms' inputs, queries, keys and values, 4 bytes a row and head, and both halves of the activation's input.
  local others = 2 * 2 * N * H + 3 * 2 * N * H + 4 * N * HEADS + 2 * 2 * N * F
  -- number: bytes per element of a product's input; output: of attention's output, unless attention keeps it.
  local function expected(number, output) return others + number * (3 * N * H + N * F) + output * N * H end

  it("is every product's input in 16 bits without a recipe", function()
    assert.equal(expected(2, 0), sum(train "bf16", "saved_bytes"))
    assert.equal(expected(2, 0), sum(train "fp16", "saved_bytes"))
  end)

  it("is one copy in 8 bits with one scale a tensor", function()
    for _, recipe in ipairs { "fp8-delayed", "fp8-current" } do
      assert.equal(expected(1, 2), sum(train(recipe), "saved_bytes"))
      assert.equal(expected(1, 2), sum(train(recipe, B200), "saved_bytes"))
    end
  end)

  it("includes the scales of blocks", function()
    assert.equal(expected(1 + 4 / 128, 2), sum(train "fp8-block", "saved_bytes"))
    assert.equal(expected(1 + 1 / 32, 2), sum(train("mxfp8", B200), "saved_bytes"))
    assert.equal(expected(0.5 + 1 / 16, 2), sum(train("nvfp4", B200), "saved_bytes"))
  end)

  it("is the 16-bit input in torchao, and if the weight gradient stays in 16 bits", function()
    for _, recipe in ipairs { "fp8-tensorwise", "fp8-rowwise", { recipe = "fp8-block", weight_grad = "bf16" } } do
      assert.equal(expected(2, 0), sum(train(recipe), "saved_bytes"))
    end
  end)

  it("has the activation's inputs in 8 bits if asked to (arXiv 2412.19437, section 3.3.3)", function()
    local c = train { recipe = "fp8-block", activation = "fp8" }
    assert.equal((1 + 4 / 128) * 2 * N * F, op_of(c, "silu").saved_bytes)
  end)

  it("has attention's output once, in 12 bits, if asked to (the same section)", function()
    local once, twice = train { recipe = "fp8-block", attention_output = "e5m6" }, train "fp8-block"
    assert.equal(0, op_of(once, "proj-cast").saved_bytes)
    assert.equal((2 - 1.5) * N * H, op_of(twice, "attention").saved_bytes - op_of(once, "attention").saved_bytes)
    assert.equal((1.5 + 1 + 4 / 128) * N * H,
      op_of(once, "proj-cast").backward.bytes - op_of(twice, "proj-cast").backward.bytes)
  end)

  it("is only the layer's input, in 16 bits, under full recomputation", function()
    assert.equal(2 * N * H, sum(train("fp8-block", { recompute = "full" }), "saved_bytes"))
  end)
end)

describe("the weights of a product", function()
  local weights = 3 * H * H
  local function bytes(precision, more) return op_of(train(precision, more), "qkv").weight_bytes / weights end

  it("include the copies kept from micro-batch to micro-batch", function()
    assert.equal(2, bytes "bf16")
    assert.equal(2 + 2, bytes "fp8-current") -- Hopper's matrix units need the transposed copy, too
    assert.equal(2 + 1, bytes("fp8-current", B200))
    assert.equal(2 + 2 * (1 + 4 / 128 ^ 2), bytes "fp8-block")
    assert.equal(2 + 2 * (1 + 1 / 32), bytes("mxfp8", B200))
    assert.equal(2 + 2 * (0.5 + 1 / 16), bytes("nvfp4", B200))
  end)

  it("include no copies in torchao, under ZeRO 3 and if told so", function()
    assert.equal(2, bytes "fp8-tensorwise")
    assert.equal(2, bytes("fp8-current", { zero = 3 }))
    assert.equal(2, bytes { recipe = "fp8-current", cached = false })
  end)

  it("are only the copies if parameters are narrow", function()
    assert.equal(2, bytes { recipe = "fp8-current", parameters = "narrow" })
    assert.equal(1, bytes({ recipe = "fp8-current", parameters = "narrow" }, B200))
    assert.equal(2 * (1 + 1 / 32), bytes({ recipe = "mxfp8", parameters = "narrow" }, B200))
  end)

  -- Megatron-Core's disable_parameter_transpose_cache: Hopper's second copy, a transposition, is made for each backward
  -- pass, which reads and writes a byte a weight. Blocks by columns have scales of their own: both copies stay.
  it("are one copy if parameters are narrow and no copy lives across micro-batches", function()
    local once = { recipe = "fp8-current", parameters = "narrow", cached = false }
    assert.equal(1, bytes(once))
    assert.equal(2 * weights, op_of(train(once), "qkv-weight").backward.bytes)
    assert.equal(0, op_of(train(once), "qkv-weight").forward.bytes)
    assert.equal(1, bytes({ recipe = "fp8-current", parameters = "narrow" }, { zero = 3 }))
    assert.equal(1, bytes(once, B200))
    assert.equal(2 * (1 + 1 / 32), bytes({ recipe = "mxfp8", parameters = "narrow", cached = false }, B200))
  end)

  it("still have gradients in 16 bits, master copies and moments", function()
    local narrow, wide = train { recipe = "fp8-current", parameters = "narrow" }, train "bf16"
    assert.equal(wide.memory.gradients, narrow.memory.gradients)
    assert.equal(wide.memory.optimizer, narrow.memory.optimizer)
    assert.equal(2 * weights, op_of(narrow, "qkv").weight_grad_bytes)
  end)
end)

describe("the bytes that replicas gather for a layer", function()
  local products, norms = 4 * H * H + 3 * H * F, 2 * H
  local function gathered(precision, more)
    for _, comm in ipairs(train(precision, more).exchanges[1].comms) do
      if comm.kind == "all_gather" then return comm.bytes end
    end
  end

  it("are half as many if parameters, or only the gathers, are in 8 bits", function()
    assert.equal(2 * products + 2 * norms, gathered "bf16")
    assert.equal(2 * products + 2 * norms, gathered "fp8-current")
    assert.equal(1 * products + 2 * norms, gathered { recipe = "fp8-current", parameters = "narrow" })
    assert.equal(1 * products + 2 * norms, gathered { recipe = "fp8-tensorwise", gather = "narrow" })
    local block = gathered { recipe = "fp8-block", parameters = "narrow" }
    assert.near((1 + 4 / 128 ^ 2) * products + 2 * norms, block, 1e-6)
  end)

  it("are in 16 bits if the copies' scales differ, as in Megatron-LM", function()
    assert.equal(2 * products + 2 * norms, gathered({ recipe = "mxfp8", parameters = "narrow" }, B200))
  end)
end)

describe("the kernels that quantise", function()
  local function traffic(c, name)
    local op = op_of(c, name)
    return { op.forward.bytes, op.backward.bytes }
  end
  local X <const>, DY <const> = N * H, N * 3 * H -- numbers of qkv's input, and of its output's gradient

  it("read 16 bits once and write both copies, and read once more for the maximum", function()
    local c = train "fp8-current"
    assert.same({ 2 * X, 2 * DY }, traffic(c, "qkv-amax"))
    assert.same({ (2 + 1 + 1) * X, (2 + 1 + 1) * DY }, traffic(c, "qkv-cast"))
    local any = train("fp8-current", B200)
    assert.same({ (2 + 1) * X, (2 + 1) * DY }, traffic(any, "qkv-cast"))
    assert.is_nil(op_of(train "fp8-delayed", "qkv-amax"))
  end)

  it("write blocks' scales with either copy", function()
    local eight, four = 1 + 1 / 32, 0.5 + 1 / 16
    assert.same({ (2 + 2 * eight) * X, (2 + 2 * eight) * X }, traffic(train("mxfp8", B200), "proj-cast"))
    assert.same({ (2 + 2 * four) * X, (2 + 2 * four) * DY }, traffic(train("nvfp4", B200), "qkv-cast"))
    assert.equal(2 * 16 * X, op_of(train("nvfp4", B200), "qkv-cast").forward.tensor_flops) -- 16 x 16 Hadamard
  end)

  it("are part of the norm before a product if the recipe has such norms", function()
    local c = train("mxfp8", B200)
    assert.same({ (2 * (1 + 1 / 32) - 2) * X, (2 + 2 * (1 + 1 / 32)) * DY }, traffic(c, "qkv-cast"))
    assert.same({ 0, (2 + 1 + 1) * DY }, traffic(train "fp8-delayed", "qkv-cast"))
  end)

  it("quantise a kept 16-bit input again, and weights in every pass", function()
    local c, weights = train "fp8-tensorwise", 3 * H * H
    assert.same({ (2 + 1) * X, (2 + 1 + 1) * DY + (2 + 1) * X }, traffic(c, "qkv-cast"))
    assert.same({ (2 + 1 + 2) * weights, (2 + 1) * weights }, traffic(c, "qkv-weight"))
    assert.same({ 0, 2 * weights }, traffic(train { recipe = "fp8-tensorwise", gather = "narrow" }, "qkv-weight"))
    assert.is_nil(op_of(train "fp8-current", "qkv-weight"))
  end)

  it("are torchao's on every GPU: they write the copy by columns even where products take any layout", function()
    local cast = traffic(train("fp8-tensorwise", B200), "qkv-cast")
    assert.same({ (2 + 1) * X, (2 + 1 + 1) * DY + (2 + 1) * X }, cast)
  end)

  it("read 16 bits twice for a column-wise copy with a scale per column", function()
    local c, weights = train "fp8-rowwise", 3 * H * H
    assert.same({ (2 + 1) * X, (2 + 1) * DY + (2 + 2 + 1) * DY + (2 + 2 + 1) * X }, traffic(c, "qkv-cast"))
    assert.same({ (2 + 1) * weights, (2 + 2 + 1) * weights }, traffic(c, "qkv-weight"))
  end)

  it("work on a shard before it is gathered, and gathers carry 8 bits", function()
    local c = train("fp8-current", { tp = 2 })
    assert.same({ (2 + 1) * X / 2, (2 + 1 + 1) * DY / 2 + (1 + 1) * X }, traffic(c, "qkv-cast"))
    assert.equal(X, op_of(c, "qkv").forward.comms[1].bytes)
    assert.same({ (2 + 1 + 1) * X / 2, (2 + 1) * X / 2 + (1 + 1) * X }, traffic(c, "proj-cast"))
    assert.equal(X, op_of(c, "proj").backward.comms[1].bytes)
    local both = train("mxfp8", { tp = 2, system = "b200-sxm" })
    assert.equal(2 * (1 + 1 / 32) * X, op_of(both, "proj").backward.comms[1].bytes) -- by rows and by columns
    assert.equal(2 * X, op_of(train("fp8-rowwise", { tp = 2 }), "qkv").forward.comms[1].bytes)
  end)

  it("leave less for the products to read and write", function()
    local op, weights = op_of(train "fp8-current", "qkv"), 3 * H * H
    assert.equal(X + 2 * DY + weights, op.forward.bytes)
    assert.equal(DY + weights + 2 * X + X + DY + 2 * weights, op.backward.bytes)
  end)
end)

describe("layers", function()
  it("at the ends stay in 16 bits if asked to", function()
    local c = train { recipe = "fp8-current", first_layers = 1, last_layers = 2 }
    local all, none = train "fp8-current", train "bf16"
    assert.near((3 * none.memory.activations + all.memory.activations) / 4, c.memory.activations,
      1e-9 * c.memory.activations)
    local function casts(kind)
      local count = 0
      for _, op in ipairs(kind.ops) do count = count + (op.name:find "-cast$" and 1 or 0) end
      return count
    end
    assert.same({ 0, 4 }, { casts(c.kinds[1]), casts(c.kinds[2]) }) -- the first layer's kind comes first
    assert.equal(2, #c.kinds)
  end)

  it("of multi-token prediction are quantised whatever is trained, and so is a reference model's copy", function()
    local model = {}
    for name, value in pairs(MODEL) do model[name] = value end
    model.mtp = 1
    local function casts(more)
      more.model = model
      local count = 0
      for _, op in ipairs(train("fp8-current", more).last) do count = count + (op.name:find "-cast$" and 1 or 0) end
      return count
    end
    local products <const> = 5 -- join, qkv, proj, fc1 and fc2
    assert.equal(products, casts {})
    assert.equal(products, casts { frozen = { "embedding" } })
    assert.equal(products, casts { peft = { rank = 16 } })
    assert.equal(2 * products, casts { objective = "dpo" })
  end)

  it("of experts quantise only the experts if asked to, and send their tokens in 8 bits", function()
    local function moe(precision)
      return tperf.train {
        model = "qwen3-30b-a3b", system = "h100-sxm", gpus = 8, ep = 8, global_batch = 8, precision = precision,
      }
    end
    local experts = moe { recipe = "fp8-block", products = "experts" }
    local dense = moe { recipe = "fp8-block", products = "dense" }
    assert.truthy(op_of(experts, "fc1-cast"))
    assert.is_nil(op_of(experts, "qkv-cast"))
    assert.is_nil(op_of(dense, "fc1-cast"))
    assert.truthy(op_of(dense, "qkv-cast"))
    local wide, narrow = moe "fp8-block", moe { recipe = "fp8-block", dispatch = "fp8" }
    local eight = (1 + 4 / 128) / 2
    for _, case in ipairs {
      { "dispatch", "forward", eight }, { "dispatch", "backward", 1 },
      { "combine", "forward", 1 }, { "combine", "backward", eight },
    } do
      local name, pass, part = table.unpack(case)
      assert.near(part, op_of(narrow, name)[pass].comms[1].bytes / op_of(wide, name)[pass].comms[1].bytes, 1e-12)
    end
    -- Already in 8 bits, rows are read for their copy by columns alone; from 16 bits both copies are written.
    local n = 1 + 4 / 128
    for _, case in ipairs { { "fc1-cast", "forward", "backward" }, { "fc2-cast", "backward", "forward" } } do
      local name, pass, other = table.unpack(case)
      local came, made = op_of(narrow, name), op_of(wide, name)
      assert.near(2 * n / (2 + 2 * n), came[pass].bytes / made[pass].bytes, 1e-9, name)
      assert.equal(made[other].bytes, came[other].bytes)
    end
    assert.is_nil(op_of(wide, "router-cast"))
  end)
end)

describe("attention in 8 bits", function()
  local SEQ <const> = 8192

  -- Forward and backward of one layer's attention: the kernels of the machine's own curves.
  local function of(system, dtype)
    local machine, time = require "tperf.core".machine(tperf.system(system)), 0
    for _, backward in ipairs { false, true } do
      local compute, memory = machine:kernel("causal_attention", dtype, HEADS, SEQ, SEQ, H // HEADS, 1, backward)
      time = time + compute + memory
    end
    return time
  end

  local function attention(system, precision)
    local c = train(precision, { system = system, gpus = 1, global_batch = 1, seq = SEQ, explain = true })
    local op = op_of(c, "attention")
    return op.forward.time + op.backward.time, c
  end

  it("uses 8-bit kernels, and saves the same activations", function()
    for _, system in ipairs { "h100-sxm", "b200-sxm" } do
      local wide, kept = attention(system, "fp8-delayed")
      local narrow, c = attention(system, { recipe = "fp8-delayed", attention = "fp8" })
      assert.near(of(system, "bf16"), wide, 1e-9, system)
      assert.near(of(system, "fp8"), narrow, 1e-9, system)
      assert.equal(kept.memory.total, c.memory.total)
    end
  end)

  it("is named in the result", function()
    local _, c = attention("h100-sxm", { recipe = "fp8-delayed", attention = "fp8" })
    assert.equal("fp8-delayed (attention fp8)", c.precision)
  end)
end)

describe("a narrower precision", function()
  local MODELS = { "llama-3-8b", "gpt3-175b", "deepseek-v3", "deepseek-v3.2", "qwen3-30b-a3b",
    "mixtral-8x7b", "nemotron-h-8b" }

  it("never keeps more activations, and is faster where products are large", function()
    for _, model in ipairs(MODELS) do
      for _, recompute in ipairs { "none", "full" } do
        local function of(precision)
          return tperf.train { model = model, system = "b200-sxm", gpus = 64, pp = 1, global_batch = 64,
            precision = precision, recompute = recompute, software = "none" }
        end
        local wide = of "bf16"
        for _, recipe in ipairs { "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise" } do
          local c = of(recipe)
          local padded = tperf.model(model).experts and 1.03 or 1 -- rows of up to 256 experts on one GPU
          assert.is_true(c.memory.activations <= padded * wide.memory.activations, model .. recipe)
          assert.equal(recipe, c.precision)
        end
        assert.is_true(of "fp8-delayed".time <= of "fp8-current".time)
        if model == "llama-3-8b" or model == "gpt3-175b" then assert.is_true(of "mxfp8".time < wide.time) end
      end
    end
  end)
end)

describe("an adapter beside a product in 8 bits", function()
  -- 4096 tokens of 8192 features
  local function ops_of(change)
    local q = { model = "llama-2-70b", system = "h100-sxm", gpus = 8, global_batch = 8, precision = "fp8-delayed",
      peft = { rank = 16, targets = { "linear_qkv" } }, software = "none", explain = true }
    for name, value in pairs(change) do q[name] = value end
    local found = {}
    for _, one in ipairs(tperf.train(q).kinds[1].ops) do found[one.name] = one end
    return found
  end

  it("multiplies in 16 bits", function()
    local ops = ops_of {}
    assert.is_nil(ops["qkv-A-cast"])
    assert.is_nil(ops["qkv-B-cast"])
    assert.is_truthy(ops["qkv-cast"] and ops["fc1-cast"])
    assert.equal(2 * (4096 * 8192 + 4096 * 16 + 8192 * 16), ops["qkv-A"].forward.bytes)
  end)

  it("reads the norm's output, which the norm then does not quantise", function()
    local ops = ops_of {}
    assert.equal((2 + 1) * 4096 * 8192, ops["qkv-cast"].forward.bytes) -- reads 16 bits, writes 8
    assert.equal(0, ops["fc1-cast"].forward.bytes) -- the norm wrote 8 bits and spared 4 bytes a number
  end)

  it("gathers its input in 16 bits, and with it the product's, which is quantised after that", function()
    local ops = ops_of { tp = 4 }
    assert.equal(2 * 4096 * 8192, ops.qkv.forward.comms[1].bytes)
    assert.equal((2 + 1) * (4096 + 1024) * 8192, ops["qkv-cast"].forward.bytes) -- and the GPU's own shard
    assert.equal(1 * 4096 * 8192, ops.fc1.forward.comms[1].bytes)
  end)
end)

describe("a configuration", function()
  it("keeps the precision that it was found in", function()
    local question = { model = MODEL, system = "h100-sxm", gpus = 8, global_batch = 8 }
    question.precision = "fp8-current"
    local found = tperf.search(question)[1]
    question.precision, question.gpus, question.global_batch, question.configuration = nil, nil, nil, found
    local again = tperf.train(question)
    assert.equal(found.time, again.time)
    assert.equal("fp8-current", again.precision)
  end)
end)

describe("an impossible precision", function()
  local function refuses(precision, more, pattern)
    local ok, message = pcall(train, precision, more)
    assert.is_false(ok)
    assert.truthy(message:find(pattern), message)
  end

  it("is refused with the systems that have it", function()
    refuses("fp8-current", { system = "a100-sxm-80gb" }, "'fp8%-current' needs matrix units for fp8, which system "
      .. "'a100%-sxm%-80gb' does not have; these have them: [^\n]*h100%-sxm")
    refuses("mxfp8", nil, "scales of blocks, which system 'h100%-sxm'[^\n]* b200%-sxm")
    refuses("nvfp4", nil, "'nvfp4' needs")
  end)

  it("is refused by name", function()
    refuses("fp9", nil, "'precision' must be one of bf16, fp16, fp8%-delayed")
    refuses({ recipe = "mxfp8", cachd = true }, B200, "unknown field 'precision.cachd' %(did you mean 'cached'%?%)")
    refuses({ recipe = "fp8-block", name = "bf16" }, nil, "'precision.name' must not be a recipe's, got 'bf16'")
    refuses({ recipe = "fp8-block", first_layers = 2, last_layers = 2 }, nil, "leave none of the model's 4 layers")
    refuses("fp8-block", { strategy = "summa" }, "not for the products of strategy 'summa'")
    refuses("fp8-block", { model = "gpt3-175b", rules = "subramanian2024" },
      "rules 'subramanian2024' only know GPT%-3's")
  end)

  it("is refused if a search would need two kinds of copies", function()
    local function search(more)
      local question = { model = MODEL, system = "h100-sxm", gpus = 8, global_batch = 8, precision = "fp8-current" }
      for name, value in pairs(more) do question[name] = value end
      local ok, message = pcall(tperf.search, question)
      return ok and "" or message
    end
    assert.truthy(search { zero = { 1, 3 } }:find "zero = 3 cannot: ask for zero = 3 by itself")
    assert.truthy(search { system = { "h100-sxm", "b200-sxm" } }:find "on 'h100%-sxm' or on 'b200%-sxm', not on both")
    assert.equal("", search { system = { "h100-sxm", "h200-sxm" } })
  end)
end)
