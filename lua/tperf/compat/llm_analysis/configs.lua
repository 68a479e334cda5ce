--- The configurations that llm-analysis ships, under its field names: the numbers of its JSON files.
-- ffn_embed_dim is 4 * hidden_dim unless a row sets it.
local configs = { models = {}, gpus = {}, dtypes = {} }

-- name: num_layers, n_head, hidden_dim, vocab_size, max_seq_len (false: none), model_type
local models = {
  ["EleutherAI_gpt-j-6b"] = { 28, 16, 4096, 50400, 2048, "gptj" },
  ["EleutherAI_gpt-neo-1.3B"] = { 24, 16, 2048, 50257, 2048, "gpt_neo" },
  ["EleutherAI_gpt-neo-125m"] = { 12, 12, 768, 50257, 2048, "gpt_neo" },
  ["EleutherAI_gpt-neo-2.7B"] = { 32, 20, 2560, 50257, 2048, "gpt_neo" },
  ["NousResearch_Llama-2-7b-hf"] = { 32, 32, 4096, 32000, 4096, "llama" },
  ["PygmalionAI_pygmalion-6b"] = { 28, 16, 4096, 50400, 2048, "gptj" },
  ["allenai_scibert_scivocab_uncased"] = { 12, 12, 768, 31090, 512, "bert" },
  ["bert-base-cased"] = { 12, 12, 768, 28996, 512, "bert" },
  ["bert-base-multilingual-cased"] = { 12, 12, 768, 119547, 512, "bert" },
  ["bert-base-uncased"] = { 12, 12, 768, 30522, 512, "bert" },
  ["bert-large"] = { 24, 16, 1024, 30522, 512 },
  ["bigcode_santacoder"] = { 24, 16, 2048, 49280, 2048, "gpt2" },
  ["bigscience_bloom-560m"] = { 24, 16, 1024, 250880, false, "bloom" },
  ["bigscience_bloom-7b1"] = { 30, 32, 4096, 250880, false, "bloom" },
  ["bigscience_bloomz-560m"] = { 24, 16, 1024, 250880, false, "bloom" },
  ["bigscience_bloomz-7b1-mt"] = { 30, 32, 4096, 250880, false, "bloom" },
  ["bigscience_test-bloomd-6b3"] = { 30, 32, 4096, 250880, false, "bloom" },
  ["bloom-175b"] = { 96, 96, 12288, 250880, false },
  ["decapoda-research_llama-13b-hf"] = { 40, 40, 5120, 32000, 2048, "llama" },
  ["decapoda-research_llama-30b-hf"] = { 60, 52, 6656, 32000, 2048, "llama" },
  ["decapoda-research_llama-65b-hf"] = { 80, 64, 8192, 32000, 2048, "llama" },
  ["decapoda-research_llama-7b-hf"] = { 32, 32, 4096, 32000, 2048, "llama" },
  ["distilgpt2"] = { 6, 12, 768, 50257, 1024, "gpt2" },
  ["dslim_bert-base-NER"] = { 12, 12, 768, 28996, 512, "bert" },
  ["facebook_opt-1.3b"] = { 24, 32, 2048, 50272, 2048, "opt" },
  ["facebook_opt-125m"] = { 12, 12, 768, 50272, 2048, "opt" },
  ["facebook_opt-13b"] = { 40, 40, 5120, 50272, 2048, "opt" },
  ["facebook_opt-175b"] = { 96, 96, 12288, 50272, 2048 },
  ["facebook_opt-350m"] = { 24, 16, 1024, 50272, 2048, "opt" },
  ["facebook_opt-6.7b"] = { 32, 32, 4096, 50272, 2048, "opt" },
  ["facebook_opt-66b"] = { 64, 72, 9216, 50272, 2048, "opt" },
  ["fxmarty_tiny-llama-fast-tokenizer"] = { 2, 4, 16, 32000, 2048, "llama" },
  ["gpt2"] = { 12, 12, 768, 50257, 1024, "gpt2" },
  ["gpt2-large"] = { 36, 20, 1280, 50257, 1024, "gpt2" },
  ["gpt2-medium"] = { 24, 16, 1024, 50257, 1024, "gpt2" },
  ["gpt2-xl"] = { 48, 25, 1600, 50257, 1024, "gpt2" },
  ["hf-internal-testing_tiny-random-BloomForCausalLM"] = { 5, 4, 32, 1024, false, "bloom" },
  ["hf-internal-testing_tiny-random-GPTNeoModel"] = { 4, 4, 32, 1024, 512, "gpt_neo" },
  ["hf-internal-testing_tiny-random-gpt_neo"] = { 4, 4, 32, 1000, 512, "gpt_neo" },
  ["lmsys_vicuna-7b-delta-v0"] = { 32, 32, 4096, 32001, 2048, "llama" },
  ["megatron-lm-175b"] = { 96, 96, 12288, 50272, 2048 },
  ["megatron-lm-530b"] = { 105, 128, 20480, 50272, 2048 },
  ["mt-nlg-530b"] = { 105, 128, 20480, 50272, 2048 },
  ["sentence-transformers_all-MiniLM-L6-v2"] = { 6, 12, 384, 30522, 512, "bert" },
  ["test-13b"] = { 40, 40, 5120, 50272, 2048 },
  ["trl-internal-testing_tiny-random-GPTNeoForCausalLM"] = { 4, 4, 32, 1024, 512, "gpt_neo" },
  ["upstage_Llama-2-70b-instruct-v2"] = { 80, 64, 8192, 32000, 4096, "llama" },
}
for name, row in pairs(models) do
  configs.models[name] = {
    name = name, num_layers = row[1], n_head = row[2], hidden_dim = row[3], vocab_size = row[4],
    max_seq_len = row[5] or nil, ffn_embed_dim = 4 * row[3], model_type = row[6],
  }
