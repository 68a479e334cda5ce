-- What a larger NVLink domain buys: the best way to train a model, and how long it takes, for machines whose fast
-- domains have different sizes, from a few GPUs to many.
local tperf = require "tperf"

local o = tperf.args {
  summary = "what a larger NVLink domain buys a training run",
  model = "subramanian2024/gpt3_1T",
  systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200",
  domains = "4,8,64", gpus = "4..16384", batch = 4096, strategy = "tensor", schedule = false,
  recompute = false, tokens = false, top = 1, rules = "default",
}

local rows = tperf.sweep(o:question {
  system = tperf.vary(o.systems), ["system.network.fast.domain"] = tperf.vary(o.domains), gpus = tperf.vary(o.gpus),
})

-- One line for each of the best configurations, and one where there is none.
local lines, times = {}, {}
for _, row in ipairs(rows) do
  local key = ("%s %d"):format(row.system, row.gpus)
  times[key] = times[key] or {}
  for rank = 1, math.max(1, #row.result) do
    local c = row.result[rank] or { reason = row.reason }
    local line = { system = row.system, domain = row.domain, gpus = row.gpus, rank = rank }
    for name, value in pairs(c) do line[name] = line[name] or value end
    line.training_time = tperf.cost(c, { model = o.model, tokens = o.tokens }).seconds
    if rank == 1 then times[key][row.domain] = line.training_time end
    lines[#lines + 1] = line
  end
end

local report = tperf.report
local columns = {
  { key = "system" }, { key = "domain" }, { key = "gpus", title = "GPUs" }, { key = "strategy" },
  { key = report.layout, title = "layout" },
  { key = report.placement, title = "within a domain" }, { key = "micro_batch", title = "micro-batch" },
  { key = "memory.total", title = "memory", unit = "bytes" }, { key = "time", title = "iteration", unit = "s" },
  { key = "mfu", title = "MFU", unit = "%", digits = 3 }, { key = "training_time", title = "training", unit = "s" },
}
if o.top > 1 then table.insert(columns, 4, { key = "rank" }) end
report.print(lines, columns, { title = ("Training %s, global batch %d"):format(o.model, o.batch) })

report.save("sweep_nvlink.csv", lines, report.configurations(lines, {
  "system", "domain", "gpus", "rank", "training_time",
}))

-- The paragraph: every figure comes from the rows.
local small, large = math.min(table.unpack(o.domains)), math.max(table.unpack(o.domains))
local function gain(system, gpus)
  local t = times[("%s %d"):format(system, gpus)]
  return t[small] and t[large] and t[small] / t[large]
end

local words = small == large and { "With one domain size there is nothing to compare." } or {}
local function say(...) words[#words + 1] = string.format(...) end
for _, system in ipairs(small < large and o.systems or {}) do
  local best, at, sum, count, only_large = 0, nil, 0, 0, {}
  for _, gpus in ipairs(o.gpus) do
    local factor, t = gain(system, gpus), times[("%s %d"):format(system, gpus)]
    if factor then
      sum, count = sum + math.log(factor), count + 1
      if factor > best then best, at = factor, gpus end
    elseif t[large] then
      only_large[#only_large + 1] = gpus
    end
  end
  if count > 0 then
    say("On %s, domains of %d instead of %d GPUs make training %.2f times as fast on average over %d machine sizes, "
      .. "and %.2f times at most, with %d GPUs.", system, large, small, math.exp(sum / count), count, best, at)
  else
    say("On %s, no machine size can train the model with both domain sizes.", system)
  end
  if #only_large > 0 then
    say("With %s GPUs only the larger domain can.", table.concat(only_large, ", "))
  end
end
print("\n" .. table.concat(words, " "))
