--- The choices that a page offers.
local catalogue = require "tperf.base.catalogue"

local lists = {}

--- { models, systems, software, schedules, strategies, rules: names; version }.
function lists.lists()
  local tperf = require "tperf"
  return {
    models = catalogue.list "models", systems = catalogue.list "systems", software = catalogue.list "software",
    schedules = tperf.schedule.names(), strategies = tperf.strategy.names(), rules = tperf.rules.names(),
    version = tperf.version,
  }
end

return lists
