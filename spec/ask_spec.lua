-- `tperf ask`, `tperf schema` and `tperf mcp`: questions and answers as plain data.
local core = require "tperf.core"
local lfs = require "lfs"
local program = require "program"
local tperf = require "tperf"

local GPT2 <const> = '{"model": "gpt2", "system": "h100-sxm", "gpus": 8, "global_batch": 64}'

-- The answers to a text on standard input, and the exit status.
local function asked(text, command)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  program.write(folder .. "/in", text)
  local result = program.shell(("%s %s < in"):format(program.quote(program.absolute()), command or "ask"), folder)
  local answers = {}
  for line in result.out:gmatch "[^\n]+" do answers[#answers + 1] = assert(core.yaml(line, "answer")) end
  return answers, result
end

local function one(text)
  local answers, result = asked(text)
  assert.equal(1, #answers, result.err)
  return answers[1], result
end

describe("tperf ask", function()
  it("gives the figures of Lua's answer, for every question", function()
    local cases <const> = {
      { "train", "gpus: 64, tp: 2, pp: 2, global_batch: 128", { gpus = 64, tp = 2, pp = 2, global_batch = 128 },
        { "time", "mfu", "throughput" } },
      { "infer", "tp: 2, prompt: 1000, generate: 100", { tp = 2, prompt = 1000, generate = 100 }, { "ttft", "tpot" } },
      { "serve", "load: { rate: 2 }, prompt: 1000, output: 100, count: 100",
        { load = { rate = 2 }, prompt = 1000, output = 100, count = 100 }, { "throughput", "duration" } },
    }
    for _, case in ipairs(cases) do
      local arguments = case[3]
      arguments.model, arguments.system = "llama-3.1-8b", "h100-sxm"
      local wanted = tperf[case[1]](arguments)
      local answer = one(('{ ask: %s, with: { model: llama-3.1-8b, system: h100-sxm, %s } }'):format(case[1], case[2]))
      for _, figure in ipairs(case[4]) do assert.equal(wanted[figure], answer[figure], case[1] .. " " .. figure) end
    end
  end)

  -- docs/stability.md lists the names.
  it("gives a figure one name, and deprecated ones as copies", function()
    local trained = one('{"ask": "train", "with": ' .. GPT2 .. "}")
    assert.near(64 / trained.time, trained.sequences_per_second, 1e-9)
    assert.near(64 * 1024 / trained.time / 8, trained.tokens_per_second_per_gpu, 1e-6)
    assert.equal(trained.sequences_per_second, trained.throughput)
    local with <const> = { model = "gpt2", system = "h100-sxm", load = { rate = 2 }, prompt = 300, output = 20,
      count = 1024 }
    local served = tperf.serve(with)
    assert.equal(served.tokens_per_second / served.gpus, served.tokens_per_second_per_gpu)
    for _, of in ipairs { served, served.whole } do assert.equal(of.tokens_per_second, of.throughput) end
    assert.equal(served.tokens_per_second_per_gpu, served.throughput_per_gpu)
    with.load, with.count, with.pareto, with.gpus = nil, 100, true, 1
    with.max_num_seqs, with.max_num_batched_tokens = 2, 4096
    for _, point in ipairs(tperf.search_serving(with).pareto) do
      assert.same({ 1 / point.served.tpot.mean, point.served.tokens_per_second },
        { point.tokens_per_second_per_user, point.tokens_per_second_per_gpu })
      assert.same({ point.tokens_per_second_per_user, point.tokens_per_second_per_gpu },
        { point.per_user, point.per_gpu })
    end
  end)

  it("gives columns of CSV the names of fields, and deprecated ones as copies", function()
    local function row(words)
      local names, values = program.shell(program.quote(program.absolute()) .. " " .. words .. " --csv").out
        :match "^([^\n]+)\n([^\n]+)"
      local of, list = {}, {}
      for value in (values:gsub('"[^"]*"', "") .. ","):gmatch "([^,]*)," do list[#list + 1] = value end
      for name in (names .. ","):gmatch "([^,]*)," do of[name] = table.remove(list, 1) end
      return of
    end
    local trained = row "train gpt2 -s h100-sxm -g 8 -b 64"
    assert.truthy(trained.tokens_per_second_per_gpu)
    assert.equal(trained.tokens_per_second_per_gpu, trained["tokens/s/GPU"])
    assert.near(tonumber(trained.model_flops_rate) / 1e12, tonumber(trained["TFLOP/s/GPU"]), 1e-9)
    local served = row "serve gpt2 -s h100-sxm --rate 2 --prompt 300 --output mean=20 --count 1024"
    for name, older in pairs { ["ttft.mean"] = "ttft_mean", ["ttft.margin.mean"] = "ttft_mean_margin",
      tokens_per_second = "throughput", tokens_per_second_per_gpu = "throughput_per_gpu",
      ["whole.tokens_per_second"] = "whole_throughput" } do
      assert.truthy(served[name], name)
      assert.equal(served[name], served[older], name)
    end
  end)

  it("gives rows, chosen figures and the id of a question", function()
    local found = tperf.search { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64, top = 2 }
    local answer = one('{"ask": "search", "id": "x1", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8, '
      .. '"global_batch": 64, "top": 2}, "fields": ["time", "memory.total", "candidates"]}')
    local rows = {}
    for i, c in ipairs(found) do rows[i] = { time = c.time, ["memory.total"] = c.memory.total } end
    assert.same({ ask = "search", id = "x1", candidates = found.candidates, schema = 1, version = tperf.version,
      rows = rows }, answer)
  end)

  it("says what it was told, what it assumed, and which data it used", function()
    local answer = one('{"ask": "train", "with": ' .. GPT2 .. "}")
    assert.same({ "global_batch", "gpus", "model", "system" }, answer.understood.read)
    assert.equal("adam", answer.understood.assumed.optimizer)
    assert.is_nil(answer.understood.assumed.gpus)
    assert.same({}, answer.understood.ignored)
    assert.equal("gpt2", answer.model)
    assert.equal("h100-sxm", answer.system)
    assert.equal(64, #answer.sha256.model)
    local other = one('{"ask": "train", "with": ' .. GPT2:gsub("h100%-sxm", "a100-sxm-80gb") .. "}")
    assert.equal(answer.sha256.model, other.sha256.model)
    assert.are_not.equal(answer.sha256.system, other.sha256.system)
  end)

  it("says what has no effect, and what became of the fields of a model's file", function()
    local found = one('{"ask": "search", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8, '
      .. '"global_batch": 64, "top": 1, "threads": 1}}').understood
    assert.same({ "threads" }, { found.ignored[1].name, found.ignored[2] })
    assert.is_nil(table.concat(found.read, " "):find "threads")
    local ask <const> = '{"ask": "infer", "with": {"model": "%s", "system": "h100-sxm", "prompt": 9, "generate": 9}}\n'
    local file, named, seeing = table.unpack((asked((ask .. ask .. ask):format(
      lfs.currentdir() .. "/spec/data/hf/apertus-8b.json", "unsloth/Qwen3-32B-GGUF:Q4_K_M", "gemma-3-12b"))))
    local why = {}
    for _, each in ipairs(file.understood.ignored) do why[each.name] = each.why end
    assert.equal("it is a constant of a norm", why["model.rms_norm_eps"])
    assert.matches(" model.hidden_size ", table.concat(file.understood.read, " "), 1, true)
    assert.is_nil(file.understood.assumed["model.weights"])
    assert.equal("qwen3-32b", named.understood.assumed.model)
    assert.equal("q4_k_m", named.understood.assumed["model.weights"])
    assert.same({}, named.understood.ignored)
    assert.equal("left out", seeing.understood.assumed["model.towers.vision"])
    assert.is_nil(named.understood.assumed["model.towers.vision"])
    local step = one('{"ask": "rl", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8, "prompt": 100, '
      .. '"prompts": 8, "response": {"max": 200}}}').understood
    assert.equal(0.8, step.assumed["response.cv"])
    assert.same({}, step.ignored)
  end)

  it("draws rows, and names the argument that is wrong", function()
    local ask <const> = '{"ask": "plot", "with": {"rows": [{"n": 1, "time": 2}, {"n": 2, "time": 1}], "x": "n", '
      .. '"y": "%s"}}\n'
    local drawn, wrong = table.unpack((asked(ask:format "time" .. ask:format "tiem")))
    local rows <const> = { { n = 1, time = 2 }, { n = 2, time = 1 } }
    assert.equal(tperf.plot.lines({ rows = rows, x = "n", y = "time" }):svg(), drawn.svg)
    assert.same({ "y", "tiem", "use 'time'" }, { wrong.error.field, wrong.error.value, wrong.error.remedy })
  end)

  it("answers a stream in its order, and questions of several lines", function()
    local lines = {}
    for i = 1, 20 do lines[i] = ('{"ask": "train", "id": %d, "with": %s, "fields": ["time"]}'):format(i, GPT2) end
    lines[#lines + 1] = '{"ask": "train",\n\n "id": 21, "with": { "model": "gpt2{[", \n"system": "h100-sxm",'
      .. ' "gpus": 8, "global_batch": 8 } }'
    local answers = asked(table.concat(lines, "\n"))
    assert.equal(21, #answers)
    for i = 1, 21 do assert.equal(i, answers[i].id) end
    assert.equal("unknown_name", answers[21].error.code)
  end)

  it("names field, value and remedy of an error", function()
    local cases <const> = {
      { '{"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm", "gpu": 8}}', "unknown_field", "gpu", 8,
        "'gpus'" },
      { '{"ask": "train", "with": {"system": "h100-sxm", "global_batch": 8}}', "missing", "model", nil, "'model'" },
      { '{"ask": "train", "with": {"model": "gpt9", "system": "h100-sxm", "gpus": 8, "global_batch": 8}}',
        "unknown_name", "model", "gpt9", "gpt2" },
      { '{"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8, "global_batch": 8, "tp": 0}}',
        "invalid", "tp", 0, "an integer" },
      { '{"ask": "train", "with": {"model": "gpt2", "system": "h100-sxm", "gpus": 8, "global_batch": 8, "tp": 3}}',
        "infeasible", "gpus", 8, "try 2 or 4" },
      { '{"ask": "trian"}', "invalid", "ask", nil, "'train'" },
      { '{"ask": "train", "wiht": {}}', "unknown_field", "wiht", nil, "'with'" },
      { "[1, 2", "unreadable", nil, nil, '"ask"' }, { "5", "unreadable", nil, nil, '"ask"' },
      { "null", "unreadable", nil, nil, '"ask"' },
      { '{"ask": "train", "with": {"model": "gpt2", "a b~": 8}}', "unknown_field", "a b~", 8, "tperf schema train" },
    }
    for _, case in ipairs(cases) do
      local answer, result = one(case[1])
      local e = answer.error
      assert.equal(1, result.code)
      assert.same({ case[2], case[3], case[4] }, { e.code, e.field, e.value }, case[1] .. ": " .. e.message)
      assert.truthy(e.remedy:find(case[5], 1, true), e.remedy)
    end
    local warned = one('{"ask": "train", "with": ' .. GPT2 .. ', "fields": ["tiem"]}')
    assert.same({ "no figure 'tiem' (did you mean 'time'?)" }, warned.warnings)
    local _, result = asked('{"ask": "train", "id": [null, "a"], "with": ' .. GPT2 .. ', "fields": ["time"]}')
    assert.truthy(result.out:find('"id":[null,"a"]', 1, true), result.out .. result.err)
  end)

  it("wants a question", function()
    local _, result = asked("\n")
    assert.equal(2, result.code)
    assert.truthy(result.err:find("no question", 1, true))
  end)

  it("answers spoilt questions with errors", function()
    local ask = require "tperf.door.ask"
    math.randomseed(7)
    local whole = '{"ask": "train", "with": ' .. GPT2 .. ', "fields": ["time", "memory.total"]}'
    for _ = 1, 2000 do
      local at, text = math.random(#whole), whole
      local kind = math.random(3)
      if kind == 1 then text = whole:sub(1, at - 1) .. string.char(math.random(32, 126)) .. whole:sub(at + 1) end
      if kind == 2 then text = whole:sub(1, at - 1) .. whole:sub(at + math.random(8)) end
      if kind == 3 then text = whole:sub(1, at) .. whole:sub(math.random(#whole)) end
      local question, answer = ask.read(text)
      answer = answer or ask.answer(question)
      if answer.error then assert.truthy(#answer.error.message > 0 and answer.error.code, text) end
      assert.truthy(core.yaml(ask.line(answer), "answer"), text)
    end
  end)
end)

describe("tperf schema", function()
  it("prints what tperf.schema gives", function()
    for _, name in ipairs { "train", "search", "infer", "serve" } do
      local printed = assert(core.yaml(program.shell("tperf schema " .. name).out, "schema"))
      local wanted = tperf.schema(name)
      assert.same(wanted.required, printed.required)
      for argument in pairs(wanted.properties) do assert.truthy(printed.properties[argument], argument) end
    end
    assert.equal(2, program.shell("tperf schema trian").code)
  end)
end)

describe("tperf mcp", function()
  -- A session as a client has it: what it sends, and what each reply must hold.
  it("speaks the protocol to a client", function()
    local sent = {}
    local function send(id, method, params)
      sent[#sent + 1] = ('{"jsonrpc": "2.0", %s"method": "%s", "params": %s}'):format(
        id and ('"id": %s, '):format(id) or "", method, params or "{}")
    end
    send("0", "initialize", '{"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "spec"}}')
    send(nil, "notifications/initialized")
    send("1", "tools/list")
    send('"two"', "tools/call", '{"name": "train", "arguments": ' .. GPT2:gsub("}", ', "fields": ["time"]}') .. "}")
    send("3", "tools/call", '{"name": "train", "arguments": {"model": "gpt2", "global_batch": 8}}')
    send("4", "resources/list")
    send("5", "resources/read", '{"uri": "tperf://systems"}')
    send("6", "ping")
    send("7", "nothing")
    send("8", "tools/call", '{"name": "trian"}')
    sent[#sent + 1] = "nonsense {"
    send("9", "resources/read", '{"uri": "file:///etc/passwd"}')
    local replies = asked(table.concat(sent, "\n"), "mcp")
    assert.equal(11, #replies)
    for _, reply in ipairs(replies) do assert.equal("2.0", reply.jsonrpc) end
    local result = replies[1].result
    assert.equal("2025-03-26", result.protocolVersion)
    assert.equal("tperf", result.serverInfo.name)
    local tools = replies[2].result.tools
    assert.same({ "infer", "rl", "search", "serve", "train" },
      { tools[1].name, tools[2].name, tools[3].name, tools[4].name, tools[5].name })
    assert.equal("object", tools[5].inputSchema.type)
    local wanted = tperf.train { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64 }
    assert.equal("two", replies[3].id)
    assert.equal(wanted.time, replies[3].result.structuredContent.time)
    assert.equal(wanted.time, core.yaml(replies[3].result.content[1].text, "text").time)
    assert.is_false(replies[3].result.isError)
    assert.is_true(replies[4].result.isError)
    assert.equal("missing", replies[4].result.structuredContent.error.code)
    assert.equal("tperf://models", replies[5].result.resources[1].uri)
    assert.truthy(replies[6].result.contents[1].text:find("h100-sxm", 1, true))
    assert.same({ jsonrpc = "2.0", id = 6, result = {} }, replies[7])
    assert.equal(-32601, replies[8].error.code)
    assert.equal(-32602, replies[9].error.code)
    assert.equal(-32700, replies[10].error.code)
    assert.equal(-32602, replies[11].error.code)
    local uris = {}
    for _, resource in ipairs(replies[5].result.resources) do uris[resource.uri] = true end
    assert.truthy(uris["tperf://guide"] and uris["tperf://schema/train"])
  end)

  it("ends calls at the limits of time and memory, and goes on", function()
    local function call(name, arguments)
      return ('{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "%s", "arguments": %s}}'):format(
        name, arguments)
    end
    local LOAD <const> = '{"model": "gpt2", "system": "h100-sxm", "prompt": 100, "output": 1000, "count": %d, "load": '
      .. '{"rate": 5}}'
    local short = call("train", GPT2:gsub("}", ', "fields": ["time"]}'))
    local replies = asked(call("serve", LOAD:format(3000000)) .. "\n" .. short, "mcp --seconds 1")
    assert.equal("time_limit", replies[1].result.structuredContent.error.code)
    assert.is_false(replies[2].result.isError)
    replies = asked(call("serve", LOAD:format(30000000)) .. "\n" .. short, "mcp --max-memory 64MiB")
    local problem = replies[1].result.structuredContent.error
    assert.equal("out_of_memory", problem.code, problem.message)
    assert.is_false(replies[2].result.isError)
    local _, result = asked("", "mcp --seconds 0")
    assert.equal(2, result.code)
  end)
end)
