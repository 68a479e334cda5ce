--- Tables and whole reports as one self-contained HTML file: no requests, light and dark, and no script except the
-- tooltips of figures.
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local hover = require "tperf.output.hover"
local sheet = require "tperf.output.sheet"
local text = require "tperf.output.text"

local html = {}

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }

--- Printable text with HTML's special characters escaped.
---@param plain string
---@return string
function html.markup(plain)
  return (plain:gsub("[&<>\"']", entities))
end

--- Text escaped for HTML and XML, including quoted attributes.
---@param plain string
---@return string
function html.escape(plain)
  return html.markup(format.printable(plain))
end

--- Text escaped for SVG: code points that are no characters, which XML and PDF refuse, become U+FFFD.
---@param plain string
---@return string
function html.xml(plain)
  local escaped = html.escape(plain)
  if not escaped:find "[\xEF\xF0-\xF4]" then return escaped end
  return (escaped:gsub("[\xEF\xF0-\xF4][\x80-\xBF]+", function(character)
    local code = utf8.codepoint(character)
    return (code & 0xFFFE == 0xFFFE or code >= 0xFDD0 and code <= 0xFDEF) and "\u{FFFD}" or nil
  end))
end

local STYLE = sheet.base .. sheet.figures .. hover.style .. [[
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1.5rem; text-wrap: balance; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; }
p { max-width: 44rem; margin: 0 0 1rem; white-space: pre-line; }
th:first-child, td:first-child { padding-left: .3rem; }
tbody tr:nth-child(even) { background: var(--band); }
]]

--- Rows as an HTML table (a fragment, without the page around it).
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@return string
function html.table(rows, wanted)
  columns.check_rows("report.html", rows)
  if #rows == 0 and not wanted then return "<p>(no rows)</p>\n" end
  local list, cells, aligns = text.cells("report.html", rows, wanted)
  local out = { '<div class="scroll"><table>\n<thead><tr>' }
  local function put(...)
    for _, piece in ipairs { ... } do out[#out + 1] = piece end
  end
  for c, column in ipairs(list) do
    put('<th scope="col"', aligns[c] == "right" and ' class="n"' or "", ">", html.escape(column.title), "</th>")
  end
  put "</tr></thead>\n<tbody>\n"
  for r = 1, #rows do
    put "<tr>"
    for c = 1, #list do put(aligns[c] == "right" and '<td class="n">' or "<td>", html.escape(cells[r][c]), "</td>") end
    put "</tr>\n"
  end
  put "</tbody>\n</table></div>\n"
  return table.concat(out)
end

local SCRIPT = hover.script .. 'showTitles(document.body, document.getElementById("tip"));\n'
local SCRIPT_HASH -- made when first needed

-- The script that shows the titles of figures, and its entry in the policy; empty strings if there are no figures.
local function script_of(body)
  if not body:find("<svg", 1, true) then return "", "" end
  SCRIPT_HASH = SCRIPT_HASH or hover.policy_hash(SCRIPT)
  return '<div id="tip" hidden></div>\n<script>' .. SCRIPT .. "</script>\n", "; script-src " .. SCRIPT_HASH
end

--- A whole page around a body. The policy forbids every request and every other script, whatever a text may smuggle in.
---@param title string
---@param body string  HTML
---@return string
function html.page(title, body)
  local script, policy = script_of(body)
  return table.concat {
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'", policy,
    '">\n<title>', html.escape(title), "</title>\n<style>\n", STYLE, "</style>\n</head>\n<body>\n<main>\n",
    body, "</main>\n", script, "</body>\n</html>\n",
  }
end

return html
