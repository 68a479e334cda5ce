--- A report: a title and, in order, sections, paragraphs, tables and figures, rendered in several ways.
local check = require "tperf.base.check"
local roots = require "tperf.base.roots"
local columns = require "tperf.output.columns"
local format = require "tperf.output.format"
local html = require "tperf.output.html"
local json = require "tperf.output.json"
local markdown = require "tperf.output.markdown"
local neutral = require "tperf.base.entry.neutral"
local output = require "tperf.output.file"
local text = require "tperf.output.text"

---@class tperf.Report
local document = {}
local metatable = { __index = document }

local function add(self, part)
  self.parts[#self.parts + 1] = part
  return self
end

local function string_of(what, value)
  if type(value) ~= "string" then check.fail("%s needs a string, got %s", what, check.show(value)) end
  return value
end

local caption_schema = { title = check.string { optional = true } }

--- A heading; what follows belongs to it.
---@param title string
function document:section(title)
  return add(self, { kind = "section", text = format.printable(string_of("report:section", title)) })
end

--- Plain text; an empty line starts a new paragraph.
---@param words string
function document:text(words)
  return add(self, { kind = "text", text = string_of("report:text", words) })
end

--- A table of rows.
---@param rows table[]
---@param wanted? (string|tperf.Column)[]
---@param options? { title: string }
function document:table(rows, wanted, options)
  local o = check.record("report:table", options or {}, caption_schema)
  columns.check_rows("report:table", rows)
  if wanted or #rows > 0 then columns.resolve("report:table", rows, wanted) end
  return add(self, { kind = "table", rows = rows, columns = wanted, title = o.title })
end

--- A figure made by tperf.plot (anything with :svg() and :text()).
---@param plot table
---@param options? { title: string }  title: a caption
function document:figure(plot, options)
  local o = check.record("report:figure", options or {}, caption_schema)
  if type(plot) ~= "table" or not plot.svg or not plot.text then
    check.fail("report:figure needs a plot, got %s", check.show(plot))
  end
  return add(self, { kind = "figure", plot = plot, title = o.title })
end

local function paragraphs(words)
  local list = {}
  for paragraph in (words .. "\n\n"):gmatch "(.-)\n%s*\n" do
    paragraph = paragraph:match "^%s*(.*%S)" or ""
    local lines = {}
    for line in paragraph:gmatch "[^\r\n]+" do lines[#lines + 1] = format.printable(line) end
    if #lines > 0 then list[#list + 1] = table.concat(lines, "\n") end
  end
  return list
end

-- format -> part kind -> function(part, figure number, files) -> text
local writers = {}

writers.text = {
  section = function(part) return part.text .. "\n" .. ("="):rep(utf8.len(part.text) or #part.text) .. "\n" end,
  text = function(part) return table.concat(paragraphs(part.text), "\n\n") .. "\n" end,
  table = function(part) return text.table(part.rows, part.columns, { title = part.title }) end,
  figure = function(part) return (part.title and part.title .. "\n\n" or "") .. part.plot:text() end,
}

writers.markdown = {
  section = function(part) return "## " .. markdown.escape(part.text) .. "\n" end,
  text = function(part)
    local list = paragraphs(part.text)
    for i, paragraph in ipairs(list) do list[i] = markdown.escape(paragraph) end
    return table.concat(list, "\n\n") .. "\n"
  end,
  table = function(part)
    local title = part.title and "**" .. markdown.escape(part.title) .. "**\n\n" or ""
    return title .. markdown.table(part.rows, part.columns)
  end,
  figure = function(part, file)
    local title = part.title or part.plot.title or "figure"
    if file then return string.format("![%s](%s)\n", markdown.escape(title), file) end
    return "**" .. markdown.escape(title) .. "**\n\n```text\n" .. part.plot:text { ascii = false } .. "```\n"
  end,
}

writers.html = {
  section = function(part) return "<h2>" .. html.escape(part.text) .. "</h2>\n" end,
  text = function(part)
    local list = paragraphs(part.text)
    for i, paragraph in ipairs(list) do list[i] = "<p>" .. html.markup(paragraph) .. "</p>\n" end
    return table.concat(list)
  end,
  table = function(part)
    local caption = part.title and "<figcaption>" .. html.escape(part.title) .. "</figcaption>\n" or ""
    return "<figure>\n" .. caption .. html.table(part.rows, part.columns) .. "</figure>\n"
  end,
  figure = function(part)
    local caption = part.title and "<figcaption>" .. html.escape(part.title) .. "</figcaption>\n" or ""
    return "<figure>\n" .. caption .. part.plot:svg() .. "</figure>\n"
  end,
}

local headings = {
  text = function(title) return title .. "\n" .. ("#"):rep(utf8.len(title) or #title) .. "\n\n" end,
  markdown = function(title) return "# " .. markdown.escape(title) .. "\n\n" end,
  html = function(title) return "<h1>" .. html.escape(title) .. "</h1>\n" end,
}

local function table_json(part)
  local heads, rows = {}, {}
  if #part.rows == 0 and not part.columns then return heads, rows end
  for r = 1, #part.rows do rows[r] = {} end
  for c, column in ipairs(columns.resolve("report", part.rows, part.columns)) do
    heads[c] = { name = column.name, title = column.title, unit = column.unit }
    for r = 1, #part.rows do rows[r][column.name] = column.get(part.rows[r]) end
  end
  return heads, rows
end

local function render_json(self)
  local parts = {}
  for i, part in ipairs(self.parts) do
    local out = { kind = part.kind, title = part.title, text = part.text }
    if part.kind == "table" then
      out.columns, out.rows = table_json(part)
    elseif part.kind == "figure" then
      out.figure, out.svg = part.plot.title, part.plot:svg()
    end
    parts[i] = out
  end
  return json.encode({ title = self.title, parts = parts }, { nonfinite = "null" }) .. "\n"
end

local function render(self, kind, figure_files)
  if kind == "json" then return render_json(self) end
  local out, figures = { headings[kind](self.title) }, 0
  for _, part in ipairs(self.parts) do
    if part.kind == "figure" then figures = figures + 1 end
    out[#out + 1] = writers[kind][part.kind](part, figure_files and figure_files[figures])
    if kind ~= "html" then out[#out + 1] = "\n" end
  end
  local body = table.concat(out)
  if kind == "html" then return html.page(self.title, body) end
  return (body:gsub("\n+$", "\n"))
end

local kinds = { "text", "markdown", "html", "json" }

--- The report as text, in one of: "text", "markdown" (figures as text), "html" (one file with everything), "json".
---@param kind "text"|"markdown"|"html"|"json"
---@return string
function document:render(kind)
  local valid, message = check.choice { kinds } (kind, "kind")
  if not valid then check.fail("report:render: %s", message) end
  return render(self, kind)
end

local function percent(c) return string.format("%%%02X", c:byte()) end

local kind_of = { txt = "text", md = "markdown", markdown = "markdown", html = "html", htm = "html",
  json = "json" }

--- Writes the report; the name's ending says how: .txt, .md (its figures beside it as NAME-1.svg …), .html, .json.
---@param path string
function document:save(path)
  local stem, ending = string_of("report:save", path):match "^(.*)%.(%w+)$"
  local kind = ending and kind_of[ending:lower()]
  if not kind then check.fail("report:save: '%s' must end in .txt, .md, .html or .json", path) end
  local files
  if kind == "markdown" then
    files = {}
    for _, part in ipairs(self.parts) do
      if part.kind == "figure" then
        local file = string.format("%s-%d.svg", stem, #files + 1)
        output.write(file, part.plot:svg())
        files[#files + 1] = roots.last(file):gsub("[^%w._-]", percent)
      end
    end
  end
  output.write(path, render(self, kind, files))
end

neutral.methods(document)

--- A new, empty report.
---@param options table
---  title  of the whole report
---@return tperf.Report
return function(options)
  local o = check.record("report.new", options or {}, { title = check.string {} })
  return setmetatable({ title = format.printable(o.title), parts = {} }, metatable)
end
