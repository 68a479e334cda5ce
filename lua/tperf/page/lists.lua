--- The choices that a page offers.
local catalogue = require "tperf.base.catalogue"

local lists = {}

--- { models, systems, software, schedules, strategies, rules: names; commands: those that take a model; version }.
function lists.lists()
  local tperf = require "tperf"
  return {
    models = catalogue.list "models", systems = catalogue.list "systems", software = catalogue.list "software",
    schedules = tperf.schedule.names(), strategies = tperf.strategy.names(), rules = tperf.rules.names(),
    commands = require "tperf.cli.link".model_commands(), version = tperf.version,
  }
end

return lists
