--- Where data files lie: in the folders of TPERF_PATH, the source tree, beside the installed library, in share/tperf.
local io, os, debug, concat = io, os, debug, table.concat
local core = require "tperf.core"

local roots = {}

--- The folders that may hold data, in the order of precedence.
---@return string[]
function roots.list()
  local list = {}
  for root in (os.getenv "TPERF_PATH" or ""):gmatch "[^:]+" do list[#list + 1] = root end
  local executable = core.resource.executable
  if executable then
    local folder = executable:match "^(.*)/"
    list[#list + 1] = folder:match "^(.*)/build/[^/]+$" or folder
    list[#list + 1] = folder:match "^(.*)/bin$" and folder:gsub("/bin$", "/share/tperf") or nil
  end
  local file = debug.getinfo(1, "S").source
  local source = file:match "^@(.*)lua/tperf/base/roots%.lua$"
  local library = file:match "^@(.*/tperf)/base/roots%.lua$"
  if source then list[#list + 1] = source == "" and "." or source end
  if library then list[#list + 1] = library .. "/data" end -- as `make install-lua` puts it
  list[#list + 1] = core.resource.prefix .. "/share/tperf"
  return list
end

--- Whether a file can be opened.
function roots.exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

local PIECE <const> = 1 << 16

--- What is left of an open file, or the first of it, more than `most` bytes; nil and a message if it cannot be read. It
--- takes memory for what is there, whereas file:read(most) begins by taking memory for `most` bytes.
---@param file file*
---@param most integer
---@return string?
---@return string? message
function roots.rest(file, most)
  local pieces, length = {}, 0
  repeat
    local piece, problem = file:read(PIECE)
    if problem then return nil, problem end
    piece = piece or ""
    pieces[#pieces + 1] = piece
    length = length + #piece
  until #piece < PIECE or length > most
  return concat(pieces)
end

--- A path relative to the root that holds it, such as "systems/h100-sxm.yaml"; nil if no root does.
---@param path string
---@return string?
function roots.below(path)
  for _, root in ipairs(roots.list()) do
    local name = path:sub(1, #root + 1) == root .. "/" and path:sub(#root + 2)
    if name and (name:find "^systems/" or name:find "^models/" or name:find "^software/"
      or name:find "^recipes/") then return name end
  end
end

--- The path of a relative name in the first root that has it; nil if none has.
function roots.find(name)
  for _, root in ipairs(roots.list()) do
    local path = root .. "/" .. name
    if roots.exists(path) then return path end
  end
end

return roots
