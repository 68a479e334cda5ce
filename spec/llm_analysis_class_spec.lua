-- llm_analysis.LLMAnalysis and the helpers for configurations, against calls of revision 0571436 itself
-- (spec/data/llm_analysis/0571436).
local cases = require "llm_analysis_cases"
local program = require "program"
local yaml = require "tperf.core".yaml
local llm_analysis = require "tperf.compat.llm_analysis"

local REVISION <const> = "0571436"
local FOLDER <const> = "0571436/"

local models = {}
for _, row in ipairs(cases.rows(FOLDER .. "models")) do
  local model = {}
  for key, text in pairs(row) do model[key] = cases.value_of(text) end
  models[row.name] = model
end

local function json(text) return yaml(text, "reference") end

local function analysis_of(text)
  local said = json(text)
  local arguments = { model = models[said.model] or said.model, gpu = said.gpu, dtype = said.dtype,
    parallelism = said.parallelism }
  for name, value in pairs(said.efficiencies) do arguments[name] = value end
  return llm_analysis.LLMAnalysis(arguments)
end

-- Numbers within rounding, names exactly; tables field by field.
local function same(want, got, what)
  if type(want) == "table" then
    for key, value in pairs(want) do same(value, got[key], what .. " " .. key) end
    for key in pairs(got) do assert.is_not_nil(want[key], what .. ": " .. key) end
  elseif type(want) == "number" and type(got) == "number" then
    if math.abs(got - want) > 1e-13 * math.abs(want) then error(("%s: got %s, want %s"):format(what, got, want), 0) end
  else
    assert.are.equal(want, got, what)
  end
end

local AFTER = { -- column -> method without arguments
  pivot = "get_pivot", TFLOPS_per_gpu = "get_TFLOPS_per_gpu", gpu_hbm_bandwidth = "get_gpu_hbm_bandwidth",
  intra_node_bandwidth = "get_intra_node_bandwidth", inter_node_bandwidth = "get_inter_node_bandwidth",
  get_num_params_total = "get_num_params_total", weight_memory_per_layer = "get_weight_memory_per_layer",
}

local function same_state(row, when, analysis)
  for column, text in pairs(row) do
    local name = column:match("^" .. when .. "_(.*)")
    local want = name and tonumber(text)
    if want then
      local got = analysis[name]
      if AFTER[name] then got = analysis[AFTER[name]](analysis) end
      if name == "latency_fwd_b1_s128" then got = analysis:get_latency_fwd { batch_size = 1, seq_len = 128 } end
      same(want, got, row.method .. " " .. column)
    end
  end
end

describe("llm_analysis.LLMAnalysis", function()
  it("computes what upstream's methods return", function()
    local seen = {}
    for _, row in ipairs(cases.rows(FOLDER .. "get_methods")) do
      local analysis, want = analysis_of(row.analysis), json(row.returns)
      local got = { analysis[row.method](analysis, json(row.arguments)) }
      same(type(want) == "table" and want or { want }, got, row.method .. row.arguments)
      seen[row.method] = true
    end
    for _, name in ipairs(require "tperf.compat.llm_analysis.analysis".methods) do
      assert.is_true(seen[name] or name:find "^update_" ~= nil, name .. " has no reference")
    end
  end)

  it("keeps efficiencies and totals over updates, as upstream does", function()
    for _, row in ipairs(cases.rows(FOLDER .. "update_methods")) do
      local analysis, argument = analysis_of(row.analysis), json(row.argument)
      same_state(row, "before", analysis)
      assert.is_nil(analysis[row.method](analysis, models[argument] or argument))
      same_state(row, "after", analysis)
    end
  end)

  local analysis = llm_analysis.LLMAnalysis { model = "gpt2", gpu = "a100-sxm-80gb", dtype = "w16a16e16" }

  it("refuses what it cannot compute, at the user's line", function()
    local function refused(text, call, ...)
      local ok, message = pcall(call, ...)
      assert.is_false(ok)
      assert.is_truthy(message:find(text, 1, true), message)
      assert.is_truthy(message:find "^[^:]*llm_analysis_class_spec%.lua:%d+: ", message)
    end
    refused("'batch_size' is missing", function() analysis:get_latency_fwd {} end)
    refused("unknown field 'batch'", function() analysis:get_latency_fwd { batch = 1, seq_len = 2 } end)
    refused("'ds_zero' must be 0 to 3 or one of NONE, STAGE_1, STAGE_2, STAGE_3, got \"STAGE_4\"",
      function() analysis:get_memory_embedding { ds_zero = "STAGE_4" } end)
    refused("call it as analysis:get_pivot", function() analysis.get_pivot {} end)
    refused("unknown gpu config name: h1000", function() analysis:update_gpu_config "h1000" end)
    refused("'revision' must be one of 0571436", function() llm_analysis.LLMAnalysis { model = "gpt2",
      gpu = "a100-sxm-80gb", dtype = "w8a8e16", revision = "d841e40" } end)
    refused("'gpu' is missing", function() llm_analysis.LLMAnalysis { model = "gpt2", dtype = "w8a8e16" } end)
    refused("model needs a table of arguments, got 7", function() analysis:update_model_config(7) end)
    local idle = llm_analysis.LLMAnalysis { model = "gpt2", gpu = "v100-sxm-32gb", dtype = "w8a8e16" } -- no int8 there
    assert.are.equal(0, idle:get_TFLOPS_per_gpu())
    refused("out of range", function() idle:get_latency_fwd { batch_size = 1, seq_len = 8 } end)
  end)

  it("leaves other analyses unchanged", function()
    local other = llm_analysis.LLMAnalysis { model = "gpt2", gpu = "a100-sxm-80gb", dtype = "w16a16e16" }
    local before = analysis:get_pivot()
    other:update_float_efficiency(0.5)
    assert.are.equal(before, analysis:get_pivot())
    assert.are.equal(before / 2, other:get_pivot())
  end)
end)

