-- Exact parameter counts of published checkpoints, from their config.json files in spec/data/hf. Expected totals: those
-- marked "seen" come from outside this project (safetensors metadata, public model tables, model cards); the others are
-- the published formulas worked out independently of this code. Files that could not be seen whole were put together
-- from excerpts and from copies of the checkpoint: those of DeiT, dots.llm1, ELECTRA, EXAONE 4.0, Gemma 7B and 4,
-- GLM-4.1V, GLM-4.5V, GLM-4.7-Flash, LongCat-Flash, Phi-4-mini, Qwen3-Omni, Granite 4.0 and 1B-A400M, Hunyuan, Kimi
-- Linear, Ling-mini, MiMo and MiMo-V2, OLMo 3, Phi-3.5-MoE, Qwen3-VL, BART, RoBERTa-large, ERNIE 4.5 and ModernBERT-
-- large. Their totals hold their sizes, not every field.
local tperf = require "tperf"

local function model(name) return tperf.model("spec/data/hf/" .. name .. ".json") end

-- Parameters of image towers, which are not part of the text models: SigLIP's of Gemma 3, with its projector of 1152
-- features and its norm, and Qwen 3.5's, 27 layers of 1152 features and a merger of 4 x 1152 into the text's width.
local function siglip(hidden) return 416866032 + 1152 * hidden + 1152 end
local function qwen_tower(hidden)
  local layer = 4 * 1152 * 1152 + 4 * 1152 + 2 * 1152 * 4304 + 4304 + 1152 + 4 * 1152
  local merger = 2 * 1152 + 4608 * 4608 + 4608 + 4608 * hidden + hidden
  return 27 * layer + 3 * 2 * 16 * 16 * 1152 + 1152 + 2304 * 1152 + merger
end

-- Qwen3-VL's tower also has three mergers with norms of 4 x 1152 features, whose outputs the first layers add.
local function qwen_vl_tower(hidden) return qwen_tower(hidden) + 3 * (2 * 4608 + 4608 * 4609 + 4609 * hidden) end

-- Attention's four matrices; all heads have `dim` features.
local function gqa(hidden, heads, kv_heads, dim) return 2 * hidden * (heads + kv_heads) * dim end

-- The row of a mixture: the parameters besides routed experts, one expert of every layer that has them, and how many
-- experts there are and a token has.
local function mixture(name, rest, expert, count, top_k)
  return { name, rest + count * expert, rest + top_k * expert }
end

