-- DeepSeek-V3 as it was trained: 2048 H800, 16 pipeline stages, experts spread over 64 GPUs (arXiv 2412.19437, section
-- 3), under several schedules; and what it published: 180 thousand GPU-hours for a trillion tokens.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "DeepSeek-V3's published configuration under several schedules", model = "deepseek-v3", rules = "default",
  software = "tuned",
  { long = "batch", value = "N", kind = "integer", default = 15360, help = "sequences of 4096 tokens an iteration" },
}

local GPUS, SEQ = 2048, 4096
local PUBLISHED = 180e3 -- GPU-hours for 1e12 tokens, table 1

-- An H800 is an H100 with 400 of its 900 GB/s of NVLink. The run computed in FP8; the model here counts every product
-- at the 16-bit peak, so what it predicts should be slower than what was published.
local h800 = tperf.system "h100-sxm"
h800 = h800:with { name = "h800", network = { fast = { bandwidth = h800.network.fast.bandwidth * 4 / 9 } } }

-- From the simulated iteration, in which passes that DualPipe overlaps hide each other's communication.
local function hours_per_trillion(iteration) return 1e12 / (o.batch * SEQ / iteration) * GPUS / 3600 end

local rows = {}
for _, schedule in ipairs { "1f1b", "zb1p", "dualpipe" } do
  for _, recompute in ipairs { "none", "full" } do
    local c = tperf.train {
      model = o.model, system = h800, rules = o.rules, seq = SEQ, global_batch = o.batch, tp = 1, ep = 64, pp = 16,
      dp = GPUS // 16, micro_batch = 1, schedule = schedule, recompute = recompute, simulate = schedule,
      software = o.software,
    }
    rows[#rows + 1] = {
      schedule = schedule, recompute = recompute, time = c.time, simulated = c.simulated.time, mfu = c.mfu,
      bubble = c.breakdown.bubble / c.time, exchange = c.breakdown.tensor_comm / c.time,
      software = c.software, hours = hours_per_trillion(c.simulated.time), memory = c.memory.total,
      fits = c.feasible and "yes" or "no",
    }
  end
end

report.print(rows, {
  { key = "schedule" }, { key = "recompute" }, { key = "time", title = "iteration", unit = "s" },
  { key = "simulated", unit = "s" }, { key = "mfu", title = "MFU", unit = "%" }, { key = "bubble", unit = "%" },
  { key = "exchange", title = "all-to-all", unit = "%" },
  { key = "hours", title = "GPU-hours per 1e12 tokens" }, { key = "memory", unit = "bytes" }, { key = "fits" },
}, { title = "DeepSeek-V3 on 2048 H800, pp 16, ep 64, dp 128, " .. report.software(rows) })
print(("\nPublished: %d GPU-hours per 1e12 tokens, in FP8, with DualPipe hiding the all-to-all."):format(PUBLISHED))
