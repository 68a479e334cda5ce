-- Chakra execution traces, read back by a separate decoder written from protobuf's encoding guide and the field numbers
-- of mlcommons/chakra's et_def.proto.
local program = require "program"
local tperf = require "tperf"

-- Field -> { name, type }, by message.
local ATTRIBUTE = {
  [1] = { "name", "text" }, [7] = { "value", "varint" }, [9] = { "value", "varint" }, [13] = { "value", "varint" },
  [27] = { "value", "varint" }, [29] = { "value", "text" },
}
local NODE = {
  [1] = { "id", "varint" }, [2] = { "name", "text" }, [3] = { "type", "varint" }, [5] = { "deps", "packed" },
  [6] = { "start", "varint" }, [7] = { "duration", "varint" }, [10] = { "attributes", ATTRIBUTE },
}
local METADATA = { [1] = { "version", "text" } }
local COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7

local function varint(text, at)
  local n, shift = 0, 0
  while true do
    local byte = text:byte(at)
    n, shift, at = n | (byte & 0x7f) << shift, shift + 7, at + 1
    if byte < 0x80 then return n, at end
  end
end

local function decode(text, fields)
  local message, at = {}, 1
  while at <= #text do
    local key, value
    key, at = varint(text, at)
    local field = assert(fields[key >> 3], "an unknown field")
    local name, kind = field[1], field[2]
    value, at = varint(text, at)
    if kind == "varint" then
      if key & 7 ~= 0 then error(name .. " is no varint") end
      message[name] = value
    else
      if key & 7 ~= 2 then error(name .. " has no length") end
      local inner = text:sub(at, at + value - 1)
      if #inner ~= value then error(name .. " is cut off") end
      at = at + value
      if kind == "text" then
        message[name] = inner
      elseif kind == "packed" then
        local list, i = {}, 1
        while i <= #inner do list[#list + 1], i = varint(inner, i) end
        message[name] = list
      else
        message[name] = message[name] or {}
        table.insert(message[name], decode(inner, kind))
      end
    end
  end
  return message
end

