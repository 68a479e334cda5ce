--- What the name of a checkpoint in a launch says: the model that has its sizes, and how its weights are stored.
local hub = require "tperf.describe.model.hub"
local names = require "tperf.describe.model.hub.names"

local checkpoints = {}

--- The model that a launch refers to: one of models/, or the path of a config.json in the local cache of the Hugging
--- Face Hub's programs; nil: none is known.
---@param name string?
---@param size string?
---@return string?
function checkpoints.model(name, size)
  return names.model(name, size) or type(name) == "string" and hub.cached(name) or nil
end

checkpoints.quantization = names.quantization

return checkpoints
