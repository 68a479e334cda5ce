-- The answers of tperf.compat.llm_analysis against llm-analysis itself (commit d841e40): spec/data/llm_analysis holds
-- an even sample of calls and what it returned, warned or raised; and its corrections against published figures.
local csv = require "csv"
local llm_analysis = require "tperf.compat.llm_analysis"
local python = require "tperf.compat.llm_analysis.python"
local upstream = require "tperf.compat.llm_analysis.upstream"
local fixed = require "tperf.compat.llm_analysis.fixed"

local DATA = "spec/data/llm_analysis/"

-- A cell as a Lua value; an empty one is nil.
local function value_of(text)
  if text == "" then return nil end
  if text == "true" then return true elseif text == "false" then return false end
  return tonumber(text) or text
end

local custom = {} -- models of the sample that upstream does not ship
for _, row in ipairs(csv.rows(DATA .. "models.csv")) do
  local model = {}
  for key, text in pairs(row) do model[key] = value_of(text) end
  custom[row.name] = model
end

local function named_model(request)
  local name = request.model_name
  local stem = name and (name:match "([^/]+)%.json$" or name)
  if custom[stem] then request.model, request.model_name = custom[stem], nil end
  return request
end

local function read(name)
  local file <close> = assert(io.open(DATA .. name))
  return file:read "a"
end

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
  local summary = llm_analysis[question](named_model(request))
  for column, text in pairs(row) do
    local key = column:match "^out_(.*)"
    local want = key and value_of(text)
    if key and not (difference(summary[key], want) < 1e-14) then
      error(("%s %s: got %s, want %s"):format(row.meta_id, key, python.str(summary[key]), python.str(want)), 0)
    end
  end
  return summary
end

-- Warnings that hold a full-precision quotient are compared to their last digit like all others: the sums are
-- made in upstream's order.
local function same_warnings(question)
  for _, row in ipairs(csv.rows(DATA .. question .. ".csv")) do
    local summary = compare_row(question, row)
    assert.are.equal(row.meta_warnings, table.concat(summary.warnings, " || "), row.meta_id)
  end
end

local function refusal(question, request)
  local ok, message = pcall(llm_analysis[question], request)
  assert.is_false(ok, "not refused")
  return message
end

local function refused(question, request, text)
  local message = refusal(question, request)
  assert.is_truthy(message:find(text, 1, true), message .. "\nlacks: " .. text)
  assert.is_truthy(message:match "^[^:]*llm_analysis_spec%.lua:%d+: llm_analysis%.%l+[: ]", message)
end

local function model(changes)
  local base = { name = "m", num_layers = 24, n_head = 16, hidden_dim = 2048, vocab_size = 50000, max_seq_len = 2048 }
  for key, value in pairs(changes or {}) do base[key] = value end
  return base
end

