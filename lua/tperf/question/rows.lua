--- The rows of the registry that are the arguments of each question.
local searched = require "tperf.question.search.rows"
local served = require "tperf.question.serving_arguments"
local trained = require "tperf.question.arguments"

local function rows_of_search()
  local rows = trained.rows()
  local list = table.move(rows, 1, #rows, 1, {})
  return table.move(searched, 1, #searched, #list + 1, list)
end

-- question -> { rows: function() -> the rows, tries: whether it takes lists, and tries values of what is not given }
return {
  train = { rows = trained.rows }, search = { rows = rows_of_search, tries = true },
  infer = { rows = function() return served.rows "infer" end },
  serve = { rows = function() return served.rows "serve" end },
  rl = { rows = function() return require "tperf.question.rl.arguments".rows() end },
}
