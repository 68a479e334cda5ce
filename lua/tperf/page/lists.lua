--- What there is to choose from.
local resource = require "tperf.resource"

local lists = {}

--- { models, systems, software, schedules, strategies, rules: names; version }.
function lists.lists()
  local tperf = require "tperf"
  return {
    models = resource.list "models", systems = resource.list "systems", software = resource.list "software",
    schedules = tperf.schedule.names(), strategies = require "tperf.strategy".names(), rules = tperf.rules.names(),
    version = tperf.version,
  }
end

return lists
