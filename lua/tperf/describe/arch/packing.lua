--- Sequences of several documents that do not see each other (packed sequences): what a token sees.
local packing = {}

-- Sum of min(i, w) for i = 1 … n.
local function seen_up_to(n, w)
  local inside = math.min(n, w)
  return inside * (inside + 1) / 2 + math.max(n - w, 0) * w
end

--- Keys that a token sees on average under a causal mask: each document l has l (l + 1) / 2 pairs. nil where a sequence
--- is one document.
---@param m table        a model, whose `packing` says how long documents are; longer ones than a sequence are cut
---@param window number?  of attention
---@param seq number?     tokens of a sequence (the model's)
---@return number? seen
function packing.seen(m, window, seq)
  local p = m.packing
  if not p then return nil end
  local pairs_seen, tokens = 0, 0
  for _, length in ipairs(p.lengths or { p.mean }) do
    local l = math.min(length, seq or m.seq)
    pairs_seen, tokens = pairs_seen + seen_up_to(l, window or l), tokens + l
  end
  return pairs_seen / tokens
end

--- What is wrong with a model's `packing`: a message and the field's path, or nothing.
function packing.disagreement(m)
  local p = m.packing
  if not p then return end
  if (p.mean ~= nil) == (p.lengths ~= nil) then return "'packing' wants 'mean' or 'lengths'", "packing" end
  if not m.causal then return "'packing' is of documents under a causal mask", "packing" end
end

return packing
