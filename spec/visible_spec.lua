-- Fit: training and serving judge by the memory that the device shows a program.
local tperf = require "tperf"

local SHOWN <const> = 79.1 * 2 ^ 30 -- what PyTorch reports of an H100's 80 GB (systems/h100-sxm.yaml)

local function train(system, change)
  local o = { model = "llama-3.1-8b", system = system or "h100-sxm", global_batch = 64, dp = 8, software = "none" }
  for name, value in pairs(change or {}) do o[name] = value end
  return tperf.train(o)
end

local function with(hbm) return tperf.system("h100-sxm"):with { accelerator = { hbm = hbm } } end

describe("what fits", function()
  it("is judged by what the device shows, in training and serving alike", function()
    local c = train(nil, { pp = 2, micro_batch = 2 })
    for shown, fits in pairs { [c.memory.total + 1] = true, [c.memory.total - 1] = false } do
      local part = shown / SHOWN
      local machine = with { capacity = 80e9 * part, visible = SHOWN * part }
      assert.equal(fits, train(machine, { pp = 2, micro_batch = 2 }).feasible)
      local found = tperf.search { model = "llama-3.1-8b", system = machine, gpus = 16, global_batch = 64, tp = 1,
        pp = 2, micro_batch = 2, recompute = "none", schedule = "1f1b", software = "none", top = 1 }
      assert.equal(fits and 1 or 0, found.feasible)
    end
    local infer = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, generate = 10 }
    assert.near(0.9 * SHOWN, infer.memory.capacity, 1)
    local served = tperf.serve { model = "llama-3.1-8b", system = "h100-sxm", load = { concurrency = 1 }, count = 1,
      prompt = 100, output = 2 }
    assert.near(SHOWN, served.memory.capacity, 1)
    -- one sequence more does not fit
    local most = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, generate = 10 }.max_batch
    local full = tperf.infer { model = "llama-3.1-8b", system = "h100-sxm", prompt = 100, generate = 10, batch = most }
    assert.is_true(full.memory.total <= 0.9 * SHOWN and full.memory.total > 0.9 * SHOWN * 0.999)
  end)

  it("follows a changed capacity", function()
    for _, capacity in ipairs { 40e9, 2e12 } do
      local machine = with { capacity = capacity }
      assert.near(0.9 * capacity, tperf.infer { model = "llama-3.1-8b", system = machine, prompt = 100, generate = 10 }
        .memory.capacity, 1)
      local c = train(machine, { dp = 1 })
      assert.equal(c.memory.total <= capacity, c.feasible)
    end
    local ok, message = pcall(with, { capacity = 40e9, visible = 84.93e9 })
    assert.is_false(ok)
    assert.matches("'accelerator.hbm.visible' = 84.93 GB is not what a program sees of a capacity of 40.00 GB", message)
  end)

  it("is the vendor's capacity where no device was asked", function()
    assert.near(0.9 * 24e9, tperf.infer { model = "gpt2", system = "arc-pro-b60", prompt = 100, generate = 10 }
      .memory.capacity, 1)
    -- 192 GiB less 16 MiB, as PyTorch says of an MI300X; the vendor calls them 192 GB
    assert.near(0.9 * 206141652992, tperf.infer { model = "llama-3.1-8b", system = "mi300x", prompt = 100,
      generate = 10 }.memory.capacity, 1)
  end)
end)
