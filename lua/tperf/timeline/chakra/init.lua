--- Chakra execution traces (MLCommons; arXiv 2305.14516): one file per rank, NAME.RANK.et, with the graph of what that
-- GPU computes, sends and receives in one step, and comm_group.json with the groups of ranks. The format is
-- schema/protobuf/et_def.proto of mlcommons/chakra, each message prefixed with its length; attributes are those that
-- ASTRA-sim reads. All GPUs of a stage do the same work; only their groups and peers differ.
local check = require "tperf.base.check"
local output = require "tperf.output.file"
local protobuf = require "tperf.timeline.chakra.protobuf"
local ranks = require "tperf.timeline.ranks"
local graph = require "tperf.timeline.chakra.graph"

local chakra = {}

local VERSION <const> = "0.0.4"
local MOST_BYTES <const> = 16 << 30

-- Values of NodeType, and the numbers of the messages' fields.
local TYPES <const> = { compute = 4, send = 5, receive = 6, collective = 7 }
local NODE <const> = { id = 1, name = 2, type = 3, data_deps = 5, start = 6, duration = 7, attr = 10 }
local ATTR <const> = { name = 1, int32 = 7, int64 = 9, uint64 = 13, bool = 27, string = 29 }
-- Values of CollectiveCommType.
local COLLECTIVES <const> = {
  all_reduce = 0, reduce = 1, all_gather = 2, gather = 3, scatter = 4, broadcast = 5, all_to_all = 6,
  reduce_scatter = 7,
}

local function attribute(name, kind, value)
  local content = kind == "string" and protobuf.bytes(ATTR.string, value) or protobuf.chosen(ATTR[kind], value)
  return protobuf.bytes(NODE.attr, protobuf.bytes(ATTR.name, name) .. content)
end

local function micros(seconds) return math.tointeger(seconds * 1e6 + 0.5 - (seconds * 1e6 + 0.5) % 1) end
local function whole(x) return math.tointeger(x + 0.5 - (x + 0.5) % 1) end

-- The part of a node that all ranks of its stage share, without the message's length.
local function common(node)
  local parts = {
    protobuf.integer(NODE.id, node.id), protobuf.bytes(NODE.name, node.name),
    protobuf.integer(NODE.type, TYPES[node.type]), protobuf.packed(NODE.data_deps, node.deps),
    protobuf.integer(NODE.start, micros(node.start)), protobuf.integer(NODE.duration, micros(node.stop - node.start)),
    attribute("is_cpu_op", "bool", node.on_host and 1 or 0),
    attribute("duration_nanos", "uint64", whole((node.stop - node.start) * 1e9)),
  }
  local function add(...) parts[#parts + 1] = attribute(...) end
  if node.type == "compute" then
    if node.flops then add("num_ops", "int64", whole(node.flops)) end
    if node.bytes then add("tensor_size", "int64", whole(node.bytes)) end
  else
    add("comm_size", "int64", whole(node.bytes))
    for _, tier in ipairs(node.task and node.task.tiers or {}) do
      add("bytes_" .. tier.name, "int64", whole(tier.bytes))
    end
    if node.type == "collective" then add("comm_type", "int64", COLLECTIVES[node.collective]) end
    if node.tag then add("comm_tag", "int32", node.tag) end
  end
  return table.concat(parts)
end

-- The part of a node that depends on the rank.
local function own(node, rank, grid)
  if node.type == "collective" then return attribute("pg_name", "string", grid:name(rank, node.axis)) end
  local peer = grid:moved(rank, "pp", node.peer)
  local from, to = rank, peer
  if node.type == "receive" then from, to = peer, rank end
  return attribute("comm_src", "int32", from) .. attribute("comm_dst", "int32", to)
end

-- Serializes the nodes of a stage: whole messages joined into texts, and the nodes that still need a rank's part.
local function prepared(nodes)
  local pieces, run = {}, { protobuf.delimited(protobuf.bytes(1, VERSION)) } -- GlobalMetadata
  for _, node in ipairs(nodes) do
    local text = common(node)
    if node.type == "compute" then
      run[#run + 1] = protobuf.delimited(text)
    else
      pieces[#pieces + 1], run = table.concat(run), {}
      pieces[#pieces + 1] = { node = node, text = text }
    end
  end
  pieces[#pieces + 1] = table.concat(run)
  return pieces
end

local function of_rank(pieces, rank, grid)
  local parts = {}
  for i, piece in ipairs(pieces) do
    parts[i] = type(piece) == "string" and piece or protobuf.delimited(piece.text .. own(piece.node, rank, grid))
  end
  return table.concat(parts)
end

local OPTIONS <const> = {
  name = check.string { default = "tperf" }, -- prefix of the files: NAME.RANK.et
  ranks = check.list(check.integer { min = 0, max = 1 << 31 }, { min = 1, max = 1 << 20, optional = true }), -- else all
}

local function checked_ranks(list, total)
  if not list then
    list = {}
    for rank = 0, total - 1 do list[rank + 1] = rank end
  end
  for _, rank in ipairs(list) do
    if rank >= total then
      check.fail("timeline:chakra: 'ranks' has %d, but the %d GPUs are numbered from 0 to %d", rank, total, total - 1)
    end
  end
  return list
end

local function groups_text(grid)
  local list = {}
  for i, members in ipairs(grid.groups) do list[i] = ('"%d": [%s]'):format(i, table.concat(members, ", ")) end
  return "{" .. table.concat(list, ",\n ") .. "}\n"
end

--- Writes the traces of a model's timeline.
---@param t tperf.timeline  from tperf.train { simulate = true }
---@param folder string
---@param options? table  name (prefix of the files, "tperf"), ranks (a list, from 0; default: all)
---@return string[] paths  of the files written
function chakra.write(t, folder, options)
  local o = check.record("timeline:chakra", options or {}, OPTIONS)
  if not t.configuration then check.fail "timeline:chakra: a timeline of tperf.train { simulate = true } is needed" end
  local grid = ranks.of(t.configuration)
  local list, stages, paths, written = checked_ranks(o.ranks, grid.total), {}, {}, 0
  local nodes = graph.of(t, grid)
  output.make_folder(folder)
  for i, rank in ipairs(list) do
    local stage = grid:at(rank, "pp") + 1
    stages[stage] = stages[stage] or prepared(nodes[stage])
    local text = of_rank(stages[stage], rank, grid)
    written = written + #text
    if i == 1 and #text * #list > MOST_BYTES then
      check.fail("timeline:chakra: %d files of %s are more than 16 GiB: name some of the %d GPUs in 'ranks'", #list,
        t:show(#text, "memory"), grid.total)
    end
    paths[i] = ("%s/%s.%d.et"):format(folder, o.name, rank)
    output.write(paths[i], text)
  end
  paths[#paths + 1] = folder .. "/comm_group.json"
  output.write(paths[#paths], groups_text(grid))
  return paths
end

return chakra