end
local llama2_70b = configs.models["upstage_Llama-2-70b-instruct-v2"]
llama2_70b.num_key_value_heads, llama2_70b.ffn_embed_dim, llama2_70b.mlp_gated_linear_units = 8, 28672, true

-- name: memory GB, HBM GB/s, intra-node GB/s, peak TFLOP/s in fp16, int8, int4, inter-node GB/s. Two memory sizes
-- are upstream's, not the vendors' (Q39): a10-pcie-28gb has 24 GB, v100-sxm-16gb 16 GB.
local gpus = {
  ["a10-pcie-28gb"] = { 28, 600, 32, 125, 250, 500, 200 },
  ["a100-pcie-40gb"] = { 40, 1555, 300, 312, 624, 1248, 200 },
  ["a100-pcie-80gb"] = { 80, 1935, 300, 312, 624, 1248, 200 },
  ["a100-sxm-40gb"] = { 40, 1555, 300, 312, 624, 1248, 200 },
  ["a100-sxm-80gb"] = { 80, 2039, 300, 312, 624, 1248, 200 },
  ["a10g-pcie-24gb"] = { 24, 600, 32, 70, 140, 280, 200 },
  ["a6000-48gb"] = { 48, 768, 56.25, 154.8, 309.6, 619.2, 200 },
  ["h100-pcie-80gb"] = { 80, 2000, 300, 756, 1513, 3026, 400 },
  ["h100-sxm-80gb"] = { 80, 3350, 450, 989, 1979, 3958, 400 },
  ["mi100-32gb"] = { 32, 1228.8, 138, 184.6, 369.2, 738.4, 200 },
  ["mi210-64gb"] = { 64, 1638, 150, 181, 362, 724, 200 },
  ["mi250-128gb"] = { 128, 3200, 400, 362.1, 724.2, 1448.4, 200 },
  ["mi250x-128gb"] = { 128, 3200, 400, 383, 766, 1532, 200 },
  ["v100-pcie-16gb"] = { 16, 900, 16, 112, 0, 0, 200 },
  ["v100-pcie-32gb"] = { 32, 900, 16, 112, 0, 0, 200 },
  ["v100-sxm-16gb"] = { 32, 900, 150, 125, 0, 0, 200 },
  ["v100-sxm-32gb"] = { 32, 900, 150, 125, 0, 0, 200 },
}
for name, row in pairs(gpus) do
  configs.gpus[name] = {
    name = name, mem_per_GPU_in_GB = row[1], hbm_bandwidth_in_GB_per_sec = row[2],
    intra_node_bandwidth_in_GB_per_sec = row[3], intra_node_min_message_latency = 8e-6, -- seconds
    peak_fp16_TFLOPS = row[4], peak_i8_TFLOPS = row[5], peak_i4_TFLOPS = row[6],
    inter_node_bandwidth_in_GB_per_sec = row[7],
  }
end

for _, bits in ipairs { { 16, 16 }, { 8, 16 }, { 4, 16 }, { 8, 8 }, { 4, 8 }, { 4, 4 } } do
  for _, embedding in ipairs { 16, 32 } do
    local name = ("w%da%de%d"):format(bits[1], bits[2], embedding)
    configs.dtypes[name] = {
      name = name, weight_bits = bits[1], activation_bits = bits[2], embedding_bits = embedding,
    }
  end
end

return configs
