--- Notes which files a script reads and writes, so that a manifest can tell what a run depended on.
-- Installed before the sandbox copies the standard libraries; everything that opens files goes through these.
local sha256 = require "tperf.core".file.sha256

local recorder = {}

local open = io.open -- the standard one

local function slurp(path)
  local file = open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  return text
end
recorder.slurp = slurp

--- The SHA-256 of a file, or nil when it cannot be read.
function recorder.hash(path)
  local text = slurp(path)
  return text and sha256(text)
end

-- "./a//b/../c" below the folder as "a/c".
local function plain(path, folder)
  if path:sub(1, #folder + 1) == folder .. "/" then path = path:sub(#folder + 2) end
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." then table.remove(parts) elseif part ~= "." then parts[#parts + 1] = part end
  end
  return table.concat(parts, "/")
end

--- Begins to note. host.output writes below `folder`.
---@return table record  read: path -> SHA-256; written, kept: name -> true (kept: files that are appended to, such as
---  the caches of sweeps, are no output of one run)
function recorder.start(host, folder)
  local record = { read = {}, written = {}, kept = {} }
  local function note(path)
    if type(path) == "string" and not record.read[path] then record.read[path] = recorder.hash(path) end
  end
  local lines, input, load = io.lines, io.input, loadfile
  rawset(io, "open", function(path, mode)
    if mode == nil or mode == "r" or mode == "rb" then note(path) end
    return open(path, mode)
  end)
  for library, names in pairs { [io] = { lines = lines, input = input }, [_G] = { loadfile = load } } do
    for name, standard in pairs(names) do
      rawset(library, name, function(path, ...)
        note(path)
        return standard(path, ...)
      end)
    end
  end
  local write_to, rename = host.output.open, host.output.rename
  function host.output.open(path, mode)
    local file, message = write_to(path, mode)
    if file then record[mode:sub(1, 1) == "a" and "kept" or "written"][plain(path, folder)] = true end
    return file, message
  end
  function host.output.rename(from, to)
    local ok, message = rename(from, to)
    if ok then record.written[plain(from, folder)], record.written[plain(to, folder)] = nil, true end
    return ok, message
  end
  return record
end

return recorder
