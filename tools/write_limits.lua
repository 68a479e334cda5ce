-- Writes the figures in the tables of docs/limits.md, which are those of docs/accuracy.md. `make accuracy-docs` and
-- `make accuracy-serving` run it: tperf run --trust tools/write_limits.lua
local function slurp(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local accuracy = slurp "docs/accuracy.md" .. "\n#"

-- A label as a pattern that matches it.
local function plain(text) return (text:gsub("%p", "%%%0")) end

local function section_of(heading) return accuracy:match("\n### " .. plain(heading) .. "\n(.-)\n#") end

-- What a row of the page says: functions from its cells to the cells with figures, by the section of the page.
local figures = {}

figures["Kernels and collectives"] = function(cells)
  local median, p90 = accuracy:match("\n| " .. plain(cells[4]) .. " | %d+ | ([%d.]+) | [%d.]+ | ([%d.]+) |")
  return { [2] = median, [3] = p90 }
end

figures["Training steps"] = function(cells)
  local section = section_of(cells[1]:match "^%a*") or ""
  if cells[1]:find "runs alone" then
    local all, p90 = section:match "are runs, not sums.-: median ([%d.]+) %%, p90 ([%d.]+) %%"
    return { [4] = all, [5] = p90 }
  end
  local median, worst, all, p90, inside = section:match("groups: median ([%d.]+) %%, worst ([%d.]+) %%.- rows: "
    .. "median ([%d.]+) %%, p90 ([%d.]+) %%; (%d+) %% lie")
  return { [2] = median, [3] = worst, [4] = all, [5] = p90, [6] = inside }
end

figures["Memory"] = function(cells)
  local section = accuracy:match "\nPeak memory of a GPU.-\n\n(.-)\n\n"
  local runs, median, p90 = section:match("| " .. plain(cells[1]) .. " | (%d+) | ([%d.]+) | [%d.]+ | ([%d.]+) |")
  return { [2] = runs, [3] = median, [4] = p90 }
end

local SERVING <const> = { open = "Open loops: each stage of a run: measured", closed = "Closed loops: closed_loop",
  static = "Static batches, quality A: published_tables" }
local table_of -- the last one named in the first column

figures["Serving"] = function(cells)
  table_of = SERVING[cells[1]:match "^%a*"] or table_of
  local names, all = section_of(table_of):match "\n(|  |[^\n]*)\n[^\n]*\n(| all [^\n]*)"
  local columns, at = {}, 0
  for name in names:gmatch "| ([^|]+) %f[|]" do columns[#columns + 1] = name end
  for cell in all:gmatch "| ([^|]+) %f[|]" do
    at = at + 1
    if columns[at - 1] == cells[2]:gsub(", mean$", ""):gsub(",", "") then
      local median, p90 = cell:match "^([%d.]+), ([%d.]+)"
      return { [3] = median, [4] = p90 }
    end
  end
  return {}
end

local lines, section = {}, nil
for line in slurp "docs/limits.md":gmatch "([^\n]*)\n" do
  section = line:match "^## (.*)" or section
  local cells = {}
  for cell in line:gmatch "|([^|]*)%f[|]" do cells[#cells + 1] = cell:match "^%s*(.-)%s*$" end
  if figures[section] and (tonumber(cells[2]) or tonumber(cells[3]) or tonumber(cells[4])) then
    local found = figures[section](cells)
    if next(found) == nil then error("docs/accuracy.md has nothing of: " .. line, 0) end
    for i, text in pairs(found) do cells[i] = text end
    line = ("| %s |"):format(table.concat(cells, " | ")):gsub("|  %f[|]", "| ")
  end
  lines[#lines + 1] = line
end

local out <close> = assert(io.open("docs/limits.md", "w"))
assert(out:write(table.concat(lines, "\n"), "\n"))
