-- The program as a user meets it: standard output, standard error and exit status of real runs.
local sampled = require "cases"
local program = require "program"

local shell = program.ask -- in this process where nothing shows the difference

local function usage(message, command)
  local result = shell(command)
  assert.equal("", result.out)
  assert.truthy(result.err:find("tperf: " .. message, 1, true), ("no %q in %q"):format(message, result.err))
  assert.equal(2, result.code)
end

local function says(expected, command)
  local result = program.shell(command)
  assert.equal("", result.err)
  assert.equal(expected, result.out)
  assert.equal(0, result.code)
end

-- The names of all commands, from the overview a user sees.
local function command_names()
  local names = {}
  for name in shell("tperf").out:gmatch "\n  ([%w_]+) +[^\n]+" do names[#names + 1] = name end
  table.sort(names)
  assert.truthy(#names >= 9)
  return names
end

describe("tperf", function()
  it("without arguments lists the commands", function()
    local result = shell "tperf"
    assert.equal(0, result.code)
    assert.truthy(result.out:find "^usage: tperf COMMAND")
    assert.equal(result.out, shell("tperf help").out)
    assert.equal(result.out, shell("tperf --help").out)
    assert.equal(result.out, shell("tperf -h").out)
  end)

  it("prints its version", function()
    local version = program.slurp("VERSION"):match "%S+"
    local build = require "tperf.core".sources
    says(("tperf %s (build %s)\n"):format(version, build), "tperf version")
    says(("tperf %s (build %s)\n"):format(version, build), "tperf --version")
  end)

  it("refuses unknown commands", function()
    usage("unknown command 'serach' (did you mean 'search'?)", "tperf serach")
    usage("unknown command '--nope'", "tperf --nope")
    usage("unknown command 'runn' (did you mean 'run'?)", "tperf help runn")
    usage("unknown command ''", "tperf ''")
  end)

  it("prints a help for every command, with all its options", function()
    for i, name in ipairs(command_names()) do
      local result = shell(("tperf help %s all"):format(name))
      assert.equal(0, result.code)
      assert.equal("usage: tperf " .. name .. " [OPTIONS]", result.out:match "^usage: tperf [%w_]+ %[OPTIONS%]")
      if i % sampled(4, 1) == 0 then assert.equal(result.out, shell(("tperf %s --help all"):format(name)).out) end
      assert.truthy(result.out:find("--verbose", 1, true))
    end
  end)
end)

describe("options", function()
  it("are refused when unknown, with the nearest one", function()
    usage("unknown option '--trsut' (did you mean '--trust'?)", "tperf run --trsut x.lua")
    usage("unknown option '--vpp' (did you mean '--virtual-stages'?)", "tperf search gpt2 --vpp 2") -- as tables call it
    usage("unknown option '-z'", "tperf run -z x.lua")
    usage("unknown option '-z'", "tperf run -tz x.lua")
  end)

  it("are refused without a value, or with a wrong one", function()
    usage("--max-memory needs a value: SIZE", "tperf run --max-memory")
    usage("-o needs a value: DIR", "tperf run -o")
    usage("--trust takes no value", "tperf run --trust=yes x.lua")
    usage("--max-memory: ", "tperf run --max-memory 3parsecs x.lua")
    usage("--max-memory: ", "tperf run --max-memory=-1 x.lua")
    usage("--max-instructions: an integer is needed, got '1.5'", "tperf run --max-instructions 1.5 x.lua")
    usage("--max-instructions: an integer is needed, got 'nan'", "tperf run --max-instructions nan x.lua")
    usage("--max-instructions: an integer is needed, got 'many'", "tperf run --max-instructions=many x.lua")
    usage("--max-instructions: a positive number is needed", "tperf run --max-instructions=-5 x.lua")
    usage("--out: a value is needed", "tperf run --out= x.lua")
    usage("--gpus: an integer is needed, got '1e99'", "tperf train gpt3-175b -g 1e99")
    usage("--gpus: integers such as 4,8 or 4..64 are needed, got '1e99'", "tperf search gpt3-175b -g 1e99")
  end)

  it("take one value, except lists, which accumulate", function()
    assert.equal(0, shell("tperf train gpt2 -s h100-sxm -b 8 --tp 2 --tp=2").code)
    local question = "tperf search gpt2 -s h100-sxm -b 8 --csv --all -g 8 "
    assert.equal(shell(question .. "--tp 2,4 --recompute none,full").out,
      shell(question .. "--tp 2 --tp 4 --recompute none --recompute full").out)
    local both = shell("tperf schedule 1f1b gpipe -d 4 -m 8").out
    assert.equal(both, shell("tperf schedule 1f1b,gpipe,1f1b -d 4 -m 8").out)
  end)

  it("are named in messages instead of the library's fields", function()
    for command, message in pairs {
      ["search gpt2 -s h100-sxm -g 8 -b 0"] = "tperf: --batch must be an integer from 1",
      ["search gpt2 -s h100-sxm -g 8 -b 8 --micro-batch 4294967296"] = "tperf: --micro-batch must be an integer",
      ["train gpt2 -s h100-sxm -b 8 --recompute ful"] = "--recompute must be one of none, selective, full, got \"ful\" "
        .. "(did you mean 'full'?)",
      ["train gpt2 -s h100-sxm -b 8 --panels 2"] = "tperf: --panels applies to strategy summa, not to tensor",
      ["train gpt2 -s h100-sxm -b 8 -g 12 --tp 4 --pp 2"] =
        "tperf: tp x pp = 8 does not divide --gpus of 12; try 6 or 12",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --launch vllm"] =
        'tperf: "vllm" serves; known: deepspeed, megatron, megatron-bridge, nanotron, torchtitan',
      ["train gpt2 -s h100-sxm -b 8 --fast tp=8"] = "tperf: fast.tp = 8 does not divide tp of 1; try 1",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --fast xp=8"] = "tperf: unknown field 'fast.xp' (did you mean 'dp'",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --rules defalt"] = "unknown rules \"defalt\" (did you mean 'default'?)",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --schedule zb1"] = "tperf: unknown schedule \"zb1\" (did you mean 'zb1p'",
      ["search gpt2 -s h100-sxm -b 8 -g 1,9999999999"] = "tperf: --gpus must be an integer from 1 to",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --peft lora --lora-targets q_prj"] = "tperf: --lora-targets must be one of",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --peft lora --lora-dropout 2"] = "tperf: --lora-dropout must be a number",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --freeze layer"] = "tperf: --freeze has \"layer\", which the model",
      ["search gpt2 -s h100-sxm -b 8 -g 8 --tokens 1e9 --gpu-hour -1"] = "tperf: --gpu-hour must be a number from 0",
      ["params h100-sxm"] = 'tperf: unknown model "h100-sxm", which is a system',
      ["search spec -s h100-sxm -g 8 -b 8"] = "files of models end in .yaml or .json, and --from reads launch files",
      ["search gpt2 -s h100-sxm,b200-sxm -g 8 -b 8"] = 'unknown system "h100-sxm,b200-sxm"; ask for one at a time',
      ["search llama-3.1-405b -s h100-sxm -g 8 -b 8 --zero 3 --recompute full"] = " GB); "
        .. "`tperf memory --fewest` finds the fewest GPUs that hold it, --all shows what each takes",
      ["show spec/run.lua"] = "tperf: spec/run.lua:",
      ["validate spec/data/measured/steps.csv -s nosuch"] = 'tperf: unknown system "nosuch"',
      ["validate ."] = "tperf: .: ",
      ["calibrate h100-sxm ."] = "tperf: .: ",
      ["infer gpt2 -s h100-sxm -p 8 -n 8 -g 4 --tp 5"] = "that divide 4 GPUs; tp = 5: try 4",
      ["infer gpt2 -s h100-sxm -p 8 -n 8 -g 4 -b 1000000"] = "no --batch that was asked for fits: the largest",
    } do
      local result = shell("tperf " .. command)
      assert.truthy(result.err:find(message, 1, true), result.err)
      assert.equal(1, result.code)
    end
    assert.truthy(shell("tperf search gpt2 -s h100-sxm -g 8 -b 0 --verbose").err:find("'global_batch' must", 1, true))
  end)

  it("are written in all the usual ways", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", "print(...)")
    for _, options in ipairs { "-t", "--trust", "-o .", "-o.", "-to.", "--out=.", "--out .", "--" } do
      local result = shell(("tperf run %s s.lua -t --out"):format(options), folder)
      assert.equal("-t\t--out\n", result.out .. result.err)
    end
    program.write(folder .. "/-dash.lua", "print 'dash'")
    assert.equal("dash\n", shell("tperf run -- -dash.lua", folder).out)
    program.remove(folder)
  end)
end)

describe("wrong usage", function()
  local cases = {
    ["tperf run"] = "SCRIPT is missing",
    ["tperf run -t --out o x.lua"] = "--out is the sandbox's folder",
    ["tperf version now"] = "version takes no arguments",
    ["tperf repl x"] = "repl takes no arguments",
    ["tperf list"] = "say what to list: models, systems",
    ["tperf list model"] = "unknown subject 'model' (did you mean 'models'?)",
    ["tperf list models systems"] = "list takes one subject",
    ["tperf show"] = "NAME is missing",
    ["tperf show a b"] = "show takes one name",
    ["tperf collective"] = "KIND is missing",
    ["tperf collective send"] = "--system, --bytes and --gpus are missing",
    ["tperf collective send all_reduce"] = "collective takes one KIND",
    ["tperf search"] = "MODEL is missing",
    ["tperf search a b"] = "one MODEL is needed, got 'b' too",
    ["tperf search a -s b"] = "--gpus and --batch are missing",
    ["tperf train a -s b"] = "--batch is missing",
    ["tperf list models --json --csv"] = "--json and --csv exclude each other",
    ["tperf list models --jso"] = "unknown option '--jso' (did you mean '--json'?)",
    ["tperf compat"] = "the tool is missing: llm-analysis",
    ["tperf params ''"] = "an argument is empty",
    ["tperf train gpt2 --tp 2 --tp 4"] = "--tp is given twice, the second time as '4'; it takes one value",
    ["tperf search gpt2 --reserve 10%"] = "--reserve: a number is needed, got '10%'; write 0.1",
    ["tperf infer gpt2 -p 2K"] = "--prompt: an integer is needed, got '2K'; write 2048, or 2k for 2000",
    ["tperf run scripts/cost.lua --tokens 15X"] = "--tokens: a number is needed, got '15X'",
    ["tperf run --max-memory 4 GiB x.lua"] = "--max-memory: at least 1 MiB is needed, got 4.000 B (no blank",
    ["tperf schedule 1f1b -d 4 -m 8 --stages 3"] = "--stages means nothing to 1f1b",
    ["tperf schedule 1f1b,gpipe -d 4 -m 8 --group-size 3"] = "--group-size means nothing to 1f1b, gpipe",
    ["tperf infer gpt2 -s h100-sxm -p 8 -n 8 -b 1,2 --ops"] = "--ops takes one value of --batch",
  }
  for command, message in pairs(cases) do
    it(command, function() usage(message, command) end)
  end
end)

describe("errors", function()
  local function with_script(text, command)
    local folder = program.folder()
    program.write(folder .. "/s.lua", text)
    local result = shell(command, folder)
    program.remove(folder)
    return result
  end

  it("are one line with the script's line; --verbose adds a traceback", function()
    local text = "local function f() error 'broken' end\nf()\n"
    local result = with_script(text, "tperf run s.lua")
    assert.same({ out = "", err = "tperf: s.lua:1: broken\n", code = 1 }, result)
    result = with_script(text, "tperf run --verbose s.lua")
    assert.truthy(result.err:find "^tperf: s.lua:1: broken\nstack traceback:\n.*s.lua:2: in ")
    assert.equal(1, result.code)
  end)

  it("name the line of a mistake in the script's syntax", function()
    local result = with_script("local a =\n\nlocal b = 1\n", "tperf run s.lua")
    assert.equal("tperf: s.lua:3: unexpected symbol near 'local'\n", result.err)
    assert.equal(1, result.code)
  end)

  it("point at the script if it misuses the library", function()
    local result = with_script("local tperf = require 'tperf'\n\ntperf.system(7)\n", "tperf run s.lua")
    assert.equal("tperf: s.lua:3: tperf.system needs a name, a path or a table, got 7\n", result.err)
  end)

  it("report a missing script", function()
    local result = shell "tperf run no-such.lua"
    assert.equal("tperf: cannot open no-such.lua: No such file or directory\n", result.err)
    assert.equal(1, result.code)
  end)

  it("report output that could not be written", function()
    local result = shell "tperf help > /dev/full"
    assert.equal("tperf: cannot write to standard output: No space left on device\n", result.err)
    assert.equal(1, result.code)
    result = with_script("print 'x' os.exit(0)", "tperf run s.lua > /dev/full")
    assert.equal(1, result.code)
  end)

  it("report a reader that has gone", function()
    local folder = program.folder()
    local result = program.shell([[
      mkfifo pipe; trap '' PIPE
      (exec 3< pipe) & exec 4> pipe; wait
      tperf help --man >&4]], folder)
    program.remove(folder)
    assert.truthy(result.err:find "^tperf: cannot write to standard output[^\n]*\n$", result.err)
    assert.equal(1, result.code)
  end)
end)

describe("Ctrl-C", function()
  -- Sends signals to a script that has printed "ready".
  local function interrupt(text, options)
    local folder = program.folder()
    program.write(folder .. "/s.lua", "io.stdout:setvbuf 'no'; " .. text)
    local result = program.interrupted(("run %s s.lua > log"):format(options or ""), "grep -q ready log", folder)
    result.out = program.slurp(folder .. "/log")
    program.remove(folder)
    return result
  end

  -- A shell's background jobs ignore SIGINT unless the program asks for it, as tperf does.
  it("ends a script, whatever it is doing", function()
    for _, text in ipairs {
      "while true do end",
      "while true do pcall(function() while true do end end) end",
      "coroutine.wrap(function() while true do end end)()",
      "(('a'):rep(60)):find(('a*'):rep(30) .. 'b')",
    } do
      local result = interrupt("io.write 'ready\\n'; " .. text)
      assert.equal("tperf: s.lua:1: interrupted\n", result.err)
      assert.equal(1, result.code)
    end
  end)

  -- One long call in C has no line of its own.
  it("ends a script that does not check for signals", function()
    local question = 'model = "llama-2-7b", system = "h100-sxm", global_batch = 64, gpus = 64'
    local loop = '= function() io.write "ready\\n" while true do end end }'
    local scripts = {
      { 'require "tperf".search { ' .. question .. ", where " .. loop },
      { 'local t, s = {}, ("a"):rep(2e7) for i = 1, 1e5 do t[i] = s end io.write "ready\\n" table.sort(t)', "--trust" },
      { 'local s = ("a"):rep(2e7) io.write "ready\\n" while true do s:upper() end' },
      { 'require "tperf".sweep { x = require "tperf".vary { 1 }, run ' .. loop },
      { 'table.sort({ 3, 1, 2 }, function() io.write "ready\\n" while true do end end)' },
      { 'coroutine.wrap(function() local s = ("a"):rep(2e7) io.write "ready\\n" while s == s .. "" do end end)()',
        "--trust" },
    }
    for i = 1, sampled(2, #scripts) do
      local text, options = table.unpack(scripts[i])
      local result = interrupt(text, options or "")
      assert.truthy(result.err:find "^tperf: [^\n]*interrupted\n$", text .. "\n" .. result.err)
      assert.equal(1, result.code)
    end
  end)

  it("keeps what was printed before, whatever ends the script", function()
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      print "so far"
      io.stderr:write "ready\n"
      coroutine.wrap(function() local s = ("a"):rep(1e8) while s == s .. "" do end end)()]])
    program.interrupted("run --trust s.lua > out 2> log", "grep -q ready log", folder)
    local printed = program.slurp(folder .. "/out")
    program.remove(folder)
    assert.equal("so far\n", printed)
  end)

  it("ends a search with the best found so far, and the script goes on", function()
    for _, options in ipairs { "", "--trust" } do
      local result = interrupt([[ local told
        local found = require "tperf".search { model = "subramanian2024/gpt3_1T", system = "subramanian2024/A100",
          gpus = 16384, global_batch = 4096, threads = 1, keep = "all", prune = false, placement = "best",
          where = function()
            if not told then io.write "ready\n" told = true end
            for _ = 1, 200000 do end -- so that it lasts, but answers within the grace period
            return false
          end }
        print(found.complete, #found)]], options)
      assert.equal("", result.err)
      assert.equal("ready\nfalse\t0\n", result.out)
      assert.equal(0, result.code)
    end
  end)

  it("ends a trusted script", function()
    -- the thread sanitizer delivers signals at library calls only
    local result = interrupt("io.write 'ready\\n' while true do io.write '' end", "--trust")
    assert.equal("tperf: s.lua:1: interrupted\n", result.err)
    assert.equal(1, result.code)
  end)
end)

describe("tperf list and show", function()
  it("find the data files", function()
    local result = shell "tperf list models"
    assert.equal(0, result.code)
    assert.truthy(("\n" .. result.out):find("\nsubramanian2024/gpt3_1T ", 1, true))
    assert.truthy(shell("tperf list systems").out:find("\nsubramanian2024/A100 ", 1, true))
    local names = { "name" }
    for name in result.out:gmatch "([^\n]-) +[^\n]*\n" do names[#names + 1] = name end
    local csv = shell("tperf list models --csv").out
    assert.equal(table.concat(names, "\n") .. "\n", (csv:gsub(",[^\n]*", "")))
    assert.truthy(shell("tperf list models --json").out:find '"name": "subramanian2024/gpt3"')
  end)

  it("print a file verbatim, and as checked values", function()
    local result = shell "tperf show subramanian2024/A100"
    assert.equal(program.slurp "systems/subramanian2024/A100.yaml", result.out)
    assert.truthy(result.err:find("systems/subramanian2024/A100.yaml:", 1, true))
    result = shell "tperf show --json subramanian2024/A100"
    assert.equal("", result.err)
    assert.truthy(result.out:find '^{.*"name".*}\n$')
    -- A path may be a model's or a system's: it is printed once, and checked as what it describes.
    result = shell "tperf show systems/h100-sxm.yaml"
    assert.equal(program.slurp "systems/h100-sxm.yaml", result.out)
    assert.truthy(shell("tperf show --json ./systems/h100-sxm.yaml").out:find '"accelerator": {')
    assert.truthy(shell("tperf show --json ./models/gpt2.yaml").out:find '"layers": 12')
  end)

  it("suggest the nearest name", function()
    local result = shell "tperf show subramanian2024/A10"
    assert.equal("tperf: unknown model, system or software 'subramanian2024/A10' "
      .. "(did you mean 'subramanian2024/A100'?)\n", result.err)
    assert.equal(1, result.code)
  end)
end)

describe("tperf search, train and collective", function()
  local QUESTION = "subramanian2024/gpt3 -s subramanian2024/A100 -b 1024"

  local function json(command)
    local result = shell(command)
    assert.equal(0, result.code, result.err)
    return (require "tperf.core".yaml(result.out, "json"))
  end

  it("find a configuration, and explain the same one", function()
    local found = json("tperf search " .. QUESTION .. " -g 512 --top 3 --json")
    assert.equal(3, #found)
    local best = found[1]
    assert.equal(512, best.tp * best.pp * best.dp)
    local same = json(("tperf train %s --tp %d --pp %d --dp %d -m %d --schedule %s --virtual-stages %d --recompute %s "
      .. "--json"):format(QUESTION, best.tp, best.pp, best.dp, best.micro_batch, best.schedule, best.virtual_stages,
      best.recompute))[1]
    assert.equal(best.time, same.time)
    assert.same(best.memory, same.memory)
  end)

  it("print the same bytes for any number of threads", function()
    local command = "tperf search " .. QUESTION
      .. " -g 8 --strategy context --recompute none --schedule 1f1b --placement best --all --csv -j "
    local one = shell(command .. "1")
    assert.equal(0, one.code)
    assert.truthy(select(2, one.out:gsub("\n", "")) > 400)
    assert.same(one, shell(command .. "8"))
  end)

  it("print text, with notes on standard error", function()
    local result = shell("tperf search " .. QUESTION .. " -g 64 -k 2 --strategy tensor,context")
    assert.equal(13, select(2, result.out:gsub("\n", "")))
    assert.truthy(result.out:find "\nthe first m?a?y? ?n?o?t? ?fits?: 90 %% of such runs hold [%d.]+ %a+ to ")
    assert.truthy(result.out:find "\nplaced in the stack's order of ranks: tp%-")
    assert.truthy(result.out:find "\n%(%-%-wide also shows tokens/s/GPU, ")
    assert.truthy(result.out:find "\nsoftware megatron%-core%-2026: median error [%d.]+ %% on runs that its fit did")
    assert.truthy(result.out:find "\nwithout waste %(%-%-software none%) the first takes [%d.]+ %a+\n")
    assert.truthy(result.out:find "\nnone fits with that confidence\n$")
    assert.truthy(result.err:find "^%d+ candidates, %d+ feasible\n")
    local wide = shell("tperf search " .. QUESTION .. " -g 64 -k 1 --software none --wide").out
    assert.equal(9, select(2, wide:gsub("\n", "")))
    assert.truthy(wide:find "\nmfu counts as the stack's log does, [%d.]+ TFLOP/s per GPU: .*PaLM counts.*[%d.]+ %%\n$")
    local out = shell("tperf train " .. QUESTION .. " --tp 4 --pp 2 -g 64").out
    for _, text in ipairs { "time of an iteration", "pipeline bubble", "which has 80.00 GB", "optimizer state",
      "\nStages", "\n     1 +%d", "layers dense/", "\nattention qkv +[%d.]+ .s", "After the last layer" } do
      assert.truthy(out:find(text), text)
    end
  end)

  it("take every option of a search as a list, and of a configuration as one value", function()
    local knobs = " --optimizer sgd --gradients bf16 --fast tp=4 --reserve 0.1 --json"
    local rows = json(("tperf search %s%s -g 64,128 -k 2000 --tp 4,8 --pp 2..8 --zero 0,3 --recompute none,full"
      .. " --sequence-parallel yes,no --schedule 1f1b,interleaved_1f1b --virtual-stages 2"):format(QUESTION, knobs))
    local seen = {}
    for _, c in ipairs(rows) do
      assert.equal(4, c.fast.tp)
      for _, name in ipairs { "gpus", "tp", "pp", "zero", "recompute", "sequence_parallel", "schedule" } do
        seen[name .. "=" .. tostring(c[name])] = true
      end
    end
    local values = {}
    for name in pairs(seen) do values[#values + 1] = name end
    table.sort(values)
    assert.equal("gpus=128 gpus=64 pp=2 pp=4 pp=8 recompute=full recompute=none schedule=1f1b "
      .. "schedule=interleaved_1f1b sequence_parallel=false sequence_parallel=true tp=4 tp=8 zero=0 zero=3",
      table.concat(values, " "))
    local best = rows[1]
    local same = json(("tperf train %s%s --tp %d --pp %d --dp %d -m %d --zero %d --recompute %s --schedule %s"
      .. " --virtual-stages %d --sequence-parallel %s"):format(QUESTION, knobs, best.tp, best.pp, best.dp,
      best.micro_batch, best.zero, best.recompute, best.schedule, best.virtual_stages,
      best.sequence_parallel and "yes" or "no"))[1]
    assert.equal(best.time, same.time)
    assert.same(best.memory, same.memory)
    usage("--zero: integers such as", "tperf search x --zero 0..2")
    usage("--fast: NAME=NUMBER is needed, got 'tp'", "tperf search x --fast tp")
    usage("--fast: 'tp' is given twice", "tperf search x --fast tp=1,tp=2")
    usage("--sequence-parallel: yes or no", "tperf search " .. QUESTION .. " -g 8 --sequence-parallel yes,maybe")
  end)

  it("leave out columns with only default values", function()
    local function heading(options)
      return shell("tperf search " .. QUESTION .. " -g 64 -k 3 --schedule 1f1b "
        .. (options:find "--recompute" and "" or "--recompute none ") .. options).out:match "^[^\n]+"
    end
    assert.equal("tp pp dp mbs placement time from to mfu memory", (heading "":gsub(" +", " ")))
    assert.equal("tp pp dp mbs m-batches placement time mfu tokens/s/GPU memory",
      (heading "--software none":gsub(" +", " ")))
    assert.truthy(heading "--recompute full":find " recompute ")
    assert.truthy(heading "-g 64,128":find "^gpus")
    local columns = "^strategy,tp,etp,ep,pp,virtual_stages,schedule,.*feasible,idle,software,model,system,version$"
    assert.truthy(heading "--csv":find(columns))
  end)

  it("give the reason if there is no result", function()
    local result = shell("tperf search " .. QUESTION .. " -g 1")
    assert.equal("", result.out)
    assert.equal(1, result.code)
    assert.truthy(result.err:find("tperf: none of", 1, true))
    assert.truthy(shell("tperf search gpt3 -s subramanian2024/A100 -b 1 -g 1").err:find("unknown model", 1, true))
    assert.truthy(shell("tperf search " .. QUESTION .. " -g 0").err:find(
      "--gpus: integers such as 4,8 or 4..64 are needed, got '0'", 1, true))
  end)

  it("time a collective at several sizes", function()
    local rows = json "tperf collective send -s subramanian2024/A100 -n 1MB,2MB,4MB -g 2 --fast 2 --json"
    assert.equal(3, #rows)
    -- a send costs latency + bytes / bandwidth: equal steps in bytes, equal steps in time
    assert.is_near(2 * (rows[2].time - rows[1].time), rows[3].time - rows[2].time, 1e-15)
    assert.equal(1e6 / rows[1].time, rows[1].bandwidth)
    assert.equal(rows[1].bandwidth, rows[1].bus_bandwidth)
    rows = json "tperf collective all_reduce -s subramanian2024/A100 -n 1MiB..5MiB,1GB -g 4 --json"
    assert.same({ 2 ^ 20, 2 ^ 21, 2 ^ 22, 1e9 }, { rows[1].bytes, rows[2].bytes, rows[3].bytes, rows[4].bytes })
    assert.is_near(1.5, rows[4].bus_bandwidth / rows[4].bandwidth, 1e-12) -- nccl-tests: 2 (n - 1) / n
    usage("--bytes: sizes such as", "tperf collective all_reduce -s subramanian2024/A100 -n 4MiB..1MiB -g 4")
    usage("--bytes: ", "tperf collective send -s subramanian2024/A100 -n 1furlong -g 2")
    for text, one in pairs { ["1,024"] = "1024", ["1,048,576"] = "1048576", ["8,128KiB"] = "8128KiB" } do
      usage(("--bytes: '%s' may be one number; write %s"):format(text, one),
        ("tperf collective send -s subramanian2024/A100 -n %s -g 2"):format(text))
    end
    assert.equal(2048, json("tperf collective send -s subramanian2024/A100 -n '1024, 2048' -g 2 --json")[2].bytes)
    rows = json "tperf collective all_reduce,all_gather -s h100-sxm -n 1K..4K,1G -g 8..32 --json"
    assert.equal(2 * 3 * 4, #rows)
    assert.same({ "all_gather", 32, 2 ^ 30 }, { rows[24].kind, rows[24].gpus, rows[24].bytes })
    assert.equal(nil, rows[1].tiers)
    -- 64 GPUs, 8 to a domain: 7/64 of what each sends stays there, 56/64 leaves through its NIC of 50 GB/s
    rows = json "tperf collective all_to_all -s h100-sxm -n 1GB -g 64 --tiers --json"
    assert.same({ "fast", 7 / 64 * 1e9, "slow", 56 / 64 * 1e9 }, { rows[1].tiers[1].name, rows[1].tiers[1].bytes,
      rows[1].tiers[2].name, rows[1].tiers[2].bytes })
    assert.is_near(56 / 64 * 1e9 / (50e9 * 0.95), rows[1].tiers[2].time, 1e-12)
    local text = shell("tperf collective all_to_all -s h100-sxm -n 1GB -g 64 --tiers").out
    assert.truthy(text:find "slow +875.0 MB +18.42 ms" and text:find "start, ramp", text)
    local picture = os.tmpname() .. ".svg"
    local plotted = "tperf collective all_reduce,all_gather -s h100-sxm -n 1K..1M -g 8,64"
    assert.equal(0, shell(plotted .. " --plot " .. picture).code)
    local file = assert(io.open(picture))
    assert.truthy(file:read "a":find("all-gather, 64 GPUs", 1, true))
    file:close()
    os.remove(picture)
    local asked = "tperf collective all_to_all -s h100-sxm -n 1GB -g 64 --json"
    rows = json(asked .. " --set system.network.tiers.slow.degraded=0.5")
    assert.is_near(2, rows[1].time / json(asked)[1].time, 0.1)
    assert.truthy(shell("tperf collective sned -s subramanian2024/A100 -n 1 -g 2").err:find "did you mean 'send'")
  end)

  it("list strategies, schedules and rules", function()
    assert.truthy(shell("tperf list strategies").out:find "^tensor +%w")
    assert.truthy(shell("tperf list schedules").out:find "\ngpipe +%w")
    assert.equal("name,default,subramanian2024,meaning", shell("tperf list rules --csv").out:match "^[^\n]+")
  end)
end)

describe("tperf repl", function()
  local function repl(input) return shell(("printf %s | tperf repl"):format(program.quote(input))) end

  it("prints the values of expressions, and runs statements of several lines", function()
    local result = repl "1 + 1\nx = 20\nfunction f(a)\n  return a, { a, b = 'c' }\nend\nf(x)\ntperf.version"
    assert.equal("", result.err)
    assert.equal("2\n20\t{ 20, b = \"c\" }\n\"" .. program.slurp("VERSION"):match "%S+" .. "\"\n", result.out)
    assert.equal(0, result.code)
  end)

  it("goes on after errors", function()
    local result = repl "nope\nerror 'x'\n)\nos.execute 'true'\n3"
    assert.equal("3\n", result.out)
    assert.truthy(result.err:find("tperf: input:1: undeclared global 'nope'", 1, true))
    assert.truthy(result.err:find("tperf: input:1: x", 1, true))
    assert.truthy(result.err:find("unexpected symbol near ')'", 1, true))
    assert.truthy(result.err:find("os.execute is not available", 1, true))
    assert.equal(0, result.code)
  end)
end)

describe("tperf repl, interrupted", function()
  it("goes on after a limit", function()
    local result = shell("printf 'while true do end\\n1+1\\n' | tperf repl --max-instructions 5000000")
    assert.equal("tperf: input:1: more than 5000000 instructions (--max-instructions N raises the limit)\n", result.err)
    assert.same({ "2\n", 0 }, { result.out, result.code })
  end)

  it("goes on after Ctrl-C", function()
    local folder = program.folder()
    local result = shell(([[
      mkfifo keys; : > log; %s repl < keys > out 2> log & job=$!
      exec 3> keys
      echo "io.stderr:write 'ready' while true do end" >&3
      until grep -q ready log; do kill -0 $job || break; sleep 0.02; done
      kill -INT $job
      echo "1+1" >&3; exec 3>&-
      wait $job; code=$?; cat out; cat log >&2; exit $code]]):format(program.absolute()), folder)
    program.remove(folder)
    assert.same({ "2\n", "readytperf: input:1: interrupted\n", 0 }, { result.out, result.err, result.code })
  end)
end)

describe("the manual page", function()
  local common = { verbose = true, help = true, data = true } -- described once

  it("has every command and every option, and no others", function()
    local page = shell("tperf help --man").out
    local sections, names = {}, command_names()
    for title, body in page:gsub("\n%.SS", "\n\0.SS"):gmatch "%.SS tperf ([%w_]+)([^%z]*)" do
      sections[title] = body:match "^(.-)\n%.SH" or body
    end
    for _, name in ipairs(names) do
      local in_help, in_page = {}, {}
      local help = shell(("tperf help %s all"):format(name)).out:gsub("\n  %-%w, ", "\n      ")
      for option in help:gmatch "\n      %-%-([%w-]+)" do
        if not common[option] then in_help[#in_help + 1] = option end
      end
      for line in sections[name]:gmatch "\n%.TP\n\\fB([^\n]*)" do
        in_page[#in_page + 1] = line:gsub("\\%-", "-"):match "%-%-([%w-]+)"
      end
      assert.same(in_help, in_page, name)
      sections[name] = nil
    end
    assert.is_nil(next(sections))
  end)

  it("is free of formatting mistakes", function()
    if shell("command -v groff").code ~= 0 then pending "there is no groff here" end
    local result = shell "tperf help --man | groff -man -Tascii -ww -z"
    assert.equal("", result.err)
  end)
end)

describe("the progress line", function()
  it("appears only on a terminal and after half a second", function()
    if shell("script -qec 'test -t 2' /dev/null").code ~= 0 then pending "there are no pseudo-terminals here" end
    local folder = program.folder()
    program.write(folder .. "/s.lua", [[
      local core, now = require "tperf.core", 5
      function core.clock() return now end
      local report = require "tperf.base.progress".start "working"
      report(1, 4)
      now = now + tonumber(arg[1])
      report(3, 4)
      report()
    ]])
    local binary = program.absolute()
    local on_terminal = "script -qec '%s run --trust s.lua %s' /dev/null"
    assert.equal("\rworking  75 %, 0 s left\27[K\r\27[K", shell(on_terminal:format(binary, "0.6"), folder).out)
    assert.equal("", shell(on_terminal:format(binary, "0.4"), folder).out)
    assert.equal("", shell("tperf run --trust s.lua 0.6", folder).err)
    program.remove(folder)
  end)
end)
