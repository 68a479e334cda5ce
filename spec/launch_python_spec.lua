-- Python recipes, which are parsed and never run: Megatron-Bridge's mixed precision and torchtitan's configurations.
-- What a recipe sets is from training/mixed_precision.py of Megatron-Bridge, what a class means from torchtitan's code.
local precision = require "tperf.describe.precision"
local tperf = require "tperf"

local function launch_of(text, stack, name)
  return tperf.import.launch { files = { { name = "recipe.py", text = text } }, stack = stack,
    given = { gpus = 64, ["function"] = name } }
end

local function refused(launch)
  local list = {}
  for i, one in ipairs(launch.refused) do list[i] = one.option end
  return list
end

local HEAD <const> = "def llama3_8b_pretrain_8gpu_config():\n    cfg = ConfigContainer()\n"
  .. "    cfg.model.seq_length = 4096\n    cfg.train.micro_batch_size = 1\n    cfg.train.global_batch_size = 64\n"

local function bridge(lines) return launch_of(HEAD .. lines .. "    return cfg\n", "megatron-bridge") end

-- The precision of a recipe: its name in tperf, and the dtype of reduced gradients if it is not fp32.
local function precision_of(lines)
  local launch = bridge(lines)
  assert.same({}, refused(launch))
  local a = tperf.import.arguments(launch, { model = "llama-3.1-8b" })
  return a.precision and precision.of(a.precision).name or "bf16", a.gradients
end

describe("Megatron-Bridge's mixed precision", function()
  local CURRENT <const> = "fp8-current (first layers 1, last layers 1, parameters narrow)"
  for value, expected in pairs {
    ['"bf16_mixed"'] = "bf16", ['"bf16-mixed"'] = "bf16", ["bf16_mixed()"] = "bf16",
    ['"bf16_with_fp8_delayed_scaling_mixed"'] = "fp8-delayed (parameters narrow)",
    ['"bf16_with_fp8_current_scaling_mixed"'] = CURRENT, ["bf16_with_fp8_current_scaling_mixed()"] = CURRENT,
    ['"bf16_with_fp8_subchannel_scaling_mixed"'] = "fp8-block",
    ['"bf16_with_mxfp8_mixed"'] = "mxfp8 (parameters narrow)",
    ['get_mixed_precision_config("bf16_with_mxfp8_mixed")'] = "mxfp8 (parameters narrow)",
    ['"bf16_with_nvfp4_mixed"'] = "nvfp4 (parameters narrow)",
    ['"nemotron_h_bf16_with_fp8_current_scaling_mixed"'] =
      "fp8-current (first layers 2, last layers 2, parameters narrow)",
    ['"nanov2_bf16_with_fp8_current_scaling_mixed"'] =
      "fp8-block (first layers 2, last layers 2, parameters narrow)",
    ['"nemotron_3_super_bf16_with_nvfp4_mixed"'] = "nvfp4 (last layers 14, parameters narrow)",
    ['MixedPrecisionConfig(bf16=True, fp8="e4m3", fp8_recipe="mxfp8")'] = "mxfp8",
  } do
    it("is understood: " .. value, function()
      assert.equal(expected, (precision_of("    cfg.mixed_precision = " .. value .. "\n")))
    end)
  end

  it("of performance recipes reduces gradients in 16 bits", function()
    for name, expected in pairs { bf16 = "bf16", fp8_cs = "fp8-current (parameters narrow)",
      fp8_ds = "fp8-delayed (parameters narrow)", fp8_mx = "mxfp8 (parameters narrow)",
      nvfp4 = "nvfp4 (parameters narrow)" } do
      local found, gradients = precision_of(('    cfg.mixed_precision = _perf_precision("%s")\n'):format(name))
      assert.same({ expected, "bf16" }, { found, gradients })
    end
  end)

  it("is changed by the fields that are set after it", function()
    local recipe = '    cfg.mixed_precision = "bf16_with_fp8_current_scaling_mixed"\n'
    local later = "    cfg.mixed_precision.first_last_layers_bf16 = False\n"
      .. "    cfg.mixed_precision.fp8_param_gather = False\n"
    assert.equal("fp8-current", (precision_of(recipe .. later)))
    assert.equal("mxfp8 (parameters narrow)", (precision_of(recipe .. later
      .. '    cfg.mixed_precision = "bf16_with_mxfp8_mixed"\n')))
  end)

  it("is refused if it is not known, or if another file sets it", function()
    assert.same({ "mixed_precision" }, refused(bridge '    cfg.mixed_precision = "bf16_with_fp6_mixed"\n'))
    assert.same({ "mixed_precision" }, refused(bridge "    cfg.mixed_precision = _own_precision()\n"))
    local text = "def llama3_8b_pretrain_8gpu_fp8mx_config():\n    cfg = llama3_8b_pretrain_8gpu_fp8cs_config()\n"
      .. "    cfg.train.micro_batch_size = 1\n    return cfg\n"
    assert.same({ "mixed_precision" }, refused(launch_of(text, "megatron-bridge")))
  end)
end)

