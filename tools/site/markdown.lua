--- The Markdown of this project's pages as HTML: headings, paragraphs, lists, tables, code, quotes, links, pictures and
--- emphasis. Raw HTML is shown as text.
local markdown = {}

local ESCAPED <const> = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

local function escape(text) return (text:gsub('[&<>"]', ESCAPED)) end

--- The name of a heading within its page, as forges make it: "The sandbox" is "the-sandbox".
function markdown.anchor(text)
  return (text:gsub("%b[]%b()", function(link) return link:match "%[(.-)%]" end):gsub("[`*]", ""):lower()
    :gsub("[^%w _\128-\255-]", ""):gsub(" ", "-"))
end

-- Emphasis and links of a text whose code is set aside already.
local function marked(text, link)
  text = escape(text)
  text = text:gsub("!%[(.-)%]%((.-)%)", function(title, to)
    return ('<img src="%s" alt="%s">'):format(link(to), title)
  end)
  text = text:gsub("%[(.-)%]%(([^%s)]+)%)", function(title, to)
    return ('<a href="%s">%s</a>'):format(link(to), title)
  end)
  text = text:gsub("%*%*(.-)%*%*", "<strong>%1</strong>")
  return (text:gsub("%f[%w*]%*(%w[^*]-)%*", "<em>%1</em>"))
end

local function inline(text, link)
  local codes = {}
  text = text:gsub("(`+)(.-)%1", function(_, code)
    codes[#codes + 1] = "<code>" .. escape(code) .. "</code>"
    return ("\1%d\1"):format(#codes)
  end)
  text = text:gsub("\\([%p])", function(character)
    codes[#codes + 1] = escape(character)
    return ("\1%d\1"):format(#codes)
  end)
  return (marked(text, link):gsub("\1(%d+)\1", function(i) return codes[tonumber(i)] end))
end

local function cells(line)
  local list = {}
  for cell in line:gsub("\\|", "\2"):gsub("^|", ""):gsub("|%s*$", ""):gmatch "([^|]*)" do
    list[#list + 1] = cell:gsub("\2", "|"):match "^%s*(.-)%s*$"
  end
  return list
end

-- Each reads a block that begins at lines[i], and returns its HTML and the line behind it.
local blocks = {}

function blocks.fence(lines, i)
  local first, code = i, {}
  i = i + 1
  while lines[i] and not lines[i]:find "^%s*```" do
    code[#code + 1] = lines[i]
    i = i + 1
  end
  local language = lines[first]:match "^%s*```(%w*)"
  return ("<pre%s><code>%s</code></pre>"):format(language ~= "" and ' class="' .. language .. '"' or "",
    escape(table.concat(code, "\n"))), i + 1
end

function blocks.indented(lines, i)
  local code = {}
  while lines[i] and (lines[i]:find "^    " or lines[i] == "" and (lines[i + 1] or ""):find "^    ") do
    code[#code + 1] = lines[i]:sub(5)
    i = i + 1
  end
  return "<pre><code>" .. escape(table.concat(code, "\n")) .. "</code></pre>", i
end

function blocks.table(lines, i, link)
  local heads, aligns = cells(lines[i]), cells(lines[i + 1])
  local function row(kind, list)
    local out = {}
    for c = 1, #heads do
      local right = (aligns[c] or ""):find ":$" and ' class="n"' or ""
      out[c] = ("<%s%s>%s</%s>"):format(kind, right, inline(list[c] or "", link), kind)
    end
    return "<tr>" .. table.concat(out) .. "</tr>"
  end
  local body = {}
  local head = row("th", heads)
  i = i + 2
  while lines[i] and lines[i]:find "^|" do
    body[#body + 1] = row("td", cells(lines[i]))
    i = i + 1
  end
  return ('<div class="scroll"><table><thead>%s</thead><tbody>%s</tbody></table></div>'):format(head,
    table.concat(body, "\n")), i
end

-- The lines of a list item, and of what is indented below it.
function blocks.list(lines, i, link)
  local kind = lines[i]:find "^%d" and "ol" or "ul"
  local items = {}
  while lines[i] and lines[i]:find(kind == "ol" and "^%d+%. " or "^[*-] ") do
    local item = { (lines[i]:gsub("^[^ ]+ ", "")) }
    i = i + 1
    while lines[i] and (lines[i]:find "^  +%S" or lines[i] == "" and (lines[i + 1] or ""):find "^  +%S") do
      item[#item + 1] = lines[i]:gsub("^   ?", "", 1)
      i = i + 1
    end
    local html = markdown.blocks(item, link)
    items[#items + 1] = "<li>" .. html:gsub("^<p>(.-)</p>", "%1", 1) .. "</li>"
    if lines[i] == "" and (lines[i + 1] or ""):find(kind == "ol" and "^%d+%. " or "^[*-] ") then i = i + 1 end
  end
  return ("<%s>%s</%s>"):format(kind, table.concat(items, "\n"), kind), i
end

function blocks.heading(lines, i, link)
  local marks, text = lines[i]:match "^(#+) +(.-) *$"
  return ('<h%d id="%s">%s</h%d>'):format(#marks, markdown.anchor(text), inline(text, link), #marks), i + 1
end

function blocks.quote(lines, i, link)
  local inner = {}
  while lines[i] and lines[i]:find "^>" do
    inner[#inner + 1] = lines[i]:gsub("^> ?", "")
    i = i + 1
  end
  return "<blockquote>" .. markdown.blocks(inner, link) .. "</blockquote>", i
end

-- The kind of block that begins at a line; nil: a paragraph.
local function kind_of(lines, i)
  local line = lines[i]
  if line:find "^%s*```" then return "fence" end
  if line:find "^#+ " then return "heading" end
  if line:find "^    %S" then return "indented" end
  if line:find "^|" and (lines[i + 1] or ""):find "^|[%s:|-]+$" then return "table" end
  if line:find "^[*-] " or line:find "^%d+%. " then return "list" end
  return line:find "^>" and "quote" or nil
end

function blocks.paragraph(lines, i, link)
  local text = {}
  repeat
    text[#text + 1] = lines[i]
    i = i + 1
  until not lines[i] or lines[i] == "" or kind_of(lines, i)
  return "<p>" .. inline(table.concat(text, "\n"), link) .. "</p>", i
end

--- The HTML of lines.
---@param lines string[]
---@param link fun(to: string): string  where a link of the page leads
---@return string
function markdown.blocks(lines, link)
  local out, i = {}, 1
  while lines[i] do
    if lines[i]:find "%S" then
      out[#out + 1], i = blocks[kind_of(lines, i) or "paragraph"](lines, i, link)
    else
      i = i + 1
    end
  end
  return table.concat(out, "\n")
end

--- The HTML of a page.
---@param text string
---@param link fun(to: string): string
---@return string
function markdown.html(text, link)
  local lines = {}
  for line in (text:gsub("\n*$", "\n")):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  return markdown.blocks(lines, link)
end

return markdown
