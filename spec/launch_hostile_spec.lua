-- Launch files from untrusted sources: reading terminates, and generated launch files run nothing but the launch.
local cases = require "cases"
local program = require "program"
local tperf = require "tperf"

local COMMAND <const> = "\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 "
  .. "--num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --micro-batch-size 1 "
  .. "--global-batch-size 16 --vocab-size 1000 $EXTRA\n"

local function import(text)
  return pcall(tperf.import.launch, { files = { { name = "run.sh", text = text .. COMMAND } }, given = { EXTRA = "" } })
end

local function refused(message, text)
  local ok, raised = import(text)
  assert.is_false(ok)
  assert.truthy(tostring(raised):find(message, 1, true), tostring(raised))
end

describe("a launch script", function()
  it("reads no pipe, which might block for ever", function()
    local folder = program.folder()
    program.shell("mkfifo pipe", folder)
    for _, text in ipairs { "source ./pipe", "X=$(cat pipe)" } do
      program.write(folder .. "/run.sh", text .. COMMAND)
      local result = program.shell(("timeout 600 %s train --from run.sh --set EXTRA= -s h100-sxm"):format(
        program.quote(program.absolute())), folder)
      assert.equal(0, result.code, result.err)
    end
    program.remove(folder)
  end)

  it("limits nested expansion to a depth of a hundred", function()
    local function nested(n) return "X=" .. ("$(echo "):rep(n) .. "1" .. (")"):rep(n) end
    assert.is_true(import(nested(30)))
    refused("nested more than 100 levels deep", nested(20000))
    refused("nested more than 100 levels deep", "X=" .. ("${A:-"):rep(20000))
    refused("nested more than 100 levels deep", "X=" .. ('$("'):rep(20000))
  end)

  it("limits the bytes it expands", function()
    refused("bytes together", ("X=%s; for i in $(seq 1 10000); do for j in $(seq 1 10000); do X=\"$X$i\"; done; done")
      :format(("x"):rep(cases(60000, 20000))))
  end)
end)

describe("tperf.report.launch", function()
  local SOUND <const> = { tp = 1, pp = 1, dp = 2, micro_batch = 1, global_batch = 2 }
  local EVIL <const> = "x'\"; $(touch w)\ntouch w #"
  local EVIL_NAME <const> = "x'\"; $(touch w)\u{2028}touch w #" -- names have no control characters
  local STACKS <const> = { "deepspeed", "megatron", "megatron-bridge", "nanotron", "torchtitan", "vllm", "sglang",
    "tensorrt-llm" }

  local function with(more)
    local made = {}
    for _, fields in ipairs { SOUND, more } do
      for name, value in pairs(fields) do made[name] = value end
    end
    return made
  end

  it("lets no line begin with text from a model's name", function()
    local model = { name = EVIL_NAME, layers = 4, hidden = 256, heads = 8, ffn = 512, vocab = 1000, seq = 128,
      norm = "rmsnorm", gated = true, positions = "rotary" }
    local named
    for _, stack in ipairs(STACKS) do
      local text = tperf.report.launch(with { zero = stack == "torchtitan" and 3 or 1 }, stack, { model = model })
      assert.is_nil(text:find "\ntouch", text)
      named = named or text:find("touch", 1, true)
      for line in text:gmatch "[^\n]+" do
        assert.truthy(line:find "^#" or not line:find("touch", 1, true), line)
      end
    end
    assert.truthy(named)
  end)

  it("refuses invalid words", function()
    for _, case in ipairs {
      { "'zero' must be one of 1, 0, 2, 3", { zero = EVIL } }, { "'zero' must be one of", { zero = 4 } },
      { "'recompute' must be one of none, selective, full", { recompute = EVIL } },
      { "'schedule' must be a schedule's name", { schedule = EVIL } },
      { "'schedule' must be a schedule's name", { schedule = {} } },
    } do
      for _, stack in ipairs { "deepspeed", "megatron", "megatron-bridge", "nanotron", "torchtitan" } do
        assert.error_matches(function() tperf.report.launch(with(case[2]), stack) end, case[1], 1, true)
      end
    end
    for _, stack in ipairs { "vllm", "sglang", "tensorrt-llm" } do
      assert.error_matches(function() tperf.report.launch(SOUND, stack, { kv_dtype = EVIL }) end,
        "'kv_dtype' must be a type's name", 1, true)
    end
  end)

  it("derives the sequence length from finite numbers only", function()
    local text = tperf.report.launch(with { throughput = EVIL, tokens_per_second = EVIL }, "megatron", { seq = 128 })
    assert.truthy(text:find("--seq-length 128", 1, true))
    text = tperf.report.launch(with { throughput = 0, tokens_per_second = 1 }, "megatron")
    assert.is_nil(text:find("inf", 1, true))
    text = tperf.report.launch(with { throughput = 2, tokens_per_second = 512 }, "megatron")
    assert.truthy(text:find("--seq-length 256", 1, true))
  end)
end)