-- A Mamba-2 mixer of 2 x hidden features in heads of 64, with a state of 128: projections, convolution with its bias,
-- three numbers per head, norm.
local function mamba2(hidden)
  local inner = 2 * hidden
  return hidden * (2 * inner + 256 + inner // 64) + 5 * (inner + 256) + 3 * (inner // 64) + inner + inner * hidden
end

-- Granite 4.0 of `layers` layers, `attending` of them with attention, each with MLPs of `mlp` parameters.
local function granite(hidden, layers, attending, heads, kv_heads, mlp)
  local attention = 2 * hidden * hidden + 2 * hidden * (hidden // heads) * kv_heads
  return (layers - attending) * mamba2(hidden) + attending * attention + layers * (mlp + 2 * hidden) + 100352 * hidden
    + hidden
end

-- Falcon-Mamba-7B: projection of 2 x 8192, convolution and its bias, steps of rank 256, B and C, A, D, output, norm.
local falcon_mamba = 64 * (3 * 4096 * 8192 + 5 * 8192 + 8192 * (256 + 32) + (256 + 1) * 8192 + 8192 * 16 + 8192 + 4096)
  + 2 * 65024 * 4096 + 4096

-- Checkpoints seen in public lists of safetensors totals hold modules for multi-token prediction, some with copies of
-- both tables: name, parameters besides the model and its modules, the total.
local with_modules = {
  { "deepseek-v3.2", 2 * 129280 * 7168, 685355329792 },
  { "glm-4.5", 2 * 151552 * 5120, 358337791296 },
  { "glm-4.5-air", 2 * 151552 * 4096, 110468824832 },
  { "qwen3.8-27b", qwen_tower(5120), 27781427952 },
  { "qwen3.6-35b-a3b", qwen_tower(2048), 35951822704 },
  { "qwen3.5-397b-a17b", qwen_tower(4096), 403397928944 },
  { "glm-5", 0, 753864139008 },
  { "longcat-flash", 131072 * 6144, 561862880256 },
}

local expected = { -- name, total, active (nil: the total)
  { "gpt2", 124439808 }, -- seen
  { "gpt2-xl", 1557611200 },
  { "opt-125m", 125239296 },
  { "opt-350m", 331196416 },
  { "opt-1.3b", 1315758080 },
  { "opt-66b", 65719701504 },
  { "opt-175b", 174604468224 },
  { "bloom", 176247271424 }, -- seen
  { "gpt-neox-20b", 20554567680 },
  { "falcon-7b", 6921720704 },
  { "falcon-7b-old", 6921720704 },
  { "falcon-40b", 41303293952 },
  { "falcon-40b-old", 41303293952 },
  { "llama-2-7b", 6738415616 }, -- seen
  { "llama-2-13b", 13015864320 }, -- seen
  { "llama-2-70b", 68976648192 }, -- seen
  { "llama-3.1-8b", 8030261248 }, -- seen
  { "llama-3.1-70b", 70553706496 }, -- seen
  { "llama-3.1-405b", 405853388800 }, -- seen
  { "mistral-7b", 7241732096 },
  { "mixtral-8x7b", 46702792704, 12879925248 }, -- seen
  { "mixtral-8x22b", 140620634112, 39152031744 },
  { "qwen2.5-7b", 7615616512 }, -- seen
  { "qwen2.5-72b", 72706203648 }, -- seen
  { "qwen1.5-moe-a2.7b", 14315784192, 2689173504 },
  { "qwen2-57b-a14b", 57408658944, 14249270784 },
  { "qwen3-8b", 8190735360 }, -- seen
  { "qwen3-32b", 32762123264 },
  { "qwen3-30b-a3b", 30532122624, 3353032704 },
  { "qwen3-235b-a22b", 235093634560, 22190763520 }, -- seen
  { "gemma-2-9b", 9241705984 },
  { "gemma-2-27b", 27227128320 },
  { "phi-3-mini", 3821079552 },
  { "phi-3-medium", 13960238080 },
  { "gpt-oss-20b", 20914757184, 4187440704 },
  { "gpt-oss-120b", 116829156672, 5711982912 }, -- seen
  { "deepseek-v2-lite", 15706484224, 2661150208 },
  { "deepseek-v2", 235741434880, 21375800320 }, -- seen
  { "deepseek-v3", 671026419200, 37552297472 },
  { "kimi-k2", 1026408232448, 32861500928 },
  { "vit-base-patch16-224", 86567656 },
  { "vit-large-patch16-224", 304326632 },
  { "mamba2-130m", 128989632 },
  { "mamba-codestral-7b", 7285403648 },
  { "mamba2-130m-state-spaces", 128989632 }, -- as the file of the other format
  { "mamba-130m-hf", 129135360 }, -- seen
  { "mamba-2.8b", 2768345600 }, -- seen
  { "jamba-v0.1", 51570323328, 12110311296 }, -- the paper's 52B and 12B
  { "nemotron-nano-9b-v2", 8888227328 }, -- seen
  { "gemma-3-1b", 999885952 }, -- seen
  { "gemma-3-4b", 4300079472 - siglip(2560) }, -- seen, with the tower
  { "gemma-3-12b", 12187325040 - siglip(3840) }, -- seen, with the tower
  { "gemma-3-27b", 27432406640 - siglip(5376) }, -- seen, with the tower
  { "minimax-m2", 228689764864, 11030553088 }, -- seen; without its modules, which the checkpoint lacks
  { "glm-4.6", 358337791296 - 3988069792 - 2 * 151552 * 5120, 33632266144 }, -- GLM-4.5's sizes
  { "bert-base-uncased", 109514298 }, -- seen
  { "bert-large-uncased", 335174458 }, -- seen
  { "granite-4.0-h-tiny", granite(1536, 40, 4, 12, 4, 3 * 1536 * (64 * 512 + 1024) + 64 * 1536),
    granite(1536, 40, 4, 12, 4, 3 * 1536 * (6 * 512 + 1024) + 64 * 1536) },
  { "granite-4.0-h-small", 32207337984, granite(4096, 40, 4, 32, 8, 3 * 4096 * (10 * 768 + 1536) + 72 * 4096) }, -- seen
  { "granite-4.0-h-micro", 3191396096 }, -- seen
  { "granite-4.0-micro", 3402836480 }, -- seen
  { "bamba-9b", 29 * mamba2(4096) + 3 * 4096 * (2 * 4096 + 2 * 1024) + 32 * (3 * 4096 * 14336 + 2 * 4096)
    + 2 * 128256 * 4096 + 4096 },
  { "falcon-mamba-7b-pre-decay", falcon_mamba },
  { "falcon3-mamba-7b", falcon_mamba },
  { "roberta-base", 124697433 }, -- seen
  { "roberta-large", 355412057 }, -- seen
  { "xlm-roberta-base", 278295186 }, -- seen
  { "distilbert-base-uncased", 66985530 }, -- seen
  { "bart-base", 139420416 }, -- seen
  { "bart-large", 406291456 }, -- seen
  { "clip-vit-large-text", 123060480 }, -- seen
  { "clip-vit-large-vision", 303179776 + 1024 * 768 }, -- seen, and its projection
  { "siglip-so400m-vision", 877960498 - 449734896 - 2 }, -- seen with hf_towers_spec.lua's text tower, two scalars
  { "esm2-650m", 651043254 }, -- seen
  -- ViT-B/16 without its thousand classes, with two; the token and its position. With the teacher's thousand: seen.
  { "deit-base-distilled-hasta", 86567656 - 998 * 769 + 2 * 768 },
  { "dinov2-base", 86580480 }, -- seen
  { "dinov2-giant", 40 * (4 * (1536 * 1536 + 1536) + 3 * 1536 * 4096 + 2 * 4096 + 1536 + 6 * 1536) + 3 * 14 * 14 * 1536
    + 1536 + 2 * 1536 + (37 * 37 + 1) * 1536 + 2 * 1536 },
  { "modernbert-base", 149655232 }, -- seen
  { "modernbert-large", 395881664 }, -- seen
  -- Seen with a pooler, which is as large as the first product of the discriminator's head.
  { "electra-small-discriminator", 13548800 + 256 + 1 },
  { "electra-base-discriminator", 109482240 + 768 + 1 },
  { "electra-base-generator", 12 * (12 * 256 * 256 + 13 * 256) + (30522 + 512 + 2 + 2) * 768 + 768 * 256 + 256
    + 256 * 768 + 768 + 2 * 768 + 30522 },
  { "t5-small", 60506624 },
  { "t5-base", 222903552 },
  { "t5-large", 737668096 },
  { "t5-3b", 2851598336 },
  { "t5-11b", 11307321344 },
  { "flan-t5-base", 247577856 },
  { "flan-t5-xxl", 11135332352 },
  { "mt5-small", 300176768 },
  { "mt5-base", 582401280 },
  { "dit-xl-2-256", 675129632 }, -- seen
  { "gpt-j-6b", 6050882784 }, -- seen
  { "olmoe-1b-7b", 6919161856, 1282017280 }, -- seen; the paper's 1.3B
  { "flex-olmo-7x7b", 33270665216 }, -- seen; a token has all experts
  { "qwen3-vl-30b-a3b", 31070754032 - qwen_vl_tower(2048), 3353032704 }, -- seen, with the tower
  { "qwen3-vl-235b-a22b", 235670022896 - qwen_vl_tower(4096), 22190763520 }, -- seen, with the tower
  { "deepseek-moe-16b", 16375728128, 2828650496 }, -- seen
  { "ling-mini-2.0", 16255643392, 16255643392 - 19 * 248 * 3 * 2048 * 512 }, -- seen
  { "granite-3.1-1b-a400m", 1334628352, 1334628352 - 24 * 24 * 3 * 1024 * 512 }, -- seen
  { "trinity-nano", 6120003328, 6120003328 - 54 * 120 * 3 * 1024 * 256 }, -- seen
  { "glm-4.7-flash", 29943393920, 3896766080 }, -- seen, without its module
  { "kimi-k2.5", 1026408232448, 32861500928 }, -- Kimi K2's sizes
  mixture("phi-3.5-moe", 32 * (gqa(4096, 32, 8, 128) + 2 * 4096 + 2 * 1024 + 16 * 4096 + 4 * 4096)
    + 2 * 32064 * 4096 + 32064 + 2 * 4096, 32 * 3 * 4096 * 6400, 16, 2),
  mixture("ling-lite-1.5", 28 * (gqa(2048, 16, 4, 128) + 2 * 3 * 2048 * 1408 + 64 * 2048 + 2 * 2048)
    + 2 * 126464 * 2048 + 2048, 28 * 3 * 2048 * 1408, 64, 6),
  mixture("hunyuan-a13b", 32 * (gqa(4096, 32, 8, 128) + 2 * 128 + 3 * 4096 * 3072 + 64 * 4096 + 2 * 4096)
    + 128167 * 4096 + 4096, 32 * 3 * 4096 * 3072, 64, 8),
  mixture("ernie-4.5-21b-a3b", 28 * (gqa(2560, 20, 4, 128) + 2 * 2560) + 3 * 2560 * 12288
    + 27 * (3 * 2560 * 2 * 1536 + 64 * 2560 + 64) + 103424 * 2560 + 2560, 27 * 3 * 2560 * 1536, 64, 6),
  mixture("dots.llm1", 62 * (gqa(4096, 32, 32, 128) + 2 * 128 + 2 * 4096) + 3 * 4096 * 10944
    + 61 * (3 * 4096 * 2 * 1408 + 128 * 4096 + 128) + 2 * 152064 * 4096 + 4096, 61 * 3 * 4096 * 1408, 128, 6),
  mixture("dbrx", 40 * (gqa(6144, 48, 8, 128) + 16 * 6144 + 2 * 6144) + 2 * 100352 * 6144 + 6144,
    40 * 3 * 6144 * 10752, 16, 4),
  mixture("trinity-mini", 32 * (gqa(2048, 32, 4, 128) + 2048 * 4096 + 2 * 128 + 4 * 2048) + 2 * 3 * 2048 * 6144
    + 30 * (3 * 2048 * 1024 + 128 * 2048 + 128) + 2 * 200192 * 2048 + 2048, 30 * 3 * 2048 * 1024, 128, 8),
  mixture("grok-1", 64 * (gqa(6144, 48, 8, 128) + 8 * 6144 + 4 * 6144) + 131072 * 6144 + 6144,
    64 * 3 * 6144 * 32768, 8, 2),
  mixture("mimo-v2-flash", 9 * (gqa(4096, 64, 4, 160) + 2 * 4096) + 39 * (gqa(4096, 64, 8, 160) + 64 + 2 * 4096)
    + 3 * 4096 * 16384 + 47 * (256 * 4096 + 256) + 2 * 152576 * 4096 + 4096, 47 * 3 * 4096 * 2048, 256, 8), -- 309B-A15B
  -- Gemma 4: keys of the full layers are values, too; four norms, or seven and the router's.
  mixture("gemma-4-26b-a4b", 25 * (gqa(2816, 16, 8, 256) + 2 * 256) + 5 * (2816 * (2 * 16 + 2) * 512 + 2 * 512)
    + 30 * (8 * 2816 + 3 * 2816 * 2112 + 128 * 2816 + 128) + 262144 * 2816 + 2816, 30 * 3 * 2816 * 704, 128, 8),
  { "gemma-4-31b", 50 * (gqa(5376, 32, 16, 256) + 2 * 256) + 10 * (5376 * (2 * 32 + 4) * 512 + 2 * 512)
    + 60 * (3 * 5376 * 21504 + 4 * 5376) + 262144 * 5376 + 5376 },
  { "gemma-4-12b", 40 * (gqa(3840, 16, 8, 256) + 2 * 256) + 8 * (3840 * (2 * 16 + 1) * 512 + 2 * 512)
    + 48 * (3 * 3840 * 15360 + 4 * 3840) + 262144 * 3840 + 3840 },
  -- 560B, 27B on average: 28 layers of two latent attentions, two MLPs, and a router of 768 experts, of which 512 work.
  mixture("longcat-flash", 28 * (2 * (6144 * (1536 + 512 + 64) + 1536 + 512 + 1536 * 64 * 192 + 512 * 64 * 256
    + 64 * 128 * 6144 + 3 * 6144 * 12288 + 2 * 6144) + 768 * 6144 + 768) + 2 * 131072 * 6144 + 6144,
    28 * 3 * 6144 * 2048, 512, 8),
  -- 48B-A3B: 20 layers of delta attention (products, ranks of 128, convolutions, a decay's bias per feature), 7 latent.
  mixture("kimi-linear-48b-a3b", 20 * (4 * 2304 * 4096 + 2 * 128 * (2304 + 4096) + 2304 * 32 + 3 * 4 * 4096 + 4096 + 32
    + 128) + 7 * (2304 * (6144 + 576) + 512 + 512 * 32 * 256 + 4096 * 2304) + 27 * 2 * 2304 + 3 * 2304 * 9216
    + 26 * (3 * 2304 * 1024 + 256 * 2304 + 256) + 2 * 163840 * 2304 + 2304, 26 * 3 * 2304 * 1024, 256, 8),
  { "falcon-h1-0.5b", 521411104 }, -- seen
  { "qwen3-omni-30b-a3b", 30532122624 + 2 * 128 * 2048, 3353032704 + 2 * 128 * 2048 }, -- Qwen3-30B-A3B's, larger tables
  -- GLM-4.5-Air's sizes, without its module (zoo_spec.lua).
  { "glm-4.5v", 110468824832 - 3616573568, 110468824832 - 3616573568 - 45 * 120 * 3 * 4096 * 1408 },
  { "glm-4.1v-9b", 9400279040 }, -- GLM-4-9B-0414's
  { "phi-4-mini", 3836021760 }, -- seen
  { "minicpm3-4b", 62 * (2560 * 768 + 768 + 768 * 40 * 96 + 2560 * (256 + 32) + 256 + 256 * 40 * 128 + 40 * 64 * 2560
    + 3 * 2560 * 6400 + 2 * 2560) + 73448 * 2560 + 2560 },
  { "granite-3.1-8b", 8170848256 }, -- seen
  { "starcoder2-15b", 15957889024 }, -- seen
  { "command-r-plus", 103810674688 }, -- seen
  { "seed-oss-36b", 36151104512 }, -- seen
  { "smollm3-3b", 3075098624 }, -- seen
  { "gemma-2b", 2506172416 }, -- seen
  { "gemma-7b", 8537680896 }, -- seen
  { "phi-2", 2779683840 }, -- seen
  { "phi-2-old", 2779683840 },
  { "command-r7b", 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336 + 4096) + 256000 * 4096 + 4096 },
  { "olmo-3-7b", 7298011136 }, -- seen
  { "olmo-7b", 6888095744 }, -- seen
  { "apertus-8b", 8053338176 }, -- seen
  { "glm-4-9b-0414", 9400279040 }, -- seen
  { "qwen2.5-vl-7b", 7615616512 }, -- Qwen2.5-7B's, with a tower
  { "qwen3-vl-8b", 8190735360 }, -- Qwen3-8B's, with a tower
  { "ministral-8b", 8019808256 }, -- seen
  { "ministral-3-3b", 3429006336 }, -- seen, without the tower
  { "mimo-7b", 36 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 4096 + 2 * 1024 + 3 * 4096 * 11008 + 2 * 4096)
    + 2 * 151680 * 4096 + 4096 },
  { "hunyuan-0.5b", 24 * (2 * 1024 * 2048 + 2 * 1024 * 1024 + 3 * 1024 * 3584 + 2 * 1024 + 2 * 128)
    + 120818 * 1024 + 1024 },
  { "exaone-4.0-1.2b", 30 * (2 * 2048 * 2048 + 2 * 2048 * 512 + 3 * 2048 * 4096 + 2 * 2048 + 2 * 64)
    + 102400 * 2048 + 2048 },
  { "exaone-deep-32b", 64 * (2 * 5120 * 5120 + 2 * 5120 * 1024 + 3 * 5120 * 27392 + 2 * 5120) + 2 * 102400 * 5120
    + 5120 },
  { "afm-4.5b-austral", 36 * (2 * 2560 * 2560 + 2 * 2560 * 512 + 2 * 2560 * 18432 + 2 * 2560) + 2 * 128005 * 2560
    + 2560 },
  { "internlm2.5-7b-chat", 7737708544 }, -- seen
  { "internlm3-8b", 48 * (2 * 4096 * 4096 + 2 * 4096 * 256 + 3 * 4096 * 10240 + 2 * 4096) + 2 * 128512 * 4096 + 4096 },
  { "stablelm-2-1.6b", 1644515328 }, -- seen
  { "mpt-30b-chat", 48 * (4 * 7168 * 7168 + 2 * 7168 * 28672 + 2 * 7168) + 50432 * 7168 + 7168 },
  { "starcoder", 15517456384 }, -- seen
  { "gpt-neo-2.7b", 2651307520 }, -- seen
  { "codegen-2b-mono", 32 * (4 * 2560 * 2560 + 2 * 2560 * 10240 + 10240 + 2560 + 2 * 2560) + 2 * 51200 * 2560 + 51200
    + 2 * 2560 },
  { "baichuan2-7b", 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096) + 2 * 125696 * 4096 + 4096 },
  { "baichuan-13b-chat", 40 * (4 * 5120 * 5120 + 3 * 5120 * 13696 + 2 * 5120) + 2 * 64000 * 5120 + 5120 },
  { "minicpm-2b", 2724880896 }, -- seen
  { "chatglm3-6b", 6243584000 }, -- seen
  { "glm-4-9b-chat-1m", 9399951360 + 40 * (4096 + 1) * 512 }, -- GLM-4-9B's with two more heads of keys and of values
  { "qwen-7b", 7721324544 }, -- seen
  { "glm-4-9b", 9399951360 }, -- seen
  { "olmo-2-7b", 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008 + 4 * 4096) + 2 * 100352 * 4096 + 4096 },
  { "minitron-8b", 32 * (2 * 4096 * 48 * 128 + 2 * 4096 * 8 * 128 + 2 * 4096 * 16384 + 4 * 4096)
    + 2 * 256000 * 4096 + 2 * 4096 },
}

