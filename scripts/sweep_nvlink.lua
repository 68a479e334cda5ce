-- The gain from a larger NVLink domain: the best way to train a model, and its time, on rentable machines with domains
-- of different sizes. The figure draws the gain over the smallest domain, with a band, as the formulas alone, a tuned
-- and a typical stack disagree on it. --published sweeps the published machines instead.
local tperf = require "tperf"
local report = tperf.report

local published = false -- it changes the defaults of the others
for _, argument in ipairs(arg) do published = published or argument == "--published" end

local RENTED <const> = {
  summary = "what a larger NVLink domain buys a training run",
  model = "llama-3.1-405b", systems = "h100-sxm,b200-sxm,gb200-nvl72", domains = "8,16,36,72,144",
  -- whole domains of every size except the first; the batch divides likewise, so replicas share it evenly
  gpus = "288,576,1152,2304,4608", batch = 2304, tokens = 15e12,
}
local PUBLISHED <const> = {
  summary = RENTED.summary, model = "subramanian2024/gpt3_1T",
  systems = "subramanian2024/A100,subramanian2024/H200,subramanian2024/B200", domains = "4,8,64", gpus = "4..16384",
  batch = 4096, software = "none",
}
local defaults = published and PUBLISHED or RENTED

local o = tperf.args {
  summary = defaults.summary, model = defaults.model, systems = defaults.systems, domains = defaults.domains,
  gpus = defaults.gpus, batch = defaults.batch, software = defaults.software or false,
  strategy = "tensor", schedule = false, recompute = false, tokens = defaults.tokens or false, top = 1,
  rules = "default",
  { long = "published", help = "the published model's machines, 4 to 16384 GPUs, without software" },
}

-- A rented domain is paid for in full, so configurations that leave GPUs in it idle are excluded.
local function is_whole(c) return c.idle == 0 end

local function sweep(software)
  return tperf.sweep(o:question {
    system = tperf.vary(o.systems), ["system.network.fast.domain"] = tperf.vary(o.domains), gpus = tperf.vary(o.gpus),
    software = software, where = not published and is_whole or nil,
  })
end

local function key_of(row) return ("%s %d"):format(row.system, row.gpus) end

-- Seconds of the whole training run, by system and GPUs, then by domain.
local function times_of(rows)
  local times = {}
  for _, row in ipairs(rows) do
    local at = times[key_of(row)] or {}
    times[key_of(row)] = at
    at[row.domain] = tperf.cost(row, { model = o.model, tokens = o.tokens }).seconds
  end
  return times
end

local rows = sweep(o.software)
local times = times_of(rows)

