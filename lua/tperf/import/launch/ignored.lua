--- Tells which options affect neither the time nor the memory of a step, and which unknown options may.
local ignored = {}

-- Concepts of a run's purpose, output paths and logs.
local CONCEPTS <const> = { run = true, data = true, ["cluster.launcher"] = true }

--- Whether a concept affects neither time nor memory.
function ignored.concept(concept) return CONCEPTS[concept] or CONCEPTS[concept:match "^[^.]+"] or false end

-- Words in option names that refer to paths, seeds, rates and the like.
local WORDS <const> = {}
for word in ([[lr adam sgd beta1 beta2 eps decay warmup seed data dataset datasets path dir directory folder file vocab
  merge tokenizer log logging logger level wandb tensorboard tb save load ckpt checkpoint checkpoints checkpointing
  eval evaluation valid validation test exit timeout profile profiling profiler nsys init initializer host port
  address master url key api template parser chat served trust remote name project run experiment comment seed
  iters steps epochs samples scheduler split workers worker prefetch finetune pretrained dropout clip grad-norm
  weight-decay loss scale hysteresis print dump trace metrics metric monitor comet codecarbon description user
  password mock tiktoken manual interval window watchdog uvicorn ssl cors rdzv rank local-rank hostfile
  bootstrap norm-epsilon rotary rope mscale coeff deterministic rng distributed-timeout strict nan dtype-check
  request metadata reasoning tool download revision usage stats kernel-config mscale-all-dim theta temperature
  impl embedding-multiplier attention-softmax reward learning lr-scheduler min-lr max-lr gradient-clipping cache-path
  dist lighteval s3 upload experimental numa sleep safetensors autotune filter output enable-auto-tool-choice
  meta device synchronize bias-update topk-scaling pre-softmax score mmap mask history algo]]):gmatch "%S+" do
  WORDS[word] = true
end

-- Words in option names that refer to sizes, work or bytes, regardless of other words.
local MATTERS <const> = {}
for word in ([[parallel degree shard sharding micro global batch stage stages virtual layers hidden heads experts expert
  moe seq sequence recompute offload offloading fp8 fp4 quantization quantize quant zero fsdp overlap interleaved
  accumulation replicas replicate ffn dp tp pp cp ep lora speculative mtp context dtype]]):gmatch "%S+" do
  MATTERS[word] = true
end

local EXCEPT <const> = { "eval", "port", "address", "log", "timeout", "rank", "coeff", "aux", "seed", "path", "lb",
  "rpc", "local", "load%-balanc", "router", "checkpoint", "ckpt", "save", "lr", "samples", "iters", "init", "dir",
  "scheduler", "data%-stages", "hidden%-act", "pretraining%-tp", "loss", "rotary", "file", "doc", "unused", "parser",
    "per%-token%-loss", "name", "dist", "dropout" }

--- Whether an option that no table has looks like one that matters.
function ignored.matters(plain)
  for _, pattern in ipairs(EXCEPT) do
    if ("-" .. plain .. "-"):find("[-.]" .. pattern .. "[-.s]") then return false end
  end
  for word in plain:gmatch "[%a%d]+" do
    if MATTERS[word] then return true end
  end
  return false
end

--- Whether an option that no table has changes nothing: by its words, or because it switches something off.
function ignored.option(plain, value)
  if ignored.matters(plain) then return value == false or value == "false" or value == 0 end
  if value == false then return true end
  for word in plain:gmatch "[%a%d]+" do
    if WORDS[word] then return true end
  end
  return false
end

-- Patterns of names that can only be a size by which the step is split or filled.
local SIZES <const> = { "parallel.*size$", "parallel.*degree$", "^train.*batch.*size", "global.*batch", "micro.*batch",
  "virtual.*stage", "virtual.*pipeline", "^seq.*len", "shard.*degree" }

--- Whether an unknown option with this value would change the sizes of the import.
function ignored.is_size(plain, value)
  local number = math.tointeger(tonumber(value))
  if not number or number == 1 or number == 0 or not ignored.matters(plain) then return false end
  for _, pattern in ipairs(SIZES) do
    if plain:find(pattern) then return true end
  end
  return false
end

return ignored
