--- The number of GPUs that a program's launcher starts: torchrun, deepspeed, accelerate, mpirun, Slurm.
local marker = require "tperf.import.launch.shell.marker"

local launcher = {}

-- Options by what they count; the count follows after "=" or as the next word.
local COUNTS <const> = {
  ["--nproc-per-node"] = "per_node", ["--nproc_per_node"] = "per_node", ["--nnodes"] = "nodes",
  ["--num_gpus"] = "per_node", ["--num-gpus"] = "per_node", ["--num_nodes"] = "nodes", ["--num-nodes"] = "nodes",
  ["--num_processes"] = "total", ["--gpus-per-node"] = "per_node", ["--nodes"] = "slurm_nodes",
  ["--ntasks-per-node"] = "tasks", ["--ntasks"] = "all_tasks", ["-N"] = "slurm_nodes",
  ["--num-processes"] = "total", ["--gpus_per_node"] = "per_node",
}

local function count(text)
  return math.tointeger(tonumber((text:gsub("^.*:", "")))) -- "1:4" is an elastic range
end

local function take(found, name, value)
  if name == "--gres" and value then
    found.per_node = tonumber(value:match "^gpu:(%d+)$" or value:match "^gpu:[%w_]+:(%d+)") or found.per_node
  end
  local what = COUNTS[name]
  if not what or value == nil then return end
  found[what] = marker.is_in(value) and { open = marker.names(value)[1] } or count(value) or found[what]
end

-- Takes the words up to the last: NAME=VALUE, or NAME VALUE.
local function take_words(found, words, last)
  for i = 1, last do
    local name, value = words[i]:match "^(%-%-?[%w_-]+)=(.*)$"
    if name then take(found, name, value) else take(found, words[i], words[i + 1]) end
  end
  return found
end

--- The settings of `#SBATCH` lines: { slurm_nodes, tasks, per_node }.
function launcher.directives(text)
  local found = {}
  for line in text:gmatch "#SBATCH%s+([^\n]+)" do
    line = line:sub(1, (line:find "%s#" or #line + 1) - 1)
    line = " " .. line
    for name, value in line:gmatch "%s(%-%-?%a[%w-]*)[=%s]+([^%-%s]%S*)" do take(found, name, value) end
  end
  return found
end

--- What `sbatch OPTIONS SCRIPT` says of nodes: the script's directives, and options, which take precedence.
---@param words string[]
---@param last integer  index of the last option
---@param text string   of the script
function launcher.submitted(words, last, text)
  return take_words(launcher.directives(text), words, last)
end

--- The variables that Slurm sets for a job with these directives.
function launcher.environment(found)
  local variables = {}
  for name, value in pairs { SLURM_NNODES = found.slurm_nodes, SLURM_JOB_NUM_NODES = found.slurm_nodes,
    SLURM_NTASKS_PER_NODE = found.tasks, SLURM_GPUS_ON_NODE = found.per_node, SLURM_GPUS_PER_NODE = found.per_node } do
    if type(value) == "number" then variables[name] = tostring(value) end
  end
  return variables
end

--- The GPUs of a command, or nil and the name of a variable that is needed to tell.
---@param words string[]
---@param last integer  index of the last word before the program's own
---@param slurm table   of launcher.directives
---@return integer? gpus
---@return string? missing
function launcher.gpus(words, last, slurm)
  local found = take_words({}, words, last)
  for _, all in ipairs { found, slurm } do
    for _, value in pairs(all) do
      if type(value) == "table" then return nil, value.open end
    end
  end
  if found.total then return found.total end
  local nodes = found.nodes or found.slurm_nodes
  if found.per_node then return found.per_node * (nodes or 1) end
  local per_node = slurm.per_node or slurm.tasks or found.tasks
  nodes = nodes or slurm.slurm_nodes
  if per_node and nodes then return per_node * nodes end
end

return launcher
