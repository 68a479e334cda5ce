-- What closed loops' rows do not state, but their table does: copies of other rows, and prompts that were cached.
local conditions = require "tperf.measured.serving.conditions"
local engines = require "tperf.measured.serving.engines"
local program = require "program"
local tperf = require "tperf"

local function row(more)
  local made = { origin = "InferenceX", source = "dump", date = "2026-03-03", model = "M", gpu = "G", tp = "4",
    moe_ep = "4", concurrency = "8", mtp = "no", ttft_s = "0.364412", tpot_s = "0.0120887" }
  for name, value in pairs(more or {}) do made[name] = value end
  return made
end

local function copied(more)
  local made = row { origin = "NVIDIA", source = "gaps", date = "", mtp = "no (assumed)", ttft_s = "0.36441",
    tpot_s = "0.01209" }
  for name, value in pairs(more or {}) do made[name] = value end
  return made
end

describe("a copy of another origin's row", function()
  it("has its times in units of 10 us", function()
    local rows = { row(), copied(), copied { tpot_s = "0.01208" }, copied { concurrency = "16" },
      copied { gpu = "H" }, row { ttft_s = "0.36441" } }
    local copies = conditions.copies(rows)
    assert.same({ false, true, false, false, false, false }, { copies[rows[1]] or false, copies[rows[2]] or false,
      copies[rows[3]] or false, copies[rows[4]] or false, copies[rows[5]] or false, copies[rows[6]] or false })
  end)

  it("tells the conditions of its source's other rows", function()
    local other, far = copied { concurrency = "32" }, copied { tp = "8", concurrency = "32" }
    local rows = { row { mtp = "yes" }, copied(), other, far, copied { source = "else", concurrency = "32" } }
    local _, of = conditions.copies(rows)
    assert.same({ "InferenceX", "yes" }, { of(other) })
    assert.same({ "InferenceX" }, { of(far) }) -- whose layout no copy has
    assert.same({}, { of(rows[5]) })
  end)

  it("is none without times", function()
    local rows = { row { ttft_s = "", tpot_s = "1e400" }, copied { ttft_s = "", tpot_s = "-1" } }
    assert.same({}, (conditions.copies(rows)))
  end)
end)

describe("prompts", function()
  local model = tperf.model "llama-3.1-8b"
  local products = model:parameters().active - 2 * 128256 * 4096

  -- A source of one row, whose requests take so many seconds; 64 in flight of 2,000 and 101 tokens on one GPU.
  local function cached(seconds)
    local made = row { concurrency = "64", isl = "2000", osl_mean = "101", gpus = "1", ttft_s = "0.1",
      tpot_s = tostring((seconds - 0.1) / 100) }
    return conditions.cached({ made }, function() return model, 1e15 end)(made)
  end

  it("were cached if their products would need more of the peak than engines reach", function()
    local at_peak = 2.0 * products * 64 * 2101 / 1e15
    assert.is_true(cached(at_peak))
    assert.is_true(cached(at_peak / 0.76))
    assert.is_false(cached(at_peak / 0.74))
  end)

  it("are predicted as cached in all rows of the source", function()
    local path = os.tmpname()
    local columns = "origin,source,engine,engine_version,date,gpu,gpus,model,precision,mode,mtp,quality,duplicate_of,"
      .. "tp,pp,attention_dp,moe_tp,moe_ep,concurrency,isl,osl,osl_mean,ttft_s,tpot_s\n"
    local function predicted(seconds)
      local function line(c, ttft)
        return ("NVIDIA,sweep,vllm,0.12.0,,NVIDIA H200 SXM 141GB,1,meta-llama/Llama-3.1-8B-Instruct,fp8,agg,no,clean,,"
          .. "1,1,1,1,1,%d,2000,100,100,%s,0.001\n"):format(c, ttft)
      end
      program.write(path, columns .. line(64, seconds) .. line(8, "1"))
      local list = {}
      for _, case in ipairs(tperf.validate { file = path }.cases) do
        if case.metric == "E2E" then list[#list + 1] = case.predicted end
      end
      return list
    end
    local computed, kept = predicted "5", predicted "0.1"
    os.remove(path)
    assert.truthy(kept[1] < 0.6 * computed[1], kept[1] / computed[1])
    assert.truthy(kept[2] <= computed[2] and kept[2] > 0.7 * computed[2]) -- 80 requests of 100 prompts: none repeats
  end)
end)

describe("SGLang's profiles", function()
  it("go by the release, or by the date of a build", function()
    local function of(version, date)
      return engines.profile { engine = "sglang", engine_version = version, date = date }
    end
    assert.equal("sglang-0.5", of("0.5.9", "2026-04-01"))
    assert.equal("sglang-0.5", of("0.5.6.post2", ""))
    assert.equal("sglang-0.5.10", of("0.5.10", "2026-04-01"))
    assert.equal("sglang-0.5.10", of("0.6.0", ""))
    assert.equal("sglang-0.5", of("nightly-dev-20260216-d3bae71e", "2026-02-20"))
    assert.equal("sglang-0.5.5", of("", "2025-11-10"))
    assert.equal("sglang-0.5.5", of("0.5.1.post1", ""))
    assert.equal("sglang-0.5.10", of("nightly-dev-20260402-d7256eb6", "2026-04-08"))
  end)

  it("mix chunks where NVIDIA's templates ask for it", function()
    local function mixed(version)
      local launched = { engine = "sglang", engine_version = version, isl = "1024", model = "Qwen/Qwen3-32B" }
      return engines.launched(launched, 8, "NVIDIA").mixed_chunk
    end
    assert.is_false(mixed "0.5.1.post1")
    assert.is_true(mixed "0.5.6.post2")
    assert.is_true(mixed "0.5.8.post1")
  end)
end)
