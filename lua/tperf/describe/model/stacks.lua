--- Encoder-decoders (T5, arXiv 1910.10683): the first layers are an encoder with its own sequence, all others a decoder
--- that attends to its output (cross.lua).
local stacks = {}

--- Tokens of the encoder's sequence.
function stacks.seq(m) return m.encoder_stack.seq or m.seq end

--- Rows of the encoder's own table of learned positions; nil: it has none.
function stacks.position_rows(m)
  return m.positions == "learned" and math.max(m.position_rows, stacks.seq(m)) or nil
end

--- Sets the fields of a layer group that depend on the stack the layer belongs to.
---@param one table   the group, changed in place
---@param layer integer
function stacks.group(m, one, layer)
  if layer <= m.encoder_stack.layers then
    one.kind, one.seq, one.causal = "encoder", stacks.seq(m), false
  else
    one.kind, one.cross, one.norms = "decoder", true, m.norms_per_layer // 2 * 3
  end
  return one
end

--- Checks the consistency of a description: returns a message and the field's path, or nothing.
function stacks.disagreement(m)
  local s = m.encoder_stack
  if m.positions == "relative" and not m.position_buckets then
    return "'position_buckets' is missing: rows of the table of relative positions", ""
  end
  if m.position_buckets and m.positions ~= "relative" then
    return "'position_buckets' goes with positions = \"relative\"", "position_buckets"
  end
  if not s then return end
  if s.layers >= m.layers then
    return ("'encoder_stack.layers' (%d) must be less than 'layers' (%d), the decoder's counted"):format(s.layers,
      m.layers), "encoder_stack.layers"
  end
  for _, other in ipairs { "experts", "mla", "mamba", "mamba1", "delta", "vision", "encoder", "window", "mixers" } do
    if m[other] then return ("'encoder_stack' does not go with '%s'"):format(other), "encoder_stack" end
  end
  if rawget(m, "layer_pattern") then return "'encoder_stack' does not go with 'layer_pattern'", "encoder_stack" end
  if m.parallel_block then return "'encoder_stack' does not go with 'parallel_block'", "encoder_stack" end
  if m.mtp > 0 then return "'encoder_stack' does not go with 'mtp'", "encoder_stack" end
  if m.norms_per_layer % 2 == 1 then
    return "'encoder_stack' needs an even 'norms_per_layer': as many of each sublayer", "norms_per_layer"
  end
end

return stacks
