--- Clipping lines to the data's area.
local clip = {}

--- The part of a segment inside the unit square (Liang and Barsky, 1984), or nil.
---@return number? x1, number? y1, number? x2, number? y2
function clip.segment(x1, y1, x2, y2)
  local dx, dy, from, to = x2 - x1, y2 - y1, 0.0, 1.0
  for _, edge in ipairs { { -dx, x1 }, { dx, 1 - x1 }, { -dy, y1 }, { dy, 1 - y1 } } do
    local p, q = edge[1], edge[2]
    if p == 0 then
      if q < 0 then return nil end
    else
      local t = q / p
      if p < 0 then from = math.max(from, t) else to = math.min(to, t) end
    end
  end
  if from > to then return nil end
  local ax, ay, bx, by = x1, y1, x2, y2 -- exactly the ends that lie inside: clip.line compares them
  if from > 0 then ax, ay = x1 + from * dx, y1 + from * dy end
  if to < 1 then bx, by = x1 + to * dx, y1 + to * dy end
  return ax, ay, bx, by
end

--- Clips a line { u1, v1, u2, v2, … } to the unit square. Returns the pieces inside.
---@param points number[]
---@return number[][]
function clip.line(points)
  local pieces, piece = {}, nil
  for i = 1, #points - 3, 2 do
    local x1, y1, x2, y2 = clip.segment(points[i], points[i + 1], points[i + 2], points[i + 3])
    if not x1 then
      piece = nil
    else
      if not piece or x1 ~= points[i] or y1 ~= points[i + 1] then
        piece = { x1, y1 }
        pieces[#pieces + 1] = piece
      end
      piece[#piece + 1], piece[#piece + 2] = x2, y2
      if x2 ~= points[i + 2] or y2 ~= points[i + 3] then piece = nil end
    end
  end
  return pieces
end

return clip
