--- Robust fits of a few bounded parameters: damped least squares (Levenberg, 1944; Marquardt, 1963), reweighted in
--- every step so that fit.loss is least, and jumps where the slopes say nothing. A step takes one set of residuals per
--- parameter, and one more.
local fit = require "tperf.measured.calibrate.fit"

local descent = {}

local max, min = math.max, math.min

local NUDGE <const> = 1e-3      -- of a parameter's range, for slopes
local LONGEST <const> = 0.2     -- of a parameter's range, in a step: slopes do not hold farther
local KINK <const> = 1e-3       -- smaller residuals count by their square: an absolute value has no slope at zero
local LEAST_GAIN <const> = 1e-6 -- of the loss, in a step; the descent ends with less
local FLAT <const> = 1e-6       -- of the largest curvature: parameters with less are damped as if they had it
local JUMPS <const> = { -0.1, 0.1 } -- of a parameter's range
local MOST_JUMPS <const> = 10       -- of every parameter
local WORTH_ANOTHER <const> = 1e-3  -- of the loss; if jumps of every parameter gain less, they were the last
local DAMPING <const> = { first = 1, least = 1e-6, most = 1e4, down = 0.2, up = 5 }

-- The pull of a parameter to its usual value, in units of its range.
local function pull(p)
  local low, high = fit.ends(p)
  return p.stiffness * (high - low) ^ 2, fit.inward(p, p.usual)
end

-- A fit's functions of the parameters' places: the residuals, their loss with the pull to the usual values, and the
-- values by name.
local function functions(parameters, residuals, weights)
  local values = {}
  local function values_at(x)
    for j, p in ipairs(parameters) do values[p.name] = fit.outward(p, x[j]) end
    return values
  end
  local function residuals_at(x) return residuals(values_at(x)) end
  local function loss_of(r, x)
    local loss = fit.loss(r, weights)
    for j, p in ipairs(parameters) do
      if p.usual then
        local stiffness, usual = pull(p)
        loss = loss + stiffness * (x[j] - usual) ^ 2
      end
    end
    return loss == loss and loss or math.huge
  end
  return residuals_at, loss_of, values_at
end

-- d residual / d place of every parameter, by differences toward the middle of its range.
local function slopes_at(x, r, residuals_at)
  local slopes = {}
  for j = 1, #x do
    local here = x[j]
    local by = here < 0.5 and NUDGE or -NUDGE
    x[j] = here + by
    local moved = residuals_at(x)
    x[j] = here
    for i = 1, #r do moved[i] = (moved[i] - r[i]) / by end
    slopes[j] = moved
  end
  return slopes
end

-- The gradient and the curvature of the parabola that touches the loss at x.
local function parabola(x, r, slopes, parameters, weights)
  local n, gradient, curvature = #parameters, {}, {}
  for j, p in ipairs(parameters) do
    gradient[j], curvature[j] = 0, {}
    for k = 1, n do curvature[j][k] = 0 end
    if p.usual then
      local stiffness, usual = pull(p)
      gradient[j], curvature[j][j] = 2 * stiffness * (x[j] - usual), 2 * stiffness
    end
  end
  for i = 1, #r do
    local size = math.abs(r[i])
    local weight = (weights and weights[i] or 1) * fit.steepness(r[i]) / (size > KINK and size or KINK)
    for j = 1, n do
      local own, row = weight * slopes[j][i], curvature[j]
      gradient[j] = gradient[j] + own * r[i]
      for k = 1, j do row[k] = row[k] + own * slopes[k][i] end
    end
  end
  for j = 1, n do
    for k = 1, j do curvature[k][j] = curvature[j][k] end
  end
  return gradient, curvature
end

