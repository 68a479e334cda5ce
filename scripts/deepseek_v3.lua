-- DeepSeek-V3 as it was trained: 2048 H800, 16 pipeline stages, experts spread over 64 GPUs (arXiv 2412.19437, section
-- 3), under several schedules, compared with the published 180 thousand GPU-hours per trillion tokens.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "DeepSeek-V3's published configuration under several schedules", model = "deepseek-v3", rules = "default",
  software = "tuned",
  { long = "batch", value = "N", kind = "integer", default = 15360, help = "sequences of 4096 tokens an iteration" },
}

local GPUS <const>, SEQ <const>, MACHINE <const> = 2048, 4096, tperf.system "h800-sxm"
local PUBLISHED <const> = 180e3 -- GPU-hours for 1e12 tokens, table 1

-- Section 3.3: FP8 products with block scales, weights stored in FP8; SwiGLU inputs saved, and tokens dispatched to
-- experts, in FP8, too; attention's output in 12 bits; gradients and master weights in fp32, moments in bf16. The
-- kernel that sorts tokens by expert pads them, too, as that of DeepEP, their library, does (expert_alignment).
local FP8 <const> = {
  name = "fp8 of V3", recipe = "fp8-block", parameters = "narrow", activation = "fp8", attention_output = "e5m6",
  dispatch = "fp8", padding = "sort",
}
-- Sections 3.2.3 and 3.3.3: norms, MLA's up-projections and SwiGLU outputs are recomputed.
local PARTS <const> = { "layernorm", "mla_up_proj", "moe_act" }
local RUNS <const> = {
  { "1f1b", "none", FP8 }, { "1f1b", PARTS, FP8 }, { "1f1b", "full", FP8 }, { "zb1p", PARTS, FP8 },
  { "dualpipe", "none", FP8 }, { "dualpipe", PARTS, FP8 }, { "dualpipe", "full", FP8 }, { "dualpipe", PARTS, "bf16" },
  { "dualpipe", PARTS, FP8, "deepep" },
}

-- From the simulated iteration, in which passes overlapped by DualPipe hide each other's communication.
local function hours_per_trillion(iteration) return 1e12 / (o.batch * SEQ / iteration) * GPUS / 3600 end

local rows = {}
for _, run in ipairs(RUNS) do
  local schedule, recompute, precision, dispatcher = table.unpack(run)
  local parts = type(recompute) == "table" and recompute or nil
  local c = tperf.train {
    model = o.model, system = MACHINE, rules = o.rules, seq = SEQ, global_batch = o.batch, tp = 1, ep = 64, pp = 16,
    dp = GPUS // 16, micro_batch = 1, zero = 1, schedule = schedule, recompute = parts and "selective" or recompute,
    recompute_modules = parts, precision = precision, moe_dispatcher = dispatcher, gradients = "fp32",
    moments = "bf16", simulate = schedule, software = o.software,
  }
  rows[#rows + 1] = {
    precision = c.precision:match "^[^(]*", schedule = schedule, dispatcher = dispatcher or "alltoall",
    recompute = parts and "parts" or recompute,
    simulated = c.simulated.time, bubble = c.breakdown.bubble / c.time,
    exchange = c.breakdown.tensor_comm / c.time, software = c.software,
    hours = hours_per_trillion(c.simulated.time), memory = c.memory.peak.total,
    fits = c.memory.peak.total <= MACHINE.accelerator.hbm.visible and "yes" or "no",
  }
  rows[#rows].difference = rows[#rows].hours / PUBLISHED - 1
end

report.print(rows, {
  { key = "precision" }, { key = "schedule" }, { key = "recompute" }, { key = "dispatcher" },
  { key = "simulated", title = "iteration", unit = "s" }, { key = "bubble", unit = "%" },
  { key = "exchange", title = "all-to-all", unit = "%" },
  { key = "hours", title = "GPU-hours per 1e12 tokens" }, { key = "difference", unit = "%" },
  { key = "memory", unit = "bytes" }, { key = "fits" },
}, { title = "DeepSeek-V3 on 2048 H800, pp 16, ep 64, dp 128, " .. report.software(rows) })
print(("\nPublished: %d GPU-hours per 1e12 tokens: FP8, DualPipe, parts of layers recomputed to fit. DeepSeek's\n"
  .. "exchange sends a token once to each node, as the row with deepep does; DualPipe then hides nearly all of it.\n"
  .. "Not modelled: experts that get more tokens than others."):format(PUBLISHED))
