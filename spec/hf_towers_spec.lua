-- Towers of models for images and sound, counted beside their text models: the parameters that publishers state, and
-- total_size of published indices in 16 bits.
local files = require "hf_files"
local hf = require "tperf.describe.model.hf"
local program = require "program"
local tperf = require "tperf"

local function llama(changes)
  local fields = { model_type = "llama", hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32,
    num_attention_heads = 32, vocab_size = 32064, max_position_embeddings = 4096 }
  for name, value in pairs(changes or {}) do fields[name] = value end
  return fields
end

local function mistral(changes)
  local fields = { model_type = "mistral", hidden_size = 5120, intermediate_size = 32768, num_hidden_layers = 40,
    num_attention_heads = 32, num_key_value_heads = 8, head_dim = 128, vocab_size = 131072,
    max_position_embeddings = 131072 }
  for name, value in pairs(changes or {}) do fields[name] = value end
  return fields
end

local function qwen(model_type, changes)
  local fields = { model_type = model_type, hidden_size = 3584, intermediate_size = 18944, num_hidden_layers = 28,
    num_attention_heads = 28, num_key_value_heads = 4, vocab_size = 152064, max_position_embeddings = 32768 }
  for name, value in pairs(changes) do fields[name] = value end
  return fields
end

local SO400M <const> = { model_type = "siglip_vision_model", hidden_size = 1152, intermediate_size = 4304,
  num_hidden_layers = 27, patch_size = 14, image_size = 896, vision_use_head = false }

local function gemma3(layers, hidden, ffn, heads, kv_heads)
  return { model_type = "gemma3", vision_config = SO400M, text_config = { model_type = "gemma3_text",
    hidden_size = hidden, intermediate_size = ffn, num_hidden_layers = layers, num_attention_heads = heads,
    num_key_value_heads = kv_heads, sliding_window = 1024 } }
end

-- { name, fields, parameters that the publisher states }
local STATED <const> = {
  { "Gemma 3 4B", gemma3(34, 2560, 10240, 8, 4), 4300079472 },
  { "LLaVA-1.5-7B", { model_type = "llava", text_config = llama(), vision_config = { model_type = "clip_vision_model",
    hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, patch_size = 14, image_size = 336 } },
    7063427072 },
  { "Mistral Small 3.1", { model_type = "mistral3", text_config = mistral(), vision_config = { model_type = "pixtral",
    hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, patch_size = 14 } }, 24011361280 },
  { "Qwen2-VL-7B", qwen("qwen2_vl", { vision_config = { depth = 32, embed_dim = 1280, hidden_size = 3584 } }),
    8291375616 },
  { "Qwen2.5-VL-7B", qwen("qwen2_5_vl", { vision_config = { depth = 32, hidden_size = 1280, intermediate_size = 3420,
    out_hidden_size = 3584 } }), 8292166656 },
  { "InternVL3.5-8B", { model_type = "internvl_chat", vision_config = { model_type = "intern_vit_6b",
    hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, patch_size = 14, image_size = 448 },
    llm_config = files.fields "qwen3-8b" }, 8528318464 },
  { "SmolVLM", { model_type = "idefics3", scale_factor = 3, text_config = llama { hidden_size = 2048,
    intermediate_size = 8192, num_hidden_layers = 24, vocab_size = 49155, tie_word_embeddings = false },
    vision_config = { model_type = "idefics3", hidden_size = 1152, intermediate_size = 4304, num_hidden_layers = 27,
      patch_size = 14, image_size = 384 } }, 2246272880 },
}

