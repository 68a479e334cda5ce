--- Encodes Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding). As in proto3, fields that hold
-- their type's zero value are left out.
local protobuf = {}

local VARINT <const>, FIXED64 <const>, BYTES <const> = 0, 1, 2

--- A 64-bit integer in groups of seven bits, the lowest first; a negative one takes ten bytes.
---@param n integer
---@return string
function protobuf.varint(n)
  if n >= 0 and n < 0x80 then return string.char(n) end
  local bytes = {}
  repeat
    local low = n & 0x7f
    n = n >> 7 -- a logical shift
    bytes[#bytes + 1] = string.char(n ~= 0 and low | 0x80 or low)
  until n == 0
  return table.concat(bytes)
end

local varint = protobuf.varint

local function key(field, wire) return varint(field << 3 | wire) end

--- A field of type int32, int64, uint64, bool or enum.
function protobuf.integer(field, n) return n == 0 and "" or key(field, VARINT) .. varint(n) end

--- The same, but written even if 0: a member of a oneof.
function protobuf.chosen(field, n) return key(field, VARINT) .. varint(n) end

function protobuf.double(field, x) return key(field, FIXED64) .. string.pack("<d", x) end

--- A field of type string or bytes, or a message.
function protobuf.bytes(field, text) return key(field, BYTES) .. varint(#text) .. text end

--- A repeated field of integers, packed.
function protobuf.packed(field, list)
  if #list == 0 then return "" end
  local parts = {}
  for i, n in ipairs(list) do parts[i] = varint(n) end
  return protobuf.bytes(field, table.concat(parts))
end

--- A message in a stream, prefixed with its length.
function protobuf.delimited(message) return varint(#message) .. message end

return protobuf
