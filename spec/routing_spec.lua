-- How unequally experts are loaded in training, by hand: the rows of the busiest GPU over the mean.
local tperf = require "tperf"

local MODEL <const>, EXPERTS <const>, TOP_K <const> = "qwen3-30b-a3b", 128, 8

local function trained(changes)
  local o = { model = MODEL, system = "h100-sxm", gpus = 8, ep = 8, global_batch = 8, seq = 4096 }
  for name, value in pairs(changes) do o[name] = value end
  return tperf.train(o)
end

local function op_of(c, name)
  for _, one in ipairs(c.layers) do
    if one.name == name then return one end
  end
end

-- The experts' products, over those of equal loads.
local function load_of(changes)
  local even = { routing = "balanced" }
  for name, value in pairs(changes) do
    if name ~= "routing" and name ~= "imbalance" then even[name] = value end
  end
  local one, other = op_of(trained(changes), "fc1"), op_of(trained(even), "fc1")
  return one.forward.tensor_flops / other.forward.tensor_flops
end

-- Loads are whole 256ths.
local function near(expected, got) assert.near(math.ceil(256 * expected) / 256, got, 1e-9) end

describe("the load of experts", function()
  -- The largest of 8 and of 4 standard normal numbers (Harter 1961), for GPUs of 16 and of 32 experts each, whose loads
  -- deviate by the Gini coefficient x sqrt(pi) (arXiv 2605.20982).
  local OF_8 <const>, OF_4 <const> = 1.4236, 1.0294

  it("is that of pre-training on text unless the question says otherwise", function()
    near(1 + 0.195 * math.sqrt(math.pi / 16) * OF_8, load_of {})
    near(1 + 0.195 * math.sqrt(math.pi / 32) * OF_4, load_of { gpus = 4, ep = 4, global_batch = 4 })
    near(1 + 0.31 * math.sqrt(math.pi / 16) * OF_8, load_of { routing = "mock" })
    assert.equal(1, load_of { routing = "balanced" })
    assert.equal(1, load_of { ep = 1 }) -- each GPU has all experts
    assert.equal(1, load_of { software = "none" }) -- the formulas alone
  end)

  it("is that of servers in fine-tuning, which adapters and preferences are", function()
    local sum, squares = 0, 0
    for i = 1, EXPERTS do sum = sum + i ^ -0.8 end
    for i = 1, EXPERTS do squares = squares + (TOP_K * i ^ -0.8 / sum) ^ 2 end
    assert.is_true(TOP_K / sum < 1) -- no expert has every token
    local deviation = math.sqrt(squares / EXPERTS - (TOP_K / EXPERTS) ^ 2) / (TOP_K / EXPERTS)
    near(1 + deviation / math.sqrt(16) * OF_8, load_of { routing = "finetuning" })
    for _, change in ipairs { { peft = { kind = "lora" } }, { objective = "dpo" } } do
      local own, same = trained(change), trained { peft = change.peft, objective = change.objective,
        routing = "finetuning" }
      assert.equal(same.time, own.time)
      assert.is_true(own.time > trained { peft = change.peft, objective = change.objective,
        routing = "pretraining" }.time)
    end
  end)

  it("is what the question states, for products, exchanges and memory alike", function()
    local one, two = trained { imbalance = 1 }, trained { imbalance = 2 }
    for _, name in ipairs { "fc1", "silu", "fc2" } do
      assert.near(2, op_of(two, name).saved_bytes / op_of(one, name).saved_bytes, 1e-9)
    end
    assert.near(2, op_of(two, "fc2").forward.tensor_flops / op_of(one, "fc2").forward.tensor_flops, 1e-9)
    assert.near(2, op_of(two, "dispatch").forward.comms[1].bytes / op_of(one, "dispatch").forward.comms[1].bytes, 1e-9)
    assert.is_true(two.memory.activations > one.memory.activations)
    assert.near(1.5, load_of { imbalance = 1.5, routing = "finetuning" }, 1e-9)
  end)

  it("is exactly that of a capacity factor, or of the model", function()
    local limited = tperf.model(MODEL):with { experts = { capacity_factor = 1.25 } }
    local skewed = tperf.model(MODEL):with { experts = { imbalance = 1.75 } }
    assert.equal(1, load_of { model = limited, imbalance = 3 })
    assert.near(1.75, op_of(trained { model = skewed }, "fc1").forward.tensor_flops
      / op_of(trained { imbalance = 1 }, "fc1").forward.tensor_flops, 1e-9)
  end)

  it("is balanced in pre-training where routers have a bias for that, as DeepSeek-V3's", function()
    local biased = tperf.model(MODEL):with { experts = { router_bias = true } }
    assert.equal(1, load_of { model = biased })
    assert.is_true(load_of { model = biased, routing = "pretraining" } > 1)
    assert.is_true(load_of {} > 1)
  end)

  it("is refused of a model without experts", function()
    for name, value in pairs { routing = "balanced", imbalance = 2 } do
      assert.error_matches(function() trained { model = "llama-3.1-8b", ep = 1, [name] = value } end,
        "'" .. name .. "' says how experts are loaded, and model 'llama%-3.1%-8b' has none")
    end
  end)

  it("is forced to be equal by launch files that say so", function()
    local function routing(text)
      local launch = tperf.import.launch { files = { { name = "run.sh", text = text } }, given = { gpus = 8 } }
      return tperf.import.arguments(launch).routing
    end
    local megatron = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 "
      .. "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1 "
      .. "--global-batch-size 8 --vocab-size 1024 --num-experts 8 --moe-router-topk 2 --bf16 "
      .. "--moe-token-dispatcher-type alltoall --expert-model-parallel-size 8 "
    assert.is_nil(routing(megatron))
    assert.equal("mock", routing(megatron .. "--mock-data"))
    assert.equal("balanced", routing(megatron .. "--moe-router-force-load-balancing --mock-data"))
    local swift = " --model Qwen/Qwen3-30B-A3B --max_length 4096 --packing true --expert_model_parallel_size 4 "
      .. "--micro_batch_size 1 --global_batch_size 16"
    assert.equal("finetuning", routing("NPROC_PER_NODE=8 megatron sft" .. swift))
    assert.is_nil(routing("NPROC_PER_NODE=8 megatron pt" .. swift))
  end)
end)

