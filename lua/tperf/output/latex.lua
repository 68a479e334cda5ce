--- Tables as LaTeX: a tabular with the rules of the package booktabs.
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local text = require "tperf.output.text"

local latex = {}

local SPECIAL <const> = { ["\\"] = "\\textbackslash{}", ["{"] = "\\{", ["}"] = "\\}", ["$"] = "\\$", ["&"] = "\\&",
  ["#"] = "\\#", ["%"] = "\\%", ["_"] = "\\_", ["^"] = "\\textasciicircum{}", ["~"] = "\\textasciitilde{}",
  ["<"] = "\\textless{}", [">"] = "\\textgreater{}", ["|"] = "\\textbar{}", ['"'] = "\\textquotedbl{}" }

-- Characters that fonts of LaTeX lack, as they are written there.
local CHARACTERS <const> = { ["−"] = "$-$", ["×"] = "$\\times$", ["·"] = "$\\cdot$", ["µ"] = "\\textmu{}",
  ["μ"] = "\\textmu{}", ["…"] = "\\ldots{}", ["≤"] = "$\\le$", ["≥"] = "$\\ge$", ["–"] = "--", ["—"] = "---",
  ["⁻"] = "\\textsuperscript{$-$}", ["²"] = "\\textsuperscript{2}", ["³"] = "\\textsuperscript{3}" }

--- Text with everything that LaTeX would take as a command escaped; a minus before a digit is a minus.
---@param plain string
---@return string
function latex.escape(plain)
  local out = plain:gsub('[\\{}$&#%%_^~<>|"]', SPECIAL):gsub("[\xC2-\xF4][\x80-\xBF]*", CHARACTERS)
  return (out:gsub("^%-(\\?%$?%d)", "$-$%1"))
end

--- Rows as a LaTeX table: a tabular, for \input within a table or figure. It needs \usepackage{booktabs}.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@return string
function latex.table(rows, wanted)
  columns.check_rows("report.latex", rows)
  if #rows == 0 and not wanted then return "% no rows\n" end
  local list, cells, aligns = text.cells("report.latex", rows, wanted)
  local letters, head, lines = {}, {}, {}
  for c, column in ipairs(list) do
    letters[c] = aligns[c] == "right" and "r" or "l"
    head[c] = latex.escape(format.printable(column.title))
  end
  lines[1] = "% \\usepackage{booktabs}"
  lines[2] = "\\begin{tabular}{" .. table.concat(letters) .. "}"
  lines[3], lines[4], lines[5] = "\\toprule", table.concat(head, " & ") .. " \\\\", "\\midrule"
  for r = 1, #rows do
    for c in ipairs(list) do cells[r][c] = latex.escape(cells[r][c]) end
    lines[#lines + 1] = table.concat(cells[r], " & ") .. " \\\\"
  end
  lines[#lines + 1] = "\\bottomrule"
  lines[#lines + 1] = "\\end{tabular}"
  return table.concat(lines, "\n") .. "\n"
end

return latex
