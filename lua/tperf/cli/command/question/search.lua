local configuration = require "tperf.cli.ask.configuration"
local costs = require "tperf.cli.answer.costs"
local launch = require "tperf.cli.answer.launch"
local required = require "tperf.cli.sandbox.required"
local say = require "tperf.output.terminal".say

-- Whether some rows were ranked by another time than their own.
local function reranked(rows)
  for _, c in ipairs(rows) do
    if c.simulated and c.simulated.time ~= c.time then return true end
  end
  return false
end

-- The columns; a single number of GPUs needs none.
local function columns_for(one_count, simulated)
  local list = one_count and {} or { { key = "gpus" } }
  for _, column in ipairs(costs.with(configuration.columns)) do
    list[#list + 1] = column
    if simulated and column.key == "time" then
      list[#list + 1] = { key = "simulated.time", title = "simulated", unit = "s" }
    end
  end
  list[#list + 1] = { key = "unproven", csv = true }
  return list
end

-- Words for a result of which bounds leave candidates that were not simulated; nil if there is none.
local function unproven_of(results)
  for _, result in ipairs(results) do
    if result.unproven then return result.unproven .. ": one of the others may be faster" end
  end
end

-- The rows of the results; prints the counts, and why some have no rows.
local function rows_of(results)
  local rows, reason = {}, nil
  for _, result in ipairs(results) do
    table.move(result, 1, #result, #rows + 1, rows)
    reason = #result == 0 and result.complete and result.reason or reason
    io.stderr:write(results[2] and ("%d GPUs: "):format(result.gpus) or "",
      ("%d candidates, %s%d feasible"):format(result.candidates, result.bounds and "at most " or "", result.feasible),
      results[2] and #result == 0 and result.reason and ": " .. result.reason or "", "\n")
  end
  for _, why in ipairs(results[1].left_out or {}) do io.stderr:write("tperf: left out: ", why, "\n") end
  local unproven = unproven_of(results)
  if not results[1].complete then
    io.stderr:write("interrupted: the best so far", unproven and ("; %s"):format(unproven) or "", "\n")
  elseif unproven then
    io.stderr:write(unproven, "\n")
  end
  return rows, reason
end

-- Moves the software profile so that it predicts the measured run of --anchor; a message if the run is not told.
local function anchor(values, asked)
  if not values.anchor and not values.anchor_at then return nil end
  if not (values.anchor and values.anchor_at) then
    return "--anchor needs the layout of the measured run, --anchor-at tp=8,pp=2, and that needs --anchor"
  end
  local run = { gpus = type(asked.gpus) == "table" and asked.gpus[1] or asked.gpus }
  for name, value in pairs(asked) do
    if run[name] == nil and type(value) ~= "table" then run[name] = value end
  end
  for name, value in pairs(values.anchor_at) do run[name] = value end
  local anchored = require "tperf.question.train.anchor".of(run, values.anchor)
  asked.software, values.software = anchored.software, anchored.software
  require "tperf.cli.answer.anchored"(values, anchored)
end

-- The fastest that surely fits, where the first may not, and how much slower it is.
local function tell_sure(asked, found)
  local first = found[1]
  if first.fit ~= "may not fit" or not first.interval then return end
  local c = require "tperf.question.search.stacks".surely(asked, found)
  local format = require "tperf.output.format"
  say(c and ("the fastest that fits with that confidence: %s, micro-batch %d (%s, %s longer)"):format(
    require "tperf.report".layout(c), c.micro_batch, format.number(c.time, "s"),
    format.number(c.time / first.time - 1, "%", 2)) or "none fits with that confidence")
end

-- What other stacks would choose, where the question names none: they cut the model otherwise.
local function tell_others(asked, first)
  local layout, format = require "tperf.report".layout, require "tperf.output.format"
  local list = require "tperf.question.search.stacks".others(asked, first)
  for i, c in ipairs(list) do
    list[i] = ("%s %s, zero %d (%s)"):format(c.software, layout(c), c.zero, format.number(c.time, "s"))
  end
  if list[1] then say("other stacks would choose: " .. table.concat(list, "; ")) end
end

return {
  summary = "find the best configurations to train a model on a cluster",
  arguments = "MODEL",
  from = { "models files" },
  example = "tperf search gpt3-175b -s h100-sxm -g 1024 -b 1536 --top 5",
  quick = { "system", "gpus", "batch", "seq", "tokens", "recompute", "zero", "precision", "top", "from" },
  details = [[
An option that takes a list tries each of its values: --recompute none,full --zero 1,3; 256..1024 is
256,512,1024. Columns with the default in every row (no recomputation, ZeRO 1, fits) are left out.
`placement` says how many GPUs of each axis share a fast domain (one NVLink switch). Nine in ten comparable runs
took a time between `from` and `to`. `tperf help mfu` explains a column, as any other term.]],
  options = configuration.options(true, require "tperf.input.options".join({
    required.option,
    { long = "top", short = "k", value = "K", kind = "integer", help = "how many to print (default 10)" },
    { long = "minimize", value = "NAME", from = { "time", "memory", "dollars", "energy" },
      help = "what to rank by (default time)" },
    { long = "simulate", help = "rank by simulation of each candidate's schedule, pass by pass" },
    { long = "all", short = "a", help = "print every candidate, even those that do not fit" },
    launch.option, require "tperf.cli.answer.why".option,
    { long = "anchor", value = "RATE", from = "files",
      help = "what a run measured, \"380 tokens/s/GPU\", or its log: rank as it ran" },
    { long = "anchor-at", value = "tp=8,pp=2", kind = "pairs",
      help = "the layout of that run, with dp, gpus, micro_batch or zero" },
    { long = "threads", short = "j", value = "N", kind = "integer", help = "threads (default: one per usable core)" },
  }, require "tperf.input.options".under("cost and failures", costs.options))),
  run = function(values, arguments)
    local asked, message = configuration.question(values, arguments, { "system", "gpus", "batch" }, true)
    if not asked then return false, message end
    local cost, wrong = costs.question(values, asked)
    if wrong then return false, wrong end
    if cost then cost.straggling = values.straggling end
    if values.launch then require "tperf.export.launch".stack(values.launch, false) end
    if values.straggling and not cost then return false, "--straggling needs --tokens: searches rank equal GPUs" end
    local unclear = (values.why and require "tperf.cli.answer.why".check(values.why)) or anchor(values, asked)
    if unclear then return false, unclear end
    asked.top, asked.keep, asked.threads = values.top, values.all and "all" or nil, values.threads
    asked.simulate, asked.minimize = values.simulate, values.minimize
    local progress = require "tperf.base.progress".start "searching"
    asked.progress = progress
    local found = require "tperf.question.search".run(asked)
    progress()
    configuration.note(values)
    local results = found.candidates and { found } or found
    local rows, reason = rows_of(results)
    costs.add(rows, cost)
    if #rows > 0 and values.why then
      if results[2] then return false, "--why compares rows of one search: name one number of GPUs" end
      require "tperf.cli.answer.why".print(values, results[1])
    elseif #rows > 0 and values.launch then
      launch.print(rows, values.launch, launch.trained(asked, values.tokens))
    elseif #rows > 0 then
      local columns = columns_for(found.candidates, values.simulate or reranked(rows))
      local for_people = not values.json and not values.csv
      require "tperf.cli.answer.table"(values, for_people and require "tperf.cli.answer.alike"(rows, columns) or rows,
        columns)
      local unproven = not values.json and not values.csv and unproven_of(results)
      if unproven then say(("(%s)"):format(unproven)) end
      configuration.tell(values, rows, asked.system, true)
      if found[1] and not values.json and not values.csv then
        tell_sure(asked, rows)
        tell_others(asked, rows[1])
      end
      costs.note(values, rows[1])
      local told = rows[1].cost and costs.told(rows[1].cost)
      if told and not values.json and not values.csv then say(told) end
    elseif reason then
      if found.feasible == 0 and found.candidates > 0 then
        reason = reason .. "; `tperf memory --fewest` finds the fewest GPUs that hold it, --all shows what each takes"
      end
      error(reason, 0)
    end
  end,
}
