-- Megatron's lists by layer, and the facts of a model that its arguments say. Lists are what Python makes of them; the
-- models' numbers are worked out by hand.
local layer_list = require "tperf.import.launch.layer_list"
local tperf = require "tperf"

local function digits(text)
  local list = layer_list.of(text)
  return type(list) == "table" and table.concat(list) or list
end

describe("a list by layer", function()
  -- Of the help of --moe-layer-freq and --window-attn-skip-freq, of scripts, and of Python's own rules.
  for text, expected in pairs {
    ["([1]*3+[0]*1)*3"] = "111011101110", ["([0]+[1]*23)"] = "0" .. ("1"):rep(23), ["([1]*3+[0]*2)*2"] = "1110011100",
    ["[0]*3+[1]*58"] = "000" .. ("1"):rep(58), ["([0,1]*24)"] = ("01"):rep(24), ["[0, 1, 1]"] = "011", ["1"] = 1,
    ["'([1]*3+[0]*1)*6'"] = ("1110"):rep(6), ["3*[0]+2*[1]"] = "00011", ["([1]*2+[0]*1)*2+[1]*2"] = "11011011",
    ["[1]*(2+1)"] = "111", ["[1]*2*2"] = "1111", ["2*3"] = 6, ["[]+[1,]"] = "1", ["[1]*0"] = "", ["( ( 4 ) )"] = 4,
  } do
    it("is what Python makes of it: " .. text, function() assert.equal(expected, digits(text)) end)
  end

  for text, message in pairs {
    ["[1]+1"] = "a number and a list are added", ["[1]*[2]"] = "two lists are multiplied", ["[1"] = "']' is missing",
    ["every"] = "a number or a list is missing", ["[[1]]"] = "a list within a list", ["[1]*99999"] = "more than 65536",
    [("("):rep(40)] = "nested too deep", ["[1]*3)"] = "is not understood", [""] = "a number or a list is missing",
    ["9999999999"] = "is too large",
  } do
    it("is refused, with what is wrong: " .. text:sub(1, 12), function()
      local value, why = layer_list.of(text)
      assert.is_nil(value)
      assert.matches(message, why, 1, true)
    end)
  end
end)

local BASE <const> = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --bf16 "
  .. "--num-attention-heads 16 --micro-batch-size 1 --global-batch-size 8 --seq-length 4096 --vocab-size 32000 "
  .. "--normalization RMSNorm --position-embedding-type rope "

local function model_of(flags)
  local launch = tperf.import.launch { files = { { name = "run.sh", text = BASE .. flags .. "\n" } } }
  return tperf.model(tperf.import.arguments(launch).model)
end

-- The layers with experts of a model of 24, as zeros and ones.
local function mixture(flags)
  local m, list = model_of("--disable-bias-linear --num-experts 8 --moe-ffn-hidden-size 512 " .. flags), {}
  local dense = m.experts.dense_layers
  for i = 1, 24 do list[i] = 1 end
  for i = 1, type(dense) == "number" and dense or 0 do list[i] = 0 end
  for _, i in ipairs(type(dense) == "table" and dense or {}) do list[i] = 0 end
  return table.concat(list)
end

describe("a model of Megatron's arguments", function()
  it("has experts in the layers of --moe-layer-freq", function()
    assert.equal(("1110"):rep(6), mixture "--moe-layer-freq '([1]*3+[0]*1)*6'")
    assert.equal(("01"):rep(12), mixture "--moe-layer-freq '([0,1]*12)'")
    assert.equal("000" .. ("1"):rep(21), mixture "--moe-layer-freq [0]*3+[1]*21")
    assert.equal(("1"):rep(24), mixture "")
    assert.equal(("1000"):rep(6), mixture "--moe-layer-freq 4") -- the first of four
    assert.error_matches(function() mixture "--moe-layer-freq [1]*23" end,
      "run.sh: --moe-layer-freq has 23 elements for 24 layers", 1, true)
    assert.error_matches(function() mixture "--moe-layer-freq every" end, "run.sh: --moe-layer-freq every: a number or",
      1, true)
  end)

  it("has the windows of --window-size", function()
    local function window(flags)
      local w = model_of("--window-size " .. flags).window
      return w and { w.size, w.pattern }
    end
    assert.same({ 4096, "w" }, window "4095,0") -- 4,095 tokens before the query's own
    assert.same({ 128, "w" }, window "'(127, 0)'")
    assert.same({ 1024, "wwwwwf" }, window "1023,0 --window-attn-skip-freq 6") -- every sixth sees everything
    assert.same({ 128, ("wf"):rep(12) }, window "127,0 --window-attn-skip-freq '([1,0]*12)'")
    assert.is_nil(window "-1,0")
    for _, text in ipairs { "128", "128,128", "wide", "-2,0" } do
      assert.error_matches(function() window(text) end, "a causal window is written (tokens before the query, 0)", 1,
        true)
    end
  end)

  it("has the biases, norms, activation and dropout that the arguments say", function()
    local m = model_of "" -- Megatron's defaults: biases of all products, dropout, GELU
    assert.same({ true, true, true, false }, { m.biases.qkv, m.biases.attention_out, m.biases.mlp, m.biases.norm })
    assert.same({ "gelu", false, true, 4096, false }, { m.activation, m.gated, m.dropout, m.ffn, m.qk_norm })
    m = model_of "--disable-bias-linear --add-qkv-bias --qk-layernorm --squared-relu --softmax-type learnable "
    assert.same({ true, false, false }, { m.biases.qkv, m.biases.attention_out, m.biases.mlp })
    assert.same({ true, "relu2", true }, { m.qk_norm, m.activation, m.attention_sinks })
    assert.is_false(model_of("--attention-dropout 0 --hidden-dropout 0").dropout)
    assert.is_true(model_of("--attention-output-gate").attention_gate)
    assert.error_matches(function() model_of "--swiglu --squared-relu" end, "exclude each other")
    assert.error_matches(function() model_of "--softmax-type off-by-one" end, "off-by-one is not modelled", 1, true)
    assert.error_matches(function() model_of "--position-embedding-type relative" end, "relative is not modelled")
  end)

  it("has three matrices in an expert under --quick-geglu, as under --swiglu", function()
    local function weights(flags)
      return model_of("--disable-bias-linear --num-experts 8 --moe-ffn-hidden-size 512 " .. flags):parameters().total
    end
    local plain, gated = weights "", weights "--quick-geglu"
    assert.equal(weights "--swiglu", gated)
    assert.equal(24 * 8 * 1024 * 512, gated - plain) -- one matrix more in each of 8 experts of 24 layers
  end)
end)
