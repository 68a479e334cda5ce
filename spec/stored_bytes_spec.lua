-- Stored bytes of checkpoints, as `tperf params` counts them: by hand from the tensors that each method writes, and the
-- total_size of published indices.
local program = require "program"

local H <const>, F <const>, V <const> = 512, 1024, 4096 -- 2 layers: 8 heads of 64, a gated MLP
local ATTENTION <const>, MLP <const> = 4 * H * H, 3 * H * F
local LAYER <const> = ATTENTION + MLP
local REST <const> = 2 * (2 * H + 2 * 64) + H -- norms
local TABLE <const> = V * H

local function folder_with(quantization, changes)
  local fields = {
    model_type = '"qwen3"', hidden_size = H, num_hidden_layers = 2, num_attention_heads = 8, num_key_value_heads = 8,
    head_dim = 64, intermediate_size = F, vocab_size = V, max_position_embeddings = 2048, tie_word_embeddings = false,
    hidden_act = '"silu"', torch_dtype = '"bfloat16"', quantization_config = quantization,
  }
  for name, value in pairs(changes or {}) do fields[name] = value ~= false and value or nil end
  local lines, folder = {}, program.folder()
  for name, value in pairs(fields) do lines[#lines + 1] = ('"%s": %s'):format(name, tostring(value)) end
  program.write(folder .. "/config.json", "{" .. table.concat(lines, ", ") .. "}")
  return folder
end

local function bytes_of(folder, more)
  local one = program.ask(("tperf params --json %s %s"):format(folder, more or ""))
  return tonumber(one.out:match '"component": "total".-"bytes": ([%d.e+]+)'), one.err, one.out
end

local ALL <const> = 2 * (2 * LAYER + REST + 2 * TABLE) -- in 16 bits

local function of(weights, tables) return 2 * weights + 2 * REST + (tables or 4 * TABLE) end

local GROUPS <const> = '{"quant_method": "compressed-tensors", "ignore": [%s], "config_groups": {"a": {"targets": '
  .. '["Linear"], "weights": {"num_bits": %d, "type": "%s", "strategy": "%s"%s, "symmetric": %s}}}}'

local CASES <const> = {
  { "no quantisation", nil, ALL },
  { "GPTQ: scales and zeros of 128 rows, an index of every input", '{"quant_method": "gptq", "bits": 4, "group_size": '
    .. '128, "desc_act": false}', of(LAYER / 2 + LAYER / 128 * 2.5 + 4 * (6 * H + F)) },
  { "GPTQ with modules of 8 bits, and without others", '{"quant_method": "gptq", "bits": 4, "group_size": 128, '
    .. '"dynamic": {"+:.*\\\\.down_proj": {"bits": 8}, "-:.*\\\\.self_attn.*": {}}}', of(2 * ATTENTION + 2 * H * F
      * (0.5 + 2.5 / 128) + H * F * (1 + 3 / 128) + 4 * (2 * H + F)) },
  { "AWQ, without an index", '{"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true}',
    of(LAYER / 2 + LAYER / 128 * 2.5) },
  { "MLX: a scale and a bias for 64, tables, too", '{"bits": 4, "group_size": 64}',
    of(LAYER * (0.5 + 4 / 64), 2 * TABLE * (0.5 + 4 / 64)) },
  { "MLX with a product of 8 bits and one of 16", '{"bits": 4, "group_size": 64, "model.layers.0.mlp.down_proj": '
    .. '{"bits": 8, "group_size": 32}, "model.layers.1.mlp.down_proj": false}',
    of(LAYER * (0.5 + 4 / 64), 2 * TABLE * (0.5 + 4 / 64)) + H * F * (1 + 4 / 32 + 2 - 2 * (0.5 + 4 / 64)) },
  { "MLX's MXFP4 with a head of 8 bits and a table of 16", '{"bits": 4, "group_size": 32, "mode": "mxfp4", '
    .. '"lm_head": {"bits": 8, "group_size": 64}, "model.embed_tokens": false}',
    of(LAYER * (0.5 + 1 / 32), 2 * TABLE + TABLE * (1 + 4 / 64)) },
  { "blocks of 128 x 128", '{"quant_method": "fp8", "weight_block_size": [128, 128]}',
    of(LAYER + 4 * LAYER / 128 ^ 2) },
  { "NVFP4 with two scales of each tensor", '{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": '
    .. '["lm_head"]}', of(LAYER * (0.5 + 1 / 16) + 7 * 8) },
  { "attention in 16 bits in one layer alone", '{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": '
    .. '["lm_head", "model.layers.1.self_attn*"]}', of(LAYER) + ATTENTION },
  { "rows of 8 bits", GROUPS:format('"lm_head"', 8, "int", "channel", "", "true"),
    of(LAYER + 2 * (4 * H + 2 * F + H)) },
  { "a head that no list leaves out", GROUPS:format("", 4, "int", "group", ', "group_size": 32', "true"),
    of(LAYER * (0.5 + 2 / 32), 2 * TABLE + TABLE * (0.5 + 2 / 32)) },
  { "packed integers, with a shape of two integers each", GROUPS:gsub("}$", ', "format": "pack-quantized"}'):format(
    '"lm_head"', 4, "int", "group", ', "group_size": 32', "true"), of(LAYER * (0.5 + 2 / 32) + 7 * 8) },
  { "products of 16 bits by weights of four", '{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", '
    .. '"quantized_layers": {"model.layers.0.mlp.down_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}}',
    ALL - H * F * (2 - 0.5 - 1 / 16) + 8 },
  { "blocks, and names of routers' biases and of an indexer's", '{"quant_method": "fp8", "weight_block_size": '
    .. '[128, 128], "modules_to_not_convert": ["e_score_correction_bias", "model.layers.0.self_attn.indexers_proj", '
    .. '"lm_head"]}', of(LAYER + 4 * LAYER / 128 ^ 2) },
  { "bitsandbytes, doubly quantised", '{"quant_method": "bitsandbytes", "load_in_4bit": true, '
    .. '"bnb_4bit_use_double_quant": true}', of(LAYER * (0.5 + (1 + 4 / 256) / 64)) },
  { "AutoRound with a product of 16 bits", '{"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": true, '
    .. '"packing_format": "auto_round:auto_gptq", "extra_config": {"model.layers.0.mlp.down_proj": {"bits": 16}}}',
    of(LAYER / 2 + LAYER / 128 * 2.5 + 4 * (6 * H + F)) + H * F * (1.5 - 2.5 / 128) - 4 * F },
  { "Quark's FP4", '{"quant_method": "quark", "exclude": ["lm_head"], "global_quant_config": {"weight": {"dtype": '
    .. '"fp4", "group_size": 32}, "input_tensors": {"dtype": "fp4"}}}', of(LAYER * (0.5 + 1 / 32)) },
}

describe("tperf params counts the stored bytes of", function()
  for _, case in ipairs(CASES) do
    it(case[1], function()
      local folder = folder_with(case[2])
      local bytes, err = bytes_of(folder)
      assert.equal(case[3], bytes, err)
      program.remove(folder)
    end)
  end

  it("weights of 32 bits", function()
    assert.equal(2 * ALL, (bytes_of(folder_with(nil, { torch_dtype = '"float32"' }))))
    assert.equal(2 * ALL, (bytes_of(folder_with(nil, { torch_dtype = false, dtype = '"float32"' }))))
  end)

  -- total_size of the published indices of files.
  it("published checkpoints, as their indices say", function()
    for name, size in pairs { ["llama-3.1-8b"] = 16060522496, ["mixtral-8x7b"] = 93405585408,
      ["qwen2.5-7b"] = 15231233024, ["qwen3-32b"] = 65524246528, ["llama-3.1-70b"] = 141107412992,
      ["mistral-7b"] = 14483464192, ["falcon-7b"] = 13843441408, bloom = 352494542848 } do
      assert.equal(size, (bytes_of("spec/data/hf/" .. name .. ".json")))
    end
  end)

  -- TheBlueObserver/Qwen2.5-1.5B-Instruct-MLX: groups of 128 with 2 bits; a first commit left the table in 16 bits.
  it("MLX's groups to the byte, as its publisher's index says", function()
    local sizes = { num_hidden_layers = 28, hidden_size = 1536, intermediate_size = 8960, num_attention_heads = 12,
      num_key_value_heads = 2, head_dim = false, vocab_size = 151936, model_type = '"qwen2"',
      tie_word_embeddings = true }
    assert.equal(434418688, (bytes_of(folder_with('{"bits": 2, "group_size": 128}', sizes))))
  end)

  -- total_size of MLX's indices, as the cards of exo list them: uniform groups; routers with more bits than the rest,
  -- whose gates of shared experts (81,920 weights, 76,800 bytes less) are products, too.
  it("MLX's groups with tables, routers and towers of their own", function()
    local files, json = require "hf_files", require "tperf.output.json"
    local folder = program.folder()
    local function stored(fields, quantization)
      fields.quantization, fields.torch_dtype = quantization, "bfloat16"
      program.write(folder .. "/config.json", json.encode(fields))
      return (bytes_of(folder))
    end
    assert.equal(39688355840, stored(files.fields "llama-3.1-70b", { bits = 4, group_size = 64 }))
    assert.equal(5002791936, stored(files.fields "nemotron-nano-9b-v2", { bits = 4, group_size = 64 }))
    local fields, eight = files.fields "qwen3.6-35b-a3b", { bits = 8, group_size = 64 }
    fields.vision_config, fields.model_type = { depth = 27, hidden_size = 1152, out_hidden_size = 2048 }, "qwen3_5_moe"
    local mixed = { bits = 4, group_size = 64 }
    for i = 0, 39 do mixed[("language_model.model.layers.%d.mlp.gate"):format(i)] = eight end
    assert.equal(20401929952 + 76800, stored(fields, mixed))
    -- Tables of an architecture's own are not known.
    assert.is_nil(stored(files.fields "gemma-4-e2b", { bits = 4, group_size = 64 }))
    assert.equal(2 * 354483968, stored(files.fields "lfm2-350m"))
    program.remove(folder)
  end)

  -- As nvidia/Qwen3.6-35B-A3B-NVFP4 lists them, and MiniMax-M3-NVFP4 its experts: layers of the modules for
  -- multi-token prediction are none of the model's; experts named one by one; the output table among the products.
  it("what lists name layer by layer and expert by expert", function()
    local files, json = require "hf_files", require "tperf.output.json"
    local folder, layers = program.folder(), {}
    local four, eight = { quant_algo = "W4A16_NVFP4", group_size = 16 }, { quant_algo = "FP8" }
    local function name(i, rest, one) layers[("model.language_model.layers.%d.%s"):format(i, rest)] = one end
    for i = 0, 39 do
      local full = i % 4 == 3
      for _, leaf in ipairs(full and { "q_proj", "k_proj", "v_proj", "o_proj" } or { "in_proj_qkv", "in_proj_z",
        "out_proj" }) do
        name(i, (full and "self_attn." or "linear_attn.") .. leaf, eight)
      end
      for _, leaf in ipairs { "gate_proj", "up_proj", "down_proj" } do
        name(i, "mlp.shared_expert." .. leaf, four)
        for expert = 0, 3 do name(i, ("mlp.experts.%d.%s"):format(expert, leaf), four) end
      end
    end
    layers.lm_head = four
    local fields = files.fields("qwen3.6-35b-a3b", { num_experts = 4, num_experts_per_tok = 2 })
    fields.quantization_config = { quant_method = "modelopt", quant_algo = "MIXED_PRECISION", ignore = { "mtp*",
      "mtp.layers.0*" }, quantized_layers = layers }
    fields.torch_dtype = "bfloat16"
    program.write(folder .. "/config.json", json.encode(fields))
    local expert, head = 3 * 2048 * 512, 248320 * 2048
    local text = 34660610688 - 40 * 252 * (expert + 2048) -- 4 of 256 experts, and a shared one in each layer
    local experts, tensors = 40 * 5 * expert, 40 * 5 * 3 + 1
    local attention = 10 * (2 * 16 * 256 + 2 * 2 * 256) * 2048 + 10 * 16 * 256 * 2048
    local delta = 30 * ((2 * 2048 + 2 * 4096) + 4096) * 2048
    local wide = text - experts - head - attention - delta
    assert.equal(2 * wide + (experts + head) * 9 / 16 + 8 * tensors + attention + delta, (bytes_of(folder)))
    layers["model.language_model.layers.7.mlp.experts.2.up_proj"] = nil -- of one expert nothing is said
    program.write(folder .. "/config.json", json.encode(fields))
    assert.is_nil((bytes_of(folder)))
    program.remove(folder)
  end)

  it("nothing of which only the name says that it has fewer bits", function()
    local folder = folder_with()
    os.execute(("cd '%s' && mkdir Thing-7B-NVFP4 && cp config.json Thing-7B-NVFP4"):format(folder))
    local bytes, err = bytes_of(folder .. "/Thing-7B-NVFP4")
    assert.is_nil(bytes)
    assert.matches("the method of its name alone (modelopt_fp4)", err, 1, true)
    local one = program.ask(("tperf infer %s/Thing-7B-NVFP4 -s b200-sxm -p 128 -n 2"):format(folder))
    assert.matches("which is not known: give --weight-dtype or --precision", one.err, 1, true)
    assert.is_nil((bytes_of(folder_with(nil, { torch_dtype = false })))) -- neither does anything say 16 bits
  end)

  it("nothing that is not understood", function()
    local bytes, err = bytes_of(folder_with '{"quant_method": "hqq"}')
    assert.is_nil(bytes)
    assert.matches("stored by 'hqq', which is not known: their bytes are left out", err, 1, true)
  end)
end)

describe("tperf params", function()
  it("compares an index of files that lies beside config.json", function()
    local folder = folder_with()
    program.write(folder .. "/model.safetensors.index.json", ('{"metadata": {"total_size": %d}}'):format(
      ALL + ALL // 100))
    local _, err, out = bytes_of(folder)
    assert.matches(("tperf: model.safetensors.index.json says %d bytes, +1.000 %% beside what is counted"):format(
      ALL + ALL // 100), err, 1, true)
    assert.matches(('"index_bytes": %d'):format(ALL + ALL // 100), out, 1, true)
  end)

  it("lists the products by kind and format", function()
    local folder = folder_with('{"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head", '
      .. '"model.layers.1.self_attn*"]}')
    local one = program.ask("tperf params --tensors --csv " .. folder)
    assert.matches("part,tensor,rows,columns,format,count,bytes\nattention,q,512,512,fp8,1,262144\n", one.out, 1, true)
    assert.matches("\nattention,q,512,512,16 bits,1,524288\n", one.out, 1, true)
    assert.matches("\nmlp,down,512,1024,fp8,2,1048576\n", one.out, 1, true)
    local none = program.ask "tperf params --tensors llama-3.1-8b"
    assert.equal(1, none.code)
    assert.matches("--tensors: only a config.json", none.err, 1, true)
  end)
end)
