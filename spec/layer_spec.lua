-- tperf.layer: the ops of one layer, against the published formula sheet and program.
local tperf = require "tperf"
local csv = require "csv"
local published = require "published"
local near = published.near

local GPT3_1T = "subramanian2024/gpt3_1T"
local VIT = "subramanian2024/vit_era5"

-- One op of a layer by its block and name.
local function op_named(ops, block, name)
  for _, op in ipairs(ops) do
    if op.block == block and op.name == name then return op end
  end
  error(("no op %s in block %s"):format(name, block))
end

describe("tperf.layer under the published rules", function()
  local one = { strategy = "tensor", model = GPT3_1T, tp = 8, fast = { tp = 4 } }
  local grid = { strategy = "summa", model = VIT, tp1 = 4, tp2 = 7, panels = 16, fast = { tp1 = 4, tp2 = 1 } }
  local context = { strategy = "context", model = VIT, tp = 4, cp = 7, fast = { tp = 4, cp = 1 } }
  local BLOCKS = { -- of the sheet: request, block, attention
    ["MLP-TP"] = { one, "mlp" },
    ["ATT-TP"] = { one, "attention" },
    ["ATT-TP-UNFUSED"] = { one, "attention", "unfused" },
    ["MLP-SU"] = { grid, "mlp" },
    ["ATT-SU-CP"] = { grid, "attention" },
    ["ATT-SU-FULL"] = { grid, "attention", "summa" },
    ["MLP-CP"] = { context, "mlp" },
    ["ATT-CP"] = { context, "attention" },
    ["ATT-CP-UNFUSED"] = { context, "attention", "unfused" },
  }

  local function layer_of(request, attention)
    local copy = { system = published.system("H200", 8), rules = "subramanian2024", attention = attention }
    for field, value in pairs(request) do copy[field] = value end
    return tperf.layer(copy)
  end

  it("gives the formula sheet's golden values, op by op", function()
    local rows, seen = csv.rows "spec/data/training/golden_ops.csv", {}
    for _, row in ipairs(rows) do
      local request, block, attention = table.unpack(BLOCKS[row.block])
      local op = op_named(layer_of(request, attention), block, row.op)
      local at = row.block .. " " .. row.op .. " "
      near(row.flops_forward, op.forward.equivalent_flops, at .. "F_f", 1e-12)
      near(row.flops_backward, op.backward.equivalent_flops, at .. "F_b", 1e-12)
      near(row.bytes_forward, op.forward.bytes, at .. "M_f", 1e-12)
      near(row.bytes_backward, op.backward.bytes, at .. "M_b", 1e-12)
      near(row.weight_bytes, op.weight_bytes, at .. "W", 1e-12)
      near(row.saved_bytes, op.saved_bytes, at .. "A", 1e-12)
      near(row.time_forward, op.forward.time, at .. "time_f", 1e-12)
      near(row.time_backward, op.backward.time, at .. "time_b", 1e-12)
      seen[row.block] = true
    end
    for block in pairs(BLOCKS) do assert.is_true(seen[block], block) end
    assert.equal(54, #rows)
  end)

  local WHAT = { -- of the program's functions: strategy, block
    mlp_1d = { "tensor", "mlp" }, sa_1d = { "tensor", "attention" },
    mlp_2d = { "summa", "mlp" }, sa_2d = { "summa", "attention", "summa" }, sa_2d_seqp = { "summa", "attention" },
    mlp_seqp = { "context", "mlp" }, sa_seqp = { "context", "attention" },
  }
  local AXES = { tensor = { "tp" }, summa = { "tp1", "tp2" }, context = { "tp", "cp" } }

  local function request_of(row)
    local what = WHAT[row["function"]]
    local strategy, attention = what[1], what[3]
    if not attention and what[2] == "attention" then
      attention = row.flash_attention == "True" and "flash" or row.attention_recompute == "True" and "recompute"
        or "unfused"
    end
    local n = function(name) return tonumber(row[name]) end
    local request = {
      model = { name = row.model, layers = 1, hidden = n "e", ffn = n "f", heads = n "h", seq = n "l" },
      system = published.system(row.system, row.nvlink_size), rules = "subramanian2024", strategy = strategy,
      attention = attention, micro_batch = n "b", panels = n "summa_nb", fast = {},
    }
    for i, axis in ipairs(AXES[strategy]) do
      request[axis], request.fast[axis] = n("m" .. i), n("t" .. i)
    end
    return request, what[2]
  end

  local function compare_pass(row, short, pass, at)
    near(row["flops_" .. short] * 1e12, pass.equivalent_flops, at .. "flops")
    near(row["t_" .. short], pass.time, at .. "time")
    near(row["t_" .. short .. "_comm"], pass.comm_time, at .. "comm", 1e-9, pass.time)
    near(row["t_" .. short .. "_comp"], pass.compute_time, at .. "compute")
    near(row["t_" .. short .. "_mem"], pass.exposed_memory_time, at .. "memory", 1e-9, pass.time)
    local count = 0
    for bytes in row["comm_" .. short]:gmatch "[^;]+" do
      if tonumber(bytes) > 0 then
        count = count + 1
        near(bytes * 1e9, pass.comms[count] and pass.comms[count].bytes, at .. "payload")
      end
    end
    assert.equal(count, #pass.comms, at)
  end

  it("agrees with the published program for every strategy and kind of attention", function()
    local variants, ops = {}, nil
    for _, row in ipairs(csv.rows "spec/data/training/layers.csv") do
      if row.op_index == "0" then
        local request, block = request_of(row)
        ops = {}
        for _, op in ipairs(tperf.layer(request)) do
          if op.block == block then ops[#ops + 1] = op end
        end
        local name = request.strategy .. " " .. block .. " " .. (block == "mlp" and "" or request.attention)
        variants[name] = (variants[name] or 0) + 1
      end
      local op, at = ops[row.op_index + 1], row["function"] .. " " .. row.name .. " "
      near(row.weights_mem * 1e9, op.weight_bytes, at .. "weights")
      assert.equal(op.weight_bytes, op.weight_grad_bytes)
      near(row.activation_buffer * 1e9, op.saved_bytes, at .. "saved")
      compare_pass(row, "fwd", op.forward, at .. "forward ")
      compare_pass(row, "bwd", op.backward, at .. "backward ")
    end
    for _, name in ipairs {
      "tensor mlp ", "tensor attention flash", "tensor attention unfused", "tensor attention recompute", "summa mlp ",
      "summa attention flash", "summa attention unfused", "summa attention summa", "context mlp ",
      "context attention flash", "context attention unfused",
    } do assert.is_true((variants[name] or 0) >= 3, name) end
  end)
end)

describe("tperf.layer", function()
  local function layer(change)
    local request = { model = GPT3_1T, system = published.system("H200", 8), tp = 8 }
    for field, value in pairs(change or {}) do request[field] = value end
    return tperf.layer(request)
  end

  local function total(ops)
    local sum = { weights = 0, flops = 0, time = 0 }
    for _, op in ipairs(ops) do
      sum.weights = sum.weights + op.weight_bytes
      for _, pass in ipairs { op.forward, op.backward } do
        sum.flops, sum.time = sum.flops + pass.tensor_flops, sum.time + pass.time
        near(pass.time, pass.compute_time + pass.exposed_memory_time + pass.comm_time, op.name, 1e-12)
      end
    end
    return sum
  end

  it("splits weights and products over tp, and none if it is 1", function()
    local whole, cut = total(layer { tp = 1 }), total(layer { tp = 8 })
    -- 4 projections of attention and 8 of the MLP; matrices are cut, vectors partly
    near(12 * 25600 ^ 2 * 2, whole.weights, "weights", 1e-4)
    near(whole.weights / 8, cut.weights, "an eighth of the weights", 1e-3)
    near(whole.flops / 8, cut.flops, "an eighth of the FLOPs", 1e-3)
    -- two products of causal attention forward, five backward, half of each masked
    near(6 * 12 * 25600 ^ 2 * 2048 + 7 * 2048 ^ 2 * 25600, whole.flops, "FLOPs of a layer", 1e-3)
  end)

  it("counts the same work in strategies context and tensor if cp is 1", function()
    local a, b = total(layer { tp = 4 }), total(layer { strategy = "context", tp = 4, cp = 1 })
    near(a.weights, b.weights, "weights", 1e-12)
    near(a.time, b.time, "time", 1e-12)
  end)

  it("places as many GPUs of an axis in a domain as fit, first axes first", function()
    local function comms_of(change)
      local placed = {}
      for _, op in ipairs(layer(change)) do
        for _, comm in ipairs(op.forward.comms) do placed[comm.axis] = comm.fast end
      end
      return placed
    end
    assert.same({ tp = 8 }, comms_of { tp = 8 })
    assert.same({ tp = 8 }, comms_of { tp = 16 })
    assert.same({ tp = 4, cp = 2 }, comms_of { strategy = "context", tp = 4, cp = 4 })
    assert.same({ tp = 2, cp = 4 }, comms_of { strategy = "context", tp = 4, cp = 4, fast = { tp = 2 } })
  end)

  it("uses the given sequence length instead of the model's", function()
    local short, long = total(layer { tp = 8 }).flops, total(layer { tp = 8, seq = 4096 }).flops
    near(2 * 7 * 2048 ^ 2 * 25600 / 8, long - 2 * short, "attention's squares", 5e-3)
  end)

  describe("refuses", function()
    local function refusal(change, message)
      it(message, function()
        local ok, got = pcall(function() layer(change) end)
        assert.is_false(ok)
        assert.truthy(got:find(message, 1, true), got)
        assert.truthy(got:find "^spec/layer_spec.lua:%d+: ", got)
      end)
    end
    refusal({ strategy = "tensors" }, "unknown strategy \"tensors\" (did you mean 'tensor'?)")
    refusal({ strategy = "context", attention = "summa" }, "strategy 'context' has no attention 'summa'")
    refusal({ attention = "sliding" }, "'attention' must be one of")
    refusal({ strategy = "tensor", cp = 2 }, "unknown field 'cp'")
    refusal({ tp = 0 }, "'tp' must be an integer from 1 to 2147483648, got 0")
    refusal({ tp = "8" }, "'tp' must be an integer from 1 to 2147483648, got \"8\"")
    refusal({ fast = { tp = 3 } }, "'fast.tp' = 3 does not divide tp = 8")
    refusal({ tp = 16, fast = { tp = 16 } }, "the placement takes more GPUs than the 8 of a fast domain")
    refusal({ fast = { dp = 2 } }, "unknown field 'fast.dp'")
    refusal({ micro_batch = 1 << 31, seq = 1 << 31 }, "micro_batch x seq is beyond 2^53")
    refusal({ panels = 0 }, "'panels' must be an integer from 1 to 2147483648, got 0")
    refusal({ rules = { panels_overlap = true } }, "unknown field 'panels_overlap'")
    refusal({ tp = 1 << 20 }, "block 'attention', op 'heads': a size of 160 is not divided by tp = 1048576")
    refusal({ tp = 1 << 20, rules = "subramanian2024" }, "op 'fc1'")
  end)
end)
