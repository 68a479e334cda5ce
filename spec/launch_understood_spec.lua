-- Every option of a launch file is read, assumed, ignored for a reason, or refused by name.
local program = require "program"
local tables = require "tperf.import.launch.tables"
local tperf = require "tperf"

local RUN <const> = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --bf16 "
  .. "--num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 8 --vocab-size 32000 "

local function launch_of(text, name)
  return tperf.import.launch { files = { { name = name or "run.sh", text = text } }, given = { gpus = 8 } }
end

local function fates(text)
  local launch, list = launch_of(text), {}
  for fate, entries in pairs(launch.understood) do
    for _, one in ipairs(entries) do list[one.option] = fate end
  end
  for _, one in ipairs(launch.refused) do list[one.option] = "refused" end
  return list
end

describe("a word that belongs to no option", function()
  it("is refused if it may set something", function()
    local function refused(word)
      local launch = tperf.import.launch { stack = "megatron", files = { { name = "run.sh", text =
        "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
        .. "--micro-batch-size 2 --seq-length 64 --bf16 " .. word .. "\n" } } }
      return launch.refused[1] and launch.refused[1].option
    end
    for _, word in ipairs { "@arguments.txt", "model.tensor_model_parallel_size=4", "+trainer.devices=4" } do
      assert.equal(word, refused(word))
    end
    assert.is_nil(refused "--bf16")
  end)
end)

describe("an option of a launch file", function()
  -- Options that decide sizes or work, though their names have words like window, output, path, rope or log.
  for option, fate in pairs {
    ["--window-size 127,0"] = "read", ["--window-size 127,0 --window-attn-skip-freq 2"] = "read",
    ["--attention-output-gate"] = "read", ["--qk-layernorm"] = "read", ["--add-qkv-bias"] = "read",
    ["--quick-geglu"] = "read", ["--softmax-type learnable"] = "read", ["--hidden-dropout 0"] = "read",
    ["--experimental-attention-variant gdn"] = "refused", ["--linear-attention-freq 4"] = "refused",
    ["--heterogeneous-layers-config-path x.json"] = "refused", ["--fp32-residual-connection"] = "refused",
    ["--use-tp-pp-dp-mapping"] = "read", ["--perform-rl-step"] = "refused", ["--output-window 3"] = "refused",
    ["--experimental-path x"] = "refused", ["--log-scale-experts 4"] = "refused", ["--data-rope-split"] = "refused",
    ["--lr 1"] = "ignored", ["--log-interval 4"] = "ignored", ["--data-path a b c"] = "ignored",
    ["--save $DIR"] = "ignored", ["--rotary-base 500000"] = "ignored", ["--rl-default-top-k 4"] = "ignored",
    ["--moe-grouped-gemm"] = "assumed", ["--no-rope-fusion"] = "assumed", ["--timing-log-level 2"] = "assumed",
    ["--make-vocab-size-divisible-by 64"] = "assumed",
  } do
    local name = option:match ".*(%-%-%S+)"
    it(("is %s: %s"):format(fate, option), function() assert.equal(fate, fates(RUN .. option .. "\n")[name]) end)
  end

  it("has one row in its stack's table, with a reason if it changes nothing", function()
    for _, t in ipairs(tables.all()) do
      local seen = {}
      for _, row in ipairs(t.options) do
        local plain = row.option
        if not t.extends then assert.is_nil(seen[plain], t.name .. " " .. plain) end
        seen[plain] = true
        assert.is_false(row.harmless ~= nil and row.assumed ~= nil, plain)
        assert.truthy(row.harmless or row.assumed or row.concept ~= "", t.name .. " " .. plain)
        assert.is_true(#(row.harmless or row.assumed or "reason") > 4, plain)
      end
    end
  end)

  it("takes true and false where it is a switch", function()
    local function parallel(value)
      return launch_of(RUN .. "--tensor-model-parallel-size 2 --sequence-parallel " .. value .. " --lr 1\n")
        .sequence_parallel
    end
    assert.is_true(parallel "")
    assert.is_true(parallel "True")
    assert.is_false(parallel "false")
  end)

  it("is left out on demand, and the answer says so", function()
    program.within({ ["run.sh"] = RUN .. "--lr 1 --moe-grouped-gemm --fp32-residual-connection\n" }, function(ask)
      local one = ask "train --from run.sh -s h100-sxm --json"
      assert.equal(1, one.code)
      assert.matches("known, but not in the prediction: --fp32-residual-connection; --ignore fp32-residual-connection",
        one.err, 1, true)
      one = ask "train --from run.sh -s h100-sxm --json --ignore fp32-residual-connection"
      assert.equal(0, one.code, one.err)
      assert.matches("not in the prediction: --fp32-residual-connection", one.err, 1, true)
      assert.matches("changes neither time nor memory: --lr (a number in the same arithmetic)", one.err, 1, true)
      local record = one.out:match '"understood": (%b{})'
      assert.matches('{"name": "--fp32-residual-connection", "why": "not in the prediction"}', record, 1, true)
      assert.matches('{"name": "--lr", "value": "1", "why": "a number in the same arithmetic"}', record, 1, true)
      assert.matches('{"name": "--moe-grouped-gemm", "value": true, "why": "experts run in grouped kernels', record, 1,
        true)
      assert.matches('"read": ["--num-layers", "--hidden-size",', record, 1, true)
      one = ask "train --from run.sh -s h100-sxm --ignore lr,fp32-residual-connection"
      assert.matches("--ignore lr: the launch has no such option that is not understood", one.err, 1, true)
    end)
  end)

  it("of a server is not taken for harmless either", function()
    local function refused(options)
      local list = {}
      local launch = launch_of("vllm serve Qwen/Qwen3-8B " .. options .. "\n")
      for i, one in ipairs(launch.refused) do list[i] = one.option end
      return list
    end
    assert.same({}, refused "--port 8000 --host 0.0.0.0 --trust-remote-code --served-model-name a b --seed 1")
    assert.same({ "--cpu-offload-gb" }, refused "--cpu-offload-gb 10 --port 8000")
    assert.same({ "--enable-eplb" }, refused "--enable-eplb")
    assert.same({ "--log-window-experts" }, refused "--log-window-experts 4")
  end)

  it("of ms-swift is read by its own names and defaults", function()
    local text = "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 "
      .. "--sequence_parallel true --max_length 8192 --packing true --micro_batch_size 2 --recompute_granularity none "
      .. "--lr 1e-5 --no_save_optim true\n"
    local r = launch_of(text)
    assert.same({ "ms-swift", 8, 2, 4, 8192, 2, 16, 1, true, "none" }, { r.stack, r.gpus, r.tp, r.dp, r.seq,
      r.micro_batch, r.global_batch, r.zero, r.sequence_parallel, r.recompute.granularity })
    assert.same({}, r.refused)
    assert.equal("qwen3-8b", tperf.import.arguments(r).model)
  end)
end)
