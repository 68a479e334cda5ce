--- Runs the examples of a page, its ```lua and ```sh blocks, as a user would, in a new folder; a ```text block after
--- one is its output.
local program = require "program" -- spec/program.lua

local examples = {}

--- The pages whose examples are run and whose outputs `make docs` refreshes.
examples.pages = { "README.md", "docs/scripting.md", "docs/finetuning.md", "docs/recipes.md", "docs/by_role.md",
  "docs/machines.md", "docs/stability.md", "docs/goodput.md", "docs/ask.md" }

--- The examples in order: { kind = "lua" or "sh", code, line, output (or nil), first, last (of the output's text) }.
function examples.of(page)
  local list, at = {}, 1
  while true do
    local start, stop, kind = page:find("```(%a*)\n", at)
    if not start then return list end
    local finish = assert(page:find("\n```", stop, true), "a code block without an end")
    local body = page:sub(stop + 1, finish)
    if kind == "lua" or kind == "sh" then
      local _, lines = page:sub(1, start):gsub("\n", "")
      list[#list + 1] = { kind = kind, code = body, line = lines + 1 }
    elseif kind == "text" and #list > 0 and not list[#list].output then
      local last = list[#list]
      last.output, last.first, last.last = body, stop + 1, finish
    end
    at = finish + 4
  end
end

--- Runs one example; returns its output, its standard error and its exit status. The blocks of a page share a folder,
--- so a Lua block can read the ./data.csv that an earlier ```sh block has made.
function examples.run(example, folder)
  local command = example.code
  if example.kind == "lua" then
    program.write(folder .. "/example.lua", example.code)
    command = "./tperf run example.lua"
  end
  return program.shell(("ln -sfn %s tperf; %s"):format(program.quote(program.absolute()), command), folder)
end

--- The page with the current outputs of its examples.
function examples.refresh(page)
  local folder, pieces, at = program.folder(), {}, 1
  for _, example in ipairs(examples.of(page)) do
    local result = examples.run(example, folder)
    if result.code ~= 0 then
      error(("the example at line %d fails: %s"):format(example.line, result.err), 0)
    elseif example.output then
      pieces[#pieces + 1] = page:sub(at, example.first - 1) .. result.out:gsub("\n*$", "\n")
      at = example.last + 1
    end
  end
  program.remove(folder)
  return table.concat(pieces) .. page:sub(at)
end

return examples
