--- The choices that a page offers.
local catalogue = require "tperf.base.catalogue"

local core = require "tperf.core"
local roots = require "tperf.base.roots"

local lists = {}

-- Software that trains, and engines, which serve: their files say `engine`. Not parsed: there are many.
local function software()
  local trains, serves = {}, {}
  for _, name in ipairs(catalogue.list "software") do
    local path = roots.find(("software/%s.yaml"):format(name))
    local file <close> = path and core.file.open(path, true) or nil
    local text = file and core.file.rest(file, 1 << 20) or ""
    local list = text:find "\nengine:" and serves or trains
    list[#list + 1] = name
  end
  return trains, serves
end

--- { models, systems, software: what trains, engines: what serves,
--- schedules, strategies, rules: names; commands: those that take a model; version }.
function lists.lists()
  local tperf = require "tperf"
  local trains, serves = software()
  return {
    models = catalogue.list "models", systems = catalogue.list "systems", software = trains, engines = serves,
    schedules = tperf.schedule.names(), strategies = tperf.strategy.names(), rules = tperf.rules.names(),
    commands = require "tperf.cli.link".model_commands(), version = tperf.version,
  }
end

return lists