describe("a Python recipe", function()
  it("is refused where it sets something under a condition, or to a value that is not read", function()
    local launch = bridge('    cfg.mixed_precision = "bf16_mixed"\n    if big:\n        cfg.model.num_layers = 80\n'
      .. "    cfg.model.recompute_num_layers = layers_of(big)\n    cfg.model.unheard_of = 3\n")
    assert.same({ "model.num_layers", "model.recompute_num_layers", "model.unheard_of" }, refused(launch))
    assert.matches("80, under a condition or in a loop", launch.refused[1].value, 1, true)
  end)

  it("says which functions of other files it starts from", function()
    local launch = bridge('    cfg.mixed_precision = "bf16_mixed"\n    _own_common(cfg)\n')
    assert.matches("what _own_common() sets (line 7) is not in the file", table.concat(launch.assumed, "\n"), 1,
      true)
  end)
end)

describe("torchtitan's configurations in Python", function()
  local TEXT <const> = [[
def llama3_8b() -> Trainer.Config:
    model_spec = model_registry("8B", attn_backend="flex")
    return Trainer.Config(
        loss=ChunkedLossWrapper.Config(loss_fn=CrossEntropyLoss.Config(global_vocab_size=size_of(model_spec))),
        model_spec=model_spec,
        optimizer=default_adamw(lr=3e-4),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=200),
        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=2),
        metrics=MetricsProcessor.Config(log_freq=1),
        checkpoint=CheckpointManager.Config(interval=10),
        activation_checkpoint=%s,
    )


def llama3_8b_quantised() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec = model_registry("8B", converters=[Float8LinearConverter.Config()])
    return config
]]

  it("are read, with the model that they are called after", function()
    local launch = launch_of(TEXT:format "FullAC.Config()", nil, "llama3_8b")
    assert.same({ "torchtitan", 2, 32, 2, 64, 8192, "full" }, { launch.stack, launch.tp, launch.dp, launch.micro_batch,
      launch.global_batch, launch.seq, launch.recompute.granularity })
    assert.same({}, refused(launch))
    assert.equal("llama-3.1-8b", tperf.import.arguments(launch).model)
    assert.equal("chunked", tperf.import.arguments(launch).loss) -- 8 chunks of the sequence
    assert.equal("op", launch_of(TEXT:format "SelectiveAC.Config()", nil, "llama3_8b").recompute.option)
    assert.equal("none", launch_of(TEXT:format "None", nil, "llama3_8b").recompute.granularity)
  end)

  it("are refused for what is not modelled, and never for a crash", function()
    local launch = launch_of(TEXT:format "FullAC.Config()", nil, "llama3_8b_quantised")
    assert.same({ {}, "llama3", "8B", "rowwise" }, { refused(launch), launch.model_name, launch.model_size,
      launch.precision.fp8_recipe })
    for text, recipe in pairs { ["MXFP8LinearConverter.Config()"] = "mxfp8",
      ['NVFP4LinearConverter.Config(fqns=["layers"])'] = "nvfp4",
      ['Float8LinearConverter.Config(recipe_name="rowwise_with_gw_hp", filter_fqns=["lm_head"])'] = "fp8-rowwise" } do
      local one = launch_of((TEXT:format "FullAC.Config()"):gsub("Float8LinearConverter.Config%(%)", (text:gsub("%%",
        "%%%%"))), nil, "llama3_8b_quantised")
      assert.same({}, refused(one))
      assert.equal(recipe, tperf.import.arguments(one).precision.recipe)
    end
    for _, text in ipairs { "LoRAConverter.Config(rank=8)", 'NVFP4LinearConverter.Config(fqns=["layers.1"])',
      "Float8LinearConverter.Config(emulate=True)", 'Float8LinearConverter.Config(filter_fqns=["wq"])',
      "Float8LinearConverter.Config(), LoRAConverter.Config()" } do
      local one = launch_of((TEXT:format "FullAC.Config()"):gsub("Float8LinearConverter.Config%(%)", text), nil,
        "llama3_8b_quantised")
      assert.same({ "model_spec.converters" }, refused(one), text)
    end
    assert.error_matches(function() launch_of(TEXT:format "MemoryBudgetAC.Config()", nil, "llama3_8b") end,
      "activation_checkpoint MemoryBudgetAC.Config() is not modelled", 1, true)
  end)
end)

