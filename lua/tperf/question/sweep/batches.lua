--- Groups the searches of a sweep: points that differ only in system and number of GPUs are one search and share work.
local core = require "tperf.core"
local problem = require "tperf.question.problem"
local refusal = require "tperf.base.refusal"
local search = require "tperf.question.search"

local batches = {}

--- Whether a point's arguments name one system and one number of GPUs. Others are left to tperf.search, which reports
--- what is wrong.
---@param args table
function batches.takes(args)
  return math.type(args.gpus) == "integer" and args.system ~= nil and not problem.lists_systems(args.system)
end

-- Groups points whose arguments differ only in gpus and system, in the order of their first points, each by system.
-- Known points count for the order, too, so that it does not depend on what the cache holds.
local function groups_of(points)
  local groups, by_key = {}, {}
  for _, p in ipairs(points) do
    local rest = {}
    for name, value in pairs(p.args) do
      if name ~= "gpus" and name ~= "system" then rest[name] = value end
    end
    local key = core.codec.identity(rest)
    local group = by_key[key]
    if not group then
      group = { rest = rest, systems = {}, by_system = {} }
      by_key[key], groups[#groups + 1] = group, group
    end
    local of_system = core.codec.identity { p.args.system }
    local machine = group.by_system[of_system]
    if not machine then
      machine = { system = p.args.system, points = {} }
      group.by_system[of_system], group.systems[#group.systems + 1] = machine, machine
    end
    if not p.known then table.insert(machine.points, p) end
  end
  return groups
end

local function gpus_key(machine)
  local counts = {}
  for i, p in ipairs(machine.points) do counts[i] = tostring(p.args.gpus) end
  return table.concat(counts, " ")
end

--- The searches to make, each of systems that have the same numbers of GPUs.
---@param points table[]  { args, known }
---@param most integer    limit of the points of one search with several systems
---@return { rest: table, machines: table[] }[]
function batches.of(points, most)
  local list = {}
  for _, group in ipairs(groups_of(points)) do
    local machines, key, questions = {}, nil, 0
    local function flush()
      if #machines > 0 then list[#list + 1] = { rest = group.rest, machines = machines } end
      machines, questions = {}, 0
    end
    for _, machine in ipairs(group.systems) do
      local own = gpus_key(machine)
      if own ~= key or questions + #machine.points > most then flush() end
      if #machine.points > 0 then
        machines[#machines + 1], key, questions = machine, own, questions + #machine.points
      end
    end
    flush()
  end
  return list
end

--- Asks for the points of a batch at once, or one by one if that is refused. Returns false if interrupted.
---@param batch table
---@param done fun(p: table, result: table)
---@param one fun(p: table): boolean  asks for one point
---@return boolean
function batches.ask(batch, done, one)
  local args, systems, gpus = {}, {}, {}
  for name, value in pairs(batch.rest) do args[name] = value end
  for i, machine in ipairs(batch.machines) do systems[i] = machine.system end
  for i, p in ipairs(batch.machines[1].points) do gpus[i] = p.args.gpus end
  args.system, args.gpus = systems, gpus
  local results = refusal.attempt(search.run, args)
  for i, machine in ipairs(batch.machines) do
    for j, p in ipairs(machine.points) do
      if results then
        local result = results[(i - 1) * #gpus + j]
        if not result.complete then return false end
        done(p, result)
      elseif not one(p) then
        return false
      end
      if core.search.interrupted() then return false end
    end
  end
  return true
end

return batches