describe("tperf.compat.llm_analysis", function()
  describe("as upstream", function()
    it("trains: every key, with its type, and every warning", function() same_warnings "train" end)

    it("infers: every key, with its type, and every warning", function() same_warnings "infer" end)

    it("refuses what upstream refuses, in its words where it has some", function()
      for _, row in ipairs(csv.rows(DATA .. "errors.csv")) do
        local request = {}
        for key, text in row.arguments:gmatch "(%S-)=(%S+)" do request[key] = value_of(text) end
        local message = refusal(row["function"], named_model(request))
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

    it("finds the largest divisor that fits, quickly", function()
      local started = os.clock()
      local summary = llm_analysis.train { model = "decapoda-research_llama-7b-hf", gpu = "a100-sxm-80gb", dp_size = 8,
        ds_zero = 3, global_batch_size = 8 * 1000000007 } -- a prime
      assert.are.equal(1, summary.batch_size_per_gpu)
      assert.are.equal(1000000007, summary.gradient_accumulation_steps)
      assert.is_true(os.clock() - started < 1)
    end)
  end)

  describe("texts", function()
    it("prints numbers and durations as upstream", function()
      for _, row in ipairs(csv.rows(DATA .. "strings.csv")) do
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
      local cases = { "0.0", "-0.0", "1e-05", "0.0001", "123456789012345.0", "9999999999999998.0", "1e+16",
        "1.2345e+100", "5e-324", "0.1", "0.30000000000000004", "2.305552188388147e+16", "-2.5" }
      for _, text in ipairs(cases) do assert.are.equal(text, python.repr(tonumber(text))) end
      assert.are.same({ "7", "nan", "inf", "-inf" },
        { python.repr(7), python.repr(0 / 0), python.repr(math.huge), python.repr(-math.huge) })
      assert.are.same({ 0.12, 2.5, 3, -0.14 },
        { python.round(0.125, 2), python.round(2.5, 1), python.round(3, 0), python.round(-0.135, 2) })
    end)

    local examples = {
      { "infer", "facebook_opt-1.3b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe1-ep1-hbme1",
        { use_kv_cache = false } },
      { "train", "facebook_opt-13b-a100-sxm-80gb-w16a16e16-tp4-pp1-dp8-sp4-fe0.45-ep1-hbme0.9",
        { model = "facebook_opt-13b", gpu = "a100-sxm-80gb", tp_size = 4, dp_size = 8, ds_zero = 1, batch_size_per_gpu = 2,
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

    it("writes the summaries upstream writes, byte for byte", function()
      local folder, stem = os.tmpname():match "^(.*)/([^/]*)$"
      finally(function() os.remove(folder .. "/" .. stem) end)
      for _, example in ipairs(examples) do
        local question, name, request = table.unpack(example)
        request.output_dir, request.output_file_prefix = folder, stem .. (request.output_file_prefix or "")
        local summary = llm_analysis[question](request)
        for _, ending in ipairs { "-summary.json", "-summary-readable.txt" } do
          local path = folder .. "/" .. stem .. name .. ending
          local file = assert(io.open(path))
          local written = file:read "a"
          file:close()
          os.remove(path)
          assert.are.equal(read(name .. ending), written)
        end
        assert.are.equal(read(name .. "-summary.json"), llm_analysis.json(summary))
      end
    end)

    it("refuses a folder that does not exist", function()
      refused("infer", { output_dir = "/nonexistent/folder" }, "make the folder first")
    end)
  end)

  describe("corrected", function()
    it("has a correction for every formula of upstream, and no more", function()
      for name in pairs(upstream) do assert.is_not_nil(fixed[name], name) end
      for name in pairs(fixed) do assert.is_not_nil(upstream[name], name) end
    end)

    -- Korthikanti et al. (arXiv 2205.05198), equations 1, 2 and 4: activations of a layer are
    -- s b h (34 + 5 a s / h), (10 + 24/t + 5 a s /(h t)) with tensor and (34 + 5 a s / h) / t with sequence parallelism too;
    -- 34 without the attention core, 2 under full recomputation.
    it("keeps the activations of the published formula", function()
      local L, s, b, h, a = 24, 2048, 2, 2048, 16
      local function layers(t, sp, R)
        local summary = llm_analysis.train { model = model(), gpu = "h100-sxm-80gb", fixed = true, tp_size = t, sp_size = sp,
          batch_size_per_gpu = b, flash_attn = false, softmax_dropout = true, activation_recomputation = R,
          layernorm_dtype_bytes = 2 }
        return (summary.activation_memory_attn_per_gpu + summary.activation_memory_mlp_per_gpu
          + summary.activation_memory_layernorm_per_gpu) / L / (s * b * h)
      end
      assert.are.equal(34 + 5 * a * s / h, layers(1, 1, 0))
      assert.are.equal(10 + 24 / 4 + 5 * a * s / (h * 4), layers(4, 1, 0))
      assert.are.equal((34 + 5 * a * s / h) / 4, layers(4, 4, 0))
      assert.are.equal(34 / 4, layers(4, 4, 1))
      assert.are.equal(2 / 4, layers(4, 4, 4))
      assert.are.equal(2, layers(4, 1, 4))
    end)

    it("counts published models' parameters", function()
      local function count(config, tp)
        return llm_analysis.infer { model = config, gpu = "mi250x-128gb", dtype = "w4a4e16", tp_size = tp or 8, fixed = true,
          seq_len = 16, num_tokens_to_generate = 1 }.num_params_total
      end
      local function untied(name)
        local config = { untied_embeddings = true }
        for key, value in pairs(custom[name]) do config[key] = value end
        return config
      end
      assert.are.equal(6738415616, count(untied "llama-7b-gated"))   -- LLaMA-7B
      assert.are.equal(7241732096, count(untied "mistral-7b"))       -- Mistral-7B-v0.1
      assert.are.equal(46702792704, count(untied "mixtral-8x7b"))    -- Mixtral-8x7B-v0.1
      assert.are.equal(8030261248, count(untied "llama3-8b"))        -- Llama-3.1-8B
      assert.are.equal(70553706496, count(untied "llama3-70b"))      -- Llama-3.1-70B
      local gpt2 = { name = "gpt2", num_layers = 12, n_head = 12, hidden_dim = 768, vocab_size = 50257, max_seq_len = 1024,
        learned_positions = 1024, biases = true }
      assert.are.equal(124439808, count(gpt2, 1))                     -- GPT-2 small
      local falcon, plain = custom["falcon-7b-mqa"], llm_analysis.infer { model = custom["falcon-7b-mqa"] }
      assert.are.equal(plain.num_params_total, llm_analysis.infer { model = falcon, fixed = true }.num_params_total)
    end)

    it("puts the forward FLOPs at 2 per active parameter and token, plus attention", function()
      local s, b = 1024, 2
      for _, name in ipairs { "mixtral-8x7b", "dbrx-132b", "llama3-8b" } do
        local config = custom[name]
        local got = llm_analysis.infer { model = config, gpu = "mi250x-128gb", dtype = "w4a4e16", tp_size = 8, fixed = true,
          batch_size_per_gpu = b, seq_len = s, num_tokens_to_generate = 1 }
        local h, L = config.hidden_dim, config.num_layers
        local norms = (2 * L + 1) * h
        local core = 4 * L * b * h * s * (s + 1) / 2 -- every query against the keys up to its own
        assert.are.equal(2 * b * s * (got.num_active_params_total - norms) + core, got.prefill_num_flops_fwd_total)
      end
    end)

    it("charges selective recomputation once (Q14)", function()
      local request = { model = "decapoda-research_llama-7b-hf", gpu = "a100-sxm-80gb", tp_size = 8, batch_size_per_gpu = 1,
        flops_efficiency = 0.5 }
      local function extra()
        request.activation_recomputation = 0
        local without = llm_analysis.train(request)
        request.activation_recomputation = 1
        return (llm_analysis.train(request).latency_per_micro_batch - without.latency_per_micro_batch) * 1e3
      end
      assert.are.near(56.39, extra(), 0.01) -- 4 b s^2 h L^2 / (8 x 156e12), ms
      request.fixed = true
      assert.are.near(56.39 / 32 / 2 * 2049 / 2048, extra(), 0.001) -- once per layer, and half the square
    end)

    it("shards served weights under ZeRO-3 (Q10), and only then gathers (Q15)", function()
      local request = { model = "facebook_opt-13b", gpu = "a100-sxm-80gb", dp_size = 8, ds_zero = 3 }
      assert.are.near(25.23e9, llm_analysis.infer(request).weight_memory_per_gpu, 0.01e9)
      request.fixed = true
      local sharded = llm_analysis.infer(request)
      assert.are.near(12840719360 * 2 / 8, sharded.weight_memory_per_gpu, 1)
      assert.is_true(sharded.prefill_latency_fwd_sharded_dp_comm > 0)
      request.ds_zero = 2
      assert.are.equal(0, llm_analysis.infer(request).prefill_latency_fwd_sharded_dp_comm)
    end)

    it("reads the KV cache at its mean length (Q33)", function()
      local request = { model = "upstage_Llama-2-70b-instruct-v2", gpu = "a100-sxm-80gb", tp_size = 8, batch_size_per_gpu = 16,
        seq_len = 2048, num_tokens_to_generate = 2048 }
      local bytes = 2 * 16 * 128 * 8 / 8 * 2 * 80 -- of one token of 16 sequences, all layers, one GPU
      assert.are.equal(2 * 4096 * bytes / 2039e9, llm_analysis.infer(request).kv_cache_latency)
      request.fixed = true
      local mean = 2048 + 2047 / 2
      assert.are.near((mean + 1) * bytes / 2039e9, llm_analysis.infer(request).kv_cache_latency, 1e-15)
    end)

    it("counts gradients, gathers and the pipeline's bubble", function()
      local request = { model = "megatron-lm-175b", gpu = "a100-sxm-80gb", tp_size = 8, pp_size = 8, dp_size = 8, ds_zero = 1,
        activation_recomputation = 4, global_batch_size = 128, batch_size_per_gpu = 1, fixed = true }
      local summary = llm_analysis.train(request)
      local static = summary.weight_memory_per_gpu + summary.optimizer_state_memory_per_gpu + summary.gradient_memory_per_gpu
      assert.are.equal(static + summary.activation_memory_per_gpu + summary.loss_bwd_memory,
        summary.estimated_peak_memory_per_gpu)
      -- 1F1B: 16 micro-batches through 8 stages take 23 slots; tokens per second are of the whole iteration.
      assert.is_true(summary.latency_per_iter > 23 * summary.latency_per_micro_batch)
      assert.are.near(128 * 2048 / 512 / summary.latency_per_iter, summary.device_tokens_per_sec, 0.01)
      -- full recomputation keeps the layer's input of 12 layers for each of 8 micro-batches, split over sp = 8
      assert.are.equal(8 * 12 * 2048 * 12288 * 2 / 8, summary.activation_memory_layernorm_per_gpu)
      request.global_batch_size = 16 -- two micro-batches never fill the pipeline
      assert.are.equal(2 * 12 * 2048 * 12288 * 2 / 8, llm_analysis.train(request).activation_memory_layernorm_per_gpu)
    end)

    it("says what does not fit instead of a negative batch (Q27)", function()
      assert.are.equal(-25, llm_analysis.train { model = "facebook_opt-175b" }.batch_size_per_gpu)
      refused("train", { model = "facebook_opt-175b", fixed = true }, "batch_size_per_gpu 1 does not fit")
      refused("train", { batch_size_per_gpu = 100, fixed = true }, "does not fit (max_batch_size_per_gpu ")
    end)

    it("refuses shapes that do not divide", function()
      refused("infer", { tp_size = 5, fixed = true }, "tp_size (5) must divide n_head (32)")
      refused("infer", { pp_size = 25, fixed = true }, "pp_size (25) must be at most num_layers (24)")
      refused("infer", { seq_len = 2040, fixed = true }, "seq_len (2040) + num_tokens_to_generate (32)")
      refused("train", { ep_size = 2, fixed = true }, "ep_size (2) must divide moe_num_experts (1)")
      refused("train", { model = custom["mixtral-8x7b"], gpu = "h100-sxm-80gb", ep_size = 8, dp_size = 4, fixed = true },
        "ep_size (8) must divide dp_size (4)")
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
      local path = os.tmpname() .. ".json"
      finally(function() os.remove(path) end)
      local function write(text)
        local file <close> = assert(io.open(path, "w"))
        file:write(text)
      end
      write '{ "name": "gpt", "num_layers": 12, "n_head": 12, "hidden_dim": 768, "vocab_size": 50257, "max_seq_len": 1024 }'
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

    it("may be anything without a crash or a number that is none", function()
      local seed = 12345
      local function random(n)
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        return seed // 65536 % n + 1
      end
      local values = { 0, 1, 2, 3, 4, 8, 16, 0.5, true, false, -1, 1 << 20, 1 << 40, 1 << 62, -0.5, 1e-300, 1e300, 0 / 0,
        1 / 0, "x", {} }
      local lists = require "tperf.compat.llm_analysis.arguments".lists
      local answered = 0
      for _ = 1, 1500 do
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
      assert.is_true(answered > 300, answered .. " answers")
    end)
  end)
end)
