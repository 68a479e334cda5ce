-- tperf.import.launch reads back what report.launch writes: the same configuration, for hundreds of random ones that
-- have nine tenths of the values of all axes, or with TPERF_THOROUGH=1 for thousands that have each several times.
local cases = require "cases"
local picker = require "picker"
local tperf = require "tperf"
local tables = require "tperf.import.launch.tables"

local CASES <const> = cases(40, 2000)

local DENSE <const>, MOE <const> = "llama-3.1-8b", "mixtral-8x7b"
local models = { [DENSE] = tperf.model(DENSE), [MOE] = tperf.model(MOE) }

local MANY <const> = { "shard", "overlap_tp", "overlap_grad_reduce", "overlap_param_gather", "bucket_size", "optimizer",
  "gradients", "peft", "overlap_param_gather_with_optimizer_step", "overlap_moe_a2a", "delay_wgrad", "moe_dispatcher",
  "overlap_shared_experts", "overlap_p2p", "cuda_graphs", "cp_kind",
  "first_stage_layers", "last_stage_layers", "account_for_embedding", "account_for_loss" }

-- Sets up to two of the axes that mostly keep their default; those that only the question has go there.
local function random_axes(pick, c)
  local question = {}
  for _ = 1, pick { 0, 0, 1, 2 } do
    local what = pick {
      { "shard", c.zero > 0 and c.dp > 2 and 2 or nil }, { "overlap_tp", c.tp > 1 and pick { "ring", "async" } or nil },
      { "overlap_grad_reduce", c.dp > 1 and false or nil }, { "bucket_size", 40000000 },
      { "overlap_param_gather", c.dp > 1 and c.zero > 0 and false or nil },
      { "optimizer", pick { "sgd", "muon", "lion" } },
      { "precision", pick { "fp8-delayed", "fp8-current", "fp8-block", "mxfp8", "nvfp4", "fp8-tensorwise",
        "fp8-rowwise", "fp8-delayed (parameters narrow)", "mxfp8 (padding router)", "nvfp4 (padding router)",
        "fp8-block (padding router, parameters narrow)", "mxfp8 (fused experts true)" } },
      { "gradients", "bf16" }, { "peft", pick { { rank = 16 }, { rank = 8, targets = { "linear_qkv" } },
        { rank = 4, targets = "all-linear" } } },
      { "cuda_graphs", pick { { "attn", "mlp" }, { "layer" }, { "full_iteration" }, { "attn", "moe_router" } } },
      { "overlap_param_gather_with_optimizer_step", true }, { "first_stage_layers", c.pp > 1 and 3 or nil },
      { "last_stage_layers", c.pp > 1 and 3 or nil }, { "account_for_embedding", c.pp > 1 or nil },
      { "account_for_loss", c.pp > 1 or nil },
      { "cp_kind", c.cp > 1 and pick { "ring", "all_to_all", "all_gather" } or nil },
      { "moe_dispatcher", (c.ep or 1) > 1 and pick { "allgather", "deepep", "hybridep" } or nil },
      { "overlap_p2p", c.pp > 2 and c.virtual_stages > 1 and false or nil },
      { "overlap_moe_a2a", (c.ep or 1) > 1 or nil }, { "overlap_shared_experts", (c.ep or 1) > 1 or nil },
    }
    c[what[1]] = what[2]
    if what[1] == "overlap_moe_a2a" and what[2] then c.delay_wgrad = pick { true, nil } end
  end
  for _, name in ipairs { "optimizer", "gradients", "peft", "first_stage_layers", "last_stage_layers",
    "account_for_embedding", "account_for_loss" } do
    question[name], c[name] = c[name], nil
  end
  return question
end

