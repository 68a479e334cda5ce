--- Rows as a page's sortable table: the text of each cell and its sort key.
local fitted = require "tperf.cli.answer.fitted"
local glossary = require "tperf.cli.guide.find"
local shown = require "tperf.cli.answer.shown"
local text = require "tperf.output.text"

--- { columns = { { title =, align =, help = what the glossary says of it } … },
--- rows = { { cells = { text … }, sort = { number or text … } } … } }
---@param rows table[]
---@param wanted tperf.Column[]  with usual
---@return table
return function(rows, wanted)
  local answer = { columns = {}, rows = {} }
  if #rows == 0 then return answer end
  local list, cells, aligns = text.cells("page", rows, fitted.plain(shown.columns(rows, wanted)))
  for c, column in ipairs(list) do
    local term = glossary.terms(column.title)[1]
    answer.columns[c] = { title = column.title, align = aligns[c], help = term and term[2] }
  end
  for r, row in ipairs(rows) do
    local sort = {}
    for c, column in ipairs(list) do
      local value = column.get(row)
      if type(value) ~= "number" then value = cells[r][c] end
      sort[c] = value
    end
    answer.rows[r] = { cells = cells[r], sort = sort }
  end
  return answer
end
