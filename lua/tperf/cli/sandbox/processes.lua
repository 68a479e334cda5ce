--- Processes on this machine that share a command's sweeps, fits and large searches, as ranks under MPI do.
local core = require "tperf.core"

local processes = {}

--- The option. work: what they share, and how many there are without it.
function processes.shares(work)
  return { long = "processes", short = "P", value = "N", kind = "integer", help = "processes that share " .. work }
end

processes.option = processes.shares "sweeps, fits and large searches (default: 1)"

--- Starts those that the option asks for; false and a message if its value is wrong. The others answer this one's
--- requests, and do not return.
---@param values table   of the options
---@param most integer?  as many as the machine has processors for, up to this number, unless the option is given; not
---  under MPI (1)
function processes.start(values, host, most)
  local own = core.ranks.count == 1 and math.min(most or 1, core.search.threads()) or 1
  local count = values.processes or own
  if count < 1 or count > 1024 then return false, "--processes: 1 to 1024" end
  if count == 1 then return true end
  if core.ranks.count > 1 then return false, "--processes: the launcher has started several already" end
  local rank, problem = core.ranks.copy(count)
  if not rank then error("cannot start processes: " .. problem, 0) end
  if rank > 0 then host.exit(require "tperf.cli.sandbox.worker"(host)) end
  core.search.threads = core.ranks.share
  return true
end

return processes
