-- What follows a model's layers, by the class that config.json's "architectures" names. Counts are those that
-- transformers' classes have, as their publishers and Hugging Face's pages state them.
local files = require "hf_files"
local tperf = require "tperf"

local changed, refused = files.changed, files.refused

local function total(name, class, more)
  local changes = { architectures = { class } }
  for key, value in pairs(more or {}) do changes[key] = value end
  local fields = files.fields(name, changes)
  return tperf.model(fields):parameters()
end

local TWO <const> = { ["0"] = "a", ["1"] = "b" }

describe("the class of a config.json decides what follows the layers", function()
  for _, case in ipairs {
    { "mistral-7b", "MistralModel", {}, 7110660096 }, -- intfloat/e5-mistral-7b-instruct
    { "llama-3.1-8b", "LlamaForSequenceClassification", { num_labels = 1 }, 7504924672 + 4096 }, -- body and a score
    { "llama-3.1-8b", "LlamaForSequenceClassification", { id2label = TWO }, 7504924672 + 2 * 4096 },
    { "llama-3.1-8b", "LlamaForTokenClassification", { num_labels = 3 }, 7504924672 + 3 * 4096 + 3 },
    { "gpt2", "GPT2ForSequenceClassification", { num_labels = 2 }, 124439808 + 2 * 768 }, -- gpt2 and a score
    { "bert-base-uncased", "BertForSequenceClassification", { num_labels = 2 }, 109483778 },
    { "bert-base-uncased", "BertForTokenClassification", { num_labels = 9 }, 108891648 + 9 * 769 }, -- no pooler
    { "roberta-base", "RobertaForSequenceClassification", { num_labels = 2 }, 124647170 },
    { "distilbert-base-uncased", "DistilBertForSequenceClassification", { num_labels = 2 }, 66955010 },
    { "vit-base-patch16-224", "ViTModel", {}, 86389248 }, -- google/vit-base-patch16-224-in21k
  } do
    it(case[2] .. " of " .. case[1], function()
      assert.equal(case[4], total(case[1], case[2], case[3]).total)
      local text = case[1]:find "vit" == nil
      assert.equal(case[4], text and total(case[1], case[2], case[3]).active or case[4])
    end)
  end

  it("as the ops of the layers and ends hold it", function() -- 2 bytes for each
    local class = { "LlamaForSequenceClassification" }
    local fields = files.fields("llama-3.1-8b", { architectures = class, num_labels = 1 })
    local r = tperf.infer { model = fields, system = "h200-sxm", prompt = 128, generate = 2 }
    assert.equal(2 * (7504924672 + 4096), r.memory.weights)
    assert.truthy(r.warnings[1]:find("generates no tokens", 1, true))
    local bare = files.fields("mistral-7b", { architectures = { "MistralModel" } })
    assert.equal(2 * 7110660096, tperf.infer { model = bare, system = "h200-sxm", prompt = 128, generate = 2 }
      .memory.weights)
  end)

  it("and classes with parts of their own are refused by name", function()
    for class, part in pairs {
      LlamaForCausalLMEagle3 = "a draft of EAGLE", EagleLlamaForCausalLM = "a draft of EAGLE",
      Qwen2ForRewardModel = "a head that its own code defines", LlamaBidirectionalModel = "without a causal mask",
      LlamaForThings = "known are classes that end in ForCausalLM",
    } do
      refused("llama-3.1-8b", { architectures = { class } }, part)
    end
    refused("vit-base-patch16-224", { architectures = { "ViTForMaskedImageModeling" } }, "known: ViTForImage")
  end)

  it("not the name of a model around a text model", function()
    local fields = { model_type = "internvl_chat", architectures = { "InternVLChatModel" },
      llm_config = files.fields "llama-3.1-8b" }
    fields.llm_config.architectures = nil
    assert.is_nil(tperf.model(fields).classes)
    assert.is_nil(changed("llama-3.1-8b", { architectures = files.REMOVED }).classes)
  end)
end)
