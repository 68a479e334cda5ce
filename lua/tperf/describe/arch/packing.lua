--- Packed sequences (several documents that do not see each other): the keys a token sees.
local packing = {}

-- Sum of min(i, w) for i = 1 … n.
local function seen_up_to(n, w)
  local inside = math.min(n, w)
  return inside * (inside + 1) / 2 + math.max(n - w, 0) * w
end

--- Average keys per token under a causal mask: a document of l tokens has l (l + 1) / 2 pairs. nil if each sequence is
--- one document.
---@param m table        a model; its `packing` gives document lengths, cut at the sequence length
---@param window number?  attention window, in tokens
---@param seq number?     tokens per sequence (default: the model's)
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
  if m.encoder_stack then
    return "'packing' is of documents under a causal mask, which 'encoder_stack' and its cross-attention have not",
      "packing"
  end
end

return packing