describe("a statement about the configuration", function()
  local BASE <const> = 'cfg.mixed_precision = "bf16_mixed"\n    '
  local function read(text) return bridge("    " .. BASE .. text .. "\n") end

  it("is read in every form that gives a value to a name", function()
    for _, text in ipairs {
      'cfg["model"].tensor_model_parallel_size = 2', 'cfg.model["tensor_model_parallel_size"] = 2',
      'setattr(cfg.model, "tensor_model_parallel_size", 2)',
      'object.__setattr__(cfg.model, "tensor_model_parallel_size", 2)',
      'cfg.model.update({"tensor_model_parallel_size": 2})', "cfg.model.update(tensor_model_parallel_size=2)",
      "cfg.model.tensor_model_parallel_size = cfg.model.x_y = 2", "m = cfg.model; m.tensor_model_parallel_size = 2",
      "cfg.model.tensor_model_parallel_size, n = 2, 3", "cfg.model.tensor_model_parallel_size: int = (2)",
      "with context():\n        cfg.model.tensor_model_parallel_size = 2",
    } do
      assert.equal(2, read(text).tp, text)
    end
    local both = read "cfg.model.tensor_model_parallel_size = cfg.model.context_parallel_size = 2"
    assert.same({ 2, 2 }, { both.tp, both.cp })
  end)

  it("is refused by the name of what it sets in every other form", function()
    local TP <const> = "model.tensor_model_parallel_size"
    for text, name in pairs {
      ["cfg.model.tensor_model_parallel_size = 2 if big else 4"] = TP, ["if big: " .. "cfg." .. TP .. " = 2"] = TP,
      ['cfg.model.tensor_model_parallel_size = kwargs["tp"]'] = TP,
      ["big = 2\n    if x:\n        big = 4\n    cfg.model.tensor_model_parallel_size = big"] = TP,
      ["del cfg.model.tensor_model_parallel_size"] = TP, ['cfg["model"]["tensor_model_parallel_size"] += 1'] = TP,
      ["other.model.tensor_model_parallel_size = 2"] = TP, ["*rest, cfg." .. TP .. " = [1, 4]"] = TP,
      ['cfg.model.recompute_modules[0] = "mlp"'] = "model.recompute_modules",
      ["cfg.model.recompute_modules[:] = [1]"] = "model.recompute_modules",
      ['cfg.model.recompute_modules.append("mlp")'] = "model.recompute_modules",
      ['cfg.model.recompute_modules = ["core_attn", *more]'] = "model.recompute_modules",
      ["cfg.model.cuda_graph_modules = [m for m in ('attn',)]"] = "model.cuda_graph_modules",
      ["setattr(cfg.model, name, 2)"] = "model", ["cfg.model.update(**kwargs)"] = "model",
      ["for k, v in kwargs.items(): setattr(cfg.model, k, v)"] = "model",
      ["vars(cfg.model).update(a=2)"] = "model", ["cfg.model = GPTProvider(**kwargs)"] = "model",
      ["cfg.model = other"] = "model", ["[setattr(cfg.model, k, v) for k, v in x]"] = "model",
      ['cfg |= {"train": 1}'] = "cfg", ["cfg.train.set(micro_batch_size=2)"] = "train",
    } do
      assert.same({ name }, refused(read(text)), text)
    end
  end)

  it("does not take a name of another function, of an argument or of a condition for a constant", function()
    local text = "def other():\n    tp = 8\n    return tp\n" .. HEAD:gsub("config%(%)", "config(tp)")
      .. "    " .. BASE .. "cfg.model.tensor_model_parallel_size = tp\n    return cfg\n"
    assert.same({ "model.tensor_model_parallel_size" }, refused(launch_of(text, "megatron-bridge",
      "llama3_8b_pretrain_8gpu_config")))
  end)

  it("names the model of which Megatron-Bridge's base recipe repeats some sizes", function()
    local text = "def nemotron_3_nano_pretrain_8gpu_h100_bf16_config():\n  cfg = nemotron_3_nano_pretrain_config()\n"
      .. "  cfg.train.global_batch_size = 64\n  cfg.mixed_precision = \"bf16_mixed\"\n%s  return cfg\n"
    local function arguments(more)
      return tperf.import.arguments(tperf.import.launch { files = { { name = "recipe.py", text = text:format(more) } },
        stack = "megatron-bridge", given = { ["function"] = "nemotron_3_nano_pretrain_8gpu_h100_bf16_config" } })
    end
    assert.equal("nemotron-3-nano-30b-a3b", arguments "".model)
    assert.error_matches(function() arguments "  cfg.model.num_layers = 26\n" end, "does not say the vocabulary")
  end)

  it("knows torchtitan's smallest flavors, and those that differ from checkpoints", function()
    local flavors = require "tperf.import.launch.stack.core.flavors"
    local function count(name, flavor) return tperf.model(flavors.model(name, flavor)):parameters().total end
    -- Eight layers of 256: gate, queries and outputs of 256, keys and values of 128, MLPs of 768, four norms.
    assert.equal(8 * (3 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 768 + 4 * 256) + 2 * 2048 * 256 + 256,
      count("muse_glimmer", "debugmodel"))
    -- Six layers of 16 heads: queries of 192, latents of 512 + 64, keys and values of 256, outputs of 128; norms.
    local attention = 256 * 16 * 192 + 256 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 256
    assert.equal(6 * (attention + 512) + 3 * 256 * 1024 + 5 * (10 * 3 * 256 * 256 + 8 * 256) + 2 * 2048 * 256 + 256,
      count("deepseek_v3", "debugmodel"))
    assert.equal(tperf.model "qwen3.5-4b":parameters().total + 248320 * 2560, count("qwen3_5", "4B"))
    assert.equal(0, tperf.model(flavors.model("qwen3_5", "9B")).mtp)
  end)
end)
