-- `tperf serve` on the command line: deployments, saturation, figures, launch files.
local cases = require "cases"
local program = require "program"

local MODEL <const> = "serve llama-3.1-8b -s h100-sxm --prompt 200..600 --output 10..30 "
local LOAD <const> = " -s h100-sxm --rate 5 --count 30 --prompt 300 --output 50"
local CSV <const> = LOAD .. " --csv"
local ENGINE <const> = [[
#!/bin/bash
TP=${TP:-2}
vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size $TP --data-parallel-size 3 --max-num-seqs 128 \
  --max-num-batched-tokens 4096 --max-model-len 8192 --kv-cache-dtype fp8 --quantization fp8 \
  --gpu-memory-utilization 0.8 --no-enable-prefix-caching --port 8000
]]

local EAGER <const> = "vllm serve meta-llama/Llama-3.1-8B --enforce-eager --block-size 64 --no-async-scheduling "
  .. "--scheduling-policy priority --swap-space 4 --prefill-context-parallel-size 2\n"

local MTP <const> = [[vllm serve m --speculative-config '{"method":"mtp","num_speculative_tokens":2}']] .. "\n"

local function within(run)
  return program.within({ ["engine.sh"] = ENGINE, ["eager.sh"] = EAGER, ["mtp.sh"] = MTP }, function(tperf, folder)
    run(function(arguments)
      if arguments:find "%.%l" then return tperf(arguments) end -- names a file
      return program.ask("tperf " .. arguments)
    end, folder)
  end)
end

local function lines(text)
  local list = {}
  for line in text:gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

