local beside = require "tperf.base.lazy".module "tperf.cli.beside"
local catalogue = require "tperf.base.catalogue"
local configuration = require "tperf.cli.ask.configuration"
local costs = require "tperf.cli.answer.costs"
local jobs = require "tperf.cli.answer.jobs"
local launch = require "tperf.cli.answer.launch"
local options = require "tperf.input.options"
local required = require "tperf.cli.sandbox.required"
local fitted = require "tperf.cli.answer.fitted"
local format = require "tperf.output.format"
local parts = require "tperf.cli.answer.parts"
local visible_memory = require "tperf.describe.machine.visible_memory"
local stages = require "tperf.base.lazy".module "tperf.cli.answer.stages"
local say = require "tperf.output.terminal".say

-- One row per op, both passes summed, and one for the total.
local function op_rows(ops)
  local rows = {}
  for _, op in ipairs(ops) do
    rows[#rows + 1] = {
      op = op.block .. " " .. op.name, forward = op.forward.time, backward = op.backward.time,
      comm = op.forward.comm_time + op.backward.comm_time,
      stall = op.forward.exposed_memory_time + op.backward.exposed_memory_time,
      flops = op.forward.tensor_flops + op.backward.tensor_flops + op.forward.vector_flops + op.backward.vector_flops,
      weights = op.weight_bytes, saved = op.saved_bytes,
    }
  end
  local sum = { op = "all" }
  for _, name in ipairs { "forward", "backward", "comm", "stall", "flops", "weights", "saved" } do
    sum[name] = 0
    for _, row in ipairs(rows) do sum[name] = sum[name] + row[name] end
  end
  rows[#rows + 1] = sum
  return rows
end

local OP_COLUMNS = {
  { key = "op" }, { key = "forward", unit = "s" }, { key = "backward", unit = "s" },
  { key = "comm", title = "incl. comm.", unit = "s", wide = 1 },
  { key = "stall", title = "incl. memory", unit = "s", wide = 2 },
  { key = "flops", title = "FLOPs", unit = "FLOP" }, { key = "weights", unit = "bytes" },
  { key = "saved", title = "activations", unit = "bytes" },
}

local SUM_COLUMNS = { { key = "term" }, { key = "seconds", title = "", unit = "s" }, { key = "formula", wrap = true } }

local function print_simulated(s, peak)
  say(("\nSimulated as %s: %s an iteration, bubble %s, activations of %s"):format(s.schedule,
    format.number(s.time, "s"), format.number(s.bubble_rate, "%", 3), format.number(s.activations, "bytes")))
  local alive, held = {}, {}
  for _, name in ipairs(parts.memory) do
    if peak.alive[name[1]] > 0 then
      alive[#alive + 1] = ("%s %s"):format(name[2], format.number(peak.alive[name[1]], "bytes"))
    end
  end
  for i, item in ipairs(peak.held) do held[i] = ("%d of stage %d"):format(item.microbatches, item.stage) end
  local moment = peak.moment
  say(("Fullest is device %d, with %s from %s on, in the %s pass of micro-batch %d at stage %d: %s. Micro-batches "
    .. "held: %s"):format(peak.device, format.number(peak.total, "bytes"), format.number(peak.time, "s"),
    moment.pass:gsub("_", " "), moment.microbatch, moment.stage, table.concat(alive, ", "), table.concat(held, ", ")))
end

local function print_details(values, c, machine)
  local report = require "tperf.report"
  local function section(title, rows, columns)
    say(("\n%s"):format(title))
    fitted.print(values, rows, columns)
  end
  print()
  report.print(parts.of("time of an iteration", c.breakdown, parts.time, c.time, "s"))
  print()
  local capacity = format.number(visible_memory(machine), "bytes")
  report.print(parts.of("memory of the fullest GPU, which has " .. capacity, c.memory, parts.memory, c.memory.total,
    "bytes"))
  if c.host_memory then say(("\nThe host's memory holds %s for it"):format(format.number(c.host_memory, "bytes"))) end
  if c.pp > 1 then section("Stages, and the memory of a GPU of each", stages.rows(c), stages.columns) end
  for _, kind in ipairs(c.kinds) do
    if kind.count > 0 then
      section(("One of %d layers %s, one micro-batch on one GPU"):format(kind.count, kind.key), op_rows(kind.ops),
        OP_COLUMNS)
    end
  end
  if #c.first > 0 then section("Before the first layer", op_rows(c.first), OP_COLUMNS) end
  if #c.last > 0 then section("After the last layer", op_rows(c.last), OP_COLUMNS) end
  if c.sum then section("The time of an iteration, term by term", c.sum, SUM_COLUMNS) end
  if c.simulated then print_simulated(c.simulated, c.memory.peak) end
end

return {
  summary = "time and memory of one configuration",
  arguments = "MODEL",
  from = { "models files" },
  example = "tperf train gpt3-175b -s h100-sxm -b 1536 --tp 8 --pp 8 --dp 16",
  quick = { "system", "batch", "tp", "pp", "dp", "micro-batch", "recompute", "tokens", "explain", "from" },
  details = [[
Prints the breakdown of the iteration time and of the memory, by stage and by op.]],
  options = configuration.options(false, options.join({
    required.option, launch.option,
    { long = "explain", help = "also print the terms of the time, each a formula with its numbers" },
    { long = "simulate", value = "NAME", from = "schedules",
      help = "also simulate the pipeline (`tperf list schedules`)" },
    { long = "timeline", value = "FILE", writes = "file",
      help = "simulate, and draw every task: .svg, .png, .pdf, .html, .json, .txt" },
    { long = "chakra", value = "DIR", writes = "folder",
      help = "simulate, and write Chakra execution traces, DIR/tperf.RANK.et" },
    { long = "measured", value = "FILE", from = "files",
      help = "compare with a trace of PyTorch's profiler (.json), or Megatron-LM's timers" },
    { long = "beside", value = "FILE", writes = "file",
      help = "draw the measured beside the predicted step (.svg, .png, .pdf)" },
    { long = "anchor", value = "RATE", from = "files",
      help = "what your run measured, \"380 tokens/s/GPU\", or its log: predict as it ran" },
    { long = "anchor-to", value = "FILE", writes = "file",
      help = "write the software profile that the anchor moved, for what-ifs" },
    { long = "part", value = "NAME", from = { "step", "pair", "forward", "backward" },
      help = "part traced: step, a chunk's forward or backward, or an overlapped pair" },
    { long = "by", value = "NAME", from = { "kind", "op" }, help = "rows of the JSON or CSV output" },
    { long = "device", value = "N", kind = "integer", min = 1, help = "the pipeline device that the trace is from" },
    { long = "ranks", value = "N,...", kind = "integers", min = 0,
      help = "ranks whose traces to write (default: all)" },
  }, options.under("cost and failures", costs.options), options.under("fine-tuning job", jobs.options))),
  run = function(values, arguments)
    local asked, message = configuration.question(values, arguments, { "system", "batch" })
    if not asked then return false, message end
    asked.simulate, asked.explain, asked.straggling = values.simulate, values.explain, values.straggling
    local anchored
    if values.anchor_to and not values.anchor then return false, "--anchor-to needs --anchor" end
    if values.anchor then
      anchored = require "tperf.question.train.anchor".of(asked, values.anchor)
      asked.software, values.software = anchored.software, anchored.software
    end
    local job, not_asked = jobs.of(values, asked)
    if not_asked then return false, not_asked end
    if job then asked = job.question end
    local cost, wrong = costs.question(values, asked, job)
    if wrong then return false, wrong end
    if values.timeline then
      local form, wrong_name = require "tperf.timeline".form(values.timeline)
      if not form then return false, ("--timeline: the name %s, got '%s'"):format(wrong_name, values.timeline) end
      asked.simulate = asked.simulate or true
    end
    if values.launch then require "tperf.export.launch".stack(values.launch, false) end
    if values.ranks and not values.chakra then return false, "--ranks needs --chakra" end
    local refused = beside.refused(values)
    if refused then return false, refused end
    if values.chakra or values.measured then asked.simulate = asked.simulate or true end
    local c, timeline = require "tperf.question.train".run(asked)
    if values.timeline then timeline:save(values.timeline) end
    if values.chakra then
      local paths = timeline:chakra(values.chakra, { ranks = values.ranks })
      io.stderr:write(("tperf: %d traces and comm_group.json in %s\n"):format(#paths - 1, values.chakra))
    end
    costs.add({ c }, cost)
    c.job = job and jobs.told(job)
    if values.launch then
      configuration.note(values)
      return launch.print({ c }, values.launch, launch.trained(asked, values.tokens))
    end
    if values.measured then return beside.print(timeline, values, c) end
    configuration.note(values)
    require "tperf.cli.answer.table"(values, { c },
      values.csv and costs.with(configuration.columns) or configuration.columns)
    configuration.tell(values, { c }, asked.system, true)
    costs.note(values, c)
    if anchored then require "tperf.cli.answer.anchored"(values, anchored) end
    if c.cost and not values.json and not values.csv then costs.print(c.cost) end
    if job and not values.json and not values.csv then jobs.print(job) end
    if not values.json and not values.csv then
      print_details(values, c, catalogue.shared(require "tperf.describe.system")(asked.system))
    end
    if values.from and not values.json and not values.csv then
      require "tperf.cli.ask.from".faster(values, asked, c, configuration.columns)
    end
    if c.reason then
      io.stdout:flush()
      io.stderr:write("tperf: ", c.reason, "; `tperf search` finds the best layouts that fit\n")
    end
  end,
}
