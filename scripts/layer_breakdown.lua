-- One layer, op by op: counts, time of each op, and its distance from the machine's roofline.
local tperf = require "tperf"
local report = tperf.report

local o = tperf.args {
  summary = "one layer of a model on a machine, op by op",
  model = "subramanian2024/gpt3_1T", system = "subramanian2024/B200", strategy = "tensor", rules = "default",
  { long = "domain", value = "N", kind = "integer", min = 1, default = 8, help = "size of the fast domain" },
  { long = "micro-batch", value = "N", kind = "integer", min = 1, default = 1, help = "samples per micro-batch" },
  { long = "attention", value = "NAME", help = "flash, unfused, recompute or summa" },
  { long = "tp", value = "N", kind = "integer", default = 8, help = "tensor parallelism: tensor, context" },
  { long = "tp1", value = "N", kind = "integer", default = 4, help = "rows of the grid: summa" },
  { long = "tp2", value = "N", kind = "integer", default = 2, help = "columns of the grid: summa" },
  { long = "cp", value = "N", kind = "integer", default = 1, help = "context parallelism: context" },
}
if #o.strategy ~= 1 then error("one strategy is needed", 0) end

local machine = tperf.system(o.system):with { network = { fast = { domain = o.domain } } }
local question = { model = o.model, system = machine, strategy = o.strategy[1], micro_batch = o.micro_batch,
  attention = o.attention, rules = o.rules }
local sizes = {}
for _, axis in ipairs(tperf.strategy.of(o.strategy[1]).axis_names) do
  question[axis] = o[axis]
  sizes[#sizes + 1] = o[axis] and ("%s %d"):format(axis, o[axis])
end

local ops, passes, total = {}, {}, { forward = 0, backward = 0 }
for _, op in ipairs(tperf.layer(question)) do
  local line = { op = op.block .. " " .. op.name, compute = 0, memory = 0, communication = 0, time = 0,
    weights = op.weight_bytes, saved = op.saved_bytes }
  for _, pass in ipairs { "forward", "backward" } do
    local counts = op[pass]
    local flops = counts.tensor_flops + counts.vector_flops
    line[pass] = counts.time
    line.compute, line.memory = line.compute + counts.compute_time, line.memory + counts.exposed_memory_time
    line.communication, line.time = line.communication + counts.comm_time, line.time + counts.time
    total[pass] = total[pass] + counts.time
    passes[#passes + 1] = {
      name = op.name, op = line.op, pass = pass, flops = flops, bytes = counts.bytes,
      time = counts.compute_time + counts.exposed_memory_time, comm_time = counts.comm_time,
    }
  end
  ops[#ops + 1] = line
end

report.print(ops, {
  { key = "op" }, { key = "forward", unit = "s" }, { key = "backward", unit = "s" }, { key = "compute", unit = "s" },
  { key = "memory", unit = "s" }, { key = "communication", unit = "s" }, { key = "weights", unit = "bytes" },
  { key = "saved", title = "saved activations", unit = "bytes" },
})
print(("\nforward %s, backward %s"):format(tperf.units.format(total.forward, "s"),
  tperf.units.format(total.backward, "s")))
report.save("layer_breakdown.csv", passes, { "op", "pass", "flops", "bytes", "time", "comm_time" })

local name = ("%s on %s, %s, micro-batch %d"):format(report.short(o.model), report.short(o.system),
  table.concat(sizes, ", "), o.micro_batch)
tperf.plot.bars({
  rows = ops, x = "op", y = { "compute", "memory", "communication" }, yunit = "s", ylabel = "forward and backward",
  xlabel = "", title = "Time of one layer's ops", subtitle = name, width = 1100,
}):save "layer_breakdown.svg"
tperf.plot.roofline({
  rows = passes, system = machine, series = "pass", title = "One layer's ops on the roof", subtitle = name,
  width = 860, height = 520,
}):save "layer_roofline.svg"
