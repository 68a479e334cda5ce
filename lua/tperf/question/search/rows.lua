--- The arguments of tperf.search beside those of training, as rows of the registry (tperf.question.arguments).
local check = require "tperf.base.check"
local minimize = require "tperf.question.search.minimize"

return {
  { name = "top", check = check.integer { min = 1, max = 1 << 20, default = 10 }, doc = "how many to return" },
  { name = "minimize", check = minimize.field,
    doc = "what to rank by: time (default), memory, dollars or energy of an iteration" },
  { name = "keep", check = check.choice { { "all", "best" }, default = "best" },
    doc = "all: every candidate, feasible or not, ranked by closed forms" },
  { name = "infeasible", check = check.boolean { default = false }, doc = "also rank what does not fit" },
  { name = "simulate", check = check.boolean { optional = true },
    doc = "true: rank by simulation, pass by pass; false: never" },
  { name = "prune", check = check.boolean { default = true }, doc = "false: also time what bounds rule out" },
  { name = "threads", check = check.integer { min = 1, max = 1024, optional = true },
    doc = "number of threads (default: one per usable processor)" },
}
