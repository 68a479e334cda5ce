--- Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding): what messages are made of. Fields that
-- have their type's zero value are left out, as proto3 does.
local protobuf = {}

local VARINT <const>, FIXED64 <const>, BYTES <const> = 0, 1, 2

--- An integer of 64 bits, seven at a time, the least first; a negative one has ten bytes.
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

--- A field of int32, int64, uint64, bool or an enumeration.
function protobuf.integer(field, n) return n == 0 and "" or key(field, VARINT) .. varint(n) end

--- The same, there even where it is 0: a member of a oneof.
function protobuf.chosen(field, n) return key(field, VARINT) .. varint(n) end

function protobuf.double(field, x) return key(field, FIXED64) .. string.pack("<d", x) end

--- A field of a string, bytes or a message.
function protobuf.bytes(field, text) return key(field, BYTES) .. varint(#text) .. text end

--- A repeated field of integers, packed.
function protobuf.packed(field, list)
  if #list == 0 then return "" end
  local parts = {}
  for i, n in ipairs(list) do parts[i] = varint(n) end
  return protobuf.bytes(field, table.concat(parts))
end

--- A message in a stream of messages: its length before it.
function protobuf.delimited(message) return varint(#message) .. message end

return protobuf
