--- Writes a picture, an SVG document, to a file: as it is, or as PNG or PDF by librsvg's rsvg-convert.
-- rsvg-convert runs as a child with limits (src/io/process/child.c), without a shell. The document comes from its
-- standard input and so has no place of its own: librsvg loads no other file that it may name.
local check = require "tperf.base.check"
local core = require "tperf.core"
local output = require "tperf.output.file"

local render = {}

local convert = core.file.rsvg -- the sandbox removes it from the core

local PNG_MOST <const> = 32767 -- px, of cairo's images
local CSS_DPI <const> = 96     -- a CSS px is 1/96 inch

local INSTALL <const> = "rsvg-convert (librsvg), which draws PNG and PDF, is not installed; save as .svg, or install "
  .. "it (Debian, Ubuntu: apt-get install librsvg2-bin fonts-dejavu-core; macOS: brew install librsvg)"

local REASON <const> = {
  missing = INSTALL,
  limits = "rsvg-convert failed (its limits are 60 s and 1 GiB); save as .svg, or draw less",
}

local function fail(path, why)
  if why == "interrupted" then check.fail "interrupted" end
  check.fail("cannot write '%s': %s", path, REASON[why])
end

--- The format that a file's name asks for: its ending in lower case, or nil.
---@param path any
---@return string?
function render.ending(path)
  return type(path) == "string" and (path:match "%.(%w+)$" or ""):lower() or nil
end

--- Checks the resolution of a PNG, for schemas.
render.dpi = check.number { min = 24, max = 2400, optional = true }

--- Whether a format needs rsvg-convert.
---@param ending string
---@return boolean
function render.needed(ending) return ending == "png" or ending == "pdf" end

local EMPTY <const> = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'

--- Raises if the picture at that path needs rsvg-convert and it is not installed.
---@param path string  also for the message
function render.check(path)
  if not render.needed(render.ending(path)) then return end
  local works, why = convert(EMPTY, "png", 1.0)
  if not works then fail(path, why) end
end

-- The picture's size in px, as its root element states it.
local function size_of(svg)
  local head = svg:match "^[^>]*"
  return tonumber(head:match ' width="([%d.]+)"'), tonumber(head:match ' height="([%d.]+)"')
end

--- Writes an SVG document to a path in the format of its ending: .png, .pdf, or as it is.
---@param path string
---@param svg string
---@param dpi? number  of PNG: a px of the document is 1/96 inch (192)
function render.write(path, svg, dpi)
  local ending = render.ending(path)
  if not render.needed(ending) then return output.write(path, svg) end
  local zoom = (dpi or 2 * CSS_DPI) / CSS_DPI
  local width, height = size_of(svg)
  local most = ending == "png" and math.max(width, height) * zoom or 0
  if most > PNG_MOST then
    check.fail("cannot write '%s': a PNG of %.0f × %.0f px is too large (at most %d either way); choose a smaller dpi "
      .. "or width, or save as .svg or .pdf", path, width * zoom, height * zoom, PNG_MOST)
  end
  local bytes, why = convert(svg, ending, ending == "png" and zoom or 1.0)
  if not bytes or bytes == "" then fail(path, why or "limits") end
  output.write(path, bytes)
end

return render
