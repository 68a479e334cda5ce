--- What the configuration classes of the transformers library assume where a file says nothing. Files of models around
--- a text model (LLaVA, PaliGemma …) leave out of text_config what equals its class's default. Values are those of the
--- classes' own signatures.
local defaults = {}

--- model_type -> field -> value.
defaults.fields = {
  llama = {
    vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32,
    num_attention_heads = 32, max_position_embeddings = 2048,
  },
  mistral = {
    vocab_size = 32000, hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 8, max_position_embeddings = 131072, sliding_window = 4096,
  },
  mixtral = {
    vocab_size = 32000, hidden_size = 4096, intermediate_size = 14336, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 8, max_position_embeddings = 131072, num_local_experts = 8,
    num_experts_per_tok = 2,
  },
  gemma = {
    vocab_size = 256000, hidden_size = 3072, intermediate_size = 24576, num_hidden_layers = 28,
    num_attention_heads = 16, num_key_value_heads = 16, head_dim = 256, max_position_embeddings = 8192,
  },
  gemma2 = {
    vocab_size = 256000, hidden_size = 2304, intermediate_size = 9216, num_hidden_layers = 26,
    num_attention_heads = 8, num_key_value_heads = 4, head_dim = 256, max_position_embeddings = 8192,
    sliding_window = 4096,
  },
  qwen2 = {
    vocab_size = 151936, hidden_size = 4096, intermediate_size = 22016, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 32, max_position_embeddings = 32768,
  },
  qwen3 = {
    vocab_size = 151936, hidden_size = 4096, intermediate_size = 22016, num_hidden_layers = 32,
    num_attention_heads = 32, num_key_value_heads = 32, head_dim = 128, max_position_embeddings = 32768,
  },
  clip_text_model = {
    vocab_size = 49408, hidden_size = 512, intermediate_size = 2048, num_hidden_layers = 12, num_attention_heads = 8,
    max_position_embeddings = 77,
  },
  siglip_text_model = {
    vocab_size = 32000, hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12, num_attention_heads = 12,
    max_position_embeddings = 64,
  },
  phi3 = {
    vocab_size = 32064, hidden_size = 3072, intermediate_size = 8192, num_hidden_layers = 32,
    num_attention_heads = 32, max_position_embeddings = 4096,
  },
}

--- The text model of a file whose text_config does not name its type, by the whole's model_type.
defaults.text_types = {
  llava = "llama", llava_next = "llama", llava_next_video = "llama", vipllava = "llama", video_llava = "llama",
  llava_onevision = "qwen2", paligemma = "gemma", idefics3 = "llama", mllama = "mllama_text_model",
  gemma3 = "gemma3_text", mistral3 = "mistral", internvl = "qwen2", aya_vision = "cohere2", llama4 = "llama4_text",
  clip = "clip_text_model", siglip = "siglip_text_model",
}

return defaults