-- The parameters that are not held at an end of their range by the gradient.
local function free_at(x, gradient)
  local free = {}
  for j, slope in ipairs(gradient) do
    if not (x[j] <= 0 and slope > 0 or x[j] >= 1 and slope < 0) then free[#free + 1] = j end
  end
  return free
end

-- The step of the free parameters, by Gauss's elimination, in the order of `free`; nil without a step downhill.
local function step_of(gradient, curvature, free, damping)
  local m, a, b = #free, {}, {}
  local most = 0
  for _, j in ipairs(free) do most = max(most, curvature[j][j]) end
  for c, j in ipairs(free) do
    a[c], b[c] = {}, -gradient[j]
    for d, k in ipairs(free) do a[c][d] = curvature[j][k] end
    a[c][c] = a[c][c] + damping * max(a[c][c], FLAT * most)
  end
  for c = 1, m do
    if not (a[c][c] > 0) then return nil end
    for d = c + 1, m do
      local factor = a[d][c] / a[c][c]
      for e = c, m do a[d][e] = a[d][e] - factor * a[c][e] end
      b[d] = b[d] - factor * b[c]
    end
  end
  for c = m, 1, -1 do
    for d = c + 1, m do b[c] = b[c] - a[c][d] * b[d] end
    b[c] = b[c] / a[c][c]
  end
  return b
end

-- x moved by a step, within the ranges.
local function moved(x, step, free)
  local to = table.move(x, 1, #x, 1, {})
  for c, j in ipairs(free) do to[j] = max(0, min(1, x[j] + max(-LONGEST, min(LONGEST, step[c])))) end
  return to
end

-- Goes down the slopes from x. Returns where it ends, the residuals there and their loss.
local function descend(x, r, least, parameters, weights, residuals_at, loss_of, steps)
  local damping = DAMPING.first
  for _ = 1, steps do
    local gradient, curvature = parabola(x, r, slopes_at(x, r, residuals_at), parameters, weights)
    local free, before = free_at(x, gradient), least
    repeat
      local step = step_of(gradient, curvature, free, damping)
      local to = step and moved(x, step, free)
      local there = to and residuals_at(to)
      local loss = to and loss_of(there, to) or math.huge
      if loss < least then
        x, r, least, damping = to, there, loss, max(damping * DAMPING.down, DAMPING.least)
      else
        damping = damping * DAMPING.up
      end
    until least < before or damping > DAMPING.most
    if before - least <= LEAST_GAIN * before then break end
  end
  return x, r, least
end

-- Jumps along each axis, where the slopes say nothing: over kinks, and of parameters that choose between two formulas.
local function jump(x, r, least, residuals_at, loss_of)
  for j = 1, #x do
    for _, by in ipairs(JUMPS) do
      local to = table.move(x, 1, #x, 1, {})
      to[j] = max(0, min(1, x[j] + by))
      local there = residuals_at(to)
      local loss = loss_of(there, to)
      if loss < least then x, r, least = to, there, loss end
    end
  end
  return x, r, least
end

--- The values, by name, that minimise fit.loss plus the sum of stiffness * (value - usual)^2, where values that are
--- always above zero count by their logarithm: the best local minimum over all starts.
---@param parameters table[]  { name =, start =, low =, high =, [usual =, stiffness =] }
---@param residuals fun(values: table): number[]  log(predicted / measured), always as many
---@param weights number[]?   of the residuals (1 each)
---@param starts table[]?     values by name, where they differ from the parameters' own starts ({ {} })
---@param steps integer?      at most, between jumps (80)
---@return table values
function descent.minimise(parameters, residuals, weights, starts, steps)
  local residuals_at, loss_of, values_at = functions(parameters, residuals, weights)
  local function down(x, r, least)
    return descend(x, r, least, parameters, weights, residuals_at, loss_of, steps or 80)
  end
  local x, r, least = nil, nil, math.huge
  for _, start in ipairs(starts or { {} }) do
    local from = {}
    for j, p in ipairs(parameters) do from[j] = max(0, min(1, fit.inward(p, start[p.name] or p.start))) end
    local there = residuals_at(from)
    local to, found, loss = down(from, there, loss_of(there, from))
    if loss < least or not x then x, r, least = to, found, loss end
  end
  for _ = 1, MOST_JUMPS do
    local bottom = least
    x, r, least = jump(x, r, least, residuals_at, loss_of)
    if bottom - least <= WORTH_ANOTHER * bottom then break end
    x, r, least = down(x, r, least)
  end
  return values_at(x)
end

return descent
