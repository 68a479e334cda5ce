-- Llama 3 405B as Meta trained it on H100s: predicted against measured throughput for the configurations of table 4 in
-- arXiv 2407.21783, and the configurations that the search finds for as many GPUs. Meta tuned this run for months; no
-- profile was fitted to it.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "Llama 3 405B's published configurations, predicted and measured", model = "llama-3.1-405b",
  system = "h100-sxm", rules = "default", software = "tuned",
  { long = "search", value = "yes|no", default = "yes", help = "also search the best configuration of each row" },
}

-- 16 Mi tokens per iteration; batch is in sequences.
local published = {
  { gpus = 8192, seq = 8192, tp = 8, cp = 1, pp = 16, dp = 64, batch = 64 * 32, tflops = 430, mfu = 0.43 },
  { gpus = 16384, seq = 8192, tp = 8, cp = 1, pp = 16, dp = 128, batch = 128 * 16, tflops = 400, mfu = 0.41 },
  { gpus = 16384, seq = 131072, tp = 8, cp = 16, pp = 16, dp = 8, batch = 8 * 16, tflops = 380, mfu = 0.38 },
}

-- Section 3.3.2 of the paper: stages are interleaved, the first chunk of the first stage has only the embedding and the
-- last of the last only the head and the loss, so that 126 layers are 16 x 8 chunks of one; gradients are sharded as
-- well as the optimizer's state; keys and values are gathered before attention, which waits for them.
local function as_published(row)
  return tperf.train {
    model = o.model, system = o.system, rules = o.rules, strategy = "context", seq = row.seq, global_batch = row.batch,
    tp = row.tp, cp = row.cp, pp = row.pp, dp = row.dp, micro_batch = 1, schedule = "interleaved_1f1b",
    virtual_stages = 8, account_for_embedding = true, account_for_loss = true, cp_kind = "all_gather",
    recompute = "none", zero = 2, software = o.software,
  }
end

local function best(row)
  if o.search ~= "yes" then return nil end
  return tperf.search {
    model = o.model, system = o.system, rules = o.rules, strategy = { "tensor", "context" }, seq = row.seq,
    gpus = row.gpus, global_batch = row.batch, top = 1, software = o.software,
  }[1]
end

-- FLOPs as Meta counts them: the model's, with the half of attention that the causal mask leaves.
local function flops_per_gpu(row, c)
  local per_token = tperf.model(o.model):flops_per_token { seq = row.seq }.total
  return per_token * c.tokens_per_second / row.gpus
end

local rows = {}
for _, row in ipairs(published) do
  local c = as_published(row)
  local found = best(row)
  rows[#rows + 1] = {
    gpus = row.gpus, seq = row.seq, layout = ("tp %d cp %d pp %d dp %d"):format(row.tp, row.cp, row.pp, row.dp),
    measured = row.tflops * 1e12, predicted = flops_per_gpu(row, c),
    difference = flops_per_gpu(row, c) / (row.tflops * 1e12) - 1,
    memory = c.memory.total, fits = c.feasible and "yes" or "no",
    best = found and report.layout(found), best_flops = found and flops_per_gpu(row, found),
  }
end

local columns = {
  { key = "gpus" }, { key = "seq" }, { key = "layout", title = "as published" },
  { key = "measured", title = "measured/GPU", unit = "FLOP/s" },
  { key = "predicted", title = "predicted/GPU", unit = "FLOP/s" },
  { key = "difference", unit = "%" }, { key = "memory", unit = "bytes" }, { key = "fits" },
}
if o.search == "yes" then
  table.insert(columns, { key = "best", title = "best found" })
  table.insert(columns, { key = "best_flops", title = "its FLOP/s", unit = "FLOP/s" })
end
report.print(rows, columns, { title = ("Llama 3 405B on %s, software %s"):format(o.system, o.software) })
