-- What a larger NVLink domain buys a training run: the fastest ways to train a mixture of experts and a dense model on
-- rented GPUs in domains of different sizes. All GPUs are paid for, also those that a layout leaves idle.
local tperf = require "tperf"
local report = tperf.report
local o = tperf.args {
  summary = "what a larger NVLink domain buys a training run", batch = 4608, tokens = 15e12, software = "typical",
  models = "deepseek-v3,llama-3.1-405b", systems = "gb200-nvl72,h100-sxm", domains = "8,36,72,144",
  gpus = "288,576,1152,2304,4608",
  { long = "price", value = "DOLLARS", kind = "number", default = 2, help = "of a GPU-hour, as in arXiv 2412.19437" },
}

-- The fastest layout on rented GPUs: on all of them, or on a power of two, which many layouts need.
local function fastest(q)
  local function on(gpus)
    return tperf.search { model = q.model, system = q.system, gpus = gpus, global_batch = o.batch, top = 1,
      software = o.software, where = function(c) return c.gpus + c.idle <= q.rented end }[1]
  end
  local all, some = on(q.rented), on(1 << math.floor(math.log(q.rented, 2)))
  return all and not (some and some.time < all.time) and all or some
end
local rows = tperf.sweep { run = fastest, model = tperf.vary(o.models), system = tperf.vary(o.systems),
  ["system.network.fast.domain"] = tperf.vary(o.domains), rented = tperf.vary(o.gpus) }

-- Why a layout is faster or slower than in the first domain: what a domain holds of an experts' or a tensor group.
local function why(c, first)
  local axis, even = (c.ep or 1) > 1 and "ep" or "tp", c.domain & -c.domain
  local held, before = c.fast[axis], first.fast[axis] or 1
  if held > before then return ("%s %d in a domain, not %d"):format(axis, held, before) end
  return c.domain % first.tp == 0 and ("%s %d in a domain, as before"):format(axis, held)
    or ("%d = %d × %d holds no tp %d"):format(c.domain, even, c.domain // even, first.tp)
end

-- A line for each machine: its mean speed; why, at the number of GPUs where it matters most; days and dollars at one.
local first, lines, size = {}, {}, o.gpus[(#o.gpus + 1) // 2]
for _, group in ipairs(report.groups(rows, "model", "system", "domain")) do
  local line, sum, far = { model = group.model, system = group.system, domain = group.domain, sizes = 0 }, 0, 0
  for _, c in ipairs(group.rows) do
    if c.domain == o.domains[1] then first[c.rented] = c end
    local log = c.time and first[c.rented].time and math.log(first[c.rented].time / c.time)
    if log then sum, line.sizes = sum + log, line.sizes + 1 end
    if log and math.abs(log) > far then far, line.why = math.abs(log), why(c, first[c.rented]) end
    if log and c.rented == size then line.days, line.idle = tperf.cost(c, { tokens = o.tokens }).days, size - c.gpus end
  end
  line.millions = line.days and line.days * 24 * size * o.price / 1e6
  line.speed, line.series = line.sizes > 0 and math.exp(sum / line.sizes) or nil, line.model .. ", " .. line.system
  lines[#lines + 1] = line
end
print(("Training on %g trillion tokens, %d sequences a batch, software %s.\nSpeed: mean over %d to %d GPUs, domains of "
  .. "%d = 1.\nWhy: where speeds differ most.\nDays, dollars: %d GPUs, idle ones too, at $%g an hour."):format(
  o.tokens / 1e12, o.batch, o.software, o.gpus[1], o.gpus[#o.gpus], o.domains[1], size, o.price))
for _, group in ipairs(report.groups(lines, "model")) do
  print("\n" .. group.model)
  report.print(group.rows, { "system", "domain", { key = "speed", format = "%.2f" }, { key = "days", format = "%.0f" },
    { key = "millions", title = "$ million", format = "%.1f" }, "idle", "why" })
end
report.save("sweep_nvlink.csv", lines, { "model", "system", "domain", "speed", "days", "millions", "idle", "why" })
tperf.plot.lines({ rows = lines, series = "series", x = { key = "domain", title = "GPUs of an NVLink domain" },
  y = { key = "speed", title = ("training speed, domains of %d = 1"):format(o.domains[1]) },
  title = "What a larger NVLink domain buys", guides = { { y = 1, label = "no gain" } } }):save "sweep_nvlink.svg"
print "\nsweep_nvlink.svg has the picture, sweep_nvlink.csv these lines."
