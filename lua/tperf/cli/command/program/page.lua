local check = require "tperf.base.check"
local link = require "tperf.cli.link"
local catalogue = require "tperf.base.catalogue"

-- The paths, below a root, where `make page` and `make install` put the page.
local PLACES = { "build/page/tperf.html", "page/tperf.html" }

local function path_of_page()
  for _, place in ipairs(PLACES) do
    local path = catalogue.in_roots(place)
    if path then return path end
  end
  error("there is no page here: `make page` builds it", 0)
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Desktop file openers drop the part after "#", so opens a local page that redirects to the link.
local function open_by_desktop(url)
  local path = os.tmpname()
  os.remove(path)
  path = path .. ".html"
  local file <close> = assert(io.open(path, "w"))
  local address = url:gsub("&", "&amp;")
  assert(file:write('<!DOCTYPE html><meta charset="utf-8"><title>tperf</title>',
    '<meta http-equiv="refresh" content="0; url=', address, '"><a href="', address, '">tperf</a>\n'))
  assert(file:flush())
  return os.execute("{ command -v xdg-open || command -v open; } > /dev/null 2>&1") and
    os.execute(("$(command -v xdg-open || command -v open) %s > /dev/null 2>&1"):format(quoted(path)))
end

local function open(url)
  local browser = os.getenv "BROWSER"
  if browser and browser ~= "" then
    return os.execute(("%s %s > /dev/null 2>&1"):format(quoted(browser:match "^[^:]*"), quoted(url)))
  end
  return open_by_desktop(url)
end

return {
  summary = "open tperf in a browser, with a question filled in",
  arguments = "[COMMAND ARGUMENT...]",
  from = { link.commands() },
  passes_arguments = true,
  details = [[
COMMAND is a command that the page supports, with its arguments:
  tperf page search llama-3.1-70b -s h100-sxm -g 1024 -b 1024
Prints the link and opens it with $BROWSER or the desktop's browser. The page is one file, works without a
network, and sends nothing anywhere; files that the question names travel in the link.]],
  options = {
    { long = "print", short = "p", help = "print the link only" },
  },
  run = function(values, arguments)
    local fragment, message = link.fragment(arguments)
    if not fragment then return false, message end
    local url = link.file_url(path_of_page()) .. fragment
    print(url)
    if not values.print and not open(url) then
      io.stdout:flush()
      check.fail("no browser could be opened: set BROWSER, or open the link above")
    end
  end,
}
