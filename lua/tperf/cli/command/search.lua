local configuration = require "tperf.cli.configuration"

return {
  summary = "the best ways to train a model on a cluster",
  arguments = "MODEL",
  details = [[
For example: tperf search gpt3-175b -s h100-sxm -g 1024 -b 1536 --top 5]],
  options = configuration.options_with {
    { long = "strategy", value = "NAME,...", kind = "list",
      help = "strategies to try, or all (`tperf list strategies`)" },
    { long = "top", short = "k", value = "K", kind = "integer", help = "how many to print (default 10)" },
    { long = "all", short = "a", help = "print every candidate, those that do not fit too" },
    { long = "threads", short = "j", value = "N", kind = "integer", help = "threads (default: one per core)" },
  },
  run = function(values, arguments)
    local missing = configuration.missing(values, arguments, { "system", "gpus", "batch" })
    if missing then return false, missing end
    local tperf, strategies = require "tperf", values.strategy or { "tensor" }
    local progress = require "tperf.progress".start "searching"
    local found = tperf.search {
      model = arguments[1], system = values.system, gpus = values.gpus, global_batch = values.batch, seq = values.seq,
      strategy = strategies[2] and strategies or strategies[1], top = values.top, keep = values.all and "all" or nil,
      threads = values.threads, rules = values.rules, progress = progress,
    }
    progress()
    if #found > 0 then
      require "tperf.cli.table"(values, table.move(found, 1, #found, 1, {}), configuration.columns)
    end
    io.stderr:write(("%d candidates, %d feasible\n"):format(found.candidates, found.feasible))
    if not found.complete then io.stderr:write "interrupted: the best so far\n" end
    if #found == 0 and found.complete then error(found.reason, 0) end
  end,
}
