-- tperf.compat.llm_analysis against llm-analysis itself: an even sample of calls and the values returned, warned or
-- raised (see llm_analysis_cases.lua).
local sampled = require "cases"
local cases = require "llm_analysis_cases"
local program = require "program"
local steps = require "steps"
local llm_analysis = require "tperf.compat.llm_analysis"
local python = require "tperf.compat.llm_analysis.python"
local custom, model, refused, value_of = cases.models, cases.model, cases.refused, cases.value_of

-- Relative difference; equal integers, strings and absent values differ by 0.
local function difference(got, want)
  if got == want then return 0 end
  if math.type(got) == "float" and math.type(want) == "float" then return math.abs(got - want) / math.abs(want) end
  return math.huge
end

local function compare_row(question, row)
  local request = {}
  for column, text in pairs(row) do
    local key = column:match "^in_(.*)"
    if key then request[key] = value_of(text) end
  end
  local summary = llm_analysis[question](cases.named_model(request))
  for column, text in pairs(row) do
    local key = column:match "^out_(.*)"
    local want = key and value_of(text)
    if key and difference(summary[key], want) > 1e-14 then
      error(("%s %s: got %s, want %s"):format(row.meta_id, key, python.str(summary[key]), python.str(want)), 0)
    end
  end
  return summary
end

-- Warnings hold quotients in full precision and are compared as texts: the sums are made in upstream's order.
local function same_warnings(question)
  for _, row in ipairs(cases.rows(question)) do
    local summary = compare_row(question, row)
    assert.are.equal(row.meta_warnings, table.concat(summary.warnings, " || "), row.meta_id)
  end
end