-- A configuration as tperf.search returns it, as far as launches need it.
local function random_training(pick)
  local c = { strategy = "tensor", tp = pick { 1, 2, 4, 8 }, pp = pick { 1, 2, 4, 8 }, cp = pick { 1, 1, 2 },
    dp = pick { 1, 2, 4, 8, 16 }, micro_batch = pick { 1, 2, 4 }, zero = pick { 0, 1, 2, 3 },
    recompute = pick { "none", "selective", "full" }, sequence_parallel = pick { true, true, false } }
  if c.cp > 1 then c.strategy = "context" end
  if c.recompute == "selective" then
    c.recompute_modules = pick { { "core_attn" }, { "core_attn", "layernorm" }, { "mlp" }, { "op" } }
  elseif c.recompute == "full" and pick { true, false } then
    c.recompute_method, c.recompute_num_layers = pick { "block", "uniform", "every" }, pick { 2, 3 }
  end
  if pick { 1, 2, 3, 4 } == 1 then
    local what, value = table.unpack(pick { { "offload_optimizer", 0.5 }, { "offload_modules", { "core_attn" } },
      { "offload_layers", 3 } })
    c[what] = value
  end
  local name = pick { DENSE, MOE }
  if name ~= DENSE then
    c.ep = pick { 1, 2, 4, 8 }
    c.etp = c.sequence_parallel and pick { 1, c.tp } or c.tp
    if c.tp * c.cp * c.dp % (c.ep * c.etp) ~= 0 then c.ep = 1 end
    if c.ep == 1 then c.etp = c.tp end
  end
  c.schedule, c.virtual_stages = "1f1b", 1
  if c.pp > 1 and pick { true, false } then c.schedule, c.virtual_stages = "interleaved_1f1b", pick { 2, 4 } end
  if c.pp > 1 and c.virtual_stages == 1 and pick { 1, 2, 3 } == 1 then c.schedule = "gpipe" end
  if c.pp == 1 and c.virtual_stages == 1 then c.schedule = "1f1b" end
  c.global_batch = c.dp * c.micro_batch * pick { 1, 2, 8, 24 }
  local question = random_axes(pick, c)
  return c, models[name], pick { 2048, 4096, 8192 }, question
end