describe("llm_analysis's configurations", function()
  it("are found by name with every field, in upstream's order", function()
    local checked = 0
    for _, row in ipairs(cases.rows(FOLDER .. "config_helpers")) do
      local name, input = row["function"]:match "%.(.*)", json(row.input)
      if name == "canonical_model_name" then
        assert.are.equal(json(row.result), llm_analysis[name](input.name))
      else
        local ok, got = pcall(llm_analysis[name], input.name_or_path or input.name, input.hf_config or REVISION)
        assert.are.equal(row.exception == "", ok, row.input .. tostring(got))
        local text = row.result:gsub('([,{]) ?"', '%1\n    "'):gsub("}$", "\n}")
        if ok then assert.are.equal(text, llm_analysis.config_json(got, REVISION)) end
      end
      checked = checked + 1
    end
    assert.is_true(checked > 30)
  end)

  it("are listed", function()
    assert.are.equal(47, #llm_analysis.list_model_configs())
    assert.are.equal(17, #llm_analysis.list_gpu_configs())
    assert.are.equal("w16a16e16", llm_analysis.list_dtype_configs()[1])
  end)

  it("of d841e40 say whether the MLP is gated", function()
    local name = "upstage_Llama-2-70b-instruct-v2"
    local newer = llm_analysis.get_model_config_by_name(name)
    assert.are.same({ 28672, 3.5, true }, { newer.ffn_embed_dim, newer.expansion_ratio, newer.mlp_gated_linear_units })
    local older = llm_analysis.get_model_config_by_name(name, REVISION)
    assert.are.same({ 32768, 4.0 }, { older.ffn_embed_dim, older.expansion_ratio, older.mlp_gated_linear_units })
  end)

  it("are written to new folders, and read back", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    local made = folder .. "/a/b"
    llm_analysis.dump_model_config_by_name("gpt2", made, REVISION)
    local gpt2 = llm_analysis.get_model_config_by_name("gpt2", REVISION)
    assert.are.equal(llm_analysis.config_json(gpt2, REVISION), program.slurp(made .. "/gpt2.json"))
    assert.are.same({ gpt2 = gpt2 }, llm_analysis.read_configs(made, "model", REVISION))
    local own = { name = "own", mem_per_GPU_in_GB = 96, hbm_bandwidth_in_GB_per_sec = 4000, peak_fp16_TFLOPS = 900,
      intra_node_bandwidth_in_GB_per_sec = 450, intra_node_min_message_latency = 8e-6 }
    llm_analysis.dump_configs({ g = own }, folder .. "/g")
    local read = llm_analysis.read_configs(folder .. "/g", "gpu").own
    assert.are.same({ 1800, 3600, 200 },
      { read.peak_i8_TFLOPS, read.peak_i4_TFLOPS, read.inter_node_bandwidth_in_GB_per_sec })
    local ok, message = pcall(llm_analysis.dump_configs, { ["a/b"] = own }, folder)
    assert.is_truthy(not ok and message:find("cannot name a file", 1, true), message)
    ok, message = pcall(llm_analysis.read_configs, folder .. "/none", "gpu")
    assert.is_truthy(not ok and message:find("cannot read the folder", 1, true), message)
  end)

  it("read from a file are known by their name afterwards", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/x.json", [[{ "name": "from-a-file", "num_layers": 2, "n_head": 2, "hidden_dim": 8,
      "vocab_size": 10 }]])
    assert.is_false((pcall(llm_analysis.get_model_config_by_name, "from-a-file", REVISION)))
    local model = llm_analysis.get_model_config_by_name(folder .. "/x.json", REVISION)
    model.num_layers = 3 -- the caller's own copy
    assert.are.equal(2, llm_analysis.get_model_config_by_name("from-a-file", REVISION).num_layers)
  end)

  it("are commands too", function()
    local function prints(line) return program.ask("tperf compat llm-analysis " .. line) end
    assert.are.equal(table.concat(llm_analysis.list_gpu_configs(), "\n") .. "\n", prints "list-gpu-configs".out)
    assert.are.equal(llm_analysis.config_json(llm_analysis.get_gpu_config_by_name "h100-sxm-80gb") .. "\n",
      prints "get_gpu_config_by_name h100-sxm-80gb".out)
    local wrong = prints "get_gpu_config_by_name"
    assert.are.same({ 2, "" }, { wrong.code, wrong.out })
    assert.is_truthy(wrong.err:find("get_gpu_config_by_name needs a name", 1, true))
    assert.is_truthy(prints "list_gpu_configs --tp_size 2".err:find("takes no --tp_size", 1, true))
    assert.is_truthy(prints "list_gpu_config".err:find("did you mean 'list_gpu_configs'?", 1, true))
  end)

  it("of a script without --trust are written below its folder only", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    program.write(folder .. "/s.lua", [[
      local llm_analysis = require "tperf.compat.llm_analysis"
      llm_analysis.dump_model_config_by_name("gpt2", "in/side")
      print(pcall(llm_analysis.dump_model_config_by_name, "gpt2", "../out/side"))]])
    program.shell("mkdir work", folder)
    local result = program.shell("tperf run ../s.lua", folder .. "/work")
    assert.is_truthy(result.out:find("outside the output folder", 1, true), result.out .. result.err)
    assert.is_truthy(io.open(folder .. "/work/in/side/gpt2.json"))
    assert.is_nil(io.open(folder .. "/out"))
  end)
end)