-- Words of 30 kB of one kind, wherever a word may stand. A sandboxed script is charged for each step of a pattern, so
-- the instructions show whether a reader takes time in proportion to the text.
describe("a launch file with a long word", function()
  local SCRIPT <const> = [[
    local tperf = require "tperf"
    local unit = arg[1]
    local body = unit:rep(30000 // #unit)
    for _, file in ipairs {
      { "x.sh", "W" }, { "x.sh", "torchrun W/x" }, { "x.sh", "torchrun pretrain_gpt.py --num-layers W" },
      { "x.sh", "A=W\ntorchrun pretrain_gpt.py --W $A" }, { "x.sh", "#W\ntorchrun pretrain_gpt.py" },
      { "x.sh", "#SBATCH --nodes 2 W x\ntorchrun pretrain_gpt.py" }, { "x.sh", "echo $(echo 'W') x" },
      { "x.sh", "torchrun pretrain_gpt.py --pipeline-model-parallel-layout 'W'" },
      { "x.py", "W" }, { "x.py", "x = dict(aW)" }, { "x.py", "def f():\n  a.b = W\n" }, { "x.py", "returnW" },
      { "x.py", "def f():\n  x = 1\n  W\n" }, { "x.py", "def f():\n  x = Cfg(a=W1)\n" }, { "x.py", "x = 2 *W3\n" },
      { "x.py", "def f():\n  x = [1,W]\n" }, { "x.py", "a.Wb\ndef f():\n  x = a\n" },
      { "x.yaml", "a: \"W\"\nservices: 1" }, { "x.toml", "W = 1" }, { "x.toml", "a = 'W'" },
      { "x.json", "{ \"W\": 1 }" }, { "x.py", "def f():\n  cfg = A(model=W)\n  cfg.x: W = 3\n  return cfg\n" },
      { "x.py", "A = [W]\nif W:\n  x.y = A\nfor W in x: x.y += f\"W\"" },
      { "x.py", "def f():\n  cfg.model.window_size = \"W\"\n  cfg.model.moe_layer_freq = \"W\"\n"
        .. "  cfg.mixed_precision = get(\"W\")\n  return cfg\n" },
    } do
      local text = file[2]:gsub("W", function() return body end)
      pcall(tperf.import.launch, { files = { { name = file[1], text = text } }, gpus = 8,
        stack = file[1] == "x.sh" and "megatron" or file[1] == "x.py" and "megatron-bridge" or nil })
    end
    print "done"]]

  local UNITS <const> = { "a", "a/", "/", " ", "\t", "=", "-", "&", "<", "(", "((", "[", "$", "${", "0", ".", "\"",
    "'", "*", "a=f(a=", "[1]*9+", "([1]+", "f()\n", "if a:\n " }
  for _, unit in ipairs(UNITS) do
    it(("of %q is read in time proportional to its length"):format(unit), function()
      local folder = program.folder()
      program.write(folder .. "/s.lua", SCRIPT)
      local result = program.shell(("tperf run --max-instructions 400000000 s.lua %s"):format(
        program.quote(unit)), folder)
      program.remove(folder)
      assert.same({ "done\n", "" }, { result.out, result.err })
    end)
  end
end)

describe("a Python recipe", function()
  local function failure(lines)
    local ok, message = pcall(tperf.import.launch, { gpus = 8, stack = "megatron-bridge",
      given = { ["function"] = "f" }, files = { { name = "x.py", text = table.concat(lines, "\n") } } })
    assert.is_false(ok)
    return message
  end

  it("does not read values that double with each variable, or that hold themselves", function()
    local lines = { "def f():", "  a0 = g(a=1)" }
    for i = 1, 50 do lines[#lines + 1] = ("  a%d = g(a=a%d, b=a%d)"):format(i, i - 1, i - 1) end
    lines[#lines + 1] = "  cfg.model = a50\n  return cfg"
    assert.matches("x.py:53: a value of too many calls within calls", failure(lines))
    assert.matches("x.py:3: a value of too many calls",
      failure { "def f():", "  x = g(a=x)", "  cfg.model = x", "  return cfg" })
  end)

  it("does not read functions whose calls double with each", function()
    local lines = {}
    for i = 1, 7 do lines[i] = ("def g%d():\n"):format(i) .. ("  g%d()\n"):format(i + 1):rep(9) end
    lines[#lines + 1] = "def g8():\n  return 1\ndef f():\n  g1()\n  return cfg"
    assert.matches("more than 200 calls of the file's functions", failure(lines))
  end)

  it("does not drop a setting that is changed in place", function()
    for _, change in ipairs { "//= 2", "**= 2", "%= 3", "|= 1" } do
      local launch = tperf.import.launch { gpus = 8, stack = "megatron-bridge", files = { { name = "x.py", text =
        "def f():\n  cfg.train.micro_batch_size = 1\n  cfg.train.global_batch_size = 8\n  cfg.dataset.seq_length = 64\n"
        .. "  cfg.model.tensor_model_parallel_size = 4\n  cfg.model.tensor_model_parallel_size " .. change
        .. "\n  return cfg\n" } } }
      assert.equal("model.tensor_model_parallel_size", launch.refused[1] and launch.refused[1].option)
    end
  end)
end)

describe("a list of numbers by layer", function()
  it("is made in time proportional to its text and its elements", function()
    local layer_list = require "tperf.import.launch.layer_list"
    for text, message in pairs { ["[]*999999999"] = false, [("["):rep(30000)] = "nested too deep",
      [("[1]*60000*0+"):rep(3000) .. "[1]"] = "more than", [("[1]+"):rep(30000) .. "[1]"] = false } do
      local from = os.clock()
      local value, why = layer_list.of(text)
      assert.equal(not message, value ~= nil)
      assert.matches(message or "", why or "")
      assert.is_true(os.clock() - from < 1)
    end
  end)
end)
