-- Usage: tperf run --trust tools/site/write.lua FOLDER [DOWNLOAD...]. Writes the documentation as a folder that any
-- static host serves and that works from a disk: pages, search, pictures, tperf in a browser where it was built, and
-- downloads with their checksums. All links are relative; nothing is loaded from elsewhere.
package.path = "./tools/?.lua;" .. package.path
local core = require "tperf.core"
local json = require "tperf.output.json"
local markdown = require "site.markdown"
local sheet = require "tperf.output.sheet"

local folder = arg[1]
local downloads = table.move(arg, 2, #arg, 1, {})

local function slurp(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function exists(path)
  local file = io.open(path, "rb")
  return file ~= nil and file:close()
end

local function write(name, text)
  assert(os.execute(("mkdir -p '%s/%s'"):format(folder, name:match "^(.*)/" or ".")))
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  assert(file:write(text))
end

local function lines_of(command)
  local list, pipe <close> = {}, assert(io.popen(command, "r"))
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

-- A page's source -> its place on the site.
local PLACES <const> = { ["README.md"] = "index.html", ["CHANGELOG.md"] = "changelog.html",
  ["CONTRIBUTING.md"] = "contributing.html", ["SECURITY.md"] = "security.html", ["docs/README.md"] = "docs/index.html" }

local function place_of(source)
  return PLACES[source] or source:match "^docs/[^.]+%.md$" and source:gsub("%.md$", ".html") or nil
end

-- "docs/../README.md" is "README.md".
local function normal(path)
  repeat
    local before = path
    path = path:gsub("[^/]+/%.%./", "", 1):gsub("^%./", "")
  until path == before
  return path
end

local function up(place) return (place:gsub("[^/]+/", "../"):gsub("[^/]*$", "")) end

-- Where a link of a page leads: a page of the site, a picture beside it, or the source's own text.
local function link_of(source, place, copied)
  local base = source:match "^(.*/)" or ""
  return function(to)
    if to:find "^%a+:" or to:find "^#" then return to end
    local path, anchor = to:match "^([^#]*)(.*)$"
    local target = normal(base .. path)
    local there = place_of(target)
    if not there then
      if not exists(target) then return to end
      copied[target], there = true, target
    end
    return up(place) .. there .. anchor
  end
end

local STYLE <const> = sheet.base .. [[
body { display: grid; grid-template-columns: 15rem minmax(0, 52rem); gap: 2rem; padding: 1rem 1.5rem; }
nav { font-size: .9rem; position: sticky; top: 1rem; align-self: start; max-height: calc(100vh - 2rem); }
nav { overflow: auto; }
nav a { display: block; padding: .1rem 0; } nav input { width: 100%; padding: .3rem; font: inherit; }
a { color: inherit; } h1, h2, h3 { line-height: 1.25; } img { max-width: 100%; background: #fff; }
pre { background: var(--band); border: 1px solid var(--line); padding: .7rem; overflow-x: auto; font-size: .85rem; }
code { font-family: ui-monospace, monospace; font-size: .92em; } th, td { white-space: normal; }
#found a { margin: .35rem 0; } #found small { display: block; color: var(--soft); }
@media (max-width: 60rem) { body { display: block; } nav { position: static; max-height: none; } }
]]

-- Words in any order; a heading counts more than the text below it.
local SEARCH <const> = [[
"use strict";
const root = document.currentScript.dataset.root, box = document.getElementById("search");
const found = document.getElementById("found");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(word => word.length > 1);
  const hits = [];
  for (const part of words.length ? tperfIndex : []) {
    const title = part.title.toLowerCase(), text = part.text.toLowerCase();
    if (!words.every(word => title.includes(word) || text.includes(word))) continue;
    hits.push({ part, score: words.filter(word => title.includes(word)).length, at: text.indexOf(words[0]) });
  }
  hits.sort((a, b) => b.score - a.score);
  found.replaceChildren(...hits.slice(0, 20).map(({ part, at }) => {
    const link = document.createElement("a"), around = document.createElement("small");
    link.href = root + part.place;
    link.textContent = part.title;
    around.textContent = part.text.slice(Math.max(0, at - 40), at + 100);
    link.append(around);
    return link;
  }));
});
]]

local function title_of(text) return text:match "^# +([^\n]+)" or text:match "\n# +([^\n]+)" end

-- The parts of a page below each heading, for the search.
local function index_page(index, place, text)
  local title, at, anchor, part, fenced = title_of(text), nil, "", {}, false
  local function close()
    local words = table.concat(part, " "):gsub("%b[]%(%S-%)", function(l) return l:match "^%[(.-)%]" end)
      :gsub("[`*|#]+", " "):gsub("%s+", " ")
    if #words > 1 then
      local heading = at and at ~= title and title .. ": " .. at or title
      index[#index + 1] = { place = place .. anchor, title = heading, text = words }
    end
    part = {}
  end
  for line in text:gmatch "[^\n]+" do
    if line:find "^```" then fenced = not fenced end
    local heading = not fenced and line:match "^#+ +(.-) *$"
    if heading then
      close()
      at, anchor = heading:gsub("`", ""), "#" .. markdown.anchor(heading)
    else
      part[#part + 1] = line
    end
  end
  close()
end

-- --- the pages ---

local sources = lines_of "ls README.md docs/*.md CHANGELOG.md CONTRIBUTING.md SECURITY.md | grep -v '\\.in\\.md$'"
local titles, copied, index = {}, {}, {}
for _, source in ipairs(sources) do titles[source] = title_of(slurp(source)) end

local page_there = exists "build/page/tperf.html"

local function navigation(place)
  local root, list = up(place), {}
  local function add(to, title) list[#list + 1] = ('<a href="%s%s">%s</a>'):format(root, to, title) end
  if page_there then add("page/tperf.html", "<strong>tperf in your browser</strong>") end
  if downloads[1] then add("downloads/index.html", "<strong>Downloads</strong>") end
  for _, source in ipairs(sources) do add(place_of(source), titles[source]:gsub("[`*]", "")) end
  return table.concat(list, "\n")
end

local PAGE <const> = [[
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>@TITLE@</title><link rel="stylesheet" href="@ROOT@style.css"></head>
<body><nav><input id="search" type="search" placeholder="Search" aria-label="Search"><div id="found"></div>
@NAV@
</nav><main>
@BODY@
</main><script src="@ROOT@index.js"></script><script src="@ROOT@search.js" data-root="@ROOT@"></script></body></html>
]]

local function write_page(place, title, body)
  local parts = { TITLE = title:gsub("[`*]", ""), ROOT = up(place), NAV = navigation(place), BODY = body }
  write(place, (PAGE:gsub("@(%u+)@", parts)))
end

for _, source in ipairs(sources) do
  local text, place = slurp(source), place_of(source)
  write_page(place, titles[source], markdown.html(text, link_of(source, place, copied)))
  index_page(index, place, text)
end
for path in pairs(copied) do
  if not os.execute(("test -d '%s'"):format(path)) then write(path, slurp(path)) end
end
if page_there then write("page/tperf.html", slurp "build/page/tperf.html") end

local body, sums = { "<h1>Downloads</h1><ul>" }, {}
for _, path in ipairs(downloads) do
  local name, bytes = path:match "[^/]*$", slurp(path)
  write("downloads/" .. name, bytes)
  sums[#sums + 1] = core.file.sha256(bytes) .. "  " .. name .. "\n"
  body[#body + 1] = ('<li><a href="%s">%s</a> (%.1f MB)</li>'):format(name, name, #bytes / 1e6)
end
if downloads[1] then
  body[#body + 1] = '<li><a href="SHA256SUMS">SHA256SUMS</a></li></ul>'
  write("downloads/SHA256SUMS", table.concat(sums))
  write_page("downloads/index.html", "Downloads", table.concat(body))
end

write("style.css", STYLE)
write("search.js", SEARCH)
write("index.js", "const tperfIndex = " .. json.encode(index, { indent = 0 }) .. ";\n")
print(("%s: %d pages, %d downloads%s"):format(folder, #sources, #downloads, page_there and ", with the page" or
  "; `make page` first adds tperf in a browser"))