-- A small plain model, changed.
local function small(changes)
  local m = { name = "small", layers = 3, hidden = 8, heads = 2, ffn = 16, vocab = 10, seq = 4 }
  for key, value in pairs(changes or {}) do m[key] = value end
  return tperf.model(m)
end

describe("parameters", function()
  for _, row in ipairs(expected) do
    it("counts " .. row[1], function()
      local count = model(row[1]):parameters()
      assert.equal(row[2], count.total)
      assert.equal(row[3] or row[2], count.active)
    end)
  end

  it("counts the multi-token module of DeepSeek-V3 apart", function()
    assert.equal(11610068224, model "deepseek-v3":parameters().mtp)
    assert.equal(0, model "deepseek-v2":parameters().mtp)
  end)

  for _, row in ipairs(with_modules) do
    it("counts " .. row[1] .. " and its modules", function()
      local count = model(row[1]):parameters()
      assert.equal(row[3], count.total + count.mtp + row[2])
    end)
  end

  it("counts modules added to a file: Qwen3-Next's module", function()
    assert.equal(0, model "qwen3-next-80b-a3b":parameters().mtp)
    local count = model "qwen3-next-80b-a3b":with { mtp = 1 }:parameters()
    assert.equal(81324862720, count.total + count.mtp) -- seen
  end)

  it("counts the pooler and the heads of BERT's classes", function()
    local bert = model "bert-base-uncased"
    local bare = bert:with { encoder = { pooler = true, head = false }, biases = { head = false } }
    assert.equal(109482240, bare:parameters().total) -- seen: BertModel
    assert.equal(110106428, bert:with { encoder = { pooler = true, pooler_classes = 2 } }:parameters().total) -- seen
  end)

  it("adds up: components and groups make the total", function()
    for _, row in ipairs(expected) do
      local count, sum, layers = model(row[1]):parameters(), 0, 0
      for _, n in pairs(count.components) do sum = sum + n end
      assert.equal(count.total, sum)
      local active = sum - (count.components.experts or 0) + count.active_experts
      assert.equal(count.active, active)
      for _, group in ipairs(count.groups) do
        assert.equal(layers + 1, group.first)
        layers = layers + group.count
        local one = 0
        for name, n in pairs(group.layer) do one = one + (name == "active_experts" and 0 or n) end
        assert.equal(one * group.count, group.total)
      end
      assert.equal(model(row[1]).layers, layers)
    end
  end)

  it("works out a small model by hand", function()
    -- attention 4 * 8 * 8 + 4 * 8 biases, MLP 2 * 8 * 16 + 16 + 8, two LayerNorms of 16; one at the end; two tables
    assert.equal(3 * (288 + 280 + 32) + 16 + 2 * 80, small():parameters().total)
    assert.equal(3 * (256 + 256 + 32) + 16 + 2 * 80, small { biases = { norm = true } }:parameters().total)
    assert.equal(3 * (256 + 256 + 16) + 8 + 80, small { biases = false, tied_embeddings = true }:parameters().total)
    assert.equal(3 * (256 + 384 + 16) + 8 + 160, small { norm = "rmsnorm", gated = true }:parameters().total)
    assert.equal(3 * (64 * 3 + 256 + 16) + 8 + 160, small { norm = "rmsnorm", kv_heads = 1 }:parameters().total)
    assert.equal(small():parameters().total + 4 * 8, small { positions = "learned" }:parameters().total)
  end)

  it("counts all experts, and those active for a token", function()
    local count = small { norm = "rmsnorm", experts = { count = 4, top_k = 2, ffn = 5, shared = 1, shared_ffn = 3,
      shared_gate = true, router_bias = true, dense_layers = { 2 } } }:parameters()
    local attention, norms, tables = 3 * 256, 3 * 16 + 8, 160
    local sparse = 2 * 8 * 3 + 8 + 4 * 8 + 4 -- shared expert, its gate, router and its bias
    local rest = attention + norms + tables + 256 + 2 * sparse
    assert.equal(rest + 2 * 4 * 80, count.total)
    assert.equal(rest + 2 * 2 * 80, count.active)
    assert.equal(2 * 2 * 80, count.active_experts)
  end)

  it("refuses counts beyond doubles", function()
    local huge = small { hidden = 1 << 31, heads = 1, ffn = 1 << 31 }
    local ok, message = pcall(function() return huge:parameters(), nil end)
    assert.is_false(ok)
    assert.matches("^spec/parameters_spec.lua:%d+: .*more than can be counted", message)
  end)
end)

