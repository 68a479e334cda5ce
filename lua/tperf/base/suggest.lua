--- Did-you-mean suggestions.

-- The edit distance between a and b: insertions, deletions, replacements and swaps of neighbours.
local function distance(a, b)
  local before, last = nil, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      row[j] = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        row[j] = math.min(row[j], before[j - 2] + 1)
      end
    end
    before, last = last, row
  end
  return last[#b]
end

local MOST_SUGGESTED <const> = 3

local function said(names)
  for i, name in ipairs(names) do names[i] = "'" .. name .. "'" end
  local last = table.remove(names)
  return (#names > 0 and table.concat(names, ", ") .. " or " or "") .. last
end

local CONTAINED <const> = 1 -- the distance given to a candidate that contains the name

local function edits_to(asked, name)
  local edits = distance(asked, name)
  return #asked > 2 and name:find(asked, 1, true) and math.min(edits, CONTAINED) or edits
end

-- The candidates at the smallest distance, without duplicates.
local function nearest(asked, candidates)
  local names, fewest, seen = {}, math.max(CONTAINED, #asked // 3), {}
  for _, candidate in ipairs(candidates) do
    local edits = not seen[candidate] and edits_to(asked, candidate:lower())
    seen[candidate] = true
    if edits and edits < #candidate then
      if edits < fewest then names, fewest = {}, edits end
      if edits == fewest and #names < MOST_SUGGESTED then names[#names + 1] = candidate end
    end
  end
  return names
end

--- " (did you mean 'x' or 'y'?)" with the candidates nearest to the name or containing it, or "". If there are none,
--- the name is tried again without the part before a slash, such as the owner of a model.
---@param name any
---@param candidates string[]
---@return string
return function(name, candidates)
  if type(name) ~= "string" or #name > 128 then return "" end
  local asked = name:lower()
  local names = nearest(asked, candidates)
  if #names == 0 then names = nearest(asked:match "[^/]*$", candidates) end
  return #names > 0 and string.format(" (did you mean %s?)", said(names)) or ""
end