-- Both towers of models that compare images and texts, with projections and scalars.
table.move({
  { "CLIP ViT-L/14", { model_type = "clip", projection_dim = 768, text_config = { hidden_size = 768,
    intermediate_size = 3072, num_attention_heads = 12, hidden_act = "quick_gelu" }, vision_config = {
      hidden_size = 1024, intermediate_size = 4096, num_hidden_layers = 24, patch_size = 14 } }, 427616513 },
  { "SigLIP so400m/14 of 384 pixels", { model_type = "siglip", text_config = { model_type = "siglip_text_model",
    hidden_size = 1152, intermediate_size = 4304, num_hidden_layers = 27, num_attention_heads = 16 }, vision_config = {
      hidden_size = 1152, intermediate_size = 4304, num_hidden_layers = 27, patch_size = 14, image_size = 384 } },
    877960498 },
}, 1, 2, #STATED + 1, STATED)

local function whole(m)
  local sum = m:parameters().total
  for _, tower in ipairs(m.towers) do sum = sum + tower.parameters end
  return sum
end

local function read(fields) return tperf.model(hf.describe(fields, "config.json")) end

describe("the towers of", function()
  for _, case in ipairs(STATED) do
    it(case[1] .. " have the parameters that its publisher states", function()
      assert.equal(case[3], whole(read(case[2])))
    end)
  end

  it("Qwen3-VL-8B and Llama 4 Scout, likewise", function()
    assert.equal(8767123696, whole(files.model "qwen3-vl-8b"))
    -- Scout's tower, which is Maverick's: 108,641,793,536 in all, 107,769,861,120 in its text model.
    local fields = files.fields "llama-4-maverick"
    fields.vision_config.vision_output_dim = 4096
    assert.equal(108641793536 - 107769861120, read(fields).towers[1].parameters)
  end)

  -- Per two bytes of total_size: Gemma 4's 30 scalars of layers are buffers, of Kimi K2.6 see the next.
  it("Gemma 4 and Qwen3.6, as their indices say", function()
    local fields = files.fields "gemma-4-26b-a4b"
    fields.vision_config = { model_type = "gemma4_vision", hidden_size = 1152, intermediate_size = 4304,
      num_hidden_layers = 27, num_attention_heads = 16, num_key_value_heads = 16, head_dim = 72, standardize = true }
    assert.equal(51611872412, 2 * (whole(read(fields)) + 30))
    fields = files.fields "qwen3.6-35b-a3b"
    fields.vision_config = { depth = 27, hidden_size = 1152, out_hidden_size = 2048 }
    fields.model_type = "qwen3_5_moe"
    assert.equal(70214363872, 2 * whole(read(fields)))
  end)

  -- E2B's 10,246,357,958 bytes hold 35 scalars of layers (in the count), four bounds for each of 112 and 120 clipped
  -- products, and the keys and values of 20 layers that read others': 16 of 256 features, 4 of 512, with their norms.
  it("Gemma 4 E2B: images and sound", function()
    local fields = files.fields "gemma-4-e2b"
    fields.audio_config = { model_type = "gemma4_audio", hidden_size = 1024 }
    local m = read(fields)
    assert.equal("audio", m.towers[2].name)
    local borrowed = 16 * (2 * 1536 * 256 + 256) + 4 * (2 * 1536 * 512 + 512)
    assert.equal(10246357958, 2 * (whole(m) + 4 * (112 + 120) + borrowed))
  end)
end)

describe("SigLIP's image tower on its own", function()
  it("has a pooling query in its blocks as in its counts, and its rounded-down image", function()
    local m = files.model "siglip-so400m-vision"
    local found = require "tperf.question.model_check".run(m).parameters
    assert.equal(428225600, found.counted)
    assert.equal(found.described, found.counted)
    assert.equal(27 * 27, m.seq) -- of 384 pixels, 6 are left out
    assert.equal(428225600 - 1152 - 4 * (1152 * 1152 + 1152) - 2 * 1152 * 4304 - 4304 - 1152 - 2 * 1152, tperf.model(
      files.changed("siglip-so400m-vision", { vision_use_head = false })):parameters().total)
  end)
end)

describe("tperf params", function()
  local folder = program.folder()
  local json = require "tperf.output.json"

  it("has a row of the text model, of each tower, and of both", function()
    program.write(folder .. "/config.json", json.encode(STATED[1][2]))
    local one = program.ask("tperf params --csv " .. folder)
    assert.matches("\ntext,3880263168,.-\nvision,419816304,.-\ntotal,4300079472,", one.out)
    assert.matches("tperf: vision_config: its tower's 419816304 parameters are in counts and stored bytes; times and "
      .. "memory are without it", one.err, 1, true)
    assert.is_nil((program.ask "tperf params --csv spec/data/hf/llama-3.1-8b.json").out:find "\ntext,")
  end)

  -- total_size of the indices of Gemma 3 4B and of Kimi K2.6, whose packed products have a shape of two integers each
  -- and whose 60 routers have biases of 32 bits.
  it("counts towers' stored bytes to the byte", function()
    local fields = gemma3(34, 2560, 10240, 8, 4)
    fields.torch_dtype = "bfloat16"
    program.write(folder .. "/config.json", json.encode(fields))
    local bytes = program.ask("tperf params --csv " .. folder).out:match "\ntotal,%d+,1,%d+,([%d.]+)"
    assert.equal(8600158944, tonumber(bytes))
    fields = files.fields "kimi-k2.5"
    fields.text_config.quantization_config.format = "pack-quantized"
    program.write(folder .. "/config.json", json.encode(fields))
    bytes = program.ask("tperf params --csv " .. folder).out:match "\ntotal,%d+,1,%d+,([%d.]+)"
    assert.equal(595148192736, tonumber(bytes) + 2 * 60 * 384)
  end)

  it("says that a tower of an unknown class is left out", function()
    program.write(folder .. "/config.json", json.encode { model_type = "odd", text_config = llama(),
      vision_config = { model_type = "odd_vision", depth = 3 } })
    local one = program.ask("tperf params --csv " .. folder)
    assert.equal(0, one.code, one.err)
    assert.matches("without vision_config (the towers of a model around the text model are left out, and how large "
      .. "they are)", one.err, 1, true)
    assert.is_nil(one.out:find "\nvision,")
  end)

  it("are named as left out of what models of models/ take", function()
    for _, name in ipairs { "qwen2.5-vl-7b", "gemma-4-e2b" } do -- of tperf's own fields, and of config.json's
      local told = program.ask(("tperf infer %s -s h100-sxm -b 1 -p 128 -n 8"):format(name)).err
      assert.matches("vision%S* = left out %(its .-%d+ parameters", told)
    end
  end)
end)
