--- MiB that this process has held at most so far; nil where the system does not tell.
---@return number?
return function()
  local file = io.open "/proc/self/status"
  if not file then return nil end
  local kib = file:read "a":match "VmHWM:%s*(%d+)"
  file:close()
  return kib and tonumber(kib) / 1024
end
