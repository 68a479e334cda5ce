--- Error bars: a line from a low to a high value, with a cap at each end.
local errors = {}

local CAP <const>, WIDTH <const> = 3.5, 1.3 -- px

-- The part of low … high, as positions on an axis, that lies within it; whether each end does.
local function within(low, high)
  local from, to = math.max(0, low), math.min(1, high)
  if from > to then return nil end
  return from, to, from == low, to == high
end

--- Draws a bar along y at a position of the frame, both as fractions of it.
---@param c tperf.Canvas
---@param box table
---@param at number         along x
---@param low number        along y
---@param high number       along y
---@param look table        color, class
---@param horizontal? boolean  along x, at a position on y
function errors.draw(c, box, at, low, high, look, horizontal)
  local from, to, has_low, has_high = within(low, high)
  if not from or at < -1e-9 or at > 1 + 1e-9 then return end
  local function place(along, across)
    local u, v = at, along
    if horizontal then u, v = along, at end
    local x, y = box.left + u * box.width, box.top + (1 - v) * box.height
    if horizontal then return x, y + across end
    return x + across, y
  end
  local function line(a, b, x, y) c:line({ a, b, x, y }, { color = look.color, class = look.class, width = WIDTH,
    title = look.title }) end
  local x1, y1 = place(from, 0)
  line(x1, y1, place(to, 0))
  for _, cap in ipairs { { from, has_low }, { to, has_high } } do
    if cap[2] then
      x1, y1 = place(cap[1], -CAP)
      line(x1, y1, place(cap[1], CAP))
    end
  end
end

return errors
