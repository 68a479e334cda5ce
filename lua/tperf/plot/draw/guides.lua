--- Guide lines of plots with two numeric axes: horizontal, vertical or the graph of a function.
local check = require "tperf.base.check"

local guides = {}

--- The points of a guide in the unit square, before clipping. (path: a line { x1, y1, … }, set by the library only.)
function guides.points(guide, x, y)
  if guide.path then
    local points = {}
    for i = 1, #guide.path, 2 do points[i], points[i + 1] = x.at(guide.path[i]), y.at(guide.path[i + 1]) end
    return points
  end
  if not guide.y and not x.lo then
    check.fail("a guide line at %s needs an axis of numbers, but x has names", guide.x and "x = " .. guide.x or "f(x)")
  end
  if guide.y and not y.lo then
    check.fail("a guide line at y = %s needs an axis of numbers, but y has names", check.show(guide.y))
  end
  if guide.y then return { 0, y.at(guide.y), 1, y.at(guide.y) } end
  if guide.x then return { x.at(guide.x), 0, x.at(guide.x), 1 } end
  local points, count = {}, 96
  for i = 0, count do
    local u = i / count
    local value = x.kind == "log" and x.lo * (x.hi / x.lo) ^ u or x.lo + (x.hi - x.lo) * u
    local result = guide.f(value)
    if type(result) ~= "number" then
      check.fail("the function of a guide line must return a number, got %s for %s", check.show(result),
        check.show(value))
    end
    if result == result and (y.kind ~= "log" or result > 0) then
      points[#points + 1], points[#points + 2] = u, y.at(result)
    end
  end
  return points
end

--- Checks guides against the axes; each must set exactly one of x, y and f.
function guides.check(what, list, logx, logy)
  for i, guide in ipairs(list) do
    local given = (guide.x and 1 or 0) + (guide.y and 1 or 0) + (guide.f and 1 or 0)
    if given ~= 1 then check.fail("%s: guides[%d] needs one of x, y and f", what, i) end
    if logx and guide.x and guide.x <= 0 or logy and guide.y and guide.y <= 0 then
      check.fail("%s: guides[%d] is at %s, which a log axis cannot show", what, i, check.show(guide.x or guide.y))
    end
  end
end

return guides
