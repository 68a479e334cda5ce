--- Interleaved 1F1B: several stages (chunks) per device, round robin; micro-batches go through a chunk in
-- groups (Narayanan et al. 2021, arXiv 2104.04473).
local interleaved = {}

--- Chunk (from 0) and micro-batch of the k-th forward of any device; backwards take the chunks in reverse.
---@return integer[], integer[]
function interleaved.virtual_order(chunks, microbatches, group)
  local chunk, microbatch, k = {}, {}, 0
  for low = 1, microbatches, group do
    for c = 0, chunks - 1 do
      for mb = low, math.min(low + group - 1, microbatches) do
        k = k + 1
        chunk[k], microbatch[k] = c, mb
      end
    end
  end
  return chunk, microbatch
end

--- The number of forwards that a device runs before its first backward.
function interleaved.ahead(s, device, group)
  local P, chunks = s.devices, s.stages // s.devices
  if P == 1 and s.rules.backward_before_forward then return 1 end
  return math.min(2 * (P - device) + (chunks - 1) * group, s.microbatches * chunks)
end

--- The advice that avoids deadlocks.
function interleaved.remedy(s)
  return ("micro-batches in multiples of %d and groups of %d avoid it"):format(s.devices, s.devices)
end

local definition = {
  summary = "1f1b with several stages per device",
  placement = "round_robin",
  grouped = true,
  remedy = interleaved.remedy,

  order = function(s)
    local P, chunks, group = s.devices, s.stages // s.devices, s.group_size or s.devices
    local chunk, microbatch = interleaved.virtual_order(chunks, s.microbatches, group)
    local total = #chunk
    for d = 1, P do
      local ahead, last = interleaved.ahead(s, d, group), (chunks - 1) * P + d
      if chunks == 1 and not s.rules.interleave_one_chunk then ahead = math.min(P - d, total) end
      for k = 1, ahead do s:forward(d, chunk[k] * P + d, microbatch[k]) end
      for b = 1, total do
        local k = b + ahead
        if k <= total then s:forward(d, chunk[k] * P + d, microbatch[k]) end
        s:backward(d, last - chunk[b] * P, microbatch[b])
      end
    end
  end,

  closed_form = function(p)
    local P, chunks = p.devices, p.stages // p.devices
    if p.microbatches % P ~= 0 or (p.group_size or P) ~= P then return nil end
    local n = p.microbatches * chunks + P - 1
    -- A steady pass leaves its message the time of one of the other kind; those of the first and the last micro-batch
    -- go through all stages with nothing in between.
    return { F = n, B = n, p2p = P > 1 and chunks > 1 and 2 * (p.stages - 1) or nil }
  end,
  in_flight = function(p, device)
    local P, chunks = p.devices, p.stages // p.devices
    if p.microbatches % P ~= 0 or (p.group_size or P) ~= P then return nil end
    if chunks == 1 then return math.min(P - device + 1, p.microbatches) end
    return math.min(2 * (P - device) + (chunks - 1) * P + 1, p.microbatches * chunks)
  end,
}

interleaved.definitions = { interleaved_1f1b = definition }

return interleaved
