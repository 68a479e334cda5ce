-- Usage: tperf run --trust tools/page/write.lua FOLDER FILE. Writes tperf in a browser as a single file, from the
-- module that Emscripten left in FOLDER, the parts in src/page, and the data.
local hover = require "tperf.output.hover"
local report = require "tperf.output.json"
local sheet = require "tperf.output.sheet"
local timelines = require "tperf.timeline.picture.page"

local folder, into = arg[1], arg[2]

-- In order of dependency.
local SCRIPTS <const> = { "dom", "state", "engine", "form", "view/plan", "view/compare", "view/schedules",
  "view/serve", "view/rl", "view/script", "app" }
local MOST <const> = 3 << 20 -- limit on the page, in bytes

local function slurp(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function output_of(command)
  local pipe <close> = assert(io.popen(command, "r"))
  return pipe:read "a"
end

-- The output of a shell command for a text, passed in a file.
local function through(command, text)
  local path = folder .. "/through.tmp"
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
  local result = output_of(("(%s) < %s"):format(command, path))
  assert(os.remove(path))
  assert(#result > 0, command)
  return result
end

local function packed(text) return (through("gzip -9n | base64 -w 0", text):gsub("%s", "")) end

local function data()
  local files = {}
  for path in output_of "find models systems software kernels recipes scripts -type f | sort":gmatch "[^\n]+" do
    files[path] = slurp(path)
  end
  return report.encode(files, { indent = 0 })
end

-- The licences of everything linked into the module.
local function licences()
  local list = { "tperf\n\n" .. slurp "LICENSE",
    "Emscripten's runtime: 2010-2022 The Emscripten Authors, under the same licence as tperf" }
  for _, name in ipairs { "lua", "yaml" } do
    list[#list + 1] = name .. "\n\n" .. slurp(("%s/deps/%s/debian/copyright"):format(folder, name))
  end
  local emscripten = output_of "em-config EMSCRIPTEN_ROOT":match "[^\n]+"
  list[#list + 1] = "musl\n\n" .. slurp(emscripten .. "/system/lib/libc/musl/COPYRIGHT")
  return (table.concat(list, "\n\n"):gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

local style = sheet.base .. sheet.figures .. hover.style .. timelines.charts .. slurp "src/page/page.css"
local scripts = { timelines.script }
for _, name in ipairs(SCRIPTS) do scripts[#scripts + 1] = slurp(("src/page/%s.js"):format(name)) end
local script = table.concat(scripts)
local worker = slurp(folder .. "/tperf.js") .. slurp "npm/engine.js" .. slurp "src/page/unpack.js"
  .. slurp "src/page/worker.js"
for _, text in ipairs { script, worker } do assert(not text:lower():find "</script", "a script would end early") end

local parts = {
  STYLE = style, SCRIPT = script, WORKER = worker, LICENCES = licences(), DATA = packed(data()),
  ENGINE = packed(slurp(folder .. "/tperf.wasm")),
  -- The worker runs from a blob: URL of text in the page, the module from bytes in it. Nothing else may load.
  POLICY = table.concat({ "default-src 'none'", "script-src " .. hover.policy_hash(script) .. " 'wasm-unsafe-eval'",
    "style-src " .. hover.policy_hash(style), "worker-src blob:", "img-src data:", "base-uri 'none'",
    "form-action 'none'" }, "; "),
}
local page = slurp "src/page/page.html":gsub("@(%u+)@", parts)
assert(#page <= MOST, ("the page has %d bytes, at most %d are meant"):format(#page, MOST))
local file <close> = assert(io.open(into, "wb"))
assert(file:write(page))