describe("tperf serve", function()
  it("finds deployments given limits and a rate, and simulates a given one", function()
    within(function(tperf)
      local limits = "--rate 50 --slo ttft=300ms,tpot=15ms,quantile=0.9 "
      local found = tperf(MODEL .. limits .. "-g 4 --max-num-batched-tokens 4096 --max-num-seqs 256 --top 2 --csv")
      assert.equal(0, found.code, found.err)
      assert.matches("^gpus,strategy,tp,etp,ep,pp,replicas,max_num_seqs,max_num_batched_tokens,", found.out)
      local gpus, tp, replicas = lines(found.out)[2]:match "^(%d+),tensor,(%d+),%d+,1,1,(%d+),256,4096,"
      assert.equal(math.tointeger(gpus), tp * replicas)
      local one = tperf(MODEL .. limits .. ("--tp %s --replicas %s --max-num-batched-tokens 4096 --max-num-seqs 256 "
        .. "--count 500 --csv"):format(tp, replicas))
      assert.equal(0, one.code, one.err)
      assert.matches("^tokens_per_second,", one.out)
      local none = tperf(MODEL .. "--rate 50 --slo tpot=1ms --max-num-seqs 64")
      assert.equal(1, none.code)
      assert.matches("of the requests keep the limits", none.err)
      assert.equal(2, tperf(MODEL .. "--rate 5 --count 10 --gpus 8").code)
    end)
  end)

  it("names options in its refusals", function()
    within(function(tperf)
      local run = "serve llama-3.1-8b -s h100-sxm --tp 1 --prompt 20 --output 5 --count 5 "
      for given, message in pairs {
        ["--rate -1"] = "tperf: --rate must be a number above 0", ["--rate 1 --burst 0"] = "tperf: --burst must be",
        ["--concurrency 0"] = "tperf: --concurrency must be",
        ["--concurrency 1 --think -1s"] = "tperf: --think must be",
        ["--rate 1 --num-gpu-blocks 1"] = "tperf: --num-gpu-blocks must be an integer from 2",
        ["--rate 1 --max-num-seqs 0"] = "tperf: --max-num-seqs must be",
        ["--rate 1 --gpu-memory-utilization 2"] = "tperf: --gpu-memory-utilization must be",
        ["--rate 1 --host step=-1ms"] = "tperf: --host step must be",
        ["--rate 1 --slo ttft=-1s"] = "tperf: --slo ttft must be",
        [""] = "tperf: --trace or --rate or --concurrency is",
      } do
        local r = tperf(run .. given)
        assert.truthy(r.code > 0 and r.err:find(message, 1, true) == 1, given .. ": " .. r.err)
      end
      local bare = tperf "serve --step-time fixed=5ms --rate 1 --prompt 20 --output 5 --slo ttft=500,tpot=0.03s"
      assert.matches("%-%-slo: ttft: a unit is needed, got '500'; write '500ms' or '500s'", bare.err)
      local downwards = tperf("serve --step-time fixed=5ms --rate 1 --count 3 --prompt 20..10 --output 5")
      assert.matches("^tperf: %-%-prompt goes from 20 to 10", downwards.err)
    end)
  end)

  it("reports requests that can never fit, and values that a trace lacks", function()
    within(function(tperf, folder)
      local never = tperf("serve --step-time fixed=5ms --rate 1 --count 3 --prompt 5000 --output 10 "
        .. "--num-gpu-blocks 20")
      assert.equal(0, never.code)
      assert.matches("3 of 3 requests rejected: ", never.err)
      program.write(folder .. "/holes.csv", "arrival,prompt,output\n1,100,10\n2,,20\n")
      local holes = tperf("serve --step-time fixed=5ms --trace holes.csv")
      assert.matches("^tperf: holes.csv:3: 'prompt' is missing", holes.err)
    end)
  end)

  it("finds a deployment's saturation, and prints the Pareto front", function()
    within(function(tperf)
      local most = tperf(MODEL .. "--saturation --slo tpot=12ms --json")
      assert.equal(0, most.code, most.err)
      assert.matches('"rate": [%d.]+', most.out)
      assert.equal(2, tperf(MODEL .. "--saturation --rate 3").code)
      local front = tperf(MODEL .. "--pareto -g 1 --max-num-seqs 32 --max-num-batched-tokens 4096 --csv --plot f.svg")
      assert.equal(0, front.code, front.err)
      assert.matches("^gpus,strategy,tp,etp,ep,pp,max_num_seqs,max_num_batched_tokens,concurrency,"
        .. "tokens_per_second_per_user,tokens_per_second_per_gpu,", front.out)
      assert.equal(6 + 1, #lines(front.out)) -- 1, 2 … 32 at a time: more per user is less in all
    end)
  end)

  it("draws figures as files and in the terminal", function()
    within(function(tperf, folder)
      for name, text in pairs { load = "Latency against load", requests = "decoding", cache = "KV cache in use" } do
        local question = MODEL .. (name == "load" and "" or "--rate 20 --count 50 ") .. "--figure " .. name
        local r = tperf(question .. " --plot figure.svg")
        assert.equal(0, r.code, r.err)
        assert.truthy(program.slurp(folder .. "/figure.svg"):find(text, 1, true), name)
        if cases(name == "cache", true) then
          r = tperf(question)
          assert.equal(0, r.code, r.err)
          assert.truthy(r.out:find(text, 1, true), name)
        end
      end
    end)
  end)

  it("reports cost, energy, memory and intervals in all formats", function()
    within(function(tperf)
      local question = MODEL:gsub("10%.%.30", "mean=20") .. "--rate 20 --count 600 --gpu-hour 3"
      local text = tperf(question).out
      for _, item in ipairs { "mean %+%-", "%$ for 1M output tokens +%d", "energy of an output token +%d" } do
        assert.matches(item, text)
      end
      local csv = lines(tperf(question .. " --csv").out)[1]
      for _, name in ipairs { "cost_generated", "cost_total", "energy_per_token", "ttft_p90_margin" } do
        assert.truthy((csv .. ","):find("," .. name .. ",", 1, true), name)
      end
      local json = tperf(question .. " --json").out
      for _, name in ipairs { "cost", "energy_per_token", "margin", "memory", "throughput_per_gpu" } do
        assert.truthy(json:find('"' .. name .. '"', 1, true), name)
      end
    end)
  end)

  it("takes an engine's command, whole", function()
    within(function(tperf)
      local rest = " --rate 10 --count 30 --prompt 300 --output 50 --csv"
      local from = tperf("serve --from engine.sh -s h100-sxm" .. rest)
      assert.equal(0, from.code, from.err)
      local typed = tperf("serve llama-3.1-8b -s h100-sxm --tp 2 --replicas 3 --max-num-seqs 128 "
        .. "--max-num-batched-tokens 4096 --max-model-len 8192 --kv-dtype fp8 --weight-dtype fp8 --compute-dtype fp8 "
        .. "--gpu-memory-utilization 0.8 --no-enable-prefix-caching" .. rest)
      assert.equal(typed.out, from.out)
      assert.equal("changes neither time nor memory: --port (of the HTTP server)", lines(from.err)[2])
      local other = tperf("serve --from engine.sh -s h100-sxm --set TP=1" .. rest)
      assert.equal(0, other.code, other.err)
      assert.are_not.equal(from.out, other.out)
      local memory = tperf "memory --from engine.sh -s h100-sxm --csv"
      assert.equal(0, memory.code, memory.err)
      assert.matches("^weights,buffers,cache,total,capacity,num_blocks,tokens\n", memory.out)
      assert.matches("this launch of vLLM serves: tperf serve reads it",
        tperf("train --from engine.sh -s h100-sxm").err)
      local infer = tperf "infer --from engine.sh -s h100-sxm -p 300 -n 50 --csv"
      assert.equal(0, infer.code, infer.err)
    end)
  end)

  it("takes what a command says of CUDA graphs, blocks and scheduling, and says what it leaves out", function()
    within(function(tperf)
      assert.matches("known, but not in the prediction: prefill-context-parallel-size 2; --ignore",
        tperf("serve --from eager.sh" .. CSV).err, 1, true)
      local read = tperf("serve --from eager.sh --ignore prefill-context-parallel-size" .. CSV)
      assert.matches("changes neither time nor memory: --swap-space (host memory for requests that wait)", read.err, 1,
        true)
      assert.matches("not in the prediction: prefill-context-parallel-size 2", read.err, 1, true)
      local typed = tperf("serve llama-3.1-8b --enforce-eager --block-size 64 --no-async-scheduling "
        .. "--scheduling-policy priority" .. CSV)
      assert.equal(typed.out, read.out)
      local function tpot(options)
        local all = lines(tperf("serve llama-3.1-8b --json" .. options .. LOAD).out)
        return tonumber(table.concat(all):match '"tpot": {.-"mean": ([%d.e+-]+)')
      end
      assert.is_true(tpot " --enforce-eager" > 2 * tpot "") -- the host launches every kernel
    end)
  end)

  it("drafts tokens as a command says, if it is told how many are accepted", function()
    within(function(tperf)
      local plain = tperf("serve llama-3.1-8b --from mtp.sh" .. CSV)
      assert.matches("not in the prediction: speculative decoding: %-%-acceptance says", plain.err)
      local drafted = tperf("serve llama-3.1-8b --from mtp.sh --acceptance 0.9" .. CSV)
      assert.equal(0, drafted.code, drafted.err)
      assert.equal(tperf("serve llama-3.1-8b --speculation mtp:2 --acceptance 0.9" .. CSV).out, drafted.out)
      assert.are_not.equal(plain.out, drafted.out)
      assert.equal(drafted.out, tperf("serve llama-3.1-8b --speculation nextn:2 --acceptance 0.9" .. CSV).out)
      for options, message in pairs {
        ["--speculation eagle"] = "METHOD:N is needed, such as eagle:3",
        ["--speculation medusa:2"] = "METHOD:N is needed, such as eagle:3",
        ["--speculation eagle:3"] = "%-%-speculation needs %-%-acceptance",
        ["--acceptance 0.9"] = "%-%-acceptance goes with %-%-speculation",
        ["--speculation mtp:1 --acceptance 2"] = "%-%-acceptance must be",
      } do
        assert.matches(message, tperf("serve llama-3.1-8b " .. options .. CSV).err)
      end
    end)
  end)

  it("writes a command that it reads back as the same deployment", function()
    within(function(tperf)
      local settings = "--tp 2 --max-num-seqs 64 --max-num-batched-tokens 512 --max-model-len 4096 "
        .. "--no-enable-prefix-caching"
      local rest = " -s h100-sxm --rate 10 --count 12 --prompt 300 --output 20 --csv"
      for _, stack in ipairs(cases({ "vllm", "tensorrt-llm" }, { "vllm", "sglang", "tensorrt-llm" })) do
        local plain = tperf("serve llama-3.1-8b --software " .. stack .. " " .. settings .. rest).out
        local written = tperf(MODEL .. settings .. " --launch " .. stack .. " > out." .. (stack == "tensorrt-llm"
          and "yaml" or "sh"))
        assert.equal(0, written.code, written.err)
        local read = tperf("serve llama-3.1-8b --from out." .. (stack == "tensorrt-llm" and "yaml" or "sh") .. rest)
        assert.equal(0, read.code, read.err)
        assert.equal(plain, read.out, stack)
      end
      local written = tperf(MODEL .. "--software vllm --front-ends 2 --launch vllm > fronts.sh && cat fronts.sh")
      assert.matches("--api-server-count 2", written.out, 1, true)
      local burst = " -s h100-sxm --concurrency 40 --count 40 --prompt 300 --output 4 --csv"
      local two = tperf("serve llama-3.1-8b --from fronts.sh" .. burst).out
      assert.equal(tperf("serve llama-3.1-8b --software vllm --front-ends 2" .. burst).out, two)
      assert.not_equal(tperf("serve llama-3.1-8b --software vllm" .. burst).out, two)
      assert.matches("has one front end", tperf(MODEL .. "--front-ends 2 --launch tensorrt-llm").err, 1, true)
      local mixed = "--software sglang --tp 2 --enable-mixed-chunk --gpu-memory-utilization 0.5 "
        .. "--max-num-batched-tokens 128"
      written = tperf(MODEL .. mixed .. " --launch sglang > mixed.sh && cat mixed.sh")
      assert.matches("%-%-enable%-mixed%-chunk", written.out)
      assert.matches("%-%-mem%-fraction%-static 0.5", written.out)
      assert.equal(tperf("serve llama-3.1-8b " .. mixed .. rest).out,
        tperf("serve llama-3.1-8b --from mixed.sh" .. rest).out)
      local other = tperf("serve llama-3.1-8b --from mixed.sh --software vllm" .. rest)
      assert.matches("not in the prediction: what SGLang schedules otherwise than vllm", other.err)
      local all = tperf(MODEL .. settings .. " --gpu-memory-utilization 0.8 --weight-dtype fp8 --launch vllm")
      assert.matches("%-%-gpu%-memory%-utilization 0.8", all.out)
      assert.matches("%-%-quantization fp8", all.out)
      assert.matches("%-%-no%-enable%-prefix%-caching", all.out)
      local shared = tperf "serve mixtral-8x7b -s h100-sxm --tp 4 --ep 4 --launch vllm"
      assert.matches("%-%-enable%-expert%-parallel", shared.out, shared.err)
      local best = tperf(MODEL .. "--rate 20 --slo tpot=15ms -g 2 --max-num-seqs 64 --max-num-batched-tokens 4096 "
        .. "--launch vllm")
      assert.equal(0, best.code, best.err)
      assert.matches("vllm serve MODEL", best.out)
    end)
  end)
end)
