--- Interleaved 1F1B with every steady forward overlapped with a backward, usually of another chunk.
local interleaved = require "tperf.describe.schedule.order.interleaved_1f1b"

local definition = {
  summary = "interleaved_1f1b with forward and backward overlapped",
  placement = "round_robin",
  grouped = true,
  remedy = interleaved.remedy,
  least_microbatches = function(p)
    local P, chunks = p.devices, p.stages // p.devices
    local ahead = P == 1 and 1 or 2 * (P - 1) + (chunks - 1) * P
    return ahead // chunks + 1
  end,

  order = function(s)
    local P, chunks = s.devices, s.stages // s.devices
    local group = not s.rules.overlap_ignores_group and s.group_size or P
    local chunk, microbatch = interleaved.virtual_order(chunks, s.microbatches, group)
    local total = #chunk
    for d = 1, P do
      local ahead, last = interleaved.ahead(s, d, group) + 1, (chunks - 1) * P + d
      ahead = math.min(ahead, total)
      for k = 1, ahead do s:forward(d, chunk[k] * P + d, microbatch[k]) end
      for b = 1, total do
        local k, stage = b + ahead, last - chunk[b] * P
        if k <= total then
          s:overlapped(d, chunk[k] * P + d, microbatch[k], stage, microbatch[b])
        else
          s:backward(d, stage, microbatch[b])
        end
      end
    end
  end,

  closed_form = function(p)
    local P, chunks = p.devices, p.stages // p.devices
    if P == 1 or p.microbatches % P ~= 0 or (p.group_size or P) ~= P then return nil end
    if p.microbatches == P then return nil end
    local n = P * (chunks - 1) + 1
    return { F = P - 1 + n, B = P - 1 + n, O = p.microbatches * chunks - n }
  end,
  in_flight = function(p, device)
    local P, chunks = p.devices, p.stages // p.devices
    if P == 1 or p.microbatches % P ~= 0 or (p.group_size or P) ~= P then return nil end
    return math.min(2 * (P - device) + (chunks - 1) * P + 2, p.microbatches * chunks)
  end,
}

return { definitions = { interleaved_1f1b_overlap = definition } }
