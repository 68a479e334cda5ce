-- tperf.compat.llm_analysis as revision 0571436: an even sample of that program's calls and the values it returned,
-- warned or raised (spec/data/llm_analysis/0571436).
local cases = require "llm_analysis_cases"
local program = require "program"
local yaml = require "tperf.core".yaml
local llm_analysis = require "tperf.compat.llm_analysis"
local revisions = require "tperf.compat.llm_analysis.revisions"
local value_of = cases.value_of

local REVISION <const> = "0571436"
local FOLDER <const> = "0571436/"

local models = {}
for _, row in ipairs(cases.rows(FOLDER .. "models")) do
  local model = {}
  for key, text in pairs(row) do model[key] = value_of(text) end
  models[row.name] = model
end

local function request_of(row)
  local request = { revision = REVISION }
  for column, text in pairs(row) do
    local key = column:match "^in_(.*)"
    if key then request[key] = value_of(text) end
  end
  local custom = models[(request.model_name or ""):match "([^/]+)%.json$"]
  if custom then request.model, request.model_name = custom, nil end
  return request
end

local function difference(got, want)
  if got == want and math.type(got) == math.type(want) then return 0 end
  if math.type(got) == "float" and math.type(want) == "float" then return math.abs(got - want) / math.abs(want) end
  return math.huge
end

