--- Compares what a script's strategy claims to cut with what its cuts return.
local check = require "tperf.base.check"
local has = require "tperf.base.lists".has
local sets = require "tperf.describe.rules.sets"

local claims = {}

-- A model of which no dimension stands in the way of a cut.
local WIDE <const> = 1 << 13
local MODEL <const> = { name = "any", seq = WIDE, hidden = WIDE, heads = 64, kv_heads = 64, ffn = 4 * WIDE,
  vocab = 8 * WIDE, layers = 64, causal = true }
local SIZES <const> = { 2, 4, 3 }

local PRODUCTS <const> = {
  column = { name = "any", n_in = WIDE, n_out = 4 * WIDE }, row = { name = "any", n_in = 4 * WIDE, n_out = WIDE },
  embedding = { name = "any", rows = 8 * WIDE, width = WIDE }, head = { name = "any", n_in = WIDE, n_out = 8 * WIDE },
}

-- Parameters on a GPU of each product that the strategy cuts, by name, with this size of the i-th axis.
local function parameters(s, share_of, i, size)
  local sizes, found = {}, {}
  for k, axis in ipairs(s.axes) do sizes[k] = k == i and size or axis.folds and has(axis.cuts, "state") and 0 or 1 end
  local ok, share = pcall(share_of, s, MODEL, 1, sizes, sets.of "default")
  if not ok then return found end
  for name, fields in pairs(PRODUCTS) do
    local copy = {}
    for field, value in pairs(fields) do copy[field] = value end
    local done, op = pcall(function() return s[name](share, copy) end)
    local counted, count = pcall(function() return done and op:parameters() end)
    found[name] = counted and count or nil
  end
  return found
end

-- Whether a GPU's part of any product's weights is smaller with several GPUs; nil if nothing says.
local function shrinks(s, share_of, i)
  local alone, compared = parameters(s, share_of, i, 1), nil
  for _, size in ipairs(SIZES) do
    local several = parameters(s, share_of, i, size)
    for name, count in pairs(alone) do
      if several[name] and count > 0 then
        if several[name] < count then return true end
        compared = false
      end
    end
  end
  return compared
end

--- Raises if an axis claims to cut weights and none of a GPU's products has less of them: their gradients would be
--- reduced among too few GPUs, and the memory be too small.
---@param s table         prepared
---@param share_of function  strategy.share
function claims.check(s, share_of)
  for i, axis in ipairs(s.axes) do
    if not axis.folds and has(axis.cuts, "weights") and shrinks(s, share_of, i) == false then
      check.fail("tperf.strategy '%s': axis '%s' claims to cut weights (the default of 'cuts'), but a GPU's weights of "
        .. "a product are the same with several of its GPUs as with one: cut them, or give cuts = { \"tokens\" } and "
        .. "the like, so that their gradients are reduced over it", s.name, axis.name)
    end
  end
end

return claims
