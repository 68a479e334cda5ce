-- `tperf calibrate --software` for serving: recovers the host times of an engine from runs made by tperf.serve.
local tperf = require "tperf"
local engine = require "tperf.measured.calibrate.engine"
local program = require "program"

local TRUE <const> = { step = 1.2e-3, step_parallel = 0.8e-3, request = 4e-5 }

-- A table of static batches on an engine with these host times, each measurement up to 2 % off.
local function table_of()
  local lines = { "id,source,date,gpu,gpus,engine,engine_version,model,weight_dtype,kv_dtype,tp,pp,ep,dp,batch,mode,"
    .. "input_len,output_len,metric,value,quality" }
  for i, batch in ipairs { 1, 4, 16, 48, 1, 4, 16, 48, 1, 4, 16, 48 } do
    local tp, output = 1 + i % 2, 40 + 10 * (i // 4)
    local r = tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", software = "vllm-0.6", tp = tp,
      load = { concurrency = batch }, count = batch, prompt = 100, output = output,
      host = { step = TRUE.step + (tp > 1 and TRUE.step_parallel or 0), request = TRUE.request } }
    lines[i + 1] = ("r%d,test,2024-11,H100-SXM-80GB,%d,vLLM,0.6.3,meta-llama/Llama-3.1-8B,bf16,bf16,%d,1,1,1,%d,static "
      .. "batch,100,%d,e2e_latency_s,%.9g,A"):format(i, tp, tp, batch, output,
      r.duration * (1 + 0.02 * ((7 * i) % 5 - 2) / 2))
  end
  return table.concat(lines, "\n") .. "\n"
end

describe("the fit of an engine's profile", function()
  it("recovers host times, and reports the error on held-out runs", function()
    local folder = program.folder()
    local path = folder .. "/runs.csv"
    program.write(path, table_of())
    local samples, names = engine.samples { path }
    assert.are.same({ "vllm-0.6" }, names)
    local result = engine.fit(tperf.software "vllm-0.6", samples["vllm-0.6"])
    assert.equal(12, result.rows)
    assert.near(TRUE.step, result.values.step, 0.25e-3)
    assert.near(TRUE.step_parallel, result.values.step_parallel, 0.25e-3)
    assert.near(TRUE.request, result.values.request, 1e-5)
    assert.truthy(result.fitted.median <= 0.02 and result.held.median <= 0.03, result.held.median)
    assert.truthy(result.held.spread[1] < 1 and result.held.spread[2] > 1)
    program.write(folder .. "/made.yaml", engine.text(tperf.software "vllm-0.6", result))
    local made = tperf.software(folder .. "/made.yaml")
    assert.near(result.values.step, made.engine.step, 1e-9)
    assert.near(result.held.spread[2], made.spread[2], 0.01)
    assert.equal(tperf.software "vllm-0.6".engine.front_end, made.engine.front_end)
    program.remove(folder)
  end)

  it("says why it writes no profile", function()
    local folder = program.folder()
    local head, first = table_of():match "^(.-\n)(.-\n)"
    program.write(folder .. "/few.csv", head .. first)
    local few = program.shell(("tperf calibrate --software %s %s/few.csv"):format(folder, folder))
    assert.matches("vllm%-0%.6: 1 rows that can be predicted, where a fit needs 12: no profile written", few.err)
    program.write(folder .. "/other.csv", head .. first:gsub("vLLM", "another"))
    local other = program.shell(("tperf calibrate --software %s %s/other.csv"):format(folder, folder))
    assert.matches("no row is of an engine with a profile: the columns 'engine' and 'engine_version' name it",
      other.err)
    program.remove(folder)
  end)
end)
