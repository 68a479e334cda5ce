local kernels = require("tperf.base.lazy").module "tperf.describe.kernels"
local limits = require "tperf.cli.sandbox.limits"
local manifest = require "tperf.cli.sandbox.manifest"
local options = require "tperf.input.options"
local recorder = require "tperf.cli.sandbox.recorder"
local script = require "tperf.cli.sandbox.script"

-- Runs the script and writes a manifest of its inputs and outputs to the output folder.
local function run_recorded(values, arguments, host, folder)
  host.output.script(arguments[1])
  manifest.claim(folder, arguments[1], host)
  local run = {
    script = arguments[1], arguments = table.move(arguments, 2, #arguments, 1, {}), folder = folder,
    record = recorder.start(host, folder), stamp = values.stamp,
  }
  local function keep()
    local ok, message = host.output.finish()
    if not ok then error(message, 0) end
    kernels.all() -- which answers depend on, also those that other processes computed
    recorder.finish(run.record, host)
    manifest.write(run, host)
  end
  local exit = host.exit
  function host.exit(status)
    if status == 0 then keep() end
    exit(status)
  end
  script.run(arguments, false, host, run.record)
  keep()
end

return {
  summary = "run a Lua script",
  arguments = "SCRIPT [ARGUMENT...]",
  from = { "files" },
  passes_arguments = true,
  details = [[
The script sees the standard library without access to the outside: no processes, native
or binary code, clock or unseeded random numbers. It reads regular files, and can
require the modules beside it. It writes below the output folder: new files, and those
that it wrote there in earlier runs, unless something else has changed them since
(.tperf-written keeps their checksums); never names that start with a dot, never through
links. Data (.csv, .html, .md, .svg ...) may go anywhere there, files that other tools read
by name (.json, .sh, .txt, .yaml ...) below the DIR of --out. "-" reads the script from
standard input. Arguments after SCRIPT are passed to the script (its table arg). With
--out, DIR also gets stdout.txt, what the script prints, and
manifest.json: the script, its arguments, the rules, the build of tperf, LUA_PATH, every
file read and every file written, each with its SHA-256; `tperf verify DIR` runs the
script again and reports what changed. A run that fails leaves the manifest of an
earlier one.]],
  options = options.join(limits.options, {
    { long = "stamp", help = "put the date and the host's name into the manifest" },
  }),
  run = function(values, arguments, host)
    if not arguments[1] then return false, "SCRIPT is missing" end
    if values.trust and values.out and values.out ~= "." then
      return false,
        "--out is the sandbox's folder, and a trusted script writes where it likes: leave out --out or --trust"
    end
    local folder, message = limits.apply(values, host)
    if not folder then return false, message end
    if values.out and not values.trust and arguments[1] ~= "-" then
      return run_recorded(values, arguments, host, folder)
    end
    script.run(arguments, values.trust, host)
  end,
}
