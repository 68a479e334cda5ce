--- tperf.schema as a question: { question = "train" }.
local check = require "tperf.base.check"
local rows_of = require "tperf.question.rows"
local schema = require "tperf.question.schema"

local arguments = { question = check.choice { check.names(rows_of) } }

return { run = function(given) return schema(check.record("tperf.schema", given, arguments).question) end }