describe("flops_per_token", function()
  it("is 6 N + 12 L H Q T (PaLM, appendix B)", function()
    local m = tperf.model "palm-540b"
    local flops = m:flops_per_token { causal = false }
    assert.equal(6 * m:parameters().total + 12 * 118 * 48 * 256 * 2048, flops.total)
    assert.equal(flops.total / 3, m:flops_per_token({ causal = false, backward = false }).total)
  end)

  it("counts the pairs of tokens that the model needs, unless told otherwise", function()
    local function attention(name, options) return tperf.model(name):flops_per_token(options).attention end
    for _, name in ipairs { "llama-3.1-70b", "gemma-2-27b", "deepseek-v3" } do
      assert.equal(attention(name, { causal = true }), attention(name))
      assert.is_true(attention(name) < attention(name, { causal = false }))
    end
    assert.equal(12 * 80 * 64 * 128 * 8192 / 2, attention("llama-3.1-70b", { seq = 8192 }))
    for _, name in ipairs { "vit-22b", "subramanian2024/vit_era5" } do
      assert.equal(attention(name, { causal = false }), attention(name))
    end
  end)

  it("agrees with Megatron-LM's formula (arXiv 2104.04473, section 5.1), without recomputation", function()
    local m = tperf.model "megatron-530b"
    local s, l, h, v = 2048, 105, 20480, 51200
    local published = 72 * l * h ^ 2 * (1 + s / (6 * h) + v / (12 * l * h))
    assert.near(1, m:flops_per_token { convention = "matmul", causal = false }.total / published, 1e-4)
  end)

  it("agrees with DeepSeek's own figures at 4096 tokens (arXiv 2505.09343, table 2), on active parameters", function()
    for name, published in pairs { ["deepseek-v2"] = 155e9, ["deepseek-v3"] = 250e9 } do
      local flops = tperf.model(name):flops_per_token { seq = 4096, causal = true, convention = "matmul" }
      assert.near(1, flops.total / published, 0.005)
    end
  end)

  it("counts no more keys than a window holds", function()
    local full, windowed = small { seq = 64 }, small { seq = 64, window = { size = 16, pattern = "wff" } }
    local of = function(m, causal) return m:flops_per_token { causal = causal or false }.attention end
    assert.equal(12 * 3 * 8 * 64, of(full))
    assert.equal(12 * 8 * (16 + 64 + 64), of(windowed))
    assert.equal(of(full) / 2, of(full, true))
    assert.equal(12 * 8 * (16 - 16 * 16 / 128 + 32 + 32), of(windowed, true))
    assert.equal(of(full), of(small { seq = 64, window = { size = 1000 } }))
  end)

  it("counts the scan of a recurrent layer, and no attention", function()
    local flops = tperf.model "mamba2-2.7b":flops_per_token { backward = false }
    assert.equal(0, flops.attention)
    -- per token and layer: C B^T 2 q n, with X 2 q d, states in and out 4 n d (d = 5120)
    assert.equal(64 * (2 * 256 * 128 + 5120 * (2 * 256 + 4 * 128)), flops.scan)
  end)

  it("refuses nonsense by name", function()
    assert.error_matches(function() small():flops_per_token { seq = 0 } end, "'seq' must be an integer")
    assert.error_matches(function() small():flops_per_token { sequence = 8 } end, "unknown field 'sequence'")
    -- Megatron-LM's num_floating_point_operations counts multi-token prediction: 6 for each weight of the module's
    -- layer (4 x 64^2, 3 x 64 x 256, two norms), of its projection of 128 to 64, of three norms, and of the head; and
    -- three times 4 x 64 FLOPs for each of the 64 keys that a query sees on average.
    local m = tperf.model { name = "small", layers = 2, hidden = 64, heads = 4, ffn = 256, vocab = 1000, gated = true,
      norm = "rmsnorm", tied_embeddings = false, seq = 128, mtp = 1 }
    local function total(convention)
      return m:flops_per_token { seq = 128, causal = true, convention = convention }.total
    end
    local module = 4 * 64 ^ 2 + 3 * 64 * 256 + 2 * 64 + 128 * 64 + 3 * 64
    assert.equal(6 * (module + 64 * 1000) + 3 * 4 * 64 * 64, total "megatron" - total "matmul")
    assert.error_matches(function() small():flops_per_token { convention = "plam" } end, "did you mean 'palm'")
  end)
end)