local function agrees(question)
  local rows = cases.rows(FOLDER .. question)
  assert.is_true(#rows >= 40)
  for _, row in ipairs(rows) do
    local summary, keys = llm_analysis[question](request_of(row)), 0
    for column, text in pairs(row) do
      local key = column:match "^out_(.*)"
      if key then
        keys = keys + 1
        if difference(summary[key], value_of(text)) > 1e-14 then
          error(("%s %s: got %s, want %s"):format(row.meta_id, key, summary[key], text), 0)
        end
      end
    end
    assert.are.equal(row.meta_warnings, table.concat(summary.warnings, " || "), row.meta_id)
    for key in pairs(summary) do
      assert.is_truthy(row["out_" .. key] or key == "warnings" or key == "revision", key .. " is another revision's")
    end
  end
end

local function refuses(question)
  local rows = cases.rows(FOLDER .. question .. "_refused")
  assert.is_true(#rows >= 16)
  for _, row in ipairs(rows) do
    local accepted = pcall(llm_analysis[question], request_of(row))
    assert.is_false(accepted, row.meta_id .. ": " .. row.meta_message)
  end
end

local function refused(question, request, text)
  request.revision = REVISION
  local message = cases.refusal(question, request)
  assert.is_truthy(message:find(text, 1, true), message .. "\nlacks: " .. text)
end

describe("llm_analysis, revision 0571436,", function()
  it("returns upstream's keys, types and warnings for training, and no others", function() agrees "train" end)
  it("returns upstream's keys, types and warnings for inference, and no others", function() agrees "infer" end)
  it("refuses the training that upstream refuses", function() refuses "train" end)
  it("refuses the serving that upstream refuses", function() refuses "infer" end)

  -- Python accepts wrong types that tperf refuses: text, and true for 1. A negative count never makes sense.
  it("takes its own arguments only", function()
    local stricter = { [16] = true, [24] = true, [26] = true, [30] = true, [38] = true, [55] = true }
    local tried = 0
    for _, row in ipairs(cases.rows(FOLDER .. "errors")) do
      local request = yaml(row.input, "errors.csv")
      if not request.model then -- tperf's name of model_name, in both revisions
        request.revision, tried = REVISION, tried + 1
        local accepted, message = pcall(llm_analysis[row["function"]], request)
        local expected = row.exception == "" and not stricter[tonumber(row.n)]
        assert.are.equal(expected, accepted, row.input .. tostring(message))
      end
    end
    assert.is_true(tried > 40)
  end)

  it("names the revision that an argument belongs to", function()
    refused("train", { fwd_prefetch = true }, "'fwd_prefetch' is an argument of revision d841e40, not of 0571436")
    refused("infer", { output_file_prefix = "x" }, "'output_file_prefix' is an argument of revision d841e40")
    refused("train", { fixed = true }, "'fixed' is an argument of revision d841e40")
    refused("train", { activation_recomputation = 3 }, "'activation_recomputation' must be an integer from 0 to 2")
    cases.refused("train", { mlp_gated_linear_units = true },
      "'mlp_gated_linear_units' is an argument of revision 0571436, not of d841e40")
    cases.refused("infer", { revision = "0.2.2" }, "'revision' must be one of d841e40, 0571436")
    cases.refused("infer", { revision = 571436 }, "'revision' must be one of d841e40, 0571436")
  end)

  it("has its own models: none is gated, and a width without a ratio must be a multiple of hidden_dim", function()
    local gated = cases.model { mlp_gated_linear_units = true }
    refused("train", { model = gated }, "unknown field 'mlp_gated_linear_units'")
    refused("train", { model = cases.model { ffn_embed_dim = 5000 } },
      "ffn_embed_dim (5000) must be divisible by hidden_dim (2048)")
    local both = llm_analysis.train { model = cases.model { ffn_embed_dim = 5000, expansion_ratio = 2.5 },
      revision = REVISION }
    assert.are.equal(24 * (4 * 2048 ^ 2 + 2 * 2048 * 5000 + 2 * 2048) + 2048 * 50000 + 2048, both.num_params_total)
  end)

  it("needs all GPUs in one dp_size, and a batch within the largest", function()
    local request = { dp_size = 2, tp_size = 2, total_num_gpus = 8 }
    assert.are.equal(2, llm_analysis.train(request).rdp_size)
    refused("train", request, "total_num_gpus must be equal to dp_size * tp_size * pp_size")
    request = { batch_size_per_gpu = 5 }
    assert.are.equal(5, llm_analysis.train(request).batch_size_per_gpu)
    refused("train", request, "batch_size_per_gpu 5 must be <= max_batch_size_per_gpu 4")
  end)

  it("applies the flag of gated MLPs to a batch of 1 only", function()
    local function kept(batch, gated)
      return llm_analysis.train { revision = REVISION, batch_size_per_gpu = batch, mlp_gated_linear_units = gated,
        mlp_recompute_gelu = true }.activation_memory_mlp_per_gpu
    end
    assert.is_true(kept(1, true) < kept(1, false))
    assert.are.equal(kept(2, false), kept(2, true))
    assert.are.equal(2 * kept(1, false), kept(2, false))
  end)

  it("writes upstream's summaries, byte for byte, into a folder that it makes", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    local examples = {
      { "train", "facebook_opt-13b-a100-sxm-80gb-w16a16e16-tp4-pp1-dp8-sp4-fe0.46-ep1-hbme0.9-suf",
        { model_name = "facebook_opt-13b", gpu_name = "a100-sxm-80gb", tp_size = 4, dp_size = 8, ds_zero = 2,
          flops_efficiency = 0.456, hbm_memory_efficiency = 0.9, total_num_tokens = 100000000000,
          batch_size_per_gpu = 2, activation_recomputation = 1, output_file_suffix = "-suf" } },
      { "train", "facebook_opt-175b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe1-ep1-hbme1-negative",
        { model_name = "facebook_opt-175b", output_file_suffix = "-negative" } },
      { "infer", "upstage_Llama-2-70b-instruct-v2-a100-sxm-80gb-w16a16e16-tp2-pp1-dp1-sp2-fe0.7-ep1-hbme0.9-bs4",
        { model_name = "upstage_Llama-2-70b-instruct-v2", gpu_name = "a100-sxm-80gb", tp_size = 2,
          batch_size_per_gpu = 4, cost_per_gpu_hour = 2.21, flops_efficiency = 0.7, hbm_memory_efficiency = 0.9,
          output_file_suffix = "-bs4" } },
    }
    for i, example in ipairs(examples) do
      local question, name, request = table.unpack(example)
      request.revision, request.output_dir = REVISION, folder .. "/made/" .. i
      llm_analysis[question](request)
      for _, ending in ipairs { "-summary.json", "-summary-readable.txt" } do
        local written = program.slurp(request.output_dir .. "/" .. name .. ending)
        assert.are.equal(cases.read(FOLDER .. name .. ending), written)
      end
    end
  end)

  it("prints numbers without regard to their sign", function()
    local number = revisions.rules[REVISION].number
    local python = require "tperf.compat.llm_analysis.python"
    for _, row in ipairs(cases.rows(FOLDER .. "strings")) do
      local value, digits = tonumber(row.value), tonumber(row.precision)
      local got = row["function"] == "_latency_to_string" and python.duration(value, digits)
        or python.str(number(value, digits, tonumber(row.divisor)))
      assert.are.equal(row.result, got, table.concat({ row["function"], row.value, row.precision, row.divisor }, " "))
    end
  end)

  -- A formula that differs in one revision exists in the other, too: there, or among the formulas of d841e40.
  it("is described by its differences from d841e40 alone", function()
    local newer, older = table.unpack(revisions.differences)
    for name in pairs(newer) do assert.is_not_nil(rawget(older, name), name) end
    for name in pairs(older) do assert.is_not_nil(revisions.rules.d841e40[name], name) end
  end)

  it("answers on the command line, with dashes in names too", function()
    local line = "tperf compat llm-analysis train --revision 0571436 --json "
    local dashed = program.ask(line .. "--tp-size 2 --activation-recomputation=2 --mlp-gated-linear-units true")
    assert.are.equal(0, dashed.code)
    assert.is_truthy(dashed.out:find('"activation_recomputation": "FULL"', 1, true))
    assert.are.equal(dashed.out,
      program.ask(line .. "--tp_size 2 --activation_recomputation 2 --mlp_gated_linear_units true").out)
    local wrong = program.ask(line .. "--activation_recomputation 4")
    assert.are.equal(1, wrong.code)
    assert.is_truthy(wrong.err:find("must be an integer from 0 to 2", 1, true))
  end)
end)
