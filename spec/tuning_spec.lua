-- Adapters, frozen parts, packed documents and preference training, against published counts and figures by hand.
local program = require "program"
local tperf = require "tperf"

local S <const>, H <const>, FFN <const>, R <const> = 4096, 4096, 11008, 8 -- llama-2-7b's sequence and widths
local ALL <const> = 6738415616 -- its parameters

local function train(o)
  local asked = { model = "llama-2-7b", system = "h100-sxm", global_batch = 8, software = "none" }
  for name, value in pairs(o or {}) do asked[name] = value end
  return tperf.train(asked)
end

-- The op of a name in a kind of layer that is neither the first trained one nor below it.
local function op_of(c, name, block)
  for _, one in ipairs(c.kinds[#c.kinds].ops) do
    if one.name == name and (not block or one.block == block) then return one end
  end
end

local qv = { rank = R, targets = { "q_proj", "v_proj" } }

describe("adapters", function()
  it("train as many parameters as published", function()
    assert.equal(4194304, train { peft = qv }.trained_parameters)
    assert.equal(39976960, train { peft = { rank = 16, targets = "all-linear" } }.trained_parameters)
    assert.equal(41943040, train { model = "llama-3-8b", peft = { rank = 16, targets = "all-linear" } }
      .trained_parameters)
    -- fused: one A for queries, keys and values, one for both halves of the MLP
    local fused = 32 * 32 * (H + 3 * H + H + H + H + 2 * FFN + FFN + H)
    assert.equal(fused, train { peft = {} }.trained_parameters)
    assert.is_nil(train().trained_parameters)
  end)

  it("are all that has gradients and optimizer state; other weights take two bytes each", function()
    local m = train { peft = qv }.memory
    assert.equal(2 * (ALL + 4194304), m.weights)
    assert.equal(4 * 4194304, m.gradients)
    assert.equal(12 * 4194304, m.optimizer)
    local kept = train { peft = qv, weights = "fp32" }.memory -- sets the dtype of the trained weights
    assert.equal(2 * ALL + 4 * 4194304, kept.weights)
  end)

  it("are all that a checkpoint saves; one of a model with frozen parts has no state of these", function()
    local table_size <const> = 32000 * H
    assert.equal((2 + 12) * 4194304, train { peft = qv }.checkpoint_bytes)
    assert.equal((2 + 12) * ALL, train().checkpoint_bytes)
    local frozen = { "embedding" }
    assert.equal(2 * ALL + 12 * (ALL - table_size), train { frozen = frozen }.checkpoint_bytes)
    assert.equal(2 * ALL + 8 * (ALL - table_size) + 4 * table_size, -- AdamW's second moment of the head alone
      train { frozen = frozen, optimizer = "muon" }.checkpoint_bytes)
  end)

  it("keep their own inputs; frozen products keep none that nothing else needs", function()
    local c = train { peft = qv }
    local row = 2 * S * H
    local saved = { norm = row, qkv = 0, ["qkv-q-A"] = row, ["qkv-v-A"] = 0, ["qkv-q-B"] = 2 * S * R, fc1 = 0,
      proj = row, -- attention's result, which its backward pass needs
      silu = 4 * S * FFN, fc2 = 0 }
    for name, bytes in pairs(saved) do assert.equal(bytes, op_of(c, name).saved_bytes, name) end
    assert.equal(0, op_of(train { peft = { targets = { "linear_proj" } } }, "proj").saved_bytes) -- its adapter does
    assert.equal(row, op_of(train { peft = { targets = { "linear_proj" }, dropout = 0.1 } }, "proj").saved_bytes)
  end)

  it("leave frozen products only the gradient of their input", function()
    local fc1 = op_of(train { peft = qv }, "fc1")
    assert.equal(S * H * (2 * 2 * FFN - 1), fc1.backward.tensor_flops)
    assert.equal(2 * (S * H + S * 2 * FFN + H * 2 * FFN), fc1.backward.bytes)
    local a = op_of(train { peft = qv }, "qkv-q-A")
    assert.equal(S * H * (2 * R - 1) + H * R * (2 * S - 1), a.backward.tensor_flops)
  end)

  it("need no backward pass below the first adapter", function()
    local c = train { peft = qv }
    assert.equal(1, c.kinds[1].count)
    local ops = c.kinds[1].ops
    assert.same({ "norm", "qkv", "qkv-q-A" }, { ops[1].name, ops[2].name, ops[3].name })
    assert.same({ 0, 0, H * R * (2 * S - 1) }, { ops[1].backward.time, ops[2].backward.time,
      ops[3].backward.tensor_flops })
    assert.equal(0, c.first[1].backward.time)
    assert.equal(0, ops[1].saved_bytes)
  end)

  it("are cut over tp as in Megatron-Bridge, with a quarter of the parameters on each of four GPUs", function()
    local c = train { peft = { rank = 16 }, tp = 4 }
    for _, name in ipairs { "qkv", "fc1" } do
      assert.equal(2 * H * 16 / 4, op_of(c, name .. "-A").weight_bytes)
      assert.equal("all_gather", op_of(c, name .. "-low").forward.comms[1].kind)
    end
    assert.equal(2 * 16 * 3 * H / 4, op_of(c, "qkv-B").weight_bytes)
    for name, width in pairs { proj = H, fc2 = FFN } do
      assert.equal(2 * width / 4 * 16, op_of(c, name .. "-A").weight_bytes)
      assert.equal(2 * 16 * H / 4, op_of(c, name .. "-B").weight_bytes)
      assert.equal("all_reduce", op_of(c, name .. "-low").forward.comms[1].kind)
      assert.equal(2 * S * H, op_of(c, name .. "-spread").forward.comms[1].bytes)
    end
    assert.equal(4 * c.trained_parameters / 4, c.memory.gradients)
    local a2a = train { peft = { rank = 16, a2a = true }, tp = 4 }
    assert.equal("all_to_all", op_of(a2a, "proj-spread").forward.comms[1].kind)
    assert.is_true(a2a.time < c.time)
  end)

  it("are all that replicas exchange, unless frozen weights are sharded, too", function()
    local function sum(o, kind)
      local bytes = 0
      for _, exchange in ipairs(train(o).exchanges) do
        for _, comm in ipairs(exchange.section:find "^dense/gqa/full$" and exchange.comms or {}) do
          if comm.kind == kind then bytes = bytes + comm.bytes end
        end
      end
      return bytes
    end
    local own, layer = 4194304 / 32, 202383360 -- of a layer: its adapters, its weights
    assert.equal(4 * own, sum({ peft = qv, dp = 8 }, "reduce_scatter"))
    assert.equal(2 * own, sum({ peft = qv, dp = 8 }, "all_gather"))
    assert.equal(2 * (own + layer), sum({ peft = qv, dp = 8, zero = 3 }, "all_gather"))
  end)

  it("are all that the weight-gradient passes of a zero-bubble schedule compute", function()
    local function weight_passes(peft)
      local _, timeline = train { peft = peft, pp = 4, schedule = "zb_h1", global_batch = 8 }
      local seconds, all = 0, 0
      for _, pass in timeline:queue(2) do -- a device in the middle
        all = all + pass.stop - pass.start
        if pass.type == "backward_weight" then seconds = seconds + pass.stop - pass.start end
      end
      return seconds / all
    end
    assert.is_true(weight_passes(nil) > 0.2)
    assert.is_true(weight_passes(qv) < 0.02)
  end)

  it("of QLoRA hold the paper's 4-bit weights, and pay for their conversion to 16 bits", function()
    local paper = { kind = "qlora", rank = 64, targets = "all-linear", rest = "bf16" } -- qlora.py casts tables to bf16
    local c = train { peft = paper, recompute = "full", seq = 512, global_batch = 1 }
    local tables, norms = 2 * 32000 * H, 65 * H
    local layers = ALL - tables - norms
    assert.near(layers * (4 + 0.127) / 8 + 2 * (tables + norms) + 2 * c.trained_parameters, c.memory.weights, 1)
    assert.is_true(c.memory.weights > 3.5e9 and c.memory.weights < 5e9) -- 5 GB: arXiv 2305.14314, table 6
    assert.near(FFN * 2 * H * (2 + (4 + 0.127) / 8), op_of(c, "fc1-16bit").backward.bytes, 1)
    local big = tperf.model { name = "llama-65b", layers = 80, hidden = 8192, heads = 64, ffn = 22016, vocab = 32000,
      seq = 512, gated = true, norm = "rmsnorm", positions = "rotary" }
    -- PEFT's prepare_model_for_kbit_training casts to fp32 whatever is not quantised.
    local peft = { kind = "qlora", rank = 64, targets = "all-linear" }
    local wide = train { peft = peft, recompute = "full", seq = 512, global_batch = 1 }
    assert.near(2 * (tables + norms), wide.memory.weights - c.memory.weights, 1)
    local held = train { model = big, peft = paper, recompute = "full",
      global_batch = 1, optimizer = "adam_8bit" }.memory
    assert.is_true(held.weights < 41e9 and held.total < 48 * 2 ^ 30) -- "a 65B parameter model on a single 48GB GPU"
  end)

  it("hold LLM.int8()'s weights, with a scale in fp32 for each row", function()
    local peft = { kind = "qlora", bits = 8, rank = 64, targets = "all-linear", rest = "bf16" }
    local c = train { peft = peft, recompute = "full", seq = 512, global_batch = 1 }
    local tables, norms = 2 * 32000 * H, 65 * H
    local rows = 32 * (4 * H + 2 * FFN + H) -- of q, k, v, o, gate, up and down
    assert.near(ALL - tables - norms + 4 * rows + 2 * (tables + norms) + 2 * c.trained_parameters, c.memory.weights, 1)
    -- arXiv 2208.07339: rows of activations are read twice and written in 8 bits, 32-bit results written and read.
    local made = op_of(c, "fc1-8bit")
    assert.near(512 * (5 * H + 8 * 2 * FFN), made.forward.bytes, 1)
    assert.near(FFN * 2 * H * (1 + 4 / H + 6), made.backward.bytes, 1)
    assert.error_matches(function() train { peft = { bits = 8 } } end, "'peft.bits' is of kind = \"qlora\"")
  end)

  it("leave experts that are one parameter as they are, unless told otherwise", function()
    local function total(experts)
      local peft = { kind = "qlora", rank = 8, targets = { "q_a_proj" }, experts = experts }
      local c = tperf.train { model = "glm-4.7-flash", system = "h200-sxm", gpus = 1, global_batch = 4, micro_batch = 1,
        seq = 2048, recompute = "full", peft = peft }
      return c.memory.total / 2 ^ 30, c.trained_parameters
    end
    -- Axolotl's docs/expert_quantization.qmd: 127 and 23 GiB of GLM-4.7-Flash; PEFT casts what has 16 bits to fp32.
    assert.near(127, total {}, 10)
    assert.near(23, total { bits = 4 }, 2)
    local _, plain = total {}
    local _, with_experts = total { targets = { "gate_up_proj", "down_proj" } }
    -- rank 8 beside 64 experts of 1536 in 46 layers and one that predicts further tokens; their first product is fused
    assert.equal(47 * 64 * 8 * (2048 + 2 * 1536 + 1536 + 2048), with_experts - plain)
  end)

  it("train with 4 FLOPs for each frozen parameter and token, and 6 for each of their own", function()
    local c = train { peft = qv, model = tperf.model("llama-2-7b"):with { seq = 128 } }
    local per_token = c.mfu * c.gpus * tperf.system("h100-sxm").accelerator.tensor.bf16 / c.tokens_per_second
    assert.is_true(math.abs(per_token / (4 * (ALL - 32000 * H) + 6 * 4194304) - 1) < 0.03)
  end)

  it("go with experts, latent attention and recomputation", function()
    local moe = train { model = "qwen3-30b-a3b", ep = 8, dp = 8, peft = { rank = 4 }, system = "h200-sxm" }
    assert.equal(16, op_of(moe, "fc1-A").weight_bytes / (2 * 2048 * 4)) -- one for each of 128 / 8 experts
    local mla = train { model = "deepseek-v2", dp = 8, ep = 8, recompute = "full",
      peft = { targets = { "linear_q_down_proj", "linear_kv_up_proj" } } }
    assert.equal(60 * 32 * (5120 + 1536 + 512 + 128 * 256), mla.trained_parameters)
  end)

  it("are refused if impossible", function()
    for message, o in pairs {
      ["are not in the published model of the rules 'subramanian2024'"] = { peft = {}, rules = "subramanian2024",
        model = "gpt3-175b" },
      ["did you mean 'q_proj'"] = { peft = { targets = { "q_prj" } } },
      ["nothing is left to train"] = { peft = { targets = { "linear_kv_up_proj" } } },
      ["'peft.rank' must be"] = { peft = { rank = 0 } },
      ["strategy 'summa' has no products"] = { peft = {}, strategy = "summa" },
      ["'fp8%-current' is not for peft.kind = \"qlora\", whose frozen weights are multiplied in 16 bits"] = {
        peft = { kind = "qlora" }, precision = "fp8-current" },
    } do
      assert.error_matches(function() train(o) end, message)
    end
  end)
end)

describe("frozen parts", function()
  it("below the first trained layer have no backward pass, above it the gradient of their input", function()
    local below = train { frozen = { "embedding", "layers:1-16" } }
    assert.same({ "dense/gqa/full frozen below", 16 }, { below.kinds[1].key, below.kinds[1].count })
    for _, one in ipairs(below.kinds[1].ops) do assert.same({ 0, 0 }, { one.backward.time, one.saved_bytes }) end
    assert.equal(16 * 202383360 + 32000 * H + H, below.trained_parameters)
    local above = train { frozen = { "layers:17-32", "head" } }
    assert.equal(16, above.kinds[2].count)
    assert.equal(S * H * (2 * 2 * FFN - 1), op_of(above, "fc1").backward.tensor_flops)
    assert.equal(12 * above.trained_parameters, above.memory.optimizer)
  end)

  it("may be a table that the embedding and the head share: by either name, neither has a gradient of it", function()
    local ALL_1B <const>, TABLE <const>, WIDTH <const> = 1235814400, 128256 * 2048, 2048 -- llama-3.2-1b
    for pp = 1, 2 do
      for name, norm in pairs { embedding = 0, head = WIDTH } do -- the final norm is the head's
        local c = train { model = "llama-3.2-1b", seq = 1024, pp = pp, frozen = { name } }
        local gradients = 0
        for _, stage in ipairs(c.stages) do gradients = gradients + stage.repeats * stage.memory.gradients end
        assert.equal(ALL_1B - TABLE - norm, c.trained_parameters)
        assert.equal(4 * c.trained_parameters, gradients)
        for _, one in ipairs(c.last) do
          if one.name == "head" then assert.equal(1024 * WIDTH * (2 * 128256 - 1), one.backward.tensor_flops) end
        end
      end
    end
  end)

  it("may be blocks: with attention frozen, only the MLP learns", function()
    local c = train { frozen = { "attention", "embedding", "head" } }
    assert.equal(32 * (3 * H * FFN + H), c.trained_parameters) -- and its norm
  end)

  it("are refused by names that the model does not have", function()
    assert.error_matches(function() train { frozen = { "vision" } } end, "'frozen' has \"vision\"")
    assert.error_matches(function() train { frozen = { "layers:1-33" } } end, "the model's layers are 1 to 32")
    assert.error_matches(function() train { frozen = { "embedding", "layers", "head" } } end, "nothing is left")
  end)
end)

describe("packed documents", function()
  it("change the pairs of attention, and nothing else", function()
    local whole, packed = train(), train { packing = { mean = 1024 } }
    local n, heads, d = 4 * 1024 * 1025 / 2, 32, 128
    assert.equal(heads * (n * (2 * d - 1) + d * (2 * n - S)), op_of(packed, "attention").forward.tensor_flops)
    for i, one in ipairs(whole.layers) do
      if one.name ~= "attention" then assert.same(one, packed.layers[i]) end
    end
    assert.same(whole.memory, packed.memory)
    assert.is_true(packed.time < whole.time)
  end)

  it("of many lengths have the sum of l (l + 1) / 2 pairs, cut to the sequence", function()
    local function flops(packing) return op_of(train { packing = packing }, "attention").forward.vector_flops end
    local function by_hand(seen) return 32 * (3 * S * seen - S) end
    assert.near(by_hand((100 * 101 + 900 * 901) / 2 / 1000), flops { lengths = { 100, 900 } }, 1)
    assert.near(by_hand((S + 1) / 2), flops { mean = 10 * S }, 1)
    assert.near(flops { mean = 10 * S }, op_of(train(), "attention").forward.vector_flops, 1)
  end)

  it("go with windows and with context parallelism", function()
    local gemma = train { model = "gemma-2-27b", packing = { mean = 64 }, attention = "flash" }
    local windowed, full
    for _, kind in ipairs(gemma.kinds) do
      for _, one in ipairs(kind.ops) do
        if one.name == "attention" and kind.key:find "full" then full = one.forward.tensor_flops end
        if one.name == "attention" and not kind.key:find "full" then windowed = one.forward.tensor_flops end
      end
    end
    assert.equal(full, windowed) -- documents are shorter than the window
    local cp = train { packing = { mean = 1024 }, cp = 4, dp = 1 }
    assert.near(op_of(train { packing = { mean = 1024 } }, "attention").forward.vector_flops,
      4 * op_of(cp, "attention").forward.vector_flops, 1)
  end)

  it("are refused if they make no sense", function()
    assert.error_matches(function() train { packing = {} } end, "'packing' wants 'mean' or 'lengths'")
    assert.error_matches(function() train { packing = { mean = 5, lengths = { 5 } } } end, "wants 'mean' or 'lengths'")
    assert.error_matches(function() train { packing = { mean = 5 }, model = "vit-large-16" } end, "causal mask")
    assert.error_matches(function() train { packing = { mean = 5 }, model = "t5-large" } end, "which 'encoder_stack'")
  end)
end)

describe("preferences (DPO)", function()
  local function forward(c, name, block) return op_of(c, name, block).forward.tensor_flops end

  it("take two sequences a sample, which a frozen reference model evaluates, too", function()
    local plain, dpo = train(), train { objective = "dpo" }
    assert.equal(2 * S * 3 * H * (2 * H - 1), forward(dpo, "qkv", "attention"))
    assert.equal(forward(dpo, "qkv", "attention"), forward(dpo, "qkv", "ref-attention"))
    assert.equal(0, op_of(dpo, "qkv", "ref-attention").backward.time)
    assert.equal(0, op_of(dpo, "silu", "ref-mlp").saved_bytes)
    assert.equal(2 * plain.memory.weights, dpo.memory.weights)
    assert.same({ plain.memory.gradients, plain.memory.optimizer }, { dpo.memory.gradients, dpo.memory.optimizer })
    assert.equal(2 * S * 8 / dpo.time, dpo.tokens_per_second)
    assert.equal(2 * plain.memory.activations, dpo.memory.activations)
    local twice = train { micro_batch = 2, global_batch = 16 } -- the same sequences without a reference: 6 N of 8 N
    assert.is_true(math.abs(dpo.time / twice.time - 8 / 6) < 0.04)
    assert.is_true(math.abs(dpo.mfu / twice.mfu - 1) < 0.04)
  end)

  it("need no reference if its log-probabilities are known, and no copy of its weights with adapters", function()
    local twice = train { micro_batch = 2, global_batch = 16 }
    assert.equal(twice.time, train { objective = "dpo", reference = "precomputed" }.time)
    local lora = train { objective = "dpo", peft = qv }
    assert.equal(2 * (ALL + 4194304), lora.memory.weights)
    assert.equal(forward(lora, "fc1", "mlp"), forward(lora, "fc1", "ref-mlp"))
    assert.is_nil(op_of(lora, "qkv-q-A", "ref-attention"))
    assert.error_matches(function() train { reference = "resident" } end, "'reference' goes with objective")
  end)
end)

local TRAIN <const> = "tperf train llama-2-7b -s h100-sxm -b 8 "

describe("the command line", function()
  it("has options for all of it", function()
    local out = program.ask(TRAIN .. "--json --peft lora --lora-rank 8 --lora-targets q_proj,v_proj").out
    assert.equal("4194304", out:match '"trained_parameters": (%d+)')
    local text = program.ask(TRAIN .. "--lora-targets all-linear --lora-rank 16 --packing 512").out
    assert.match("trains 39976960 parameters", text)
    local found = program.ask("tperf search llama-2-7b -s h100-sxm -b 8 -g 8 --objective dpo "
      .. "--freeze embedding,layers:1-8 --top 1 --json").out
    assert.equal(tostring(24 * 202383360 + 32000 * H + H), found:match '"trained_parameters": (%d+)')
  end)

  it("reports errors", function()
    local refused = program.ask(TRAIN .. "--packing 0")
    assert.match("%-%-packing: documents have at least 1 token", refused.err)
    refused = program.ask(TRAIN .. "--freeze vision")
    assert.match("which the model does not have", refused.err)
  end)
end)

describe("launch files", function()
  it("of MLPerf's LoRA train only its adapters", function()
    local folder = program.folder()
    program.write(folder .. "/config_llama2_70b_lora.sh", "export TP=4 PP=1 CP=1 DGXNNODES=1 DGXNGPU=8 MINIBS=4\n"
      .. "export MICRO_BATCH_SIZE=1 SP=1 LORA_A2A=1\n")
    local result = program.ask("tperf train --from " .. folder .. "/config_llama2_70b_lora.sh --stack nemo-mlperf "
      .. "-s h100-sxm --json")
    program.remove(folder)
    -- rank 16 beside 8192 x (8192 + 2048) and 8192 x 8192, in 80 layers
    assert.equal(tostring(80 * 16 * (8192 + 10240 + 8192 + 8192)), result.out:match '"trained_parameters": (%d+)')
  end)

  it("of DeepSpeed-Chat's LoRA are predicted with all else frozen, and say so", function()
    local launch = { kind = "training", lora_rank = 8, peft = { rank = 8, targets = "all-linear" }, gpus = 8, tp = 1,
      pp = 1, cp = 1, dp = 8, ep = 1, micro_batch = 1, global_batch = 8, seq = 512, zero = 3, overlap = {} }
    local asked, left = require "tperf.import.launch.arguments".of(launch, { model = "llama-2-7b" })
    assert.same({ rank = 8, targets = "all-linear" }, asked.peft)
    assert.match("all else frozen", table.concat(left, "\n"))
  end)

  it("are not written for a stack that is not told of the adapters", function()
    local ok, message = pcall(tperf.report.launch, train { peft = qv, dp = 8 }, "megatron", { model = "llama-2-7b" })
    assert.is_false(ok)
    assert.match("peft = adapters of rank 8: megatron is not told it", message, 1, true)
  end)
end)

describe("searches and sweeps", function()
  it("take the same arguments", function()
    local found = tperf.search { model = "llama-2-7b", system = "h100-sxm", gpus = 8, global_batch = 8, peft = qv,
      software = "none", where = function(c) return c.tp == 1 and c.pp == 1 end }
    assert.equal(4194304, found[1].trained_parameters)
    local again = train { peft = qv, dp = 8, recompute = found[1].recompute, micro_batch = found[1].micro_batch,
      fast = found[1].fast }
    assert.equal(found[1].time, again.time)
    local rows = tperf.sweep { run = tperf.train, model = "llama-2-7b", system = "h100-sxm", global_batch = 8,
      peft = { targets = { "q_proj", "v_proj" } }, ["peft.rank"] = tperf.vary { 8, 64 } }
    assert.same({ 4194304, 8 * 4194304 }, { rows[1].trained_parameters, rows[2].trained_parameters })
  end)
end)