describe("tperf.compat.llm_analysis", function()
  describe("as upstream", function()
    it("returns upstream's keys, types and warnings for training", function() same_warnings "train" end)

    it("returns upstream's keys, types and warnings for inference", function() same_warnings "infer" end)

    it("refuses what upstream refuses, with its message if it has one", function()
      for _, row in ipairs(cases.rows "errors") do
        local request = {}
        for key, text in row.arguments:gmatch "(%S-)=(%S+)" do request[key] = value_of(text) end
        local message = cases.refusal(row["function"], cases.named_model(request))
        assert.is_truthy(message:find(row.says, 1, true), row.n .. ": " .. message .. "\nlacks: " .. row.says)
      end
    end)

    -- The figures of upstream's own tests, computed with it.
    it("passes upstream's tests", function()
      local function days(request)
        request.gpu, request.activation_recomputation, request.total_num_tokens = "a100-sxm-40gb", 4, 300e9
        return llm_analysis.train(request)
      end
      local megatron = days { model = "facebook_opt-175b", tp_size = 8, pp_size = 12, total_num_gpus = 384,
        batch_size_per_gpu = 8, achieved_tflops = 153 }
      assert.are.equal(84.81778769917732, megatron.total_training_latency_using_flops / 86400)
      assert.are.equal("84.82 days", python.duration(megatron.total_training_latency_using_flops))
      assert.are.equal("162.58 G", python.number(megatron.num_params_total))
      local zero = days { model = "mt-nlg-530b", total_num_gpus = 1120, ds_zero = 3, batch_size_per_gpu = 2,
        achieved_tflops = 98 }
      assert.are.equal(136.23492745812845, zero.total_training_latency_using_flops / 86400)
      local nlg = llm_analysis.train { model = "mt-nlg-530b", gpu = "a100-sxm-40gb", activation_recomputation = 4,
        tp_size = 8, pp_size = 35, total_num_gpus = 2800, global_batch_size = 1920, ds_zero = 3, flash_attn = false,
        achieved_tflops = 121, total_num_tokens = 270e9 }
      assert.are.equal(49.98252724781095, nlg.latency_per_iter_using_flops)
      assert.are.same({ 32, 6 }, { nlg.batch_size_per_gpu, nlg.gradient_accumulation_steps })
      local decode = llm_analysis.infer { model = "test-13b", seq_len = 512, num_tokens_to_generate = 10 }
      assert.are.equal(17.06940537404238, decode.decode_latency * 1000)
    end)

    it("finds the largest divisor that fits, in few steps", function()
      local _, summary = steps.count(function()
        return llm_analysis.train { model = "decapoda-research_llama-7b-hf", gpu = "a100-sxm-80gb", dp_size = 8,
          ds_zero = 3, global_batch_size = 8 * 1000000007 } -- a prime
      end, 1000000)
      assert.are.equal(1, summary.batch_size_per_gpu)
      assert.are.equal(1000000007, summary.gradient_accumulation_steps)
    end)
  end)

  describe("texts", function()
    it("prints numbers and durations as upstream does", function()
      for _, row in ipairs(cases.rows "strings") do
        local value, digits = tonumber(row.value), tonumber(row.precision)
        local got
        if row["function"] == "_latency_to_string" then
          got = python.duration(value, digits)
        else
          got = python.number(value, digits, tonumber(row.divisor))
        end
        local want = row.result
        if row.result_is_none == "true" then want = nil end
        assert.are.equal(want, got, table.concat({ row["function"], row.value, row.precision, row.divisor }, " "))
      end
    end)

    it("writes floats as Python's repr", function()
      local floats = { "0.0", "-0.0", "1e-05", "0.0001", "123456789012345.0", "9999999999999998.0", "1e+16",
        "1.2345e+100", "5e-324", "0.1", "0.30000000000000004", "2.305552188388147e+16", "-2.5" }
      for _, text in ipairs(floats) do assert.are.equal(text, python.repr(tonumber(text))) end
      assert.are.same({ "7", "nan", "inf", "-inf" },
        { python.repr(7), python.repr(0 / 0), python.repr(math.huge), python.repr(-math.huge) })
      assert.are.same({ 0.12, 2.5, 3, -0.14 },
        { python.round(0.125, 2), python.round(2.5, 1), python.round(3, 0), python.round(-0.135, 2) })
    end)

    local examples = {
      { "infer", "facebook_opt-1.3b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe1-ep1-hbme1",
        { use_kv_cache = false } },
      { "train", "facebook_opt-13b-a100-sxm-80gb-w16a16e16-tp4-pp1-dp8-sp4-fe0.45-ep1-hbme0.9",
        { model = "facebook_opt-13b", gpu = "a100-sxm-80gb", tp_size = 4, dp_size = 8, ds_zero = 1,
          batch_size_per_gpu = 2,
          flops_efficiency = 0.45, hbm_memory_efficiency = 0.9, total_num_tokens = 260e9 } },
      { "train", "megatron-lm-175b-a100-sxm-40gb-w16a16e16-tp8-pp12-dp4-sp8-fe0.49-ep1-hbme1",
        { model = "megatron-lm-175b", tp_size = 8, pp_size = 12, total_num_gpus = 384, global_batch_size = 1536,
          activation_recomputation = 4, achieved_tflops = 153, total_num_tokens = 300e9 } },
      { "train", "pre-mixtral-8x7b-h100-sxm-80gb-w16a16e16-tp2-pp1-dp16-sp2-fe1-ep8-hbme1-suf",
        { model = custom["mixtral-8x7b"], gpu = "h100-sxm-80gb", tp_size = 2, dp_size = 16, ep_size = 8, ds_zero = 3,
          seq_len = 8192, activation_recomputation = 4, output_file_prefix = "pre-", output_file_suffix = "-suf" } },
      { "infer", "test-13b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe0.7-ep1-hbme0.9",
        { model = "test-13b", seq_len = 512, num_tokens_to_generate = 10, flops_efficiency = 0.7,
          hbm_memory_efficiency = 0.9 } },
      { "infer", "upstage_Llama-2-70b-instruct-v2-a100-sxm-80gb-w16a16e16-tp2-pp1-dp1-sp2-fe0.7-ep1-hbme0.9-bs4",
        { model = "upstage_Llama-2-70b-instruct-v2", gpu = "a100-sxm-80gb", tp_size = 2, batch_size_per_gpu = 4,
          num_tokens_to_generate = 512, flops_efficiency = 0.7, hbm_memory_efficiency = 0.9, cost_per_gpu_hour = 2.21,
          output_file_suffix = "-bs4" } },
    }

    it("writes upstream's summaries, byte for byte", function()
      local folder = program.folder()
      finally(function() program.remove(folder) end)
      for _, example in ipairs(examples) do
        local question, name, request = table.unpack(example)
        request.output_dir = folder
        local summary = llm_analysis[question](request)
        for _, ending in ipairs { "-summary.json", "-summary-readable.txt" } do
          assert.are.equal(cases.read(name .. ending), program.slurp(folder .. "/" .. name .. ending))
        end
        assert.are.equal(cases.read(name .. "-summary.json"), llm_analysis.json(summary))
      end
    end)

    it("refuses a folder that cannot be made", function()
      refused("infer", { output_dir = "/dev/null/folder" }, "cannot make the folder '/dev/null': a file has that name")
    end)
  end)

  describe("arguments", function()
    it("names the nearest one", function()
      refused("train", { tp_siez = 2 }, "unknown field 'tp_siez' (did you mean 'tp_size'?)")
      refused("infer", { ep_size = 2 }, "unknown field 'ep_size'")
      refused("infer", { model = "facebook_opt-13" }, "(did you mean 'facebook_opt-13b'?)")
      refused("train", { memory_reserve = 0.1 }, "unknown field 'memory_reserve'")
      refused("train", { model = model { head_dim = 64 } }, "unknown field 'head_dim'")
    end)

    it("must be finite and of their type", function()
      refused("infer", { achieved_tflops = 0 / 0 }, "'achieved_tflops' must be a number")
      refused("infer", { batch_size_per_gpu = 1.5 }, "'batch_size_per_gpu' must be an integer")
      refused("infer", { model = 7 }, "model")
      refused("train", { flash_attn = 1 }, "'flash_attn' must be true or false")
      refused("train", 3, "needs a table of arguments")
      refused("infer", { model = model { n_head = 6, num_key_value_heads = 4 } },
        "n_head (6) must be divisible by num_key_value_heads (4)")
      refused("infer", { model = model { num_layers = 1 << 41 } }, "'num_layers' must be an integer from 1")
      refused("infer", { dtype = { weight_bits = 32 } }, "must be 4, 8, or 16")
      refused("infer", { model = model { ffn_embed_dim = 6144 } }, "off the closed form")
      assert.is_number(llm_analysis.infer { model = model { ffn_embed_dim = 6144 }, fixed = true }.total_latency)
    end)

    it("read upstream's model files", function()
      local folder = program.folder()
      finally(function() program.remove(folder) end)
      local path = folder .. "/gpt.json"
      local function write(text) program.write(path, text) end
      write [[{ "name": "gpt", "num_layers": 12, "n_head": 12, "hidden_dim": 768, "vocab_size": 50257,
        "max_seq_len": 1024 }]]
      local from_file = llm_analysis.infer { model_name = path }
      assert.are.equal(llm_analysis.infer { model = "gpt2" }.total_latency, from_file.total_latency)
      write '{ "name": "gpt", '
      refused("infer", { model_name = path }, "unknown model config name: ")
      write '{ "name": "gpt", "num_layers": 12, "hidden_dim": 768, "vocab_size": 50257, "layers": 1 }'
      refused("infer", { model_name = path }, "unknown field 'layers'")
    end)

    it("leave the request as it was", function()
      local request = { model = model(), global_batch_size = 8, gpu = "h100-sxm-80gb" }
      llm_analysis.train(request)
      assert.are.same({ model = model(), global_batch_size = 8, gpu = "h100-sxm-80gb" }, request)
    end)

    it("may be anything without a crash or an invalid number", function()
      local seed = 12345
      local function random(n)
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return seed // 65536 % n + 1
      end
      local values = { 0, 1, 2, 3, 4, 8, 16, 0.5, true, false, -1, 1 << 20, 1 << 40, 1 << 62, -0.5, 1e-300, 1e300,
        0 / 0,
        1 / 0, "x", {} }
      local lists = require "tperf.compat.llm_analysis.arguments".lists
      local answered = 0
      for _ = 1, sampled(500, 1500) do
        local question = random(2) == 1 and "train" or "infer"
        local request = { fixed = random(2) == 1, gpu = "h100-sxm-80gb" }
        for _ = 1, random(3) - 1 do
          local name = lists[question][random(#lists[question])][1]
          if not name:find "output" then request[name] = values[random(#values)] end
        end
        local ok, result = pcall(llm_analysis[question], request)
        if ok then
          answered = answered + 1
          for key, value in pairs(result) do
            if value ~= value or value == math.huge or value == -math.huge then
              error(("%s = %s for %s"):format(key, value, require "pl.pretty".write(request)), 0)
            end
          end
          llm_analysis.text(result)
        else
          assert.is_truthy(result:match "llm_analysis_spec%.lua:%d+: llm_analysis%.%l+: ", result)
        end
      end
      assert.is_true(answered > sampled(100, 300), answered .. " answers")
    end)
  end)
end)
