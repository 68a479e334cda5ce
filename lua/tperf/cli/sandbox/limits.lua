--- The options of commands that run scripts.
local core = require "tperf.core"
local options = require "tperf.input.options"
local processes = require "tperf.cli.sandbox.processes"
local units = require "tperf.base.units"

local limits = {}

local MEMORY <const> = 4 << 30 -- bytes
local LEAST_MEMORY <const> = 1 << 20 -- "4 GiB" without quotes is "4"
local INSTRUCTIONS <const> = 20000000000 -- minutes of pure Lua; searches run in C and do not count

limits.budgets = {
  { long = "threads", short = "j", value = "N", kind = "integer", help = "threads (default: one per usable core)" },
  processes.option,
  { long = "max-memory", value = "SIZE", kind = "bytes", help = "limit on the script's memory (default 4 GiB)" },
  { long = "max-instructions", value = "N", kind = "integer", help = "limit on Lua instructions (default 20 billion)" },
}

limits.options = options.join({
  { long = "out", short = "o", value = "DIR", help = "output folder, created if missing (default: .)" },
  { long = "trust", short = "t", help = "lift the sandbox: the whole standard library, no instruction limit" },
}, limits.budgets)

--- Applies the limits and the output folder, and returns its path; false and a message if a value is invalid.
function limits.apply(values, host)
  local memory, instructions = values.max_memory or MEMORY, values.max_instructions
  if memory < LEAST_MEMORY or memory >= 2 ^ 62 then
    return false, ("--max-memory: at least 1 MiB is needed, got %s (no blank before the unit: 4GiB)"):format(
      units.format(memory, "bytes"))
  end
  if instructions and instructions < 1 then return false, "--max-instructions: a positive number is needed" end
  local ok, problem = processes.start(values, host)
  if not ok then return false, problem end
  if values.threads then
    if values.threads < 1 or values.threads > 1024 then return false, "--threads: 1 to 1024" end
    core.search.threads = function() return values.threads end
    core.ranks.threads = values.threads -- of every rank; memory likewise
  end
  local folder, message = host.output.folder(values.out or ".", values.out ~= nil)
  if not folder then error("cannot use the output folder " .. message, 0) end
  host.limits.memory(math.floor(memory))
  core.search.memory_left = host.limits.memory_left
  core.ranks.memory = math.floor(memory)
  if instructions or not values.trust then host.limits.instructions(instructions or INSTRUCTIONS) end
  return folder
end

return limits
