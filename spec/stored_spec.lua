-- Storage dtypes of checkpoints in serving: quantization_config of config.json, and precision of tperf.infer.
local program = require "program"
local tperf = require "tperf"

local function config(more, changes)
  local fields = {
    model_type = '"qwen3_moe"', hidden_size = 512, num_hidden_layers = 2, num_attention_heads = 8,
    num_key_value_heads = 8, head_dim = 64, intermediate_size = 1024, moe_intermediate_size = 256, num_experts = 16,
    num_experts_per_tok = 2, vocab_size = 4096, max_position_embeddings = 2048, decoder_sparse_step = 1,
    norm_topk_prob = true, tie_word_embeddings = false, hidden_act = '"silu"', mlp_only_layers = "[]",
    quantization_config = more,
  }
  for name, value in pairs(changes or {}) do fields[name] = value or nil end
  local lines = {}
  for name, value in pairs(fields) do lines[#lines + 1] = ('"%s": %s'):format(name, value) end
  local path = program.folder() .. "/config.json"
  program.write(path, "{" .. table.concat(lines, ", ") .. "}")
  return path
end

local function infer(model, more)
  local question = { model = model, system = "b200-sxm", prompt = 128, generate = 16 }
  for name, value in pairs(more or {}) do question[name] = value end
  return tperf.infer(question)
end

-- Numbers of weights: attention's, experts', and all others (router, norms and tables).
local ATTENTION <const> = 2 * 4 * 512 * 512
local EXPERTS <const> = 2 * 16 * 3 * 512 * 256
local OTHERS <const> = 2 * (16 * 512 + 2 * 512 + 2 * 64) + 512 + 2 * 4096 * 512

local function weights(layers, experts) return layers * ATTENTION + experts * EXPERTS + 2 * OTHERS end

local BLOCK <const> = 1 + 4 / (128 * 128)
local LAYERS <const> = {} -- attention in 8 bits and experts in 4
for layer = 0, 1 do
  for _, name in ipairs { "q", "k", "v", "o" } do
    LAYERS[#LAYERS + 1] = ('"model.layers.%d.self_attn.%s_proj": {"quant_algo": "FP8"}'):format(layer, name)
  end
  LAYERS[#LAYERS + 1] = ('"model.layers.%d.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}'):format(layer)
end

local CASES <const> = {
  { "no quantization_config", nil, 2, 2, "bf16" },
  { "DeepSeek's blocks of 128 x 128", '{"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}',
    BLOCK, BLOCK, "fp8-block" },
  { "one scale a tensor", '{"quant_method": "fp8", "activation_scheme": "static"}', 1, 1, "fp8" },
  { "gpt-oss, whose experts alone are converted", '{"quant_method": "mxfp4", "modules_to_not_convert": '
    .. '["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}',
    2, 0.5 + 1 / 32, "bf16, experts mxfp4" },
  { "compressed-tensors in 8 bits", '{"quant_method": "compressed-tensors", "ignore": ["lm_head"], "config_groups": '
    .. '{"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}}',
    1, 1, "fp8" },
  { "compressed-tensors in 4 bits, attention left", '{"quant_method": "compressed-tensors", "ignore": ["lm_head", '
    .. '"re:.*self_attn.*"], "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "strategy": '
    .. '"tensor_group", "group_size": 16}}}}', 2, 0.5 + 1 / 16, "bf16, experts nvfp4" },
  { "ModelOpt's FP8", '{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}', 1, 1, "fp8" },
  { "ModelOpt's NVFP4, told by its producer", '{"producer": {"name": "modelopt"}, "quantization": {"quant_algo": '
    .. '"NVFP4", "exclude_modules": ["lm_head"]}}', 0.5 + 1 / 16, 0.5 + 1 / 16, "nvfp4" },
  { "ModelOpt's NVFP4, which leaves attention in every layer by name", '{"quant_method": "modelopt", "quant_algo": '
    .. '"NVFP4", "ignore": ["lm_head", "model.layers.0.self_attn*", "model.layers.1.self_attn*"]}', 2, 0.5 + 1 / 16,
    "bf16, experts nvfp4" },
  { "ModelOpt's layers by name", '{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": {'
    .. table.concat(LAYERS, ", ") .. "}}", 1, 0.5 + 1 / 16, "fp8, experts nvfp4" },
  { "compressed-tensors in groups of 32", '{"quant_method": "compressed-tensors", "ignore": ["lm_head", '
    .. '"re:.*self_attn.*"], "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": '
    .. '"int", "strategy": "group", "group_size": 32, "symmetric": true}}}}', 2, 0.5 + 2 / 32,
    "bf16, experts int4/32" },
  { "compressed-tensors in two groups", '{"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": '
    .. '["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "input_activations": '
    .. '{"num_bits": 8, "type": "float"}}, "b": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", '
    .. '"group_size": 16}, "input_activations": {"num_bits": 4, "type": "float"}}}}', 1, 0.5 + 1 / 16,
    "fp8, experts nvfp4" },
  { "its rows of 8 bits", '{"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["Linear"], '
    .. '"weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true}}}}', 1, 1, "int8" },
  { "GPTQ, whose files have zero points", '{"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": true}',
    0.5 + 2.5 / 64, 0.5 + 2.5 / 64, "int4/64" },
  { "GPTQ that leaves attention", '{"quant_method": "gptq", "bits": 8, "group_size": 32, "dynamic": '
    .. '{"-:.*self_attn.*": {}}}', 2, 1 + 3 / 32, "bf16, experts int8/32" },
  { "bitsandbytes, doubly quantised", '{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": '
    .. '"nf4", "bnb_4bit_use_double_quant": true}', 0.5 + 1 / 64 + 4 / (64 * 256), 0.5 + 1 / 64 + 4 / (64 * 256),
    "int4/64" },
  { "AWQ", '{"quant_method": "awq", "bits": 4, "group_size": 128}', 0.5 + 2.5 / 128, 0.5 + 2.5 / 128, "int4/128" },
}

describe("a checkpoint's weights", function()
  for _, case in ipairs(CASES) do
    it("are stored as in its config.json: " .. case[1], function()
      local r = infer(config(case[2]))
      assert.near(weights(case[3], case[4]), r.memory.weights, 1)
      assert.equal(case[5], r.precision)
    end)
  end

  it("in an unknown format are refused by its name when they are served", function()
    for _, case in ipairs {
      { '{"quant_method": "hqq"}', "stores its weights by 'hqq'" },
      { '{"quant_method": "fp8", "weight_block_size": [64, 64]}', "by 'fp8', which is not known" },
      { '{"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.down_proj"]}',
        "by 'fp8 without model.layers.0.mlp.down_proj'" },
      { '{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["model.layers.1.self_attn*"]}',
        "by 'modelopt without layers.1's attention'" },
      { '{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["*self_attn.k_proj"]}',
        "by 'modelopt without layers.0.self_attn.k_proj'" },
      { '{"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.mlp.experts.3"]}',
        "by 'fp8 without model.layers.0.mlp.experts.3'" },
      { '{"quant_method": "fp8", "rotation": "hadamard"}', [[by 'fp8 with field 'rotation'']] },
      { '{"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"+:.*down.*": {"bits": 8}}}',
        "by 'gptq without layers.0.mlp.experts.0.down_proj'" },
      { '{"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"?:.*down.*": {"bits": 8}}}',
        "by 'gptq with field 'dynamic' for ?:.*down.*'" },
      { '{"bits": 4, "group_size": 64, "mode": "curved"}', "by 'MLX's groups'" },
      { '{"quant_method": "compressed-tensors", "ignore": ["re:(?<=a)b"], "config_groups": {"a": {"weights": '
        .. '{"num_bits": 8, "type": "float"}}}}', "without re:(?<=a)b'" },
    } do
      local model = config(case[1])
      local ok, message = pcall(infer, model)
      assert.is_false(ok)
      assert.truthy(message:find(case[2], 1, true), message)
      assert.truthy(message:find "give 'weight_dtype' or 'precision'")
      assert.equal(2 * (ATTENTION + EXPERTS + OTHERS), infer(model, { weight_dtype = "bf16" }).memory.weights)
      assert.truthy(tperf.train { model = model, system = "b200-sxm", gpus = 8, global_batch = 8 }.time)
    end
  end)

  it("multiply in the format's dtype if the system has it", function()
    local model = config '{"quant_method": "fp8", "weight_block_size": [128, 128]}'
    local function ttft(system, dtype) return infer(model, { system = system, compute_dtype = dtype }).ttft end
    assert.equal(ttft("h100-sxm", "fp8"), ttft "h100-sxm")
    assert.is_true(ttft("h100-sxm", "bf16") ~= ttft "h100-sxm")
    assert.equal(ttft("a100-sxm-80gb", "bf16"), ttft "a100-sxm-80gb")
  end)
end)

describe("files beside config.json", function()
  it("say how weights are stored where it does not", function()
    for _, case in ipairs {
      { "hf_quant_config.json", '{"producer": {"name": "modelopt", "version": "0.31"}, "quantization": {"quant_algo": '
        .. '"NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head", '
        .. '"model.layers.*.self_attn*"]}}', 2, 0.5 + 1 / 16 },
      { "quantize_config.json", '{"bits": 4, "group_size": 32, "desc_act": false}', 0.5 + 2.5 / 32, 0.5 + 2.5 / 32 },
      { "quant_config.json", '{"w_bit": 4, "q_group_size": 64, "zero_point": true, "version": "GEMM"}', 0.5 + 2.5 / 64,
        0.5 + 2.5 / 64 },
    } do
      local path = config(nil)
      program.write(path:gsub("config.json$", case[1]), case[2])
      assert.near(weights(case[3], case[4]), infer(path).memory.weights, 1)
    end
  end)

  it("are refused by name where they are not understood", function()
    local path = config(nil)
    program.write(path:gsub("config.json$", "hf_quant_config.json"), '{"quantization": {"quant_algo": "W9"}}')
    local ok, message = pcall(infer, path)
    assert.is_false(ok)
    assert.truthy(message:find("by 'modelopt with W9'", 1, true), message)
  end)
end)

describe("a checkpoint of a dense model", function()
  it("keeps the MLPs that an expression leaves in 16 bits", function()
    local q = '{"quant_method": "compressed-tensors", "ignore": ["lm_head", '
      .. '"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*"], '
      .. '"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}}}'
    local r = infer(config(q, { model_type = '"qwen3"', num_experts = false, num_experts_per_tok = false,
      moe_intermediate_size = false, decoder_sparse_step = false, mlp_only_layers = false, norm_topk_prob = false }))
    local mlp = 2 * 3 * 512 * 1024
    assert.near(ATTENTION + 2 * mlp + 2 * (OTHERS - 2 * 16 * 512), r.memory.weights, 1)
    assert.equal("fp8, mlp bf16", r.precision)
  end)
end)

describe("the precision of a server", function()
  local plain = config(nil)

  it("applies to the layers' weights, scales included, not to tables and routers", function()
    assert.near(weights(BLOCK, BLOCK), infer(plain, { precision = "fp8-block" }).memory.weights, 1)
    assert.near(weights(1 + 1 / 32, 1 + 1 / 32), infer(plain, { precision = "mxfp8" }).memory.weights, 1)
    assert.near(weights(2, 0.5 + 1 / 16), infer(plain, { precision = { recipe = "nvfp4", products = "experts" } })
      .memory.weights, 1)
    assert.equal(weights(2, 2), infer(plain, { precision = "bf16" }).memory.weights)
  end)

  it("yields to a given dtype, and overrides the checkpoint's", function()
    local asked = infer(plain, { precision = "fp8-block", weight_dtype = "int4" })
    local tables = 2 * 4096 * 512
    assert.equal((ATTENTION + EXPERTS + tables) / 2 + 2 * (OTHERS - tables), asked.memory.weights)
    local stored = config '{"quant_method": "mxfp4"}'
    assert.near(weights(BLOCK, BLOCK), infer(stored, { precision = "fp8-block" }).memory.weights, 1)
  end)

  it("works in tperf.serve and tperf.search_inference, too", function()
    local best = tperf.search_inference { model = plain, system = "b200-sxm", gpus = 1, prompt = 128, generate = 16,
      precision = "fp8-block" }
    assert.near(weights(BLOCK, BLOCK), best[1].memory.weights, 1)
    local function tpot(precision)
      return tperf.serve {
        model = "llama-3-8b", system = "b200-sxm", precision = precision, count = 2, prompt = 64, output = 32,
        load = { concurrency = 1 },
      }.tpot.mean
    end
    assert.is_true(tpot "nvfp4" < tpot "mxfp8" and tpot "mxfp8" < tpot "bf16") -- weights are read faster
  end)

  it("is refused on systems without it", function()
    local ok, message = pcall(infer, plain, { system = "a100-sxm-80gb", precision = "fp8-block" })
    assert.is_false(ok)
    assert.truthy(message:find "'a100%-sxm%-80gb' does not have; these have them:")
  end)
end)

describe("--precision", function()
  local function json(command, field) return program.shell("tperf " .. command .. " --json").out:match(field) end

  it("is an option of train, search, infer and serve, and appears in their answers", function()
    local train = "train llama-3-8b -s h100-sxm -b 64 -g 8 --tp 1 --precision fp8-current"
    assert.equal("fp8-current", json(train, '"precision": *"([^"]+)"'))
    assert.truthy(program.shell("tperf " .. train).out:find "precision +time")
    assert.equal("fp8-block", json("search llama-3-8b -s h100-sxm -b 64 -g 8 --precision fp8-block",
      '"precision": *"([^"]+)"'))
    assert.equal("mxfp8", json("infer llama-3-8b -s b200-sxm -p 128 -n 16 --precision mxfp8 --tp 1",
      '"precision": *"([^"]+)"'))
    assert.equal(0, program.shell("tperf serve llama-3-8b -s b200-sxm --prompt 64 --output 8 --rate 1 --count 4 "
      .. "--precision mxfp8").code)
  end)

  it("is no column if all is in 16 bits", function()
    assert.is_nil(program.shell("tperf train llama-3-8b -s h100-sxm -b 64 -g 8 --tp 1").out:find "precision")
  end)

  it("is written for Megatron-LM and read back, and refused for stacks without arguments for it", function()
    local path = program.folder() .. "/run.sh"
    for _, recipe in ipairs { "fp8-delayed", "fp8-block", "fp8-current (parameters narrow)" } do
      local narrow = recipe:find "narrow" and { recipe = "fp8-current", parameters = "narrow" }
      local c = tperf.train {
        model = "llama-3-8b", system = "h100-sxm", gpus = 8, global_batch = 8, precision = narrow or recipe,
      }
      assert.equal(recipe, c.precision)
      program.write(path, tperf.report.launch(c, "megatron", { model = "llama-3-8b" }))
      local result = program.shell(("tperf train --from %s -s h100-sxm --json"):format(path))
      assert.equal(recipe, result.out:match '"precision": *"([^"]+)"', result.err)
      local ok, message = pcall(tperf.report.launch, c, "torchtitan", { model = "llama-3-8b" })
      assert.is_false(ok)
      assert.truthy(message:find(("precision = %s: torchtitan is"):format(recipe), 1, true), message)
    end
    local c = tperf.train {
      model = "llama-3-8b", system = "h100-sxm", gpus = 8, global_batch = 8,
      precision = { recipe = "fp8-block", weight_grad = "bf16" },
    }
    local ok, message = pcall(tperf.report.launch, c, "megatron", { model = "llama-3-8b" })
    assert.is_false(ok)
    assert.truthy(message:find("precision = fp8-block (weight grad bf16): megatron is", 1, true), message)
  end)

  it("is refused by name", function()
    local result = program.shell "tperf train llama-3-8b -s h100-sxm -b 64 -g 8 --precision fp8"
    assert.equal(1, result.code)
    assert.truthy(result.err:find "must be one of bf16, fp16, fp8%-delayed")
  end)

  it("can be varied", function()
    local rows = tperf.sweep {
      model = "llama-3-8b", system = "h100-sxm", gpus = 8, global_batch = 8,
      precision = tperf.vary { "bf16", "fp8-current" },
    }
    assert.same({ "bf16", "fp8-current" }, { rows[1].precision, rows[2].precision })
    assert.is_true(rows[2].time < rows[1].time)
  end)
end)

describe("a model of models/ that was published in fewer bits", function()
  -- Bytes of checkpoints as their publishers state them: gpt-oss, arXiv 2508.10925, table 1; DeepSeek-V3's README:
  -- 671 billion parameters, of which embedding and head have 16 bits.
  local GIB <const> = 2 ^ 30
  for _, case in ipairs {
    { "gpt-oss-20b", 12.8 * GIB, 0.005 }, { "gpt-oss-120b", 60.8 * GIB, 0.005 },
    { "deepseek-v3", 671e9 + 2 * 129280 * 7168, 0.015 },
  } do
    local name, bytes, within = table.unpack(case)

    it("is served in those bits: " .. name, function()
      local machine = tperf.system("b300-sxm"):with { accelerator = { hbm = { capacity = 1e12 } } }
      local memory = infer(name, { system = machine }).memory
      assert.near(1, memory.weights / bytes, within)
      local served = tperf.serve { model = name, system = machine, load = { concurrency = 1 }, count = 1, prompt = 10,
        output = 2 }
      assert.near(1, served.memory.weights / memory.weights, 1e-9)
    end)

    it("is trained as usual: " .. name, function()
      local function trained(model)
        local c = tperf.train { model = model, system = "h100-sxm", gpus = 512, pp = 4, ep = 32, etp = 1,
          global_batch = 512, recompute = "full" }
        return { c.time, c.memory.total, c.memory.weights }
      end
      assert.same(trained(tperf.model(name):with { stored = { method = "another" } }), trained(name))
    end)
  end
end)