-- The messages of a trace: the metadata, and nodes with their attributes by name.
local function read(path)
  local text, at, metadata, nodes = program.slurp(path), 1, nil, {}
  while at <= #text do
    local length
    length, at = varint(text, at)
    local one = text:sub(at, at + length - 1)
    assert.equal(length, #one)
    at = at + length
    if not metadata then
      metadata = decode(one, METADATA)
    else
      local node = decode(one, NODE)
      for _, attribute in ipairs(node.attributes) do node[attribute.name] = attribute.value end
      nodes[#nodes + 1] = node
    end
  end
  return nodes, metadata
end

local folder
setup(function() folder = program.folder() end)
teardown(function() program.remove(folder) end)

local function traced(changes, options)
  local asked = { model = "mixtral-8x7b", system = "h100-sxm", tp = 2, pp = 2, dp = 4, ep = 2, zero = 1,
    global_batch = 8, simulate = true }
  for key, value in pairs(changes or {}) do asked[key] = value end
  local c, timeline = tperf.train(asked)
  local where = ("%s/%d"):format(folder, math.random(1 << 30))
  return where, c, timeline, timeline:chakra(where, options)
end

-- That question's trace of all ranks, written once.
local whole
local function all_traced()
  whole = whole or table.pack(traced())
  return table.unpack(whole)
end

describe("Chakra traces", function()
  it("have a node for each task of a rank, in order, that depends on earlier nodes", function()
    local where, _, timeline = all_traced()
    local nodes, metadata = read(where .. "/tperf.0.et")
    assert.equal("0.0.4", metadata.version)
    local last, busy = 0, 0
    for i, node in ipairs(nodes) do
      assert.equal(i, node.id)
      assert.is_true((node.start or 0) >= last)
      last = node.start or 0
      for _, before in ipairs(node.deps or {}) do
        local one = before < i and nodes[before] or error "depends on a later node"
        local late = (one.start or 0) + (one.duration or 0) - (node.start or 0) -- microseconds, rounded
        if late > 2 then error(("node %d starts %d us before one that it depends on ends"):format(i, late)) end
      end
      if node.type == COMPUTE then busy = busy + node.duration_nanos end
    end
    local kernels = 0
    for task in require "tperf.timeline.tasks".each(timeline, 1) do
      if task.kind == "kernel" or task.kind == "optimizer" or task.kind == "launches" then
        kernels = kernels + task.stop - task.start
      end
    end
    assert.near(1, busy / 1e9 / kernels, 1e-5)
  end)

  it("name the groups of every collective, as rank 5 sees them", function()
    local where = all_traced()
    local groups = require "tperf.core".yaml(program.slurp(where .. "/comm_group.json"), "groups")
    local seen = {}
    for _, node in ipairs((read(where .. "/tperf.5.et"))) do
      if node.type == COLLECTIVE then
        local members = groups[node.pg_name]
        local text, mine = table.concat(members, " "), false
        for _, rank in ipairs(members) do mine = mine or rank == 5 end
        assert.is_true(mine)
        seen[node.comm_type .. ": " .. text] = true
      end
    end
    -- Rank 5 is tp rank 1 of the third replica of stage 0: tp group 4 5, ep group 5 7, replicas the odd ranks.
    assert.is_true(seen["2: 4 5"]) -- all-gather
    assert.is_true(seen["7: 4 5"]) -- reduce-scatter
    assert.is_true(seen["6: 5 7"]) -- all-to-all
    assert.is_true(seen["7: 1 3 5 7"]) -- gradients
  end)

  it("send what another rank receives", function()
    local where = all_traced()
    local function messages(rank, kind)
      local found = {}
      for _, node in ipairs((read(("%s/tperf.%d.et"):format(where, rank)))) do
        if node.type == kind then
          found[node.comm_tag] = ("%d to %d, %d bytes"):format(node.comm_src or 0, node.comm_dst or 0, node.comm_size)
        end
      end
      return found
    end
    local sent = messages(3, SEND)
    assert.same(sent, messages(11, RECEIVE))
    assert.same(messages(11, SEND), messages(3, RECEIVE))
    local count = 0
    for _, text in pairs(sent) do
      -- 32768 tokens of 4096 numbers of 2 bytes, half of them on each of 2 tensor-parallel GPUs
      assert.equal(("3 to 11, %d bytes"):format(2 * 4096 * 32768 // 2), text)
      count = count + 1
    end
    assert.equal(2, count) -- micro-batches
  end)

  it("include each kernel's FLOPs", function()
    local where, c = traced({ model = "llama-3.1-8b", ep = 1, pp = 1, dp = 2 }, { ranks = { 0 } })
    local flops = 0
    for _, node in ipairs((read(where .. "/tperf.0.et"))) do flops = flops + (node.num_ops or 0) end
    -- Model FLOPs of the rank's share of the batch, plus those that the convention leaves out.
    local model = tperf.model "llama-3.1-8b"
    local counted = model:flops_per_token { convention = "matmul" }.total * c.global_batch * model.seq / 4
    assert.is_true(flops > counted and flops < 1.05 * counted, flops / counted)
  end)

  it("are written for the ranks and under the name asked for", function()
    local where, _, _, paths = traced({}, { ranks = { 7, 12 }, name = "run" })
    assert.same({ where .. "/run.7.et", where .. "/run.12.et", where .. "/comm_group.json" }, paths)
    assert.error_matches(function() traced({}, { ranks = { 16 } }) end,
      "'ranks' has 16, but the 16 GPUs are numbered from 0 to 15")
    local bare = tperf.schedule { schedule = "1f1b", devices = 2, microbatches = 2 }
    assert.error_matches(function() bare:chakra(where) end, "a timeline of tperf.train { simulate = true } is needed")
  end)

  it("are written by the command line", function()
    local asked = "tperf train llama-3.1-8b -s h100-sxm -b 8 --tp 2 --dp 4 --ranks 0,3"
    local result = program.shell(asked .. " --chakra traces", folder)
    assert.equal(0, result.code, result.err)
    assert.matches("tperf: 2 traces and comm_group.json in traces\n", result.err, 1, true)
    assert.is_true(#read(folder .. "/traces/tperf.3.et") > 100)
    assert.equal(2, program.shell(asked, folder).code)
  end)
end)
