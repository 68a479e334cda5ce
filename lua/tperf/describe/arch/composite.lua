--- Blocks that consist of others, each of which is remembered on its own (tperf/describe/layout/memo.lua).
local block = require "tperf.describe.block"

---@param name string
---@param pieces fun(model: table, share: table): table[]  list of { block =, group = of a layer; nil: the share's }; it
---  depends on the model and on the share's mode alone
---@return table block
return function(name, pieces)
  local one = block(name, function(model, share)
    local ops = {}
    for _, piece in ipairs(pieces(model, share)) do
      local own = piece.group and setmetatable({ group = piece.group }, { __index = share }) or share
      local more = piece.block:ops(model, own)
      table.move(more, 1, #more, #ops + 1, ops)
    end
    return ops
  end)
  one.pieces = pieces
  return one
end
