-- The number of GPUs a service needs: for every system, the deployment on the fewest GPUs that serves a request rate
-- within limits, throughput per user and per GPU at other loads, and latency against load on the best of them.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "the fewest GPUs that serve a rate of requests within limits, for several systems",
  model = "llama-3.1-70b", systems = "h100-sxm,h200-sxm,b200-sxm",
  { long = "rate", value = "N", kind = "number", default = "40", help = "requests per second" },
  { long = "prompt", value = "N", kind = "integer", default = 800, help = "tokens per prompt, the median" },
  { long = "output", value = "N", kind = "integer", default = 250, help = "tokens per answer, the mean" },
  { long = "ttft", value = "TIME", kind = "s", default = "500ms", help = "limit on the time to first token" },
  { long = "tpot", value = "TIME", kind = "s", default = "50ms", help = "limit on the time per further token" },
  { long = "quantile", value = "PART", kind = "number", default = "0.99", help = "requests within both limits" },
  { long = "tp", value = "N,...", kind = "integers", default = "1,2,4,8", help = "GPUs per engine" },
  { long = "weight-dtype", value = "NAME", default = "bf16", help = "dtype of the weights" },
  { long = "gpu-hour", value = "DOLLARS", kind = "number", help = "price of a GPU-hour" },
}

local slo = { ttft = o.ttft, tpot = o.tpot, quantile = o.quantile }

-- The question for every deployment on a system.
local function question(system)
  return { model = o.model, system = system, slo = slo, weight_dtype = o.weight_dtype, gpu_hour = o.gpu_hour,
    prompt = { lognormal = { median = o.prompt, sigma = 0.7 } }, output = { exponential = o.output } }
end

local function search(system)
  local q = question(system)
  q.rate, q.pareto, q.tp = o.rate, true, o.tp
  return tperf.search_serving(q)
end

local fleets, fronts = {}, {}
for _, system in ipairs(o.systems) do
  local found = search(system)
  fleets[#fleets + 1] = found[1] or { reason = found.reason }
  fleets[#fleets].system = system
  for _, point in ipairs(found.pareto) do
    point.system = system
    fronts[#fronts + 1] = point
  end
end

local columns = {
  { key = "system" }, { key = "gpus", title = "GPUs" }, { key = "tp" }, { key = "ep" }, { key = "replicas" },
  { key = "max_num_seqs", title = "seqs" }, { key = "max_num_batched_tokens", title = "tokens" },
  { key = "served.ttft.p99", title = "TTFT p99", unit = "s" },
  { key = "served.tpot.p99", title = "TPOT p99", unit = "s" },
  { key = "served.tokens_per_second_per_gpu", title = "tokens/s per GPU" },
  { key = "served.cost.generated", title = "$/Mtoken" }, { key = "served.energy_per_token", title = "J/token" },
  { key = "reason" },
}
report.print(fleets, report.present(fleets, columns), {
  title = ("%s, %g requests/s: the fewest GPUs with %g %% of requests within %s to the first token and %s per token")
    :format(o.model, o.rate, 100 * o.quantile, tperf.units.format(o.ttft, "s"), tperf.units.format(o.tpot, "s")),
})
report.save("serving_fleet.csv", fleets, report.present(fleets, columns))

if #fronts > 0 then
  tperf.plot.lines({
    rows = fronts, series = "system", logx = 10, logy = 10, x = { key = "per_user", title = "tokens/s of each user" },
    y = { key = "per_gpu", title = "tokens/s per GPU" }, title = ("Throughput per user and GPU of %s"):format(
      report.short(o.model)), guides = { { x = 1 / o.tpot, label = ("%g ms per token"):format(1e3 * o.tpot) } },
  }):save "serving_fleet_front.svg"
end

-- The best of all, with one engine more or less busy.
local best
for _, fleet in ipairs(fleets) do
  if fleet.gpus and (not best or fleet.gpus < best.gpus) then best = fleet end
end
if best then
  local q = question(best.system)
  q.tp, q.ep, q.replicas, q.engine = best.tp, best.ep, best.ep, { max_num_seqs = best.max_num_seqs,
    max_num_batched_tokens = best.max_num_batched_tokens }
  tperf.plot.load({ rows = tperf.load_curve(q), slo = slo,
    title = ("One engine of %d %s under load"):format(best.tp * best.ep, best.system) }):save "serving_fleet_load.svg"
end
