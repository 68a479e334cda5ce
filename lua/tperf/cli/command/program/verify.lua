local difference = require "tperf.cli.sandbox.difference"
local limits = require "tperf.cli.sandbox.limits"
local manifest = require "tperf.cli.sandbox.manifest"
local recorder = require "tperf.cli.sandbox.recorder"
local script = require "tperf.cli.sandbox.script"
local wording = require "tperf.base.wording"

local MOST_COMPARED <const> = 64 << 20 -- bytes of an output whose changes are shown

local function say(...) io.stdout:write(wording.visible(string.format(...)), "\n") end

-- Reports the inputs of the run that have changed. The manifest may name any path: only regular files are read. Returns
-- how many, tperf itself not among them.
local function check_inputs(content, host)
  local core, changed = require "tperf.core", 0
  if content.tperf ~= core.version then say("tperf was %s and is %s", content.tperf, core.version) end
  if content.build and content.build ~= core.sources then
    say("another engine: tperf's build was %s and is %s", content.build, core.sources)
  end
  local path = manifest.lua_path()
  if content.lua_path ~= path then say("LUA_PATH was %s and is %s", content.lua_path or "unset", path or "unset") end
  local inputs = table.move(content.inputs, 1, #content.inputs, 2, { content.script })
  for _, input in ipairs(inputs) do
    local found, hash = host.input.real(manifest.path_of(input, content.script.file, host), true)
    if not found then
      say("%s: cannot be read%s", input.file, input.shipped and "" or " (verify in the folder that the run started in)")
    elseif hash ~= input.sha256 then
      say("%s: has changed since the run", input.file)
    end
    if hash ~= input.sha256 then changed = changed + 1 end
  end
  return changed
end

-- Says why outputs differ, as far as the inputs tell.
local function tell_why(content, changed)
  local core = require "tperf.core"
  if content.tperf == core.version and (content.build or core.sources) == core.sources then return end
  local page = require "tperf.base.roots".installed "docs/changed.md" or "docs/changed.md"
  say(changed > 0 and "they differ because of these files or because tperf changed"
    or "they differ because tperf changed")
  say("(%s lists the answers that are others, why, and how to get the old ones)", page)
end

-- Redirects outputs with absolute names below the run's folder to the new folder.
local function move_output(host, from, to)
  local function moved(path)
    if type(path) == "string" and path:sub(1, #from + 1) == from .. "/" then return to .. path:sub(#from + 1) end
    return path
  end
  local output = host.output
  for _, name in ipairs { "open", "write", "keep", "remove", "make_folder" } do
    local of_host = output[name]
    output[name] = function(path, ...) return of_host(moved(path), ...) end
  end
  local rename = output.rename
  function output.rename(old, new) return rename(moved(old), moved(new)) end
end

-- Runs the script again into a new folder, with standard output closed; returns the folder.
local function run_again(content, dir, host)
  local before = host.output.folder(dir)
  local folder = host.output.temporary()
  for _, output in ipairs(content.outputs) do
    for slash in output.file:gmatch "()/" do host.output.make_folder(output.file:sub(1, slash - 1)) end
  end
  local record = recorder.start(host, folder)
  move_output(host, before, folder)
  local ended = {} -- raised instead of ending the process
  function host.exit(status)
    if status == 0 then error(ended, 0) end
    error(("the script ended with status %d"):format(status), 0)
  end
  host.output.silence(true)
  local list = table.move(content.arguments, 1, #content.arguments, 2, { content.script.file })
  local ok, message = xpcall(script.run, function(problem) return problem end, list, false, host, record,
    host.input.open)
  local finished, failure = host.output.finish()
  if ok and not finished then ok, message = false, failure end
  recorder.finish(record, host)
  host.output.silence(false)
  return folder, record, (not ok and message ~= ended) and message or nil
end

-- The checksum of a file and, unless it is large, its text; nil if it cannot be read.
local function seen(host, path)
  local found, hash = host.input.real(path, true)
  local file <close> = found and host.input.open(found) or nil
  local text = file and require "tperf.core".file.rest(file, MOST_COMPARED)
  return found and hash, text and #text <= MOST_COMPARED and text or nil
end

-- Compares an output with the recorded one and with the file in the folder; returns whether all agree.
local function compare(host, output, dir, folder)
  local hash, now = seen(host, folder .. "/" .. output.file)
  local kept_hash, kept = seen(host, dir .. "/" .. output.file)
  if not kept_hash then
    say("%s: is gone", output.file)
  elseif kept_hash ~= output.sha256 then
    say("%s: was changed after the run%s", output.file,
      hash == output.sha256 and ", which still writes what it did" or "")
  end
  if hash == output.sha256 then return kept_hash == hash end
  if not hash then
    say("%s: is not written any more", output.file)
  elseif kept_hash ~= output.sha256 then
    say("%s: comes out differently", output.file)
  else
    say("%s: changed", output.file)
    for _, line in ipairs(kept and now and difference.of(output.file, kept, now) or {}) do say("  %s", line) end
  end
  return false
end

return {
  summary = "run a script again and report what changed",
  arguments = "DIR",
  from = { "folders" },
  details = [[
DIR is the output folder of an earlier `tperf run --out DIR`; run it in the same current
folder. The script runs again with the same arguments, into a separate folder.
Prints the differences in its inputs and outputs, figure by figure. The exit status
is 1 when an output differs.]],
  options = limits.budgets,
  run = function(values, arguments, host)
    local dir = arguments[1]
    if not dir then return false, "DIR is missing" end
    if arguments[2] then return false, ("one DIR is needed, got '%s' too"):format(arguments[2]) end
    local content = manifest.read(dir, host)
    local ok, message = limits.apply(values, host)
    if not ok then return false, message end
    local inputs = check_inputs(content, host)
    local folder, record, problem = run_again(content, dir, host)
    local same, expected = 0, {}
    if not problem then
      for _, output in ipairs(content.outputs) do
        expected[output.file] = true
        if compare(host, output, dir, folder) then same = same + 1 end
      end
      for name in pairs(record.written) do
        if not expected[name] then say("%s: is new", name) end
      end
    end
    host.output.remove_temporary()
    if problem then error("the script fails now: " .. tostring(problem), 0) end
    if #content.outputs == 0 then
      say "the run wrote no files and printed nothing, so there is nothing to compare"
    else
      say("%d of %d outputs are the same, to the byte", same, #content.outputs)
    end
    local changed = same < #content.outputs
    for name in pairs(record.written) do changed = changed or not expected[name] end
    if changed then tell_why(content, inputs) end
    return changed and 1 or 0
  end,
}
