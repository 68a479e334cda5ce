-- --from and --launch on the command line.
local program = require "program"

local SCRIPT <const> = [[
#!/bin/bash
torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers 32 --hidden-size 4096 \
  --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --normalization RMSNorm --vocab-size 32000 \
  --position-embedding-type rope --max-position-embeddings 4096 --disable-bias-linear \
  --attention-dropout 0 --hidden-dropout 0 \
  --untie-embeddings-and-output-weights \
  --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --bf16 \
  --overlap-grad-reduce --overlap-param-gather \
  --micro-batch-size 1 --global-batch-size 64 --seq-length 4096 --lr 3e-4 $EXTRA
]]

-- The table of a run whose file has this model without its name.
local function named(csv) return (csv:gsub(",the launch's model,", ",llama-2-7b,")) end

local function within(run) return program.within({ ["run.sh"] = SCRIPT }, run) end

describe("--from", function()
  it("predicts the file's run, and prints how it was read", function()
    within(function(tperf)
      local from = tperf "train --from run.sh -s h100-sxm --set NNODES=2,EXTRA= --csv"
      assert.equal(0, from.code, from.err)
      local typed = tperf "train llama-2-7b -s h100-sxm -b 64 -g 16 --tp 2 -m 1 --seq 4096 --csv"
      assert.equal(typed.out, named(from.out)) -- the same model, spelled out
      assert.truthy(from.err:find("Megatron-LM: gpus 16, tp 2, pp 1", 1, true))
      assert.truthy(from.err:find("changes neither time nor memory: --lr", 1, true))
    end)
  end)

  it("is priced by the profile of the file's stack, unless another one is asked for", function()
    within(function(tperf, folder)
      program.write(folder .. "/l.toml", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 8192\n')
      local own = tperf "train --from l.toml -s h100-sxm -g 8"
      assert.equal(0, own.code, own.err)
      assert.matches("software torchtitan-2024: ", own.out, 1, true)
      assert.matches("software typical: ", tperf "train --from l.toml -s h100-sxm -g 8 --software typical".out, 1, true)
    end)
  end)

  it("reduces gradients after the backward pass if the script does not say that they overlap", function()
    within(function(tperf, folder)
      program.write(folder .. "/apart.sh", (SCRIPT:gsub("%-%-overlap%-grad%-reduce %-%-overlap%-param%-gather", "")))
      local from = tperf "train --from apart.sh -s h100-sxm --set NNODES=2,EXTRA= --csv"
      local typed = tperf("train llama-2-7b -s h100-sxm -b 64 -g 16 --tp 2 -m 1 --seq 4096 --csv "
        .. "--overlap-grad-reduce no --overlap-param-gather no")
      assert.equal(0, typed.code, typed.err)
      assert.equal(typed.out, named(from.out))
      local one = tperf "search --from apart.sh -s h100-sxm --set NNODES=2,EXTRA= --schedule 1f1b --launch megatron"
      assert.matches("--overlap-grad-reduce", one.out, 1, true) -- which a search decides
    end)
  end)

  it("predicts what the file says also where no option of the command says it", function()
    within(function(tperf, folder)
      program.write(folder .. "/l.toml", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nseq_len = 4096\n'
        .. 'local_batch_size = 1\n[parallelism]\nfsdp_reshard_after_forward = "never"\n') -- not compiled
      program.write(folder .. "/more.sh", (SCRIPT:gsub("%$EXTRA", "--cross-entropy-loss-fusion "
        .. "--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 --ddp-bucket-size 40000000 "
        .. "--no-overlap-p2p-communication --use-precision-aware-optimizer --exp-avg-dtype bf16 "
        .. "--exp-avg-sq-dtype bf16 --overlap-param-gather-with-optimizer-step --first-last-layers-bf16 "
        .. "--fp8-format hybrid")))
      for file, more in pairs { ["l.toml"] = "", ["more.sh"] = " --set NNODES=4" } do
        local one = tperf(("train --from %s -s h100-sxm --set gpus=32%s --json"):format(file, more))
        assert.equal(0, one.code, one.err)
        local library = require "tperf"
        local asked = library.import.arguments(library.import.launch { files = { folder .. "/" .. file },
          given = { gpus = 32, NNODES = 4 } })
        asked.system = "h100-sxm"
        local c = library.train(asked)
        local function value(name) return tonumber(one.out:match(('"%s": ([%%d.e+-]+)'):format(name))) end
        assert.near(c.throughput, value "throughput", 1e-9 * c.throughput)
        assert.near(c.memory.weights, value "weights", 1e-9 * c.memory.weights)
      end
    end)
  end)

  it("takes --gpus where the file does not say how many", function()
    within(function(tperf, folder)
      program.write(folder .. "/l.toml", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n')
      local asked = tperf "train --from l.toml -s h100-sxm"
      assert.equal(1, asked.code)
      assert.matches("l.toml does not say how many GPUs: give it as gpus (--gpus N)", asked.err, 1, true)
      local set = tperf "train --from l.toml -s h100-sxm --set gpus=16 --csv"
      assert.equal(0, set.code, set.err)
      assert.equal(set.out, tperf("train --from l.toml -s h100-sxm -g 16 --csv").out)
      assert.equal(tperf("search --from l.toml -s h100-sxm --set gpus=16 --csv").out,
        tperf("search --from l.toml -s h100-sxm -g 16 --csv").out)
      assert.equal(tperf("train --from run.sh -s h100-sxm --set NNODES=2,EXTRA= --csv").out,
        tperf("train --from run.sh -s h100-sxm -g 16 --set EXTRA= --csv").out)
      local other = tperf "train --from run.sh -s h100-sxm -g 32 --set NNODES=2,EXTRA="
      assert.matches("--gpus is 32, but the axes multiply to 16", other.err, 1, true)
    end)
  end)

  it("asks for missing values, refuses unknown options that may matter, and yields to the command line", function()
    within(function(tperf)
      local one = tperf "train --from run.sh -s h100-sxm"
      assert.equal(1, one.code)
      assert.matches("run.sh does not say NNODES %(for the launcher%): %-%-set NNODES=", one.err)
      one = tperf "train --from run.sh -s h100-sxm --set NNODES=2 --set EXTRA=--moe-unheard-of"
      assert.equal(1, one.code)
      assert.matches("not known, and it may matter: %-%-moe%-unheard%-of; %-%-ignore moe%-unheard%-of", one.err)
      one = tperf "train --from run.sh -s h100-sxm --set NNODES=2,EXTRA=--moe-unheard-of --ignore moe-unheard-of --csv"
      assert.equal(0, one.code, one.err)
      one = tperf "memory --from run.sh -s h100-sxm --set NNODES=2,EXTRA= --recompute full --csv"
      assert.equal(0, one.code, one.err)
      assert.equal(2, tperf "train llama-2-7b -s h100-sxm -b 8 --set A=1".code)
      assert.equal(2, tperf "train --from run.sh -s h100-sxm --set NNODES".code)
      assert.equal(1, tperf "train --from none.sh -s h100-sxm".code)
    end)
  end)

  it("searches with the file's model, batch and GPUs, and writes a launch that is read again", function()
    within(function(tperf, folder)
      local found = tperf "search --from run.sh -s h100-sxm --set NNODES=2,EXTRA= --top 1 --csv"
      assert.equal(0, found.code, found.err)
      local stacks = { "megatron", "megatron-bridge", "torchtitan --zero 3", "deepspeed --sequence-parallel no" }
      for _, stack in ipairs(stacks) do
        local one = tperf("search --from run.sh -s h100-sxm --set NNODES=2,EXTRA= --schedule 1f1b --recompute none "
          .. "--launch " .. stack)
        assert.equal(0, one.code, one.err)
        assert.truthy(#one.out > 300)
      end
      program.write(folder .. "/faster.sh", tperf("search --from run.sh -s h100-sxm --set NNODES=2,EXTRA= "
        .. "--launch megatron").out)
      local again = tperf "train --from faster.sh -s h100-sxm --csv"
      assert.equal(0, again.code, again.err)
      local function time(text)
        local header, row = text:gsub('"[^"]*"', "x"):match "([^\n]*)\n([^\n]*)"
        local before = select(2, header:match "^(.-),time,":gsub(",", ""))
        return tonumber((row:gsub("[^,]*,", "", before + 1):match "^[^,]*"))
      end
      assert.is_true(time(found.out) > 0)
      assert.equal(time(found.out), time(again.out))
    end)
  end)

  -- The lines of a table: those below the rule.
  local function rows_of(out) return out:match "\n─[^\n]*\n(.-)\n%(?%f[^\n%(]" end

  it("finds what is faster for the same numerics as a search does", function()
    within(function(tperf, folder)
      local tail = " -s h100-sxm --set NNODES=2,EXTRA= "
      program.write(folder .. "/fp8.sh", (SCRIPT:gsub("%-%-bf16", "--bf16 --fp8-format hybrid --optimizer sgd "
        .. "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")))
      for _, file in ipairs { "run.sh", "fp8.sh" } do
        local beside = tperf("train --from " .. file .. " --recompute full" .. tail).out:match "Faster on the same.*"
        local searched = tperf("search --top 3 --from " .. file .. tail).out
        assert.truthy(rows_of(searched):find "%d s ")
        assert.equal(rows_of(searched), rows_of(beside))
        assert.equal(file == "fp8.sh", beside:find("fp8-delayed", 1, true) ~= nil)
      end
    end)
  end)

  it("searches the ZeRO stages that the file's stack has", function()
    within(function(tperf, folder)
      program.write(folder .. "/l.toml", '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\n')
      program.write(folder .. "/ds.json", '{ "train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, '
        .. '"bf16": { "enabled": true }, "zero_optimization": { "stage": 3 } }')
      local function stages(words)
        local one, seen = tperf("search --gpus 16 -s h100-sxm --top 60 --json --from " .. words), {}
        assert.equal(0, one.code, one.err)
        for zero in one.out:gmatch '"zero": (%d)' do seen[tonumber(zero)] = true end
        return seen
      end
      assert.same({ [3] = true }, stages "l.toml") -- FSDP shards weights, too
      assert.same({ [1] = true, [3] = true }, stages "ds.json llama-3.1-8b")
      assert.same({ [1] = true }, stages "run.sh --set NNODES=2,EXTRA=")
      assert.same({ [1] = true }, stages "l.toml --zero 1")
      local written = tperf "search --from l.toml --gpus 16 --pp 4 -s h100-sxm --launch torchtitan"
      assert.equal(0, written.code, written.err)
      -- what the stack is not told, and that others were faster
      assert.matches("torchtitan: parameters and states in fp32, products in bf16", written.err, 1, true)
      assert.matches("row %d of the search; those before it are not for this stack: virtual_stages = ", written.err)
    end)
  end)

  it("says what of --set is wrong or without effect, and which option a misspelt one may mean", function()
    within(function(tperf)
      local asked = "train --from run.sh -s h100-sxm --csv --set NNODES=2 --set EXTRA="
      for _, name in ipairs { "seq", "vocab", "micro_batch", "global_batch" } do
        local one = tperf(asked .. " --set " .. name .. "=8k")
        assert.equal(1, one.code)
        assert.matches('must be an integer, got "8k"', one.err, 1, true)
      end
      local unused = tperf(asked .. " --set NODES=2").err
      assert.matches("set, but in none of the files, and so without effect: NODES", unused, 1, true)
      assert.is_nil(tperf(asked).err:find "without effect")
      assert.equal(tperf(asked .. " --seq 2048").out, tperf(asked .. " --set model.seq=2048").out)
      assert.equal(tperf(asked .. " --seq 2048").out, tperf(asked .. " --set seq=2048").out)
      assert.matches("--tensor-modl-parallel-size (did you mean '--tensor-model-parallel-size'?); --ignore",
        tperf(asked .. "--tensor-modl-parallel-size").err, 1, true)
    end)
  end)

  it("serves, with the limits of the engine", function()
    within(function(tperf, folder)
      program.write(folder .. "/serve.sh", "vllm serve $MODEL -tp 4 --max-num-seqs 16\n")
      local from = tperf "infer --from serve.sh --set MODEL=meta/llama-3.1-70b -s h100-sxm -p 512 -n 64 --csv"
      assert.equal(0, from.code, from.err)
      assert.equal(tperf "infer llama-3.1-70b -s h100-sxm --tp 4 -b 16 -p 512 -n 64 --csv".out, from.out)
    end)
  end)
end)

describe("--launch", function()
  local function back(tperf, folder, text, command)
    program.write(folder .. "/back.sh", text)
    return tperf(command:format "back.sh")
  end

  it("writes the configuration that `tperf train` answers for, which is read back as it was", function()
    within(function(tperf, folder)
      local sizes = "llama-2-7b -s h100-sxm -b 64 -g 16 --tp 2 --pp 2 -m 2 --seq 4096 --recompute full"
      local one = tperf("train " .. sizes .. " --launch megatron --tokens 1e9")
      assert.equal(0, one.code, one.err)
      assert.matches("--train-iters 3815", one.out, 1, true) -- 1e9 / (64 x 4096), rounded up
      local typed = tperf("train " .. sizes .. " --csv")
      assert.equal(typed.out, named(back(tperf, folder, one.out, "train --from %s -s h100-sxm --csv").out))
      assert.equal(1, tperf("train " .. sizes .. " --launch nanotrn").code)
    end)
  end)

  it("writes the server that `tperf infer` answers for, or the best one", function()
    within(function(tperf, folder)
      local one = tperf "infer llama-3.1-8b -s h100-sxm --tp 2 -b 16 -p 1024 -n 64 --kv-dtype fp8 --launch vllm"
      assert.equal(0, one.code, one.err)
      assert.matches("--max-num-seqs 16", one.out, 1, true)
      assert.matches("--kv-cache-dtype fp8", one.out, 1, true)
      local read = back(tperf, folder, one.out, "infer llama-3.1-8b --from %s -s h100-sxm -p 1024 -n 64 --csv")
      local typed = tperf "infer llama-3.1-8b -s h100-sxm --tp 2 -b 16 -p 1024 -n 64 --kv-dtype fp8 --csv"
      assert.equal(typed.out, read.out, read.err)
      local best = tperf "infer llama-3.1-8b -s h100-sxm -g 4 -p 1024 -n 64 --launch sglang"
      assert.matches("sglang.launch_server", best.out, 1, true)
      local untold = tperf "infer llama-3.1-8b -s h100-sxm --tp 2 -b 16 -p 1024 -n 64 --attention unfused --launch vllm"
      assert.matches("a launch file is not told --attention", untold.err, 1, true)
    end)
  end)
end)

describe("--stack without a file", function()
  it("chooses the stack's profile, in any of its names, and says which", function()
    within(function(tperf)
      local sizes = "train llama-3.1-8b -s h100-sxm -g 8 -b 16 --csv"
      local one = tperf(sizes .. " --stack nanotron")
      assert.equal(0, one.code, one.err)
      assert.equal(tperf(sizes .. " --software nanotron-2025").out, one.out)
      assert.matches("nanotron: software nanotron-2025\n", one.err, 1, true)
      for _, name in ipairs { "megatron", "megatron-lm", "Megatron-LM" } do
        local other = tperf(sizes .. " --stack " .. name)
        assert.equal(tperf(sizes).out, other.out)
        assert.matches("Megatron-LM: software megatron-core-2026\n", other.err, 1, true)
      end
      local load = "serve llama-3.1-8b -s h100-sxm --concurrency 2 --count 4 --prompt 64 --output 8 --csv"
      assert.equal(tperf(load .. " --software sglang").out, tperf(load .. " --stack sglang").out)
      assert.matches("--stack vllm: vLLM serves", tperf(sizes .. " --stack vllm").err, 1, true)
      assert.equal(1, tperf(sizes .. " --stack megatrn").code)
    end)
  end)
end)
