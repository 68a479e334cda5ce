local loads = require "tperf.measured.kernel.loads"
local sampled = require "cases"
local fit = require "tperf.measured.calibrate.fit"
local lists = require "tperf.base.lists"
local measured = require "tperf.measured"
local profile = require "tperf.measured.calibrate.profile"
local seconds = require "tperf.measured.run.step".seconds
local program = require "program"
local runtime = require "tperf.describe.profile"
local stacks = require "tperf.measured.run.stacks"
local holdout = require "tperf.measured.calibrate.holdout"
local kinds = require "tperf.measured.calibrate.kinds"
local tperf = require "tperf"
local validate = require "tperf.measured.validate"

local function run(name) return tperf.validate { file = "spec/data/measured/" .. name } end

local function matching(result, pattern)
  local list = {}
  for _, case in ipairs(result.cases) do
    if case.source:find(pattern) then list[#list + 1] = case end
  end
  return validate.by(list, function() return "all" end)[1]
end

describe("tperf.validate", function()
  it("holds products, attention and collectives to the errors promised", function()
    assert.is_true(matching(run "gemm.csv", "bf16, at least").median <= 0.08)
    assert.is_true(matching(run "attention.csv", "^causal attention bf16, over").median <= 0.08)
    local collectives = run "collectives.csv"
    assert.is_true(matching(collectives, "single%-node, at least").median <= 0.08)
    assert.is_true(matching(collectives, "multi%-node, at least").median <= 0.15)
  end)

  -- Timed for tperf on an H100 and an H200: products and forward passes by another library than those of the fits.
  it("predicts what PyTorch called on GPUs that no fit of products and forward passes saw", function()
    assert.is_true(matching(run "gemm_torch.csv", "bf16, at least").median <= 0.065)
    local attention = run "attention_torch.csv"
    assert.equal(attention.rows, attention.predicted)
    for pattern, most in pairs { ["^causal attention bf16, over"] = 0.065, ["^causal .*, backward, over"] = 0.06,
      ["^causal .* bf16, FlashAttention 2, over"] = 0.04, ["^causal .*, backward, FlashAttention 2, over"] = 0.045,
      ["^full attention bf16, over"] = 0.1, ["^full .*, backward, FlashAttention 2, over"] = 0.05 } do
      assert.is_true(matching(attention, pattern).median <= most, pattern)
    end
  end)

  it("predicts decoding, kernels of memory and serving engines' all-reduces, and says what it leaves out", function()
    local decode = run "decode.csv"
    assert.equal(decode.rows, #decode.cases)
    assert.is_true(matching(decode, "^decoding attention bf16, at least").median <= 0.12)
    assert.is_true(matching(decode, "^decoding attention bf16, less").median <= 0.15)
    local memory = run "memory.csv"
    assert.is_true(matching(memory, "scale given").median <= 0.06)
    assert.truthy(memory.left_out[1].reason:find("of no kernel", 1, true))
    assert.is_true(matching(run "direct.csv", "engines").median <= 0.12)
  end)

  it("predicts blocks of experts and layers of latent attention by composing kernels", function()
    local experts = run "moe.csv"
    assert.is_true(matching(experts, "experts bf16, [af]").median <= 0.16)
    assert.is_true(matching(experts, "experts fp8, [af]").median <= 0.16)
    local latent = run "mla.csv"
    assert.is_true(matching(latent, "layer of latent attention, prefill, bf16").median <= 0.12)
    assert.is_true(matching(latent, "layer of latent attention, decoding, bf16").median <= 0.16)
  end)

  it("predicts experts in fused kernels by their curve, without a gate where Nemotron has none", function()
    local path = os.tmpname()
    local function predicted(kernel, width, gated)
      program.write(path, "gpu,dtype,kernel_source,distribution,tokens,hidden,moe_inter,experts,topk,tp,ep,gated,"
        .. "time_s\n" .. ("b200,bf16,%s,balanced,4,2688,%d,128,6,1,32,%d,1e-4\n"):format(kernel, width, gated))
      return tperf.validate { file = path }.cases[1].predicted
    end
    local fused = predicted("sglang_flashinfer_trtllm_moe", 1536, 1)
    assert.is_true(fused < 0.9 * predicted("moe_torch_flow_cutlass", 1536, 1))
    assert.equal(predicted("sglang_flashinfer_trtllm_moe", 1856, 0), predicted("sglang_flashinfer_trtllm_moe", 1856, 1))
    assert.is_true(predicted("moe_torch_flow_nongated", 1856, 0) < predicted("moe_torch_flow_cutlass", 1856, 1))
    os.remove(path)
  end)

  it("spreads tokens over experts as unevenly as a table says", function()
    local function rows(exponent, ep)
      local case = { tokens = 4096, experts = 128, topk = 8, ep = ep }
      return loads.power_law(case, exponent)
    end
    local all, hit = rows(1.01, 1)
    assert.is_true(all <= 4096 * 8 and all > 0.7 * 4096 * 8) -- no expert gets a token twice
    assert.is_true(hit <= 128)
    local mild, steep = rows(1.01, 16), rows(1.6, 16)
    assert.is_true(4096 * 8 / 16 < mild and mild < steep and steep < 4096 * 8)
    assert.equal(mild, (rows(1.01, 16)))
  end)

  it("predicts the steps of stacks, and accounts for every row", function()
    local result = run "steps.csv"
    local rows = #result.cases
    for _, left in ipairs(result.left_out) do rows = rows + left.rows end
    assert.equal(result.rows, rows)
    assert.is_true(matching(result, "2205%.05198").mean <= 0.04)
    assert.is_true(matching(result, "ground_truth_multi").mean <= 0.08)
    assert.is_true(matching(result, "ground_truth_single").mean <= 0.12)
    assert.is_true(matching(result, "llm%-foundry").median <= 0.10)
  end)

  it("uses the named system's network for all rows, or else each row's own", function()
    local folder = program.folder()
    local head = "collective,gpu,gpus,nodes,inter,size_bytes,time_us\n"
    program.write(folder .. "/table.csv", head .. "all_gather,A100,8,2,Slingshot,1048576,100\n"
      .. "all_gather,A100,8,2,InfiniBand,1048576,100\nall_gather,A100,8,2,,1048576,100\n"
      .. "all_gather,A100,8,2,4x100 Gbps EFA,1048576,100\nall_gather,A100,8,2,4x200 Gbps Slingshot,1048576,100\n")
    local question = { file = folder .. "/table.csv", system = "subramanian2024/A100", rules = "subramanian2024" }
    local given = tperf.validate(question)
    assert.same({ 5, {} }, { #given.cases, given.left_out })
    -- 8 GPUs, 4 to a node: 7/8 of the vector over four NICs or each NVLink, a hop between nodes, six within (section 4)
    local expected = 5e-6 + 6 * 2.5e-6 + math.max(7 / 8 * 2 ^ 20 / (4 * 25e9 * 0.7), 7 / 8 * 2 ^ 20 / (300e9 * 0.7))
    for _, case in ipairs(given.cases) do assert.near(expected, case.predicted, 1e-12) end
    question.system, question.rules = nil, nil
    local by_row = tperf.validate(question)
    assert.equal(2, #by_row.cases) -- InfiniBand and EFA
    assert.is_true(by_row.cases[1].predicted ~= by_row.cases[2].predicted)
    local reasons = {}
    for _, left in ipairs(by_row.left_out) do reasons[#reasons + 1] = left.rows .. " " .. left.reason end
    assert.equal("2 no curve of Slingshot is known (-s NAME gives all rows the network of one system)\n"
      .. "1 the network between the nodes is not named", table.concat(reasons, "\n"))
    program.remove(folder)
  end)

  it("states errors as parts of the measured value", function()
    local cases = {}
    for i, predicted in ipairs { 0.5, 0.9, 1, 1.2, 3 } do
      cases[i] = { predicted = predicted, measured = 1, source = i < 3 and "a" or "b" }
    end
    local s = validate.by(cases, function() return "all" end)[1]
    assert.same({ 5, 0.2, 2 }, { s.rows, tonumber(("%.12g"):format(s.median)), s.max })
    assert.near((0.5 + 0.1 + 0 + 0.2 + 2) / 5, s.mean, 1e-12)
    assert.near(0, s.bias, 1e-12)
    local by = validate.by(cases, function(case) return case.source end)
    assert.same({ "a", 2, "b", 3 }, { by[1].source, by[1].rows, by[2].source, by[2].rows })
  end)

  it("hands each case to a callback in place of keeping it", function()
    local seen, kept = {}, run "attention.csv"
    local result = tperf.validate { file = "spec/data/measured/attention.csv", each = function(case)
      seen[#seen + 1] = case.predicted
    end }
    assert.same({ kept.rows, kept.predicted, kept.sources }, { result.rows, result.predicted, result.sources })
    assert.same({}, result.cases)
    for i, case in ipairs(kept.cases) do assert.equal(case.predicted, seen[i]) end
    assert.equal(result.predicted, #seen)
    local ok, message = pcall(tperf.validate, { file = "spec/data/measured/steps.csv", hold_out = "third",
      each = print })
    assert.is_false(ok)
    assert.truthy(message:find("'each' is for tables", 1, true))
  end)

  it("holds 16 bytes of a row, in an array that doubles, however long the table is", function()
    local folder = program.folder()
    local head, rows = program.slurp "spec/data/measured/attention.csv":match "^([^\n]*\n)(.*)$"
    local function held(copies, last) -- bytes when the last row has been read
      program.write(folder .. "/t.csv", head .. rows:rep(copies))
      local bytes, count = nil, 0
      tperf.validate { file = folder .. "/t.csv", each = function()
        count = count + 1
        if count ~= last then return end
        collectgarbage()
        bytes = collectgarbage "count" * 1024
      end }
      return bytes, count
    end
    local _, count = held(1) -- remembers systems and curves
    assert.is_true(count > 100)
    local copies = sampled(12, 32)
    local few, many = held(4, 4 * count), held(copies, copies * count)
    assert.is_true(many - few < 40 * (copies - 4) * count, (many - few) / ((copies - 4) * count))
    program.remove(folder)
  end)

  it("refuses unknown files, tables and fields", function()
    local ok, message = pcall(run, "none.csv")
    assert.is_false(ok)
    assert.truthy(message:find("none.csv", 1, true))
    ok, message = pcall(function() return tperf.validate { file = "spec/data/llm_analysis/train.csv" } end)
    assert.is_false(ok)
    assert.truthy(message:find("no known table of measurements", 1, true))
    ok, message = pcall(function() return tperf.validate { fil = "x" } end)
    assert.is_false(ok)
    assert.truthy(message:find("unknown field 'fil'", 1, true))
  end)

  it("draws predicted against measured", function()
    local svg = validate.plot(run "attention.csv"):svg()
    assert.truthy(svg:find("^<svg"))
  end)

  it("survives any text in any column", function()
    local nasty = { "", "nan", "-1", "0", "1e999", "x", "1.5", "99999999999999999999", "inf", "999999999999999" }
    for _, name in ipairs { "steps.csv", "collectives.csv", "gemm.csv", "attention.csv", "memory.csv", "direct.csv",
      "attention_torch.csv", "moe.csv", "mla.csv" } do
      local rows, reader = measured.open("spec/data/measured/" .. name)
      local tried = {}
      for i = 1, sampled(5, 12) do
        local row, names = rows[1 + i * 7], {}
        for key in pairs(row) do
          if key ~= "line" then names[#names + 1] = key end
        end
        table.sort(names)
        for column, key in ipairs(names) do -- every column has half of the texts, or all
          local changed = setmetatable({}, getmetatable(row))
          for k, v in pairs(row) do changed[k] = v end
          changed[key] = nasty[(i + column) % #nasty + 1]
          tried[#tried + 1] = changed
        end
      end
      local cases = measured.predict(tried, reader)
      for _, case in ipairs(cases) do
        assert.is_true(case.predicted > 0 and case.predicted < math.huge, case.label)
      end
    end
  end)
end)

-- A row of a table of training runs, with all that it needs.
local function row_of(fields)
  local row = {}
  for column in ([[source workload gpu gpus gpus_per_node intra inter model layers hidden ffn heads kv_heads head_dim
    seq vocab experts topk moe_ffn mla mlp dtype tp pp vp cp ep sp micro_batch global_batch recompute zero_fsdp iter_s
    tflops_gpu tflops_kind tokens_s_gpu samples_s peak_mem_gib mem_note schedule notes]]):gmatch "%S+" do
    row[column] = ""
  end
  row.source, row.workload, row.gpu, row.gpus, row.dtype = "Megatron-LM", "pretrain", "A100-80GB", "32", "bf16"
  row.tp, row.pp, row.global_batch = "1", "1", "512"
  for column, value in pairs(fields) do row[column] = value end
  return setmetatable(row, { __index = function() return "" end }) -- tables have many more columns
end

describe("a training run's row", function()
  local names = require "tperf.measured.run.names"
  local step_reader = measured.reader { "workload", "gpus", "layers", "hidden", "global_batch", "iter_s" }

  it("may name its model in common spellings", function()
    for text, name in pairs {
      ["LLAMA3.1_405B"] = "llama-3.1-405b", ["Llama3 70B 2-node"] = "llama-3-70b",
      ["DeepSeek V3 671B"] = "deepseek-v3",
      ["deepseekv2-L4"] = "deepseek-v2", ["DeepSeekV3 (w/o MTP)"] = "deepseek-v3", ["Kimi_K2"] = "kimi-k2",
      ["GPT OSS 120B"] = "gpt-oss-120b", ["Qwen3-235B"] = "qwen3-235b-a22b", ["Qwen3 MoE 30B"] = "qwen3-30b-a3b",
      ["Qwen2.5 7B"] = "qwen2.5-7b", ["Nemotron V3 Nano 30B (26.02)"] = "nemotron-3-nano-30b-a3b",
      ["Mixtral 8x7B"] = "mixtral-8x7b", ["GPT3-175B"] = "gpt3-175b",
    } do
      assert.equal(name, names.model(text), text)
    end
    for _, text in ipairs { "", "GPT-1.7B", "Llama-like-7B", "Mixtral", "Qwen3", "3", "GPT-181B-h14336-L72" } do
      assert.is_nil(names.model(text), text)
    end
  end)

  it("overrides the sizes of the model of its name, and may cut it short", function()
    local case = assert(step_reader.case(row_of {
      model = "deepseekv3-L4", layers = "4", hidden = "7168", experts = "64", topk = "8", moe_ffn = "2048", mla = "1",
      seq = "2048", iter_s = "1",
    }))
    local m = case.model
    assert.same({ 4, 64, 2048, 0, 1, 1536 },
      { m.layers, m.experts.count, m.seq, m.mtp, m.experts.dense_layers, m.mla.q_rank })
    assert.equal(129280, m.vocab)
    -- Another model, whose name begins with a known one's.
    local _, reason = step_reader.case(row_of { model = "GPT-2B", hidden = "2304", iter_s = "1" })
    assert.truthy(reason:find "not given")
  end)

  it("may state FLOPs in place of a time, as its source counts them", function()
    -- arXiv 2104.04473, table 1: 1.7 billion parameters, 137 TFLOP/s; 96 B s l h^2 (1 + s / 6h + V / 16lh).
    local l, h, s, v = 24, 2304, 2048, 51200
    local fields = {
      model = "GPT-1.7B", layers = "24", hidden = "2304", heads = "24", seq = "2048", vocab = "51200", mlp = "gelu",
      recompute = "full", tflops_gpu = "137", tflops_kind = "hardware incl. recompute (factor 4)",
    }
    local flops = 96.0 * 512 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))
    assert.near(flops / (137e12 * 32), assert(step_reader.case(row_of(fields))).measured, 0.002 * flops / 4.4e15)
    fields.tflops_kind = "model"
    flops = 72.0 * 512 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h))
    assert.near(flops / (137e12 * 32), assert(step_reader.case(row_of(fields))).measured, 0.002 * flops / 4.4e15)
    fields.tflops_gpu, fields.tokens_s_gpu = "", "1000"
    assert.near(512 * 2048 / 32e3, assert(step_reader.case(row_of(fields))).measured, 1e-9)
    fields.tokens_s_gpu = ""
    local _, reason = step_reader.case(row_of(fields))
    assert.equal("no step time is given", reason)
  end)

  it("is left out if its FLOPs are those of adapters", function()
    -- Two thirds of what training all weights of Llama 3 8B takes, for the same time.
    local fields = { model = "Llama3 8B", seq = "4096", gpus = "1", global_batch = "32", micro_batch = "2",
      gpu = "H100", iter_s = "10.51", tflops_kind = "model", tflops_gpu = "402" }
    local _, reason = step_reader.case(row_of(fields))
    assert.truthy(reason:find "not those of training all weights")
    fields.tflops_gpu = "580"
    assert.truthy(step_reader.case(row_of(fields)))
  end)
end)

describe("a table without stacks", function()
  -- What a row's columns say, by hand: PyTorch's FSDP where nothing cuts the layers, else Megatron-Core.
  local function stack_of(row)
    local zero, whole = row.zero_fsdp:lower(), true
    for _, axis in ipairs { "tp", "pp", "cp", "ep" } do whole = whole and (row[axis] == "" or row[axis] == "1") end
    if row.gpu:find "^TPU" then return "maxtext-2024" end
    if row.peft ~= "" or row.offload ~= "" or zero:find "over" or zero:find "hsdp" then return nil end
    if whole and row.workload == "pretrain" and zero:find "fsdp" then return "fsdp2-2026" end
    return not zero:find "fsdp" and row.compile == "" and "megatron-core-2026" or nil
  end

  it("is predicted as questions that name none: by the stack that each row's layout implies", function()
    local by, counts = {}, { ["fsdp2-2026"] = 0, ["megatron-core-2026"] = 0 }
    local path, lines, number = program.temporary ".csv", {}, 0
    for line in io.lines "spec/data/measured/steps.csv" do
      number = number + 1
      local tried = number == 1 or number % sampled(5, 1) == 0 or line:lower():find("fsdp", 1, true)
      lines[#lines + 1] = tried and line or nil
    end
    program.write(path, table.concat(lines, "\n") .. "\n")
    for name in pairs(counts) do
      by[name] = {}
      for _, case in ipairs(tperf.validate({ file = path, software = name }).cases) do
        by[name][case.row.id] = case.predicted
      end
    end
    for _, case in ipairs(tperf.validate({ file = path, software = "default" }).cases) do
      local name = stack_of(case.row)
      if by[name] then
        counts[name] = counts[name] + 1
        assert.equal(by[name][case.row.id], case.predicted, case.row.id)
      end
    end
    for name, count in pairs(counts) do assert.is_true(count > 1, name) end
  end)

  it("is of training runs alone", function()
    for file, reason in pairs { ["spec/data/measured/serving/closed_loop.csv"] = "is for tables of training runs",
      ["spec/data/measured/gemm.csv"] = "rows name no stack" } do
      local ok, message = pcall(tperf.validate, { file = file, software = "default" })
      assert.is_false(ok)
      assert.truthy(tostring(message):find(reason, 1, true), message)
    end
  end)
end)

describe("tables of training runs", function()
  local gpus = require "tperf.measured.gpus"
  local peak = require "tperf.measured.run.peak"

  it("give a GPU's power limit and memory in its name", function()
    local h100 = tperf.system "h100-sxm"
    assert.is_nil(gpus.variant("H100-80GB", h100))
    assert.is_nil(gpus.variant("H100-80GB 700W", h100))
    local slow = h100:with(gpus.variant("H100-96GB HBM2e 500W", h100)).accelerator
    assert.near(989.4e12 * (500 / 700) ^ (1 / 3), slow.tensor.bf16, 1e8)
    assert.near(133.8e12 * (500 / 700) ^ (1 / 3), slow.vector.bf16, 1e8)
    assert.equal(500, slow.power)
    assert.equal(96e9, slow.hbm.capacity)
    assert.near(2.4e12, slow.hbm.bandwidth, 1) -- six stacks; the H100 PCIe's five have 2 TB/s
  end)

  it("place each row on its own network, whatever its neighbours", function()
    local folder = program.folder()
    local function predicted(head, rows)
      program.write(folder .. "/table.csv", head .. "\n" .. table.concat(rows, "\n") .. "\n")
      local list = {}
      for i, case in ipairs(tperf.validate { file = folder .. "/table.csv" }.cases) do list[i] = case.predicted end
      assert.equal(#rows, #list)
      return list
    end
    local step = "pretrain,32,24,4096,32,2048,64,1.5,A100,MLPerf Training v4.1,1,1,bf16,8x100 Gbps "
    local collective = "all_reduce,A100,1e8,1000,"
    for head, rows in pairs {
      ["workload,gpus,layers,hidden,heads,seq,global_batch,iter_s,gpu,source,tp,pp,dtype,inter"] =
        { step .. "InfiniBand", step .. "EFA", step .. "RoCE", step .. "HDR" },
      ["collective,gpu,size_bytes,time_us,gpus,nodes,inter"] =
        { collective .. "8,4,4x100 Gbps HDR", collective .. "8,4,8x100 Gbps HDR", collective .. "8,4,8x100 Gbps EFA" },
    } do
      local alone = {}
      for i, row in ipairs(rows) do alone[i] = predicted(head, { row })[1] end
      assert.not_equal(alone[1], alone[2])
      assert.same(alone, predicted(head, rows))
    end
    program.remove(folder)
  end)

  it("reads a row's group and network as they are named", function()
    local folder = program.folder()
    program.write(folder .. "/table.csv", "collective,gpu,gpus,nodes,intra,inter,size_bytes,time_us\n"
      .. 'all_gather,TPU v7,4,1,"ICI, gather over one axis of 4 devices",,1000000,20\n'
      .. 'all_gather,TPU v7,8,2,"ICI, gather over one axis of 4 devices",,1000000,20\n' -- two such lines at once
      .. 'all_reduce,V100,16,2,,"EFA, 100 Gb/s a node",100000000,9000\n'
      .. "all_reduce,V100,16,2,,1x100 Gbps EFA,100000000,9000\n"
      .. "all_reduce,V100,16,2,,EFA or InfiniBand,100000000,9000\n")
    local result = tperf.validate { file = folder .. "/table.csv" }
    local times = {}
    for i, case in ipairs(result.cases) do times[i] = case.predicted end
    assert.equal(4, #times)
    assert.equal(times[1], times[2])
    assert.equal(times[4], times[3])
    assert.same({ 1, "the network between the nodes is not named" },
      { result.left_out[1].rows, result.left_out[1].reason })
    program.remove(folder)
  end)

  it("may be read for a named system, with its network", function()
    local folder = program.folder()
    local function predicted(inter, system)
      local head = "workload,gpus,layers,hidden,heads,seq,global_batch,iter_s,gpu,tp,pp,dtype,inter\n"
      local row = "pretrain,32,24,4096,32,2048,64,1.5,A100,1,1,bf16," .. inter
      program.write(folder .. "/table.csv", head .. row .. "\n")
      return tperf.validate {
        file = folder .. "/table.csv", software = "megatron-lm-2022", system = system,
      }.cases[1].predicted
    end
    assert.is_true(predicted "8x10 Gbps EFA" > 1.05 * predicted "")
    assert.equal(predicted("", "a100-sxm-80gb"), predicted("8x10 Gbps EFA", "a100-sxm-80gb"))
    program.remove(folder)
  end)

  it("keeps the fast domain of a named system, whatever that is called and the table calls a node", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    local function predicted(changes)
      local head = "workload,gpus,gpus_per_node,layers,hidden,heads,seq,global_batch,iter_s,gpu,tp,pp,dtype,inter\n"
      program.write(folder .. "/table.csv", head .. "pretrain,32,4,24,4096,32,2048,64,1.5,A100,32,1,bf16,\n")
      return tperf.validate { file = folder .. "/table.csv", software = "megatron-lm-2022",
        system = tperf.system("a100-sxm-80gb"):with(changes) }.cases[1].predicted
    end
    local pod = predicted { name = "pod", network = { fast = { domain = 32 } } }
    assert.equal(pod, predicted { name = "pod-nvl32", network = { fast = { domain = 32 } } })
    assert.is_true(predicted { network = { fast = { domain = 4 } } } > 1.5 * pod)
  end)

  it("have the fastest micro-batch that fits where a run's is not given", function()
    local path = program.temporary()
    local rows = "workload,gpus,layers,hidden,heads,seq,global_batch,iter_s,gpu,tp,pp,dtype,micro_batch\n"
    for _, micro in ipairs { "", 1, 2, 4, 8 } do
      rows = rows .. ("pretrain,8,24,1024,16,2048,64,1.5,A100,1,1,bf16,%s\n"):format(micro)
    end
    program.write(path, rows)
    local predicted = {}
    for i, case in ipairs(tperf.validate { file = path, software = "megatron-lm-2022" }.cases) do
      predicted[i] = case.predicted
    end
    local open, one, two, four, eight = table.unpack(predicted)
    assert.is_true(four < two and two < one)
    assert.is_true(eight < four) -- but its scores, 5 * 16 heads * 2048^2 bytes a sequence and layer, take 64 GB
    assert.equal(four, open)
  end)

  it("may be read for a named stack, and need no more columns than they use", function()
    local path = program.temporary()
    local file = assert(io.open(path, "w"))
    file:write("workload,gpus,layers,hidden,heads,seq,global_batch,iter_s,gpu,tp,pp,dtype\n",
      "pretrain,8,24,1024,16,2048,64,1.5,A100,1,1,bf16\n")
    file:close()
    local unknown = tperf.validate { file = path }
    assert.same({ { source = "", software = "typical", rows = 1 } }, unknown.unknown)
    assert.equal(tperf.validate({ file = path, software = "typical" }).cases[1].predicted, unknown.cases[1].predicted)
    local step = require "tperf.measured.run.step"
    local bare = tperf.validate { file = path, software = "none" } -- the formulas alone, as in training
    local case = bare.cases[1]
    local system, least = tperf.system(case.system), math.huge
    system = system:with(step.system(case, system, false))
    for _, size in ipairs(case.steps) do -- micro-batches that are open
      least = math.min(least, tperf.train(step.request(case, system, "none", size)).time)
    end
    assert.equal(least, case.predicted)
    assert.same({}, bare.unknown)
    assert.truthy(case.predicted < unknown.cases[1].predicted)
    for options, reason in pairs { [{ hold_out = "stack" }] = "refits software profiles",
      [{ file = "spec/data/measured/serving/closed_loop.csv" }] = "software = \"none\" is for tables of training" } do
      local o = { file = path, software = "none" }
      for name, value in pairs(options) do o[name] = value end
      assert.error_matches(function() tperf.validate(o) end, reason)
    end
    local cases = tperf.validate { file = path, software = "megatron-lm-2022" }.cases
    assert.equal(1, #cases)
    local slow = { name = "slow", compute = 3, attention = 3, memory = 3, comm = 3, host = 3e-4, overlap = 0,
      kernel = "unfused" }
    local slower = tperf.validate { file = path, software = slow }.cases
    assert.is_true(slower[1].predicted > 1.5 * cases[1].predicted)
    local ok, message = pcall(tperf.validate, { file = path, software = "megatron-lm-2202" })
    assert.is_false(ok)
    assert.truthy(message:find("did you mean 'megatron-lm-2022'", 1, true))
    os.remove(path)
  end)

  it("take defaults for missing columns and empty cells of kernels' tables", function()
    local path = program.temporary()
    local function predicted(text)
      local file = assert(io.open(path, "w"))
      file:write(text)
      file:close()
      local cases = tperf.validate { file = path }.cases
      assert.equal(1, #cases, text)
      return cases[1].predicted
    end
    local sizes, values = "gpu,phase,batch,seq_q,kv_len,heads,head_dim,time_s", "H100,context,1,4096,4096,32,128,1e-3"
    local given = predicted(sizes .. ",attn_dtype\n" .. values .. ",bf16\n")
    assert.equal(given, predicted(sizes .. "\n" .. values .. "\n"))
    assert.equal(given, predicted(sizes .. ",attn_dtype\n" .. values .. ",\n"))
    sizes = "gpu,dtype,tokens,hidden,moe_inter,experts,topk,tp,ep,time_s"
    values = "H100,bf16,512,4096,1024,64,4,1,1,1e-3"
    given = predicted(sizes .. ",distribution\n" .. values .. ",balanced\n")
    assert.equal(given, predicted(sizes .. "\n" .. values .. "\n"))
    os.remove(path)
  end)

  it("show peak memory as the tool in the notes does", function()
    local function held(total) -- with two communicators
      return { total = total, buffers = 256 * 2 ^ 20 + 64 * 2 ^ 20, runtime = 0 }
    end
    local stages = { { memory = held(10e9) }, { memory = held(40e9) }, { memory = held(30e9) } }
    local nccl = 256 * 2 ^ 20
    local function shown(note) return peak.shown(stages, note) end
    assert.equal(40e9 - nccl, shown "")
    assert.equal(40e9 - nccl, shown "max allocated over ranks; reserved 41 GiB")
    assert.equal(30e9 - nccl, shown "mem-max-allocated-bytes of the logging (last) rank")
    assert.near(1.05 * (40e9 - nccl), shown "max reserved over ranks as logged (GiB)", 1)
    assert.near(1.05 * (40e9 - nccl) + nccl + 1.5 * 2 ^ 30, shown "GB as reported (nvidia-smi class)", 1)
    assert.equal(40e9 - nccl, shown "peak; allocated or reserved not stated")
    assert.equal(40e9 - nccl + 7, peak.shown(stages, "", 7))
  end)
end)

describe("software profiles", function()
  local rows, reader = measured.open "spec/data/measured/steps.csv"
  local cases = measured.predict(rows, reader)

  local function of(stack)
    local list = {}
    for _, case in ipairs(cases) do
      if case.stack == stack then list[#list + 1] = case end
    end
    return list
  end

  -- At most `most` of a list, evenly spread.
  local function some(list, most)
    local part = math.max(#list / most, 1)
    local few = {}
    for i = 1, math.floor(#list / part) do few[i] = list[math.floor(1 + (i - 1) * part)] end
    return few
  end

  it("err little more on held-out runs, whichever those are", function()
    for _, stack in ipairs { "llm-foundry-2023", sampled(nil, "megatron-deepspeed-2022") } do
      local errors = {}
      local list = some(of(stack), sampled(16, math.huge))
      local values = profile.best(list)
      local all = fit.errors(profile.add_ratios({}, list, values))
      for salt = 1, sampled(2, 3) do
        local near = sampled(values, nil) -- takes a fifth of the time
        local held = fit.errors(profile.thirds(list, salt, near))
        assert.is_true(held.rows >= 15)
        assert.is_true(held.mean < all.mean + 0.04, stack)
        errors[salt] = held.mean
      end
      assert.is_true(math.max(table.unpack(errors)) - math.min(table.unpack(errors)) < 0.05, stack)
    end
  end)

  it("are pulled to what the other stacks of their kind share, of few runs", function()
    local names = { "internevo-2024", "llm-foundry-2023", "torchtitan-2024" }
    local all, by_stack = some(of "llm-foundry-2023", 12), {}
    for i, name in ipairs(names) do by_stack[name] = table.move(all, 4 * i - 3, 4 * i, 1, {}) end
    local usual = kinds.usual(by_stack)
    local shared = usual "torchtitan-2024"
    by_stack["torchtitan-2024"] = {} -- its own runs say nothing of what is usual
    assert.same(shared, kinds.usual(by_stack) "torchtitan-2024")
    assert.is_nil(usual "nemo-24.11") -- `tuned`: there is no stack of that kind
    local two = { all[1], all[2] }
    local function memory(value)
      local center = {}
      for name, number in pairs(shared) do center[name] = number end
      center.memory = value
      return profile.best(two, nil, center).memory
    end
    assert.is_true(memory(1) < memory(2.5))
  end)

  it("have at most six numbers to fit", function()
    assert.is_true(#profile.parameters <= 6)
  end)

  it("give the interval in which similar runs lie", function()
    local list, inside = of "llm-foundry-2023", 0
    local p = tperf.software "llm-foundry-2023"
    for _, case in ipairs(list) do
      local part = case.measured / case.predicted
      if p.spread[1] <= part and part <= p.spread[2] then inside = inside + 1 end
    end
    assert.is_true(inside >= 0.85 * #list and inside < #list)
  end)

  it("turn a configuration into a step, and warn of settings that no run had", function()
    local question = {
      model = "gpt3-175b", system = "a100-sxm-80gb", global_batch = 1536, tp = 8, pp = 8, dp = 8, micro_batch = 4,
      recompute = "full", sequence_parallel = false, zero = 0, attention = "unfused",
      fast = { tp = 8, dp = 1, pp = 1 }, -- where the host determines the time, other placements take as long
    }
    local bare = tperf.train(question)
    question.software = "megatron-deepspeed-2022"
    local real = tperf.train(question)
    assert.near(58.24, real.time, 0.15 * 58.24) -- vTrain's measurement of these sizes
    assert.is_true(real.interval.low < real.time and real.time < real.interval.high)
    assert.same({}, real.warnings)
    local sum = 0
    for _, part in pairs(real.breakdown) do sum = sum + part end
    assert.near(real.time, sum, 1e-9 * sum)
    assert.near(bare.mfu_all_pairs * bare.time, real.mfu_all_pairs * real.time, 1e-9)
    -- CUDA graphs: the host never holds the kernels up.
    question.software = tperf.software "megatron-deepspeed-2022":with { host = 0.01, pytorch_modules = false }
    local slow_host = tperf.train(question)
    assert.is_true(slow_host.breakdown.host > 0)
    question.software = question.software:with { host = 0 }
    local graphs = tperf.train(question)
    assert.equal(0, graphs.breakdown.host)
    -- No pass is as short as its launches; thirty calls more wait for every message, and others come once an iteration.
    local calls = 30 * 2 * (real.microbatches + question.pp - 1) + tperf.software "megatron-deepspeed-2022".step_calls
    local messages = calls * tperf.system(question.system).host.slowness
    question.software = question.software:with { host = 1e-9 }
    assert.near(graphs.time + messages * 1e-9, tperf.train(question).time, 1e-12 * graphs.time)
    assert.is_true(graphs.time < slow_host.time)
    assert.is_true(graphs.breakdown.bubble < slow_host.breakdown.bubble)
    question.software = "megatron-deepspeed-2022"
    question.system = "h100-sxm"
    assert.truthy(tperf.train(question).warnings[1]:find("no run of megatron-deepspeed-2022 on h100-sxm", 1, true))
  end)

  it("never take less for a slower stack", function()
    local base = tperf.software "megatron-core-simumax-1.2"
    for _, p in ipairs(profile.parameters) do
      local slower = { [p.name] = p.name == "overlap" and 0 or 2 * base[p.name] + 1e-9 }
      local terms = runtime.terms(base:with(slower))
      assert.is_true(seconds(cases[1], terms) >= seconds(cases[1], runtime.terms(base)), p.name)
    end
  end)
end)

describe("a run's stack", function()
  it("follows from its source first, since tables are named after models and releases", function()
    for _, one in ipairs {
      { "NVIDIA DGX Cloud benchmarking recipes", "Nemotron4 15b BF16", "nemo-24.11" },
      { "NVIDIA DGX Cloud benchmarking recipes", "MaxText Llama2-70B FP8", "maxtext-2024" },
      { "NVIDIA Megatron-Bridge performance summary", "25.11 NeMo Container / DGX-B200", "megatron-bridge-25.09" },
      { "NVIDIA Megatron-Bridge performance summary", "26.04 NeMo Container / DGX-B200", "megatron-bridge-26.02" },
      { "NVIDIA Megatron-Bridge performance summary", "26.08 NeMo Container / DGX-B200", "megatron-bridge-26.06" },
      { "Megatron-Bridge model verification cards", "26.08 rc pretrain_performance H100 x_pretrain_config",
        "megatron-bridge-26.06" },
      { "Megatron-Bridge model verification cards", "26.08 rc pretrain H100 x_pretrain_config",
        "megatron-bridge-26.08-functional" },
      { "Megatron-Core MoE paper (Table 11)", "Table 11", "megatron-core-moe-2025" },
      { "Megatron-LM golden values (CI small models)", "gpt3_mcore_tp1_pp2", "megatron-core-ci-2025" },
      { "Megatron-LM golden values (release)", "gpt3_15b_8t_release", "megatron-core-simumax-1.2" },
    } do
      assert.equal(one[3], stacks.of(one[1], one[2]), one[1] .. ", " .. one[2])
    end
    assert.is_false(stacks.of("Megatron-Core DeepSeek-V3 on GB200 (optimisation history)", "3. Summary"))
  end)

  it("has a profile, and so have the kinds of stacks", function()
    for _, name in ipairs { "nemo-24.11", "nanotron-2025", "torchao-2025", "typical", "tuned" } do
      assert.is_true(tperf.software(name).runs > 0, name)
    end
  end)

  it("is listed with the runs that its profile was fitted to", function()
    local out = program.ask("tperf list software --wide").out
    assert.truthy(out:find "^name +runs +GPUs +error +nine in ten +systems\n[^\n]+\ntypical ")
    local p = tperf.software "llm-foundry-2023"
    local systems = table.concat(p.systems, " "):gsub("%-", "%%-")
    local line = ("llm%%-foundry%%-2023 +%d +%d%%-%d +[%%d.]+ %%%% +[%%d.]+%%-[%%d.]+ +%s\n"):format(
      p.runs, p.gpus[1], p.gpus[2], systems)
    assert.truthy(out:find(line))
  end)

  it("spares the host its launches if CUDA graphs hold the whole iteration", function()
    local reader = measured.reader { "workload", "gpus", "layers", "hidden", "global_batch", "iter_s" }
    local function case(graph)
      return assert(reader.case(row_of { model = "Llama3 8B", seq = "4096", global_batch = "32", iter_s = "1",
        gpu = "H100", cuda_graph = graph }))
    end
    for text, graphs in pairs {
      [""] = false, none = false, ["local:full_iteration"] = true, ["transformer_engine:attn"] = false,
      ["per layer (MCORE_CUDA_GRAPH) + full iteration"] = true, ["per layer (MCORE_CUDA_GRAPH)"] = true,
    } do
      local one = case(text)
      one.predictors = { function(terms) return terms.host end }
      assert.equal(graphs and 0 or 3e-6, seconds(one, { host = 3e-6 }), text)
    end
  end)
end)

-- Runs of stacks whose steps take `factor` times the compute. Their predictors depend on compute only, so that the
-- best fit is known.
local function made(runs)
  local cases = {}
  for i, one in ipairs(runs) do
    cases[i] = {
      stack = one.stack, source = one.stack, system = one.system or "h100-sxm", label = one.label or "Llama 3 8B",
      model = tperf.model "llama-3.1-8b", sizes = { gpus = one.gpus or 8 },
      profile = { optimizer = 0.7 }, measured = one.factor * (1 + i % 3),
      predictors = { function(terms) return terms.compute * (1 + i % 3) end },
    }
  end
  return cases
end

local function repeated(fields, times)
  local list = {}
  for i = 1, times do list[i] = fields end
  return list
end

local function joined(...)
  local list = {}
  for _, part in ipairs { ... } do table.move(part, 1, #part, #list + 1, list) end
  return list
end

describe("held-out validation", function()
  it("predicts each system of a stack by a fit to its others", function()
    -- 6 runs of either system: those on one take 1.0 times as long, those on the other 1.2.
    local cases = made(joined(repeated({ stack = "torchtitan-2024", factor = 1 }, 6),
      repeated({ stack = "torchtitan-2024", factor = 1.2, system = "b200-sxm" }, 6)))
    local rows, over = holdout.run(cases, "system")
    assert.same({ "b200-sxm", "h100-sxm" }, { rows[1].group, rows[2].group })
    assert.near(1 / 1.2 - 1, rows[1].bias, 2e-3)
    assert.near(0.2, rows[2].bias, 2e-3)
    assert.same({ 6, 6, 0, 0 }, { rows[1].runs, rows[2].runs, rows[1].within, rows[2].within })
    assert.same({ 2, 12, "torchtitan-2024 h100-sxm" }, { over.groups, over.runs, over.worst_group })
    assert.near((rows[1].median + rows[2].median) / 2, over.median, 1e-12)
  end)

  it("takes the interval of a system new to a stack from other stacks' errors there", function()
    local function both(stack, factor)
      local runs = sampled(10, 15)
      return joined(repeated({ stack = stack, factor = 1 }, runs),
        repeated({ stack = stack, factor = factor, system = "b200-sxm" }, runs))
    end
    local rows = holdout.run(made(joined(both("torchtitan-2024", 1.2), both("nanotron-2025", 1.3))), "system")
    local within = {}
    for i, row in ipairs(rows) do within[i] = row.stack .. " " .. row.group .. " " .. row.within end
    -- 1.3 covers 1.2, but not the other way round.
    assert.same({ "nanotron-2025 b200-sxm 0.0", "nanotron-2025 h100-sxm 0.0", "torchtitan-2024 b200-sxm 1.0",
      "torchtitan-2024 h100-sxm 1.0" }, within)
  end)

  it("leaves out models that only tests train", function()
    local cases = made(joined(repeated({ stack = "megatron-core-ci-2025", factor = 1 }, 9),
      repeated({ stack = "megatron-core-ci-2025", factor = 1, system = "b200-sxm" }, 9)))
    local ok, message = pcall(holdout.run, cases, "system")
    assert.is_false(ok)
    assert.truthy(message:find("no two groups", 1, true))
  end)

  it("fits to the smaller half of the numbers of GPUs, and predicts the larger", function()
    local runs = {}
    for _, gpus in ipairs { 8, 16, 32, 64, 128 } do
      runs = joined(runs, repeated({ stack = "torchtitan-2024", factor = gpus > 32 and 1.5 or 1, gpus = gpus }, 4))
    end
    local rows = holdout.run(made(runs), "scale")
    assert.same({ 1, "over 32 GPUs", 8 }, { #rows, rows[1].group, rows[1].runs })
    assert.near(1 / 1.5 - 1, rows[1].bias, 2e-3)
  end)

  it("recognises families of models by the first word of their names", function()
    local rows = holdout.run(made(joined(
      repeated({ stack = "torchtitan-2024", factor = 1, label = "LLAMA3.1_405B" }, 4),
      repeated({ stack = "torchtitan-2024", factor = 1, label = "DeepSeek V3 671B" }, 4),
      repeated({ stack = "torchtitan-2024", factor = 1, label = "deepseekv2-L4" }, 4))), "model")
    assert.same({ "deepseek", 8, "llama", 4 }, { rows[1].group, rows[1].runs, rows[2].group, rows[2].runs })
  end)

  it("holds each third back, and finds similar runs within the interval", function()
    local runs = {}
    local count <const> = sampled(24, 60)
    for i = 1, count do runs[i] = { stack = "torchtitan-2024", factor = 1.2 + 0.01 * (i * 7 % 20) } end
    local rows, over = holdout.run(made(runs), "third")
    assert.same({ 1, count }, { #rows, rows[1].runs })
    assert.is_true(rows[1].median < 0.05)
    assert.is_true(over.within >= 0.8 and over.within <= 1)
  end)

  it("predicts a stack by those of its kind, each with the same weight, and an old one by typical", function()
    -- Medians of 1, 1.2 and 1.4 weigh the same, whatever the number of runs; stacks that were tuned do not count.
    local few, many = sampled(3, 9), sampled(6, 24)
    local rows = holdout.run(made(joined(repeated({ stack = "torchtitan-2024", factor = 1.2 }, 3),
      repeated({ stack = "internevo-2024", factor = 1 }, many),
      repeated({ stack = "fms-fsdp-2024", factor = 1.4 }, many),
      repeated({ stack = "llm-foundry-2023", factor = 1 }, few),
      repeated({ stack = "nanotron-2025", factor = 1.4 }, few),
      repeated({ stack = "bigscience-2022", factor = 1.2 }, few),
      repeated({ stack = "nemo-mlperf-3.1", factor = 2 }, few))),
      "stack")
    local bias = {}
    for _, row in ipairs(rows) do bias[row.stack] = row.bias end
    assert.is_nil(bias["nemo-mlperf-3.1"]) -- no two others that were tuned
    assert.near(0, bias["bigscience-2022"], 5e-2)
    assert.is_true(bias["internevo-2024"] > 0.19 and bias["fms-fsdp-2024"] < -0.14)
  end)

  it("predicts an old stack by the kind of its publisher's other stacks", function()
    local runs = {}
    for stack, factor in pairs { ["nemo-24.11"] = 1.2, ["nemo-mlperf-3.1"] = 1.2, ["nemo-long-2025"] = 1.2,
      ["internevo-2024"] = 1, ["torchtitan-2024"] = 1, ["nanotron-2025"] = 1, ["megatron-lm-2022"] = 1.2,
      ["rocm-mlperf-5.0"] = 1.2, ["bigscience-2022"] = 1 } do
      runs = joined(runs, repeated({ stack = stack, factor = factor }, sampled(2, 9)))
    end
    local rows = holdout.run(made(runs), "stack")
    local by = {}
    for _, row in ipairs(rows) do by[row.stack] = row end
    assert.same({ "by tuned", "by typical" }, { by["megatron-lm-2022"].group, by["bigscience-2022"].group })
    for _, name in ipairs { "megatron-lm-2022", "rocm-mlperf-5.0", "bigscience-2022" } do
      assert.near(0, by[name].bias, 5e-2, name)
    end
    assert.equal("by tuned", by["rocm-mlperf-5.0"].group)
  end)

  it("needs groups, and training runs", function()
    local ok, message = pcall(holdout.run, made(repeated({ stack = "torchtitan-2024", factor = 1 }, 9)), "system")
    assert.is_false(ok)
    assert.truthy(message:find("no two groups to hold out by system", 1, true))
    ok, message = pcall(tperf.validate, { file = "spec/data/measured/gemm.csv", hold_out = "stack" })
    assert.is_false(ok)
    assert.truthy(message:find("'hold_out' refits to training runs", 1, true))
  end)

  it("prints a row a group, and a line over them", function()
    local path = program.folder()
    local head, rows = nil, {}
    for line in program.slurp "spec/data/measured/steps.csv":gmatch "[^\n]+" do
      head = head or line
      if line:find "InternEvo" or line:find "llm%-foundry" and #rows < sampled(8, 20) then rows[#rows + 1] = line end
    end
    program.write(path .. "/few.csv", head .. "\n" .. table.concat(rows, "\n") .. "\n")
    local ask = ("tperf validate %s/few.csv --out %s/out.csv"):format(path, path)
    program.ask(ask)
    local seen = program.slurp(path .. "/out.csv")
    local result = program.ask(ask .. " --hold-out scale")
    assert.truthy(result.out:find "held out +runs +median")
    assert.truthy(result.out:find "\n%d groups: median [%d.]+ %%, worst [%d.]+ %% %(.-%)\n")
    local runs, median = result.out:match "\n(%d+) held%-out runs: median ([%d.]+) %%, p90 [%d.]+ %%; %d+ %% lie in "
    -- The file has the runs held out, as the fits without them predict them.
    local errors = {}
    for line in program.slurp(path .. "/out.csv"):gmatch "[^\n]+" do
      local error = tonumber(line:match "([^,]*),[^,]*,[^,]*$")
      if error then errors[#errors + 1] = math.abs(error) end
      assert.is_true(not error or not seen:find(line, 1, true), line)
    end
    table.sort(errors)
    assert.equal(tonumber(runs), #errors)
    local half = #errors // 2
    assert.near(tonumber(median), 50 * (errors[half + #errors % 2] + errors[half + 1]), 0.05)
    program.remove(path)
  end)
end)

describe("tperf.validate of serving", function()
  local function of(rows, metric, group)
    for _, row in ipairs(rows) do
      if row.metric == metric and row.group == (group or "all") then return row end
    end
  end

  it("holds stages of open loops to the errors promised, and has other simulators beside them", function()
    local folder, kept = program.folder(), {}
    program.shell("cp spec/data/measured/serving/*.* " .. program.quote(folder))
    for line in io.lines "spec/data/measured/serving/measured.csv" do
      if sampled(not line:find "^blis%-60", true) then kept[#kept + 1] = line end -- two runs of three that are clear
    end
    program.write(folder .. "/measured.csv", table.concat(kept, "\n") .. "\n")
    local result = tperf.validate { file = folder .. "/measured.csv" }
    program.remove(folder)
    assert.equal("open loop", result.kind)
    assert.equal(sampled(3, 5), of(result.metrics, "E2E").rows)
    assert.is_true(of(result.metrics, "E2E").median <= 0.05)
    assert.is_true(of(result.metrics, "TPOT").median <= 0.05)
    assert.is_true(of(result.metrics, "TTFT").median <= 0.12)
    assert.is_true(of(result.metrics, "KV cache").median <= 0.1)
    assert.equal(2, of(result.model, "TTFT", "yi-34b").rows)
    assert.equal(sampled(3, 5), of(result.gpu, "E2E", "h100-sxm").rows)
    assert.are.same({ { reason = "conditions are not clear: overload", rows = 1 } }, result.left_out)
    local vidur
    for _, row in ipairs(result.others) do
      if row.simulator == "vidur" and row.metric == "E2E" then vidur = row end
    end
    -- its row of the table: 12.1866948 s for 17.0621273
    assert.near(12.1866948 / 17.0621273 - 1, vidur.bias, 1e-3)
    assert.is_true(vidur.ours.median < vidur.median)
  end)

  it("reads closed loops by engine, and says why it leaves rows out", function()
    -- Eleven rows of long answers or many requests take longer than the other 29.
    local SLOW <const> = { "qwen3_5_b200_sglang", "dsr1_b200_sglang_fp8_agg_1024x1024_c64", "glm_5_b200",
      "gpt_oss_120b_h100_sxm_vllm", "llama_3_1_70b_h200_sxm_trtllm", "llama_3_1_70b_b200_sxm_trtllm",
      "qwen3_5_397b_h200_sxm_sglang", "minimax_m2_5_b200_sxm_vllm_fp8_agg_1024x1024_c256",
      "minimax_m2_5_b200_sxm_vllm_fp4", "qwen3_32b_h100_sxm_trtllm_agg_4096x512" }
    local path, kept = program.temporary ".csv", {}
    for line in io.lines "spec/data/measured/serving/closed_loop.csv" do
      local slow = #lists.where(SLOW, function(name) return line:find(name, 1, true) end) > 0
      if sampled(not slow, true) then kept[#kept + 1] = line end
    end
    program.write(path, table.concat(kept, "\n") .. "\n")
    local result = tperf.validate { file = path }
    os.remove(path)
    assert.equal(sampled(29, 40), result.rows)
    assert.equal(4 * sampled(7, 18), #result.cases)
    assert.is_true(of(result.metrics, "throughput").median <= 0.15)
    assert.equal(sampled(2, 7), of(result.engine, "TPOT", "sglang").rows)
    local left = 0
    for _, reason in ipairs(result.left_out) do left = left + reason.rows end
    assert.equal(22, left)
  end)

  it("spreads experts over GPUs, and stores them, as a closed loop's row and checkpoint have it", function()
    local path = os.tmpname()
    local columns = "origin,engine,engine_version,date,gpu,model,precision,mode,mtp,quality,duplicate_of,tp,pp,"
      .. "attention_dp,moe_tp,moe_ep,concurrency,isl,osl,osl_mean,ttft_s,tpot_s\n"
    local function tpot(model, precision, moe_tp, moe_ep)
      program.write(path, columns .. ("InferenceX,vllm,0.19.0,2026-04-22,NVIDIA B200 SXM 180GB,%s,%s,agg,no,clean,,"
        .. "4,1,1,%d,%d,4,128,64,64,0.1,0.01\n"):format(model, precision, moe_tp, moe_ep))
      for _, case in ipairs(tperf.validate { file = path }.cases) do
        if case.metric == "TPOT" then return case.predicted end
      end
    end
    local minimax = "MiniMaxAI/MiniMax-M2.5"
    local function served(more)
      local q = { model = "minimax-m2", system = "b200-sxm", tp = 4, software = "vllm-0.15", load = { concurrency = 4 },
        count = 40, prompt = { uniform = { 103, 128 } }, output = { uniform = { 52, 64 } },
        engine = { max_num_seqs = 512, max_num_batched_tokens = 256, max_cudagraph_capture_size = 2048,
          prefix_caching = false, async_scheduling = true } }
      for name, value in pairs(more) do q[name] = value end
      return tperf.serve(q).whole.tpot.mean -- a benchmark reports all its requests
    end
    local narrow = { precision = { recipe = "nvfp4", products = "experts" }, kv_dtype = "fp8" }
    assert.equal(served(narrow), tpot(minimax, "fp4", 4, 1))
    narrow.ep, narrow.etp = 4, 1
    assert.equal(served(narrow), tpot(minimax, "fp4", 1, 4))
    local wide = { weight_dtype = "fp8", compute_dtype = "fp8", kv_dtype = "fp8" }
    assert.equal(served(wide), tpot(minimax, "fp8", 4, 1))
    os.remove(path)
  end)

  it("reads static batches and runs timed request by request", function()
    local path, rows, count = program.temporary ".csv", {}, 0
    for line in io.lines "spec/data/measured/serving/published_tables.csv" do
      count = count + (line:find "TensorRT%-LLM" and 1 or 0)
      if #rows == 0 or sampled(line:find "TensorRT%-LLM" and count % 2 == 0, true) then rows[#rows + 1] = line end
    end
    program.write(path, table.concat(rows, "\n") .. "\n")
    local static = tperf.validate { file = path }
    assert.equal(sampled(6, 27), #static.cases)
    assert.is_true(of(static.engine, "E2E", "TensorRT-LLM").median <= 0.15)
    local requests = run "serving/rtxpro6000.requests.csv"
    assert.equal(300, requests.rows)
    -- the mean of last_token_s - queued_s in the table
    local e2e = requests.cases[1]
    assert.equal("E2E", e2e.metric)
    assert.near(28.2007, e2e.measured, 0.01)
    assert.is_true(math.abs(e2e.predicted / e2e.measured - 1) <= 0.2)
    assert.equal("LLMServingSim 2.0", requests.others[1].simulator)
  end)

  it("refuses invalid files beside a table", function()
    local folder = program.folder()
    local table_of = program.slurp "spec/data/measured/serving/measured.csv"
    program.write(folder .. "/measured.csv", table_of)
    for text, message in pairs {
      ["[3]"] = "runs.json: run 1: an object is needed, got 3", ['"a"'] = "runs.json: JSON is needed",
      ['[{"run_id": "x"}]'] = "runs.json: run 1: 'gpu' must be a string, got nil",
    } do
      program.write(folder .. "/runs.json", text)
      local ok, problem = pcall(tperf.validate, { file = folder .. "/measured.csv" })
      assert.is_false(ok)
      assert.truthy(problem:find(message, 1, true), problem)
    end
    program.remove(folder)
  end)

  sampled(function() end, it)("reads a run of which the table has a later stage alone", function()
    local folder, rows = program.folder(), {}
    program.shell("cp spec/data/measured/serving/*.* " .. program.quote(folder))
    for line in io.lines "spec/data/measured/serving/measured.csv" do
      if #rows == 0 or line:find "^blis%-60,1," then rows[#rows + 1] = line end
    end
    program.write(folder .. "/measured.csv", table.concat(rows, "\n") .. "\n")
    local result = tperf.validate { file = folder .. "/measured.csv" }
    program.remove(folder)
    assert.equal(1, of(result.metrics, "E2E").rows)
  end)

  it("prints the errors by metric, and the rest as JSON", function()
    local table_of = sampled("rtxpro6000.requests", "measured") -- one run; four
    local text = program.ask(("tperf validate spec/data/measured/serving/%s.csv"):format(table_of)).out
    assert.truthy(text:find(("E2E +all +%d "):format(sampled(1, 5))), text)
    assert.truthy(text:find("other simulators, and tperf on the same rows:", 1, true))
    assert.truthy(text:find(sampled("3 figures of 300 rows", "23 figures of 10 rows"), 1, true), text)
  end)
end)

describe("A pipe", function()
  it("is read again after a table that cannot be predicted", function()
    local folder = program.folder()
    local pipe = folder .. "/pipe"
    local function comes(command) os.execute(("%s > '%s' &"):format(command, pipe)) end
    assert.truthy(os.execute(("mkfifo '%s'"):format(pipe)))
    comes "printf 'a,b\\n1,2\\n'"
    local ok, why = pcall(tperf.validate, { file = pipe })
    assert.is_false(ok)
    assert.truthy(why:find("its columns (a, b)", 1, true), why)
    comes "cat spec/data/measured/direct.csv"
    assert.equal(run("direct.csv").predicted, tperf.validate { file = pipe }.predicted)
    program.remove(folder)
  end)
end)

describe("A row that tperf.validate cannot predict", function()
  local csv = require "tperf.input.csv"

  -- The first rows of a table, the first of them with another text in some columns, validated.
  local function changed(name, columns, which)
    local folder, rows, list = program.folder(), csv.read("spec/data/measured/" .. name), {}
    local names = csv.columns("spec/data/measured/" .. name)
    local extra = {}
    for column in pairs(columns) do
      if not lists.has(names, column) then extra[#extra + 1] = column end
    end
    table.move(extra, 1, #extra, #names + 1, names)
    local function add(row, with)
      local cells = {}
      for i, column in ipairs(names) do
        cells[i] = '"' .. ((with[column] or row[column] or ""):gsub('"', '""')) .. '"'
      end
      list[#list + 1] = table.concat(cells, ",")
    end
    list[1] = table.concat(names, ",")
    add(rows[which or 1], columns)
    add(rows[which or 1], {})
    program.write(folder .. "/t.csv", table.concat(list, "\n") .. "\n")
    local result = tperf.validate { file = folder .. "/t.csv" }
    program.remove(folder)
    return result
  end

  local function leaves_out(name, columns, reason, which)
    local result = changed(name, columns, which)
    assert.equal(1, result.predicted, name .. ": " .. reason)
    assert.equal(1, #result.left_out, reason)
    assert.equal(1, result.left_out[1].rows)
    assert.truthy(result.left_out[1].reason:find(reason, 1, true), result.left_out[1].reason)
  end

  it("is left out if a column has a word that is not known, which it names", function()
    for column, word in pairs { dtype = "xyz", zero_fsdp = "zorro", sp = "yes", attention_backend = "quick",
      cuda_graph = "some", compile = "maybe", grad_reduce_dtype = "int3", offload = "fine-grained:nothing",
      gpus_per_node = "eight", pp_layout = "round", schedule = "zbv", optimizer = "lamb", fp8_recipe = "odd",
      tp = "two", mlp = "cubed", moe_dispatcher = "pigeon" } do
      local named = column == "offload" and "nothing" or word
      leaves_out("steps.csv", { [column] = word }, ("'%s' in column %s is not known"):format(named, column))
    end
    leaves_out("steps.csv", { dtype = "int4 (AQT) matmuls, bf16" }, "'int4 (AQT) matmuls, bf16' in column dtype")
    leaves_out("steps.csv", { dtype = "fp32" }, "'fp32' in column dtype")
    leaves_out("gemm.csv", { dtype = "xyz" }, "'xyz' in column dtype is not known")
    leaves_out("attention.csv", { attn_dtype = "xyz" }, "'xyz' in column attn_dtype is not known")
    leaves_out("attention.csv", { kv_dtype = "xyz" }, "'xyz' in column kv_dtype is not known")
    leaves_out("decode.csv", { window = "wide" }, "'wide' in column window is not known")
    leaves_out("moe.csv", { dtype = "xyz" }, "'xyz' in column dtype is not known")
    leaves_out("moe.csv", { gated = "maybe" }, "'maybe' in column gated is not known")
    leaves_out("mla.csv", { kv_dtype = "xyz" }, "'xyz' in column kv_dtype is not known")
  end)

  it("is left out with its reason if its layout cannot be", function()
    local rows, which = csv.read "spec/data/measured/steps.csv", nil
    for i, row in ipairs(rows) do
      if not which and row.pp == "2" and changed("steps.csv", {}, i).predicted == 2 then which = i end
    end
    for layout, reason in pairs { ["Et*3||L"] = "pipeline_layout", ["Et(|L"] = "pipeline_layout",
      ["first 999"] = "layers" } do
      local result = changed("steps.csv", { pp_layout = layout }, which)
      assert.equal(2, result.rows)
      assert.equal(1, result.predicted, layout)
      assert.truthy(result.left_out[1].reason:find(reason, 1, true), result.left_out[1].reason)
    end
  end)
end)
