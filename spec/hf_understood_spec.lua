-- Every field of a config.json is read, assumed, ignored for a reason, or refused by name.
local files = require "hf_files"
local program = require "program"
local tperf = require "tperf"

local account = require "tperf.describe.model.hf.account"
local hf = require "tperf.describe.model.hf"

local function by_name(list)
  local found = {}
  for _, one in ipairs(list) do found[one.name] = one end
  return found
end

-- What became of the fields of a changed file.
local function account_of(name, changes)
  hf.describe(files.fields(name, changes), "noted.json")
  return account.of "noted.json"
end

local function folder_with(fields)
  local folder = program.folder()
  program.write(folder .. "/config.json", require "tperf.output.json".encode(fields))
  return folder
end

describe("the fields of config.json files", function()
  it("each have one fate", function()
    for _, name in ipairs { "llama-3.1-8b", "gemma-3-27b", "kimi-k2.5", "qwen3.5-397b-a17b", "nemotron-h-8b",
      "lfm2-350m", "bert-base-uncased", "vit-base-patch16-224" } do
      local fields, seen = files.fields(name), {}
      local record = account_of(name)
      for _, one in ipairs(record.read) do seen[one] = true end
      for _, one in ipairs(record.ignored) do
        assert.is_nil(seen[one.name], one.name)
        assert.truthy(#one.why > 8, one.name)
        seen[one.name] = true
      end
      for key in pairs(fields) do assert.truthy(seen[key], name .. ": " .. key) end
      for key in pairs(fields.text_config or {}) do assert.truthy(seen["text_config." .. key], name .. ": " .. key) end
    end
  end)

  it("say which towers are in counts alone", function()
    local one = by_name(account_of("gemma-3-27b").ignored).vision_config
    assert.matches("tower", one.why)
  end)

  it("that transformers' classes assume are named", function()
    -- LLaVA-1.5: Vicuna's 7B, of which only the table and the context differ from LlamaConfig.
    local llava = { model_type = "llava", vision_config = { hidden_size = 1024 }, text_config = {
      model_type = "llama", max_position_embeddings = 4096, vocab_size = 32064 } }
    local m = hf.describe(llava, "llava.json")
    assert.equal(6738415616 + 2 * 64 * 4096, tperf.model(m):parameters().total) -- Llama 2 7B and 64 rows more
    assert.equal(32, by_name(account.of "llava.json".assumed)["text_config.num_hidden_layers"].value)
    -- PaliGemma: Gemma 2B with 257,216 rows.
    local pali = hf.describe({ model_type = "paligemma", text_config = { model_type = "gemma", hidden_size = 2048,
      intermediate_size = 16384, num_attention_heads = 8, num_hidden_layers = 18, num_image_tokens = 256,
      num_key_value_heads = 1, torch_dtype = "float32", vocab_size = 257216 } }, "pali.json")
    assert.equal(2506172416 + 1216 * 2048, tperf.model(pali):parameters().total)
    local bare = hf.describe({ model_type = "llava", text_config = { vocab_size = 32064 } }, "bare.json")
    assert.equal("llama", bare.family)
    local ok = pcall(hf.describe, { model_type = "llama", vocab_size = 32064 }, "plain.json")
    assert.is_false(ok) -- a file of one model states its sizes
  end)

  it("that say what a class does anyway are read", function()
    local function total(name, changes) return tperf.model(files.changed(name, changes)):parameters().total end
    assert.equal(total("qwen3-8b", {}), total("qwen3-8b", { use_qk_norm = true }))
    files.refused("llama-3.1-8b", { use_qk_norm = true }, '"use_qk_norm" = true is not known', true)
    assert.equal(total("qwen3.5-397b-a17b", {}), total("qwen3.5-397b-a17b", { output_gate_type = "swish" }))
    assert.equal(total("glm-5", {}), total("glm-5", { indexer_rope_interleave = true }))
    assert.equal("fp32", files.changed("glm-5", { moe_router_dtype = "float32" }).experts.router_dtype)
    files.refused("glm-5", { layer_types = { "full_attention" } }, "is not deepseek_sparse_attention", true)
    local list, pattern = {}, files.fields "nemotron-h-8b".hybrid_override_pattern
    local kinds = { M = "linear_attention", ["*"] = "full_attention", ["-"] = "mlp" }
    for letter in pattern:gmatch "." do list[#list + 1] = kinds[letter] end
    assert.equal(total("nemotron-h-8b", {}), total("nemotron-h-8b", { hybrid_override_pattern = files.REMOVED,
      num_hidden_layers = files.REMOVED, layers_block_type = list }))
    assert.equal(total("gemma-4-e2b", {}), total("gemma-4-e2b", { num_hidden_layers = files.REMOVED }))
  end)

  it("lengthen the context by YaRN", function()
    local function context(changes)
      changes.max_position_embeddings = 32768
      return tperf.model(files.changed("qwen2.5-7b", changes)).context
    end
    local long = { rope_scaling = { type = "yarn", factor = 4.0, original_max_position_embeddings = 32768 } }
    assert.equal(131072, context(long)) -- as Qwen's model card has it
    assert.equal(32768, context {})
    assert.equal(32768, context { rope_scaling = { type = "llama3", factor = 8.0 } })
    assert.equal(163840, files.model "deepseek-v3".context) -- 40 times 4096: the file's own
  end)
end)

describe("--ignore", function()
  local fields = files.fields("llama-3.1-8b", { new_thing = 7 })
  local folder = folder_with(fields)

  it("is named by the refusal, and goes on without a field", function()
    local refused = program.ask("tperf params " .. folder)
    assert.equal(1, refused.code)
    assert.matches("--ignore new_thing goes on without", refused.err, 1, true)
    local one = program.ask("tperf params --json --ignore new_thing " .. folder)
    assert.equal(0, one.code, one.err)
    assert.matches('"forced": true, "name": "new_thing", "why": "not in the prediction: --ignore"', one.out, 1, true)
    assert.matches("tperf: without new_thing (not in the prediction: --ignore)", one.err, 1, true)
  end)

  it("is for infer, train and search, too, and asks for a field that is there", function()
    local one = program.ask(("tperf infer %s -s h200-sxm -p 128 -n 2 --json --ignore model.new_thing"):format(folder))
    assert.equal(0, one.code, one.err)
    assert.matches('"name": "new_thing"', one.out, 1, true)
    local none = program.ask(("tperf infer %s -s h200-sxm -p 128 -n 2 --ignore new_thing,other"):format(folder))
    assert.equal(1, none.code)
    assert.matches("--ignore other: no config.json of a model that was read has such a field", none.err, 1, true)
  end)
end)
