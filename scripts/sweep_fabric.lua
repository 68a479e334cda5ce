-- What a training run loses to a cheaper fabric: uplinks of leaves that carry a part of what their GPUs' NICs do
-- (oversubscription), fewer rails (NICs of a domain), and two data centres in place of one.
local tperf = require "tperf"
local report = tperf.report
local o = tperf.args {
  summary = "step time and dollars over oversubscription, rails and distance between two data centres",
  model = "llama-3.1-405b", system = "h100-sxm", gpus = 2048, batch = 1024, tokens = 15e12, software = "typical",
  { long = "leaf", value = "N", kind = "integer", min = 2, default = 256, help = "GPUs below the uplinks of one leaf" },
  { long = "oversubscriptions", value = "N,...", kind = "integers", default = "1,2,4,8,16",
    help = "NICs over uplinks" },
  { long = "rails", value = "N,...", kind = "integers", default = "8,4,2", help = "NICs of a domain" },
  { long = "distances", value = "KM,...", kind = "integers", min = 0, default = "0,100,1000",
    help = "kilometres between two data centres" },
  { long = "site-oversubscription", value = "N", kind = "integer", min = 1, default = 16,
    help = "NICs over the line between two data centres" },
  { long = "price", value = "DOLLARS", kind = "number", default = 2, help = "of a GPU-hour, without its network" },
  { long = "nic-price", value = "DOLLARS", kind = "number", default = 0.1,
    help = "an hour of a NIC and its port (assumed)" },
  { long = "uplink-price", value = "DOLLARS", kind = "number", default = 0.1,
    help = "an hour of an uplink as wide as a NIC, both ends (assumed)" },
}
local base = tperf.system(o.system)
local fast, slow = base.network.fast, base.network.slow
local LIGHT <const> = 5e-6 -- seconds a kilometre of glass, one way

-- The system with so many rails, and further tiers.
local function fabric(rails, ...)
  local tiers = {
    { name = "domain", size = fast.domain, bandwidth = fast.bandwidth, efficiency = fast.efficiency,
      latency = fast.latency, reduces = fast.reduces, topology = fast.mesh and "all_to_all" or "switch" },
    { name = "leaf", size = o.leaf, bandwidth = slow.bandwidth, efficiency = slow.efficiency, latency = slow.latency,
      nics_per_gpu = rails / fast.domain }, ...,
  }
  return tperf.system { name = base.name, accelerator = base.accelerator, host = base.host,
    network = { tiers = tiers } }
end

-- The fastest layout on a machine, with its dollars: GPUs, NICs, and uplinks of an oversubscription.
local function fastest(machine, rails, over)
  local c = tperf.search { model = o.model, system = machine, gpus = o.gpus, global_batch = o.batch, top = 1,
    software = o.software }[1]
  if not c then return { rails = rails, oversubscription = over } end
  local cost = tperf.cost(c, { tokens = o.tokens, model = o.model })
  local nics = o.gpus * rails / fast.domain
  local hourly = o.gpus * o.price + nics * o.nic_price + nics / over * o.uplink_price
  return { rails = rails, oversubscription = over, time = c.time, days = cost.days, layout = report.layout(c),
    millions = cost.days * 24 * hourly / 1e6 }
end

local rows = {}
for _, rails in ipairs(o.rails) do
  for _, over in ipairs(o.oversubscriptions) do
    rows[#rows + 1] = fastest(fabric(rails, { name = "spine", oversubscription = over }), rails, over)
  end
end
local first = rows[1]
if not first.time then error(("%s does not fit on %d GPUs"):format(o.model, o.gpus), 0) end
for _, row in ipairs(rows) do
  row.slower = row.time and row.time / first.time
  row.series = ("%d NICs for %d GPUs"):format(row.rails, fast.domain)
end

local apart, widest = {}, o.oversubscriptions[1]
for _, km in ipairs(o.distances) do
  local row = fastest(fabric(o.rails[1], { name = "spine", size = o.gpus // 2, oversubscription = widest },
    { name = "sites", oversubscription = o.site_oversubscription, latency = slow.latency + LIGHT * km }), o.rails[1],
    widest)
  row.km, row.slower = km, row.time and row.time / first.time
  apart[#apart + 1] = row
end

local shown = { { key = "time", unit = "s" }, { key = "slower", format = "%.3f" }, { key = "days", format = "%.1f" },
  { key = "millions", title = "$ million", format = "%.2f" }, "layout" }
local function columns(...) return table.move(shown, 1, #shown, select("#", ...) + 1, { ... }) end
print(("%s on %d GPUs of %s, %d below a leaf, %d sequences a batch, software %s; %g trillion tokens\nat $%g an hour of "
  .. "a GPU, $%g of a NIC, $%g of an uplink."):format(o.model, o.gpus, base.name, o.leaf, o.batch, o.software,
  o.tokens / 1e12, o.price, o.nic_price, o.uplink_price))
report.print(rows, columns("rails", "oversubscription"))
print(("\nTwo data centres of %d GPUs, whose line carries 1/%d of their NICs:"):format(o.gpus // 2,
  o.site_oversubscription))
report.print(apart, columns "km")
report.save("sweep_fabric.csv", rows, { "rails", "oversubscription", "time", "slower", "days", "millions", "layout" })
tperf.plot.lines({ rows = rows, x = { key = "oversubscription", title = "NICs over uplinks of a leaf" }, logx = true,
  y = { key = "slower", title = "step time relative to the first fabric" }, series = "series",
  title = "What a cheaper fabric costs a step" }):save "sweep_fabric.svg"
print "\nsweep_fabric.svg has the picture, sweep_fabric.csv the lines."