describe("a launch file", function()
  local OPTIONS <const> = { megatron = "--moe-router-force-load-balancing",
    ["megatron-bridge"] = "model.moe_router_force_load_balancing = True",
    torchtitan = "moe_force_load_balance = true" }

  it("forces equal loads where the configuration has them", function()
    for stack, option in pairs(OPTIONS) do
      for _, routing in ipairs { "balanced", "pretraining", "finetuning" } do
        local c = trained { routing = routing, zero = stack == "torchtitan" and 3 or 1, software = "typical" }
        local text = tperf.report.launch(c, stack, { model = MODEL, seq = 4096 })
        assert.equal(routing == "balanced", text:find(option, 1, true) ~= nil, stack .. " " .. routing)
      end
    end
  end)
end)

describe("experts in a loop of Python", function()
  it("take so many calls each, and twice as many backward", function()
    local LAYERS <const>, CALL <const> = 48, 23e-6
    local hf = tperf.software "transformers-4"
    assert.equal(11, hf.expert_calls)
    local function time(calls)
      return tperf.train { model = MODEL, system = "h100-sxm", gpus = 1, global_batch = 1, seq = 128,
        software = hf:with { expert_calls = calls } }.time
    end
    -- Forward, one call of a module and 11 of PyTorch for each other one, instead of two products for each expert;
    -- backward, twice 11, instead of two gradients of two products.
    local forward = 11 * EXPERTS - 1 - 2 * (EXPERTS - 1)
    local backward = 2 * 11 * EXPERTS - 1 - 4 * (EXPERTS - 1) - 3 -- one module's call less, of three
    local slowness = tperf.system "h100-sxm".host.slowness or 1
    assert.near(LAYERS * (forward + backward) * CALL * slowness, time(11) - time(0), 1e-6)
  end)
end)
