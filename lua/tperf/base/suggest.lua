--- Did-you-mean suggestions.

-- The edit distance between a and b, if it is at most `most`: insertions, deletions, replacements and swaps of
-- neighbours. No later row of the table is below the least of the last two.
local function distance(a, b, most)
  if math.abs(#a - #b) > most then return nil end
  local before, last, least_before = nil, {}, 0
  local letters = { b:byte(1, -1) }
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row, letter, letter_before = { [0] = i }, a:byte(i), i > 1 and a:byte(i - 1)
    local least = i
    for j = 1, #b do
      local edits = last[j - 1] + (letter == letters[j] and 0 or 1)
      if last[j] < edits then edits = last[j] + 1 end
      if row[j - 1] < edits then edits = row[j - 1] + 1 end
      if j > 1 and letter == letters[j - 1] and letter_before == letters[j] and before[j - 2] < edits then
        edits = before[j - 2] + 1
      end
      row[j] = edits
      if edits < least then least = edits end
    end
    if least > most and least_before > most then return nil end
    before, last, least_before = last, row, least
  end
  return last[#b] <= most and last[#b] or nil
end

local MOST_SUGGESTED <const> = 3

local function said(names)
  for i, name in ipairs(names) do names[i] = "'" .. name .. "'" end
  local last = table.remove(names)
  return (#names > 0 and table.concat(names, ", ") .. " or " or "") .. last
end

local CONTAINED <const> = 1 -- the distance given to a candidate that contains the name

local function edits_to(asked, name, most)
  local contains = #asked > 2 and name:find(asked, 1, true)
  local edits = distance(asked, name, most)
  return contains and math.min(edits or CONTAINED, CONTAINED) or edits
end

-- The candidates at the smallest distance, without duplicates, by name: callers may list them in any order, as `pairs`
-- does, but a message is the same each time.
local function nearest(asked, candidates)
  local names, fewest, seen = {}, math.max(CONTAINED, #asked // 3), {}
  for _, candidate in ipairs(candidates) do
    local edits = not seen[candidate] and edits_to(asked, candidate:lower(), fewest)
    seen[candidate] = true
    if edits and edits < #candidate then
      if edits < fewest then names, fewest = {}, edits end
      if edits == fewest then names[#names + 1] = candidate end
    end
  end
  table.sort(names)
  return table.move(names, 1, MOST_SUGGESTED, 1, {})
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
  if #names == 0 then names = nearest(asked:match "^.*/(.*)$" or asked, candidates) end
  return #names > 0 and string.format(" (did you mean %s?)", said(names)) or ""
end
