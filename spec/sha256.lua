-- SHA-256 (FIPS 180-4), for reference tables that hold a hash instead of a long text.
local function rotate(x, n) return (x >> n | x << (32 - n)) & 0xFFFFFFFF end

-- The first 32 bits of the fractional parts of the roots of the first primes.
local function constants(count, exponent)
  local list, n = {}, 2
  while #list < count do
    local prime = true
    for d = 2, math.floor(math.sqrt(n)) do prime = prime and n % d ~= 0 end
    if prime then
      local root = n ^ exponent
      list[#list + 1] = math.floor((root - math.floor(root)) * 2.0 ^ 32)
    end
    n = n + 1
  end
  return list
end

local K, H = constants(64, 1 / 3), constants(8, 1 / 2)

local function block(state, chunk)
  local w = { string.unpack(">I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4I4", chunk) }
  for i = 17, 64 do
    local a, b = w[i - 15], w[i - 2]
    w[i] = (w[i - 16] + (rotate(a, 7) ~ rotate(a, 18) ~ a >> 3) + w[i - 7] + (rotate(b, 17) ~ rotate(b, 19) ~ b >> 10))
      & 0xFFFFFFFF
  end
  local a, b, c, d, e, f, g, h = table.unpack(state)
  for i = 1, 64 do
    local t1 = h + (rotate(e, 6) ~ rotate(e, 11) ~ rotate(e, 25)) + (e & f ~ ~e & g) + K[i] + w[i]
    local t2 = (rotate(a, 2) ~ rotate(a, 13) ~ rotate(a, 22)) + (a & b ~ a & c ~ b & c)
    h, g, f, e, d, c, b, a = g, f, e, d + t1 & 0xFFFFFFFF, c, b, a, t1 + t2 & 0xFFFFFFFF
  end
  for i, v in ipairs { a, b, c, d, e, f, g, h } do state[i] = state[i] + v & 0xFFFFFFFF end
end

---@param text string
---@return string  in hexadecimal
return function(text)
  local state = { table.unpack(H) }
  local padded = text .. "\x80" .. ("\0"):rep((55 - #text) % 64) .. string.pack(">I8", #text * 8)
  for i = 1, #padded, 64 do block(state, padded:sub(i, i + 63)) end
  return (("%08x"):rep(8):format(table.unpack(state)))
end
