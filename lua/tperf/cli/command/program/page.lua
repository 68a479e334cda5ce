local check = require "tperf.base.check"
local link = require "tperf.cli.link"
local roots = require "tperf.base.roots"

-- The paths, below a root, where `make page` and `make install` put the page.
local PLACES = { "build/page/tperf.html", "page/tperf.html" }

local function path_of_page()
  for _, place in ipairs(PLACES) do
    local path = roots.installed(place)
    if path then return path end
  end
  error("there is no page here: `make page` builds it", 0)
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

-- Desktop file openers drop the part after "#", so opens a local page that redirects to the link. It holds the files
-- of the question: only this user may read it, and it goes once the browser has had the time to.
local OPENER <const> = [[
opener=$(command -v xdg-open || command -v open) && umask 077 && folder=$(mktemp -d) || { cat > /dev/null; exit 1; }
cat > "$folder/tperf.html"
"$opener" "$folder/tperf.html" > /dev/null 2>&1
status=$?
(trap '' HUP; exec < /dev/null > /dev/null 2>&1; [ $status != 0 ] || sleep 60; rm -r "$folder") &
exit $status]]

local function open_by_desktop(url)
  local address = url:gsub("&", "&amp;")
  local opener <close> = assert(io.popen(OPENER, "w"))
  assert(opener:write('<!DOCTYPE html><meta charset="utf-8"><title>tperf</title>',
    '<meta http-equiv="refresh" content="0; url=', address, '"><a href="', address, '">tperf</a>\n'))
  return opener:close()
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
  example = "tperf page search llama-3.1-70b -s h100-sxm -g 1024 -b 1024",
  details = [[
COMMAND is a command that the page supports, with its arguments.
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
