--- Pareto fronts.
local pareto = {}

--- The points on the front: no other point is at least as good in both coordinates and better in one.
---@param points { x: number, y: number }[]
---@param x "min"|"max"  which x is better
---@param y "min"|"max"
---@return integer[]  indices of the front's points, ordered by x; of equal points only the first
function pareto.front(points, x, y)
  local sx, sy, order = x == "max" and -1 or 1, y == "max" and -1 or 1, {}
  for i = 1, #points do order[i] = i end
  table.sort(order, function(a, b)
    local p, q = points[a], points[b]
    if p.x ~= q.x then return sx * p.x < sx * q.x end
    if p.y ~= q.y then return sy * p.y < sy * q.y end
    return a < b
  end)
  local front, best = {}, math.huge
  for _, i in ipairs(order) do
    if sy * points[i].y < best then
      front[#front + 1], best = i, sy * points[i].y
    end
  end
  table.sort(front, function(a, b) return points[a].x < points[b].x end)
  return front
end

return pareto