-- One line for each best configuration, or for a machine without one.
local lines = {}
for _, row in ipairs(rows) do
  for rank = 1, math.max(1, #row.result) do
    local c = row.result[rank] or { reason = row.reason }
    local line = { system = row.system, domain = row.domain, gpus = row.gpus, rank = rank }
    for name, value in pairs(c) do line[name] = line[name] or value end
    line.training_time = tperf.cost(c, { model = o.model, tokens = o.tokens }).seconds
    lines[#lines + 1] = line
  end
end

local DAY <const> = 24 * 3600

-- The printed layout fits a terminal; the file has all fields.
local function layout(c) return report.layout(c):gsub(" recomputation", ""):gsub(", full$", ", recomputed") end

local function placement(c)
  local parts = {}
  for part in (report.placement(c) or ""):gmatch "[^,]+" do
    if not part:find " 1$" then parts[#parts + 1] = part:match "^%s*(.*)" end
  end
  return table.concat(parts, ", ")
end

local function days(c) return c.training_time and c.training_time / DAY end

local columns = {
  { key = "domain" }, { key = "gpus", title = "GPUs" }, { key = layout, title = "layout" },
  { key = placement, title = "within a domain" }, { key = "memory.total", title = "memory", unit = "bytes" },
  { key = "mfu", title = "MFU", unit = "%", digits = 3 }, { key = days, title = "days", format = "%.1f" },
}
if o.top > 1 then table.insert(columns, 3, { key = "rank" }) end
for _, line in ipairs(lines) do
  if line.strategy ~= "tensor" and line.strategy and columns[3].key ~= "strategy" then
    table.insert(columns, 3, { key = "strategy" })
  end
end

-- Prints one table per machine.
local function print_lines()
  print(("Training %s, global batch %d%s"):format(o.model, o.batch,
    published and "" or ", every GPU of a domain in use, " .. report.software(lines)))
  for _, system in ipairs(o.systems) do
    local own = {}
    for _, line in ipairs(lines) do own[#own + 1] = line.system == system and line or nil end
    print()
    report.print(own, report.present(own, columns), { title = system })
  end
end
print_lines()

report.save("sweep_nvlink.csv", lines, report.configurations(lines, {
  "system", "domain", "gpus", "rank", "training_time",
}))

-- In words, the mean over the machine sizes; every figure comes from the rows.
local small, large = math.min(table.unpack(o.domains)), math.max(table.unpack(o.domains))
local function gain(all, system, gpus, domain)
  local t = all[("%s %d"):format(system, gpus)]
  return t[small] and t[domain] and t[small] / t[domain]
end

local words = small == large and { "With one domain size there is nothing to compare." } or {}
local function say(...) words[#words + 1] = string.format(...) end
for _, system in ipairs(small < large and o.systems or {}) do
  local best, sum, count, only_large = 0, 0, 0, {}
  for _, gpus in ipairs(o.gpus) do
    local factor, t = gain(times, system, gpus, large), times[("%s %d"):format(system, gpus)]
    if factor then
      sum, count = sum + math.log(factor), count + 1
      best = math.max(best, factor)
    elseif t[large] then
      only_large[#only_large + 1] = gpus
    end
  end
  if count > 0 then
    say("On %s, domains of %d instead of %d GPUs make training %.2f times as fast (%.2f at most).", system, large,
      small, math.exp(sum / count), best)
  else
    say("On %s, no machine size can train the model with both domain sizes.", system)
  end
  if #only_large > 0 then
    say("With %s GPUs only the larger domain can.", table.concat(only_large, ", "))
  end
end
print("\n" .. table.concat(words, "\n"))

if published or small == large then return end

-- The gain of every domain under each of these stacks: what they have in common cancels out.
local others = {}
for i, software in ipairs { "none", "tuned", "typical" } do others[i] = times_of(sweep(software)) end

local points = {}
for _, system in ipairs(o.systems) do
  for _, domain in ipairs(o.domains) do
    local sum, count, sums = 0, 0, { 0, 0, 0 }
    for _, gpus in ipairs(o.gpus) do
      local here, own = gain(times, system, gpus, domain), {}
      for i, all in ipairs(others) do own[i] = gain(all, system, gpus, domain) end
      if here and #own == #others then
        sum, count = sum + math.log(here), count + 1
        for i, factor in ipairs(own) do sums[i] = sums[i] + math.log(factor) end
      end
    end
    if count > 0 then
      local at = { sum / count, sums[1] / count, sums[2] / count, sums[3] / count }
      points[#points + 1] = { system = system, domain = domain, gain = math.exp(at[1]), sizes = count,
        low = math.exp(math.min(table.unpack(at))), high = math.exp(math.max(table.unpack(at))) }
    end
  end
end

print()
report.print(points, {
  { key = "system" }, { key = "domain" }, { key = "gain", format = "%.3f" },
  { key = "low", title = "from", format = "%.3f" }, { key = "high", title = "to", format = "%.3f" },
  { key = "sizes", title = "machine sizes" },
}, { title = ("Times as fast as with domains of %d, %s; from, to: none, tuned and typical"):format(small,
  report.software(lines)) })
report.save("sweep_nvlink_gain.csv", points, { "system", "domain", "gain", "low", "high", "sizes" })
tperf.plot.lines({
  rows = points, series = "system",
  x = { key = function(row) return ("%d"):format(row.domain) end, title = "GPUs of an NVLink domain, all in use" },
  y = { key = "gain", title = ("training speed, domains of %d = 1"):format(small) }, low = "low", high = "high",
  guides = { { y = 1, label = "no gain" } },
  title = ("What a larger NVLink domain buys %s"):format(report.short(o.model)),
  subtitle = ("best configurations, mean of %d to %d GPUs; %s; band: none, tuned and typical"):format(
    math.min(table.unpack(o.gpus)), math.max(table.unpack(o.gpus)), report.software(lines)),
}):save "sweep_nvlink.svg"
