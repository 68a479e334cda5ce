-- Tables of rates that engines reach on any device: what their modes, precisions and engines stand for.
local program = require "program"
local tperf = require "tperf"

local HEADER <const> = "source,gpu,gpus,engine,engine_version,model,precision,kv_dtype,tp,pp,dp,concurrency,mode,isl,"
  .. "osl,out_tokens_s,prefill_tokens_s,ttft_s,tpot_s,e2e_s,spec_decode,disagg,quality,notes"

local function read(rows)
  local path = program.temporary ".csv"
  program.write(path, HEADER .. "\n" .. table.concat(rows, "\n") .. "\n")
  local result = tperf.validate { file = path }
  os.remove(path)
  local by = {}
  for _, case in ipairs(result.cases) do by[case.row.source .. " " .. case.metric] = case.predicted end
  return by, result
end

describe("tables of rates", function()
  it("read prompts and single streams of llama.cpp", function()
    local by = read {
      "decode,3090 24GB,1,llama.cpp,May 2024,Llama-3-8B,F16 (14.96 GB),,,1,,1,decode of 128 tokens,,128,46,,,,,,,A,",
      "prompt,3090 24GB,1,llama.cpp,May 2024,Llama-3-8B,Q4_K_M (4.58 GB),,,1,,1,"
        .. '"prefill of 1,024 tokens",1024,,,4000,,,,,,A,',
    }
    -- All weights but the input's table are read for each token: 15.0 GB at 936 GB/s, and no more than half besides.
    local least = 2 * (8030261248 - 128256 * 4096) / 936e9
    assert.is_true(by["decode TPOT"] > least and by["decode TPOT"] < 1.5 * least)
    -- 71 TFLOP/s: two FLOP a weight and token, but for the tables.
    local most = 71e12 / 2 / (8030261248 - 2 * 128256 * 4096)
    assert.is_true(by["prompt prefill"] < 1.1 * most and by["prompt prefill"] > most / 2)
  end)

  it("price a prompt after others by its own tokens alone", function()
    local row = "%s,Strix Halo,1,llama.cpp llama-bench,b9187 rocm,Llama-3-8B,Q8_0; 7.95 GiB,,,,,1,%s,512,,,500,,,,,,A,"
    local by = read { row:format("first", "prefill of 512 tokens"),
      row:format("later", "prefill of 512 tokens after 4096") }
    assert.is_true(by["later prefill"] < by["first prefill"] and by["later prefill"] > by["first prefill"] / 2)
  end)

  it("answer batches and closed loops by Little's law", function()
    local by = read {
      "loop,MI300X,8,vLLM,0.11.0,Llama-3.1-70B,fp8,fp8,8,1,,16,closed loop,1024,256,1000,,,0.01,3,no,no,B,",
      "batch,MI300X,8,vLLM,0.11.0,Llama-3.1-70B,fp8,fp8,8,1,,16,static batch,1024,256,1000,,,0.01,3,no,no,B,",
    }
    assert.near(16 * 256 / by["batch E2E"], by["batch throughput"], 0.01 * by["batch throughput"])
    assert.near(16 * 0.9 * 256 / by["loop E2E"], by["loop throughput"], 0.1 * by["loop throughput"])
  end)

  it("say why rows are left out", function()
    local _, result = read {
      "a,MI300X,8,vLLM,0.11.0,Llama-3.1-70B,fp8,fp8,8,1,,16,static batch,1024,256,1000,,,0.01,3,yes,no,B,",
      "a,MI300X,8,vLLM,0.11.0,Llama-3.1-70B,fp8,fp8,8,1,,16,static batch,1024,256,1000,,,0.01,3,no,yes,B,",
      "a,MI300X,8,vLLM,0.11.0,Llama-3.1-70B,xyz,fp8,8,1,,16,static batch,1024,256,1000,,,0.01,3,no,no,B,",
      "a,Abacus,8,vLLM,0.11.0,Llama-3.1-70B,fp8,fp8,8,1,,16,static batch,1024,256,1000,,,0.01,3,no,no,B,",
    }
    local said = {}
    for i, left in ipairs(result.left_out) do said[i] = left.reason end
    table.sort(said)
    assert.same({ "'xyz' in column precision is not known", "no system describes the GPU Abacus",
      "pools of their own for prefill and decoding", "speculation, whose acceptance the row does not tell" }, said)
  end)
end)
