--- Filled contours: the areas of a grid where a value reaches a level, interpolated linearly between grid points.
local isoband = {}

-- Clips a polygon { x, y, z, … } to z >= level (Sutherland and Hodgman, 1974).
local function above(polygon, level)
  local out, n = {}, #polygon
  for i = 1, n, 3 do
    local x1, y1, z1 = polygon[i], polygon[i + 1], polygon[i + 2]
    local k = i + 3 > n and 1 or i + 3
    local x2, y2, z2 = polygon[k], polygon[k + 1], polygon[k + 2]
    if z1 >= level then out[#out + 1], out[#out + 2], out[#out + 3] = x1, y1, z1 end
    if (z1 >= level) ~= (z2 >= level) then
      -- From the lower end, so that both cells that share an edge compute the same point.
      if z1 > z2 then x1, y1, z1, x2, y2, z2 = x2, y2, z2, x1, y1, z1 end
      local t = (level - z1) / (z2 - z1)
      out[#out + 1], out[#out + 2], out[#out + 3] = x1 + t * (x2 - x1), y1 + t * (y2 - y1), level
    end
  end
  return out
end

local function without_z(polygon)
  local ring = {}
  for i = 1, #polygon, 3 do ring[#ring + 1], ring[#ring + 2] = polygon[i], polygon[i + 1] end
  return ring
end

-- The pieces of a cell on which the value is interpolated linearly: four triangles around the mean of the corners,
-- which resolves saddles; one triangle if the fourth corner has no value.
local function pieces_of(xs, ys, z, i, j)
  local corners = {}
  for _, c in ipairs { { 0, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 } } do
    local value = z[i + c[1]][j + c[2]]
    if value then corners[#corners + 1] = { xs[i + c[1]], ys[j + c[2]], value } end
  end
  if #corners < 3 then return {}, corners end
  local function triangle(a, b, c) return { a[1], a[2], a[3], b[1], b[2], b[3], c[1], c[2], c[3] } end
  if #corners == 3 then return { triangle(corners[1], corners[2], corners[3]) }, corners end
  local middle = { (xs[i] + xs[i + 1]) / 2, (ys[j] + ys[j + 1]) / 2,
    corners[1][3] / 4 + corners[2][3] / 4 + corners[3][3] / 4 + corners[4][3] / 4 }
  local pieces = {}
  for k = 1, 4 do pieces[k] = triangle(corners[k], corners[k % 4 + 1], middle) end
  return pieces, corners
end

-- Appends the segment of a triangle on which the value equals the level.
local function level_edge(piece, level, segments)
  local ends = {}
  for i = 1, 9, 3 do
    local k = i % 9 + 3 > 9 and 1 or i + 3
    local x1, y1, z1, x2, y2, z2 = piece[i], piece[i + 1], piece[i + 2], piece[k], piece[k + 1], piece[k + 2]
    if (z1 >= level) ~= (z2 >= level) then
      if z1 > z2 then x1, y1, z1, x2, y2, z2 = x2, y2, z2, x1, y1, z1 end
      local t = (level - z1) / (z2 - z1)
      ends[#ends + 1], ends[#ends + 2] = x1 + t * (x2 - x1), y1 + t * (y2 - y1)
    end
  end
  if #ends == 4 then segments[#segments + 1] = ends end
end

--- The areas where z >= level.
---@param xs number[]    positions of the columns, rising
---@param ys number[]    positions of the rows, rising
---@param z table        z[column][row], nil if there is no value
---@param level number   -math.huge: all cells that have a value
---@return number[][] rings, number[][] segments  areas, and line segments { x1, y1, x2, y2 } where z == level
function isoband.area(xs, ys, z, level)
  local rings, segments = {}, {}
  for j = 1, #ys - 1 do
    local from = nil -- a run of cells wholly above the level is merged into one rectangle
    local function flush(i)
      if from then rings[#rings + 1] = { xs[from], ys[j], xs[i], ys[j], xs[i], ys[j + 1], xs[from], ys[j + 1] } end
      from = nil
    end
    for i = 1, #xs - 1 do
      local pieces, corners = pieces_of(xs, ys, z, i, j)
      local inside = 0
      for _, corner in ipairs(corners) do inside = inside + (corner[3] >= level and 1 or 0) end
      if inside == 4 then
        from = from or i
      else
        flush(i)
        for _, piece in ipairs(inside > 0 and pieces or {}) do
          local cut = above(piece, level)
          if #cut >= 9 then rings[#rings + 1] = without_z(cut) end
          level_edge(piece, level, segments)
        end
      end
    end
    flush(#xs)
  end
  return rings, segments
end

--- Joins segments into the longest possible lines.
---@param segments number[][]
---@return number[][]
function isoband.join(segments)
  local at = {}
  -- Cells that share an edge compute the same point except for the last bits.
  local function key(x, y) return string.format("%.0f,%.0f", (x * 1e6 + 0.5) // 1, (y * 1e6 + 0.5) // 1) end
  for s, segment in ipairs(segments) do
    for side = 1, 3, 2 do
      local k = key(segment[side], segment[side + 1])
      at[k] = at[k] or {}
      table.insert(at[k], s)
    end
  end
  local used, lines = {}, {}
  for s, segment in ipairs(segments) do -- a segment of zero length touches a corner only
    used[s] = key(segment[1], segment[2]) == key(segment[3], segment[4])
  end
  local function extend(line, x, y)
    while true do
      local found
      for _, s in ipairs(at[key(x, y)] or {}) do
        if not used[s] then found = s break end
      end
      if not found then return end
      used[found] = true
      local segment = segments[found]
      local other = key(segment[1], segment[2]) == key(x, y) and 3 or 1
      x, y = segment[other], segment[other + 1]
      line[#line + 1], line[#line + 2] = x, y
    end
  end
  for s, segment in ipairs(segments) do
    if not used[s] then
      used[s] = true
      local back = { segment[1], segment[2] }
      extend(back, segment[1], segment[2])
      local line = {}
      for i = #back - 1, 1, -2 do line[#line + 1], line[#line + 2] = back[i], back[i + 1] end
      line[#line + 1], line[#line + 2] = segment[3], segment[4]
      extend(line, segment[3], segment[4])
      lines[#lines + 1] = line
    end
  end
  return lines
end

return isoband
