local core = require "tperf.core"
local limits = require "tperf.cli.sandbox.limits"
local options = require "tperf.input.options"
local wording = require "tperf.base.wording"

local DEEPEST <const> = 8 -- folders within folders

local function say(...) io.stdout:write(wording.visible(string.format(...)), "\n") end

-- Adds the tests in a folder, and in those below it.
local function collect(folder, list, depth)
  for _, entry in ipairs(core.resource.entries(folder) or {}) do
    local path = folder .. "/" .. entry
    if entry:find "_test%.lua$" then
      list[#list + 1] = path
    elseif entry:sub(1, 1) ~= "." and depth < DEEPEST then
      collect(path, list, depth + 1)
    end
  end
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Runs a test in a process of its own; returns whether it passed, and what it printed.
local function run(path, values, host)
  local words = { quoted(host.program), "run" }
  if values.trust then words[#words + 1] = "--trust" end
  for _, option in ipairs(limits.budgets) do
    local value = values[option.long:gsub("-", "_")]
    if value ~= nil and value ~= false then
      local text = type(value) == "number" and ("%d"):format(value) or quoted(tostring(value))
      words[#words + 1] = ("--%s=%s"):format(option.long, text)
    end
  end
  words[#words + 1] = quoted(path)
  local pipe <close> = assert(io.popen(table.concat(words, " ") .. " 2>&1 < /dev/null"))
  local text = pipe:read "a"
  local ok, _, status = pipe:close()
  return ok == true, text, status
end

return {
  summary = "run the tests of scripts: files *_test.lua",
  arguments = "[DIR|FILE...]",
  from = { "files" },
  details = [[
Runs every file whose name ends in _test.lua, below DIR (default: .), as `tperf run` runs
a script, each in a process of its own, and prints which failed and why. A test passes
if it ends without an error: tperf.check.near(a, b, tolerance) and
tperf.check.raises(text, f) raise one. The exit status is 1 when a test fails, or there
is none.]],
  options = options.join(limits.budgets, {
    { long = "trust", help = "run the tests without the sandbox" },
  }),
  run = function(values, arguments, host)
    local list, failed = {}, 0
    for _, path in ipairs(arguments[1] and arguments or { "." }) do
      path = #path > 1 and path:gsub("/+$", "") or path
      if path:find "%.lua$" then list[#list + 1] = path else collect(path, list, 1) end
    end
    table.sort(list)
    for _, path in ipairs(list) do
      local ok, text, status = run(path:gsub("^%./", ""), values, host)
      if not ok then failed = failed + 1 end
      say("%s %s", ok and "ok    " or "FAILED", path)
      if not ok then
        for line in text:gmatch "[^\n]+" do say("  %s", line) end
        if text == "" then say("  it ended with status %s", tostring(status)) end
      end
    end
    if #list == 0 then
      say "there are no files *_test.lua"
      return 1
    end
    say("%d passed, %d failed", #list - failed, failed)
    return failed > 0 and 1 or 0
  end,
}