local function as_text(value)
  if type(value) ~= "table" then return tostring(value) end
  local list = {}
  for key, one in pairs(value) do list[#list + 1] = key .. "=" .. as_text(one) end
  table.sort(list)
  return table.concat(list, " ")
end

local function values_of(c, question)
  local list = {}
  for _, axes in ipairs { c, question } do
    for name, value in pairs(axes) do
      if name == "global_batch" then value = value // (c.dp * c.micro_batch) end
      list[#list + 1] = name .. "=" .. as_text(value)
    end
  end
  return list
end

local TRIES <const> = cases(2, math.huge)

-- Whether a case has a value that fewer than TRIES were written with.
local function is_wanted(values, written)
  for _, value in ipairs(values) do
    if (written[value] or 0) < TRIES then return true end
  end
  return false
end

-- The random cases drawn for a stack, and the values of all axes that those have that it can be told.
local STACKS <const> = {
  { "megatron", 3200, 82 }, { "megatron-bridge", 3000, 84 }, { "torchtitan", 15200, 58 }, { "deepspeed", 9700, 45 },
  { "nanotron", 8800, 40 },
}

local FILE <const> = { megatron = "run.sh", ["megatron-bridge"] = "recipe.py", torchtitan = "train.toml",
  deepspeed = "run.sh", nanotron = "config.yaml", vllm = "serve.sh", sglang = "serve.sh",
  ["tensorrt-llm"] = "config.yaml" }
local STACK <const> = { ["megatron-bridge"] = "Megatron-Bridge", torchtitan = "torchtitan", nanotron = "nanotron",
  deepspeed = "DeepSpeed", ["tensorrt-llm"] = "TensorRT-LLM" }

local function read_back(stack, text, given)
  return tperf.import.launch { files = { { name = FILE[stack], text = text } }, stack = STACK[stack], given = given }
end

-- Each stack's default for cp_kind.
local CP <const> = { deepspeed = "all_to_all", nanotron = "ring" }

local function same_axes(c, question, got, stack)
  local a = { peft = got.peft, cp_kind = got.cp_kind }
  require "tperf.import.launch.arguments.axes".add(got, a)
  if c.zero == 1 or c.zero == 2 then require "tperf.describe.optimizers".fill(a) end -- DeepSpeed's own gradients
  if (got.ep or 1) > 1 and a.moe_dispatcher == nil then
    a.moe_dispatcher = got.moe_dispatcher_backend or got.moe_dispatcher or "alltoall"
  end
  for _, name in ipairs(MANY) do
    local expected = c[name]
    if expected == nil then expected = question[name] end
    if name == "cp_kind" and c.cp > 1 then expected = expected or CP[stack] or "all_gather" end
    if name == "moe_dispatcher" and (c.ep or 1) > 1 then expected = expected or "alltoall" end
    if name == "gradients" and a.gradients == "fp32" then expected = expected or "fp32" end -- tperf's default
    if name == "peft" and expected and not a.peft then error "no adapters" end
    if name == "overlap_param_gather" and expected == false and c.zero == 0 then expected = nil end
    assert.same(expected, a[name], stack .. " " .. name)
  end
end

local function precision_of(launch)
  local whole = setmetatable({ micro_batch = 1, global_batch = launch.dp, seq = 4096 }, { __index = launch })
  local p = tperf.import.arguments(whole, { model = models[launch.ep > 1 and MOE or DENSE] }).precision
  if not p then return nil end
  return require "tperf.describe.precision".of(p).name
end

local function same(c, got, seq, stack)
  assert.same({ tp = c.tp, pp = c.pp, cp = c.cp, dp = c.dp, vp = c.virtual_stages, micro_batch = c.micro_batch,
    global_batch = c.global_batch, seq = seq, gpus = c.tp * c.pp * c.cp * c.dp },
    { tp = got.tp, pp = got.pp, cp = got.cp, dp = got.dp, vp = got.vp, micro_batch = got.micro_batch,
      global_batch = got.global_batch, seq = got.seq, gpus = got.gpus })
  local unsharded = stack == "torchtitan" and c.dp * c.cp == 1 -- one rank shards nothing
  if not unsharded then assert.equal(c.zero, got.zero) end
  local a = {}
  require "tperf.import.launch.arguments.recomputation".add(got, a)
  require "tperf.import.launch.arguments.offloading".add(got, a)
  for _, name in ipairs { "recompute", "recompute_modules", "recompute_method", "recompute_num_layers",
    "offload_layers", "offload_modules", "offload_optimizer" } do
    assert.same(c[name], a[name], name)
  end
  assert.equal(c.tp > 1 and c.sequence_parallel, got.sequence_parallel)
end

describe("a launch written and read back", function()
  for seed, entry in ipairs(STACKS) do
    local stack, draws, kinds = table.unpack(entry)
    kinds = cases(kinds * 9 // 10, kinds) -- the last values take most draws
    it("is the same configuration, under " .. stack, function()
      local pick, written, count = picker(seed), {}, 0
      for draw = 1, draws do
        if count >= kinds and draw > cases(0, draws) then break end
        local c, model, seq, question = random_training(pick)
        local values = values_of(c, question)
        local ok, text
        if not is_wanted(values, written) then goto continue end
        ok, text = pcall(tperf.report.launch, c, stack, { model = model, seq = seq, question = question })
        if not ok then -- names the axis that the stack does not have
          assert.matches("tperf.report.launch: [%w_]+ = [^:]+: " .. stack:gsub("%-", "%%-"), text)
        else
          for _, value in ipairs(values) do
            count = count + (written[value] and 0 or 1)
            written[value] = (written[value] or 0) + 1
          end
          local got = read_back(stack, text, { gpus = c.tp * c.pp * c.cp * c.dp, layers = model.layers })
          same(c, got, seq, stack)
          same_axes(c, question, got, stack)
          assert.equal(c.precision, precision_of(got))
          assert.same({}, got.refused)
          if model.experts and stack ~= "nanotron" then
            local known = stack ~= "torchtitan" or got.ep > 1 -- without ep torchtitan cuts experts over tp
            if known and stack ~= "deepspeed" then
              assert.same({ ep = c.ep, etp = c.etp }, { ep = got.ep, etp = got.etp })
            end
          end
        end
        ::continue::
      end
      assert.is_true(count >= kinds, count)
    end)
  end

  it("asks tperf.train the same question", function()
    local pick, asked = picker(11), 0
    while asked < cases(12, 300) do
      local c, model, seq = random_training(pick)
      local ok, text = pcall(tperf.report.launch, c, "megatron", { model = model, seq = seq })
      if ok then
        asked = asked + 1
        local a = tperf.import.arguments(read_back("megatron", text, {}))
        assert.same({ c.tp, c.pp, c.cp, c.dp, c.ep or 1, c.micro_batch, c.global_batch, c.zero, c.recompute, seq },
          { a.tp, a.pp, a.cp or 1, a.dp, a.ep or 1, a.micro_batch, a.global_batch, a.zero, a.recompute, a.seq })
        local m = tperf.model(a.model)
        for _, name in ipairs { "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "gated", "tied_embeddings" } do
          if not (model.experts and name == "ffn") then assert.equal(model[name], m[name]) end
        end
        assert.equal(model.experts and model.experts.count, m.experts and m.experts.count)
      end
    end
  end)

  for seed, stack in ipairs { "vllm", "sglang", "tensorrt-llm" } do
    it("is the same deployment, under " .. stack, function()
      local pick, written = picker(100 + seed), 0
      while written < CASES do
        local c = { tp = pick { 1, 2, 4, 8 }, pp = pick { 1, 2, 4 }, dp = pick { 1, 2, 4, 8 }, batch = pick { 1, 8, 64,
          300 } }
        local name = pick { DENSE, MOE }
        local gpus = c.dp * c.tp
        c.ep = name ~= DENSE and pick { 1, gpus, math.max(gpus // 2, 1) } or 1
        c.etp = name ~= DENSE and (c.ep > 1 and gpus // c.ep or c.tp) or nil
        local options = { model = models[name], seq_max = pick { 2048, 8192 }, max_tokens = 8192, kv_dtype = "fp8",
          state_dtype = pick { "fp32", "bf16", "fp16" } }
        local ok, text = pcall(tperf.report.launch, c, stack, options)
        if not ok then
          assert.matches("tperf.report.launch: ep = %d+: ", text)
        else
          written = written + 1
          local got = read_back(stack, text, {})
          local a = tperf.import.arguments(got, { model = models[MOE] })
          local servers = c.ep == 1 and c.dp or 1 -- replicas that share nothing are servers of their own
          assert.same({ c.tp, c.pp, c.dp // servers, c.ep, c.batch, options.seq_max, "fp8",
            ({ fp32 = "float32", bf16 = "bfloat16", fp16 = "float16" })[options.state_dtype] },
            { a.tp, a.pp, a.dp, a.ep or 1, a.batch, got.seq_max, got.kv_dtype, got.state_dtype })
          if c.ep > 1 then assert.equal(c.etp, a.etp) end
        end
      end
    end)
  end
end)

describe("report.launch", function()
  it("writes adapters if the stack has them, with the default rank if none is given", function()
    local c = { tp = 1, pp = 1, dp = 2, micro_batch = 1, global_batch = 8, zero = 1 }
    local function text(stack, peft)
      return tperf.report.launch(c, stack, { seq = 4096, question = { peft = peft } })
    end
    assert.matches("cfg.peft.dim = 32\n", text("megatron-bridge", {}), 1, true)
    assert.matches("--lora_dim 32 ", text("deepspeed", { targets = "all-linear" }), 1, true)
    assert.error_matches(function() text("megatron", {}) end, "peft = adapters of rank 32: megatron is not told it")
    assert.error_matches(function() text("deepspeed", { rank = 8 }) end, "adapters of rank 8: deepspeed has LoRA")
  end)

  it("says which attention runs, what adapters drop, and what is recomputed", function()
    local function read(stack, question)
      local c = { tp = 2, pp = 1, dp = 2, micro_batch = 1, global_batch = 8, zero = 1, recompute = question.recompute,
        sequence_parallel = stack ~= "deepspeed" }
      local text = tperf.report.launch(c, stack, { model = DENSE, seq = 4096, question = question })
      return (tperf.import.arguments(read_back(stack, text, { gpus = 4 }), { model = DENSE }))
    end
    for _, stack in ipairs { "megatron", "megatron-bridge" } do
      assert.equal("unfused", read(stack, { attention = "unfused" }).attention)
      -- without modules: the scores of unfused attention, nothing of fused attention
      assert.equal("none", read(stack, { recompute = "selective" }).recompute)
      assert.same({ "core_attn" }, read(stack, { recompute = "selective", attention = "unfused" }).recompute_modules)
    end
    for _, stack in ipairs { "deepspeed", "nanotron" } do
      assert.error_matches(function() read(stack, { attention = "unfused" }) end, "attention = unfused: " .. stack)
    end
    assert.equal(0.1, read("megatron-bridge", { peft = { dropout = 0.1 } }).peft.dropout)
    assert.equal(0.1, read("deepspeed", { peft = { targets = "all-linear", dropout = 0.1 } }).peft.dropout)
    assert.is_false(read("deepspeed", {}).sequence_parallel) -- AutoTP has none
  end)

  it("lets only DeepSpeed's pipelines reduce whole gradients", function()
    local c = { tp = 1, pp = 2, dp = 2, micro_batch = 1, global_batch = 8, zero = 1, schedule = "1f1b" }
    -- Other pipelines of ZeRO 1 keep gradients in 16 bits and the optimizer's shard of them in fp32.
    local function text(stack, reduce)
      local narrow = stack == "deepspeed" and not reduce
      return tperf.report.launch(c, stack, { seq = 4096, question = { gradient_reduce = reduce,
        gradients = narrow and "bf16" or nil, gradient_shard = narrow or nil } })
    end
    local function reduced(reduce)
      return read_back("deepspeed", text("deepspeed", reduce), { gpus = 4 }).axes.gradient_reduce
    end
    assert.equal("all_reduce", reduced "all_reduce")
    assert.is_nil(reduced())
    assert.equal(text "megatron", text("megatron", "reduce_scatter"))
    local unusual = "gradient_reduce = all_reduce: "
    assert.error_matches(function() text("megatron", "all_reduce") end, unusual .. "megatron is not told it")
    c.pp, c.dp = 1, 4
    assert.error_matches(function() text("deepspeed", "all_reduce") end,
      unusual .. "deepspeed reduces whole gradients in")
  end)

  it("writes options of the stack's table only, and says which it lacks", function()
    local t = tables.load "megatron-lm-2026-08"
    local text = tperf.report.launch({ tp = 2, pp = 2, dp = 2, micro_batch = 1, global_batch = 8, zero = 1 },
      "megatron",
      { model = DENSE, seq = 4096 })
    local count = 0
    for option in text:gmatch "\n    (%-%-[%w-]+)" do
      count = count + 1
      assert.is_not_nil(t.by_name[tables.plain(option)], option)
    end
    assert.is_true(count > 15)
  end)

  it("names the axis that a stack lacks", function()
    local c = { tp = 2, pp = 2, dp = 2, micro_batch = 1, global_batch = 8, zero = 1, virtual_stages = 2,
      schedule = "interleaved_1f1b" }
    assert.error_matches(function() tperf.report.launch(c, "nanotron", { seq = 4096 }) end,
      "virtual_stages = 2: nanotron has one chunk on a stage")
    assert.error_matches(function() tperf.report.launch(c, "torchtitan", { seq = 4096 }) end,
      "zero = 1: torchtitan shards weights too")
    assert.error_matches(function() tperf.report.launch(c, "megatrom", {}) end, "did you mean 'megatron'")
  end)
end)

describe("a launch's cross-entropy", function()
  local RUN <const> = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --bf16 "
    .. "--num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 8 "
  local function loss_of(stack, text)
    local axes = {}
    require "tperf.import.launch.arguments.axes".add(read_back(stack, text, { gpus = 8 }), axes)
    return axes.loss
  end

  it("is the software profile's unless the script fuses it", function()
    local fusion = "--cross-entropy-loss-fusion "
    assert.is_nil(loss_of("megatron", RUN))
    assert.equal("native", loss_of("megatron", RUN .. fusion))
    assert.equal("fused", loss_of("megatron", RUN .. fusion .. "--cross-entropy-fusion-impl te"))
    assert.is_nil(loss_of("megatron", RUN .. fusion .. "--cross-entropy-fusion-impl linear"))
  end)

  it("is written as it is read", function()
    local model = tperf.model "llama-2-7b"
    for _, stack in ipairs { "megatron", "megatron-bridge" } do
      for _, loss in ipairs { "native", "fused" } do
        local question = { model = model, system = "h100-sxm", gpus = 8, dp = 8, global_batch = 8, loss = loss }
        local text = tperf.report.launch(tperf.train(question), stack, { model = model, question = question })
        assert.equal(loss, loss_of(stack, text))
      end
    end
    local question = { model = model, system = "h100-sxm", gpus = 8, dp = 8, global_batch = 8, loss = "compiled" }
    local ok, message = pcall(tperf.report.launch, tperf.train(question), "megatron",
      { model = model, question = question })
    assert.is_false(ok)
    assert.truthy(message:find("has in-place, native and fused", 1, true), message)
  end)
end)
