--- DualPipe: micro-batches enter at both ends, every device holds two stages, and forwards and backwards of opposite
-- directions overlap (DeepSeek-V3 report, arXiv 2412.19437; deepseek-ai/DualPipe). DualPipe-V is half of it: its two
-- directions are the legs of a V.

local dualpipe = {}

--- Fills a device's queue in DualPipe's eight steps.
---@param s table        the schedule to fill
---@param d integer      the device
---@param leg table      { stage, first micro-batch } of the direction that enters near this device
---@param other table    the same of the direction that leaves near it
---@param inner integer  devices between this one and the middle, where the directions meet
---@param outer integer  devices from the end up to this one
---@param steady integer rounds of overlapped pairs
function dualpipe.fill(s, d, leg, other, inner, outer, steady)
  local stage = { leg[1], other[1] }
  local forwards, backwards = { leg[2], other[2] }, { leg[2], other[2] }
  local weights, first, last = {}, 1, 0 -- FIFO of { stage, micro-batch } whose weight gradient is pending

  local function forward(i)
    s:forward(d, stage[i], forwards[i])
    forwards[i] = forwards[i] + 1
  end
  local function backward(i, split)
    if split then
      s:backward_input(d, stage[i], backwards[i])
      last = last + 1
      weights[last] = { stage[i], backwards[i] }
    else
      s:backward(d, stage[i], backwards[i])
    end
    backwards[i] = backwards[i] + 1
  end
  local function weight()
    s:backward_weight(d, weights[first][1], weights[first][2])
    first = first + 1
  end
  local function pair(f, b)
    s:overlapped(d, stage[f], forwards[f], stage[b], backwards[b])
    forwards[f], backwards[b] = forwards[f] + 1, backwards[b] + 1
  end

  for _ = 1, 2 * inner do forward(1) end
  for _ = 1, outer do forward(1) forward(2) end
  for _ = 1, inner do backward(2, true) weight() forward(2) end
  for k = 1, steady do
    if k == 1 and inner == 0 then -- nothing to overlap with yet on the middle devices
      forward(1)
      backward(2)
    else
      pair(1, 2)
    end
    pair(2, 1)
  end
  for _ = 1, inner do backward(2) pair(2, 1) end
  local split = false -- the second half of the cool-down splits, to fill the bubbles with weight gradients
  for k = 0, outer - 1 do
    if k == outer // 2 and outer % 2 == 0 then split = true end
    backward(2, split)
    if k == outer // 2 and outer % 2 == 1 then split = true end
    backward(1, split)
  end
  for _ = 1, inner do weight() backward(1, true) end
  for _ = 1, outer do weight() end
end

--- The makespan of either kind; h: devices in a leg, m: micro-batches per direction.
function dualpipe.linear(h, m)
  return { F = (h - 1) + 2 * h + 1, O = 2 * (m - h) + h - 2, D = 2 * h - 1, W = 1, B = 2 }
end

local definition = {
  summary = "two directions at once, overlapped; twice the weights",
  stages_per_device = 1,
  placement = "mirrored",

  refuse = function(p)
    local P, M = p.devices, p.microbatches
    if P % 2 ~= 0 then return ("needs an even number of devices, not %d"):format(P) end
    if M % 2 ~= 0 then return ("needs an even number of micro-batches, not %d"):format(M) end
    if M < 2 * P - 2 then return ("on %d devices needs at least %d micro-batches, not %d"):format(P, 2 * P - 2, M) end
  end,

  order = function(s)
    local P, M = s.devices, s.microbatches
    local H, half = P // 2, M // 2
    for d = 1, P do
      local down, up = { d, 1 }, { P + 1 - d, half + 1 }
      local outer = math.min(d, P + 1 - d)
      dualpipe.fill(s, d, d <= H and down or up, d <= H and up or down, H - outer, outer, half - P + outer)
    end
  end,

  closed_form = function(p)
    if p.devices == 2 and p.microbatches == 2 then return nil end
    return dualpipe.linear(p.devices // 2, p.microbatches // 2)
  end,
  in_flight = function(p, device)
    local P = p.devices
    return p.microbatches == 2 * P - 2 and (device == 1 or device == P) and P or P + 1
  end,
}

dualpipe.definitions = { dualpipe = definition }

return dualpipe
