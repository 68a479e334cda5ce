local check = require "tperf.base.check"

return {
  summary = "print the JSON Schema of a question",
  arguments = "[QUESTION]",
  from = { { "infer", "search", "serve", "train" } },
  example = "tperf schema train",
  details = [[
Prints the arguments of a question (`with` of `tperf ask`) as JSON Schema, draft 2020-12. Without
QUESTION it prints an object with the schemas of all.]],
  options = {},
  run = function(_, arguments)
    local schema, rows_of = require "tperf.question.schema", require "tperf.question.rows"
    local name = arguments[1]
    if arguments[2] then return false, ("unexpected argument '%s'"):format(arguments[2]) end
    if name and not rows_of[name] then
      return false, ("no question %s%s"):format(check.show(name), check.suggest(name, check.names(rows_of)))
    end
    local made = name and schema(name) or {}
    if not name then
      for _, each in ipairs(check.names(rows_of)) do made[each] = schema(each) end
    end
    io.stdout:write(require "tperf.output.json".encode(made), "\n")
  end,
}
