--- How often a cluster fails, and how long it then waits for a working machine.
local check = require "tperf.base.check"
local units = require "tperf.base.units"

local machines = {}

local time = check.number { above = 0, max = 1e15, unit = "s", optional = true }

--- The field `mtbf` of tperf.cost: mean seconds between failures.
machines.mtbf = {
  gpu = time, -- of one GPU, with its share of all other causes of failure
  node = time, -- of one node
  cluster = time, -- of all GPUs together
  gpus_per_node = check.integer { min = 1, max = 1 << 20, optional = true }, -- else a fast domain of the system
}

--- The field `spares` of tperf.cost.
machines.spares = {
  nodes = check.integer { min = 0, max = 1 << 20 }, -- on standby, and paid for
  repair = check.number { above = 0, max = 1e12, unit = "s" }, -- of a failed node
  part = check.number { min = 0, max = 1, default = 1 }, -- of the failures that take a node out
  gpus_per_node = check.integer { min = 1, max = 1 << 20, optional = true },
}

local function per_node(given, machine, field)
  local count = given.gpus_per_node or machine and machine.network.fast.domain
  if not count then
    check.fail("tperf.cost: '%s': how many GPUs has a node? Give gpus_per_node, or a system", field)
  end
  return count
end

--- Mean seconds between failures of a cluster of so many GPUs.
---@param given table    of machines.mtbf
---@param gpus integer
---@param machine table?  a system
---@return number
function machines.mtbf_of(given, gpus, machine)
  local said = {}
  for _, name in ipairs { "gpu", "node", "cluster" } do
    if given[name] then said[#said + 1] = name end
  end
  if #said ~= 1 then
    check.fail("tperf.cost: 'mtbf' needs one of gpu, node and cluster: of what is that the time? Got %s",
      said[1] and table.concat(said, " and ") or "none")
  end
  if given.cluster then return given.cluster end
  if given.gpu then return given.gpu / gpus end
  return given.node / math.ceil(gpus / per_node(given, machine, "mtbf"))
end

--- The time that a run with spare nodes waits. A node fails every `mtbf` seconds on average and is away for `repair`
--- seconds; the run stands still while more nodes are away than there are spares. That is a loss system of spares + 1
--- servers, the last of them the run's: Erlang's B formula, for any distribution of repair times.
---@param given table  of machines.spares
---@param mtbf number  seconds
---@param machine table?  a system
---@return number waiting  part of all time
---@return integer gpus    on standby
function machines.spares_of(given, mtbf, machine)
  local load, blocking = given.part * given.repair / mtbf, 1.0
  for nodes = 1, given.nodes + 1 do blocking = load * blocking / (nodes + load * blocking) end
  if blocking > 0.999 then
    check.fail("tperf.cost: 'spares': a node fails every %s and is away for %s: %d spare nodes leave a run no time",
      units.format(mtbf / given.part, "s"), units.format(given.repair, "s"), given.nodes)
  end
  return blocking, given.nodes > 0 and given.nodes * per_node(given, machine, "spares") or 0
end

return machines
