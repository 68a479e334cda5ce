--- Fuzzes the command line: options of every command with valid and invalid values. The program must answer (0) with
--- finite numbers and valid JSON, or explain the error in a line or two (1, 2) without internals.
local core = require "tperf.core"
local commands = require "tperf.cli.commands"
local options = require "tperf.input.options"
local program = require "program" -- spec/program.lua
local wrong = require "fuzz.wrong"

local cli = {}

local LIMIT <const> = "timeout -k 5 60" -- seconds; the sanitizers' build is some ten times slower
-- Sanitizers end the program with 99, a status that it never uses itself.
local SANITIZERS <const> = "ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99:halt_on_error=1 "

local MODELS <const> = { "gpt2", "llama-3-8b", "mixtral-8x7b", "deepseek-v3", "subramanian2024/vit_era5", "mamba2-2.7b",
  "config.json", "bad.json", "nosuch", "bom.yaml" }
local SYSTEMS <const> = { "h100-sxm", "gb200-nvl72", "subramanian2024/A100", "h100", "box.yaml", "bad.yaml" }

-- Valid and almost valid values of options, by name, then by kind.
local VALUES <const> = {
  system = SYSTEMS, model = MODELS, gpus = { "8", "1", "16", "7", "64", "4,8" },
  batch = { "8", "16", "64", "1,2", "7" },
  seq = { "128", "2048", "1" }, rules = { "default", "subramanian2024", "pp-visualization", "zero-bubble" },
  attention = { "flash", "unfused", "recompute", "summa" }, optimizer = { "adam", "muon", "sgd", "adafactor" },
  weights = { "bf16", "fp32", "fp8" }, gradients = { "fp32", "bf16" }, master = { "fp32", "none" }, moments = { "fp8" },
  ["recompute-layers"] = { "1", "2" }, ["recompute-modules"] = { "mlp", "core_attn,layernorm", "op", "moe" },
  ["recompute-method"] = { "uniform", "block", "every" }, ["recompute-num-layers"] = { "1", "3" },
  ["offload-layers"] = { "1", "4" }, ["offload-modules"] = { "core_attn", "attn_proj,mlp_norm" },
  ["offload-optimizer"] = { "0.5", "1" },
  reserve = { "0.1", "0.99", "1" }, fast = { "tp=2", "tp=8,dp=1", "8", "4", "1" },
  tp = { "1", "2", "8", "1,2" }, tp1 = { "2" }, tp2 = { "2" }, cp = { "2" }, ep = { "2", "8" }, pp = { "1", "2", "4" },
  dp = { "1", "2", "8" }, ["micro-batch"] = { "1", "2" }, panels = { "1", "2" }, zero = { "0", "1", "3" },
  schedule = { "1f1b", "interleaved_1f1b", "gpipe", "zbv", "dualpipe", "any" }, ["virtual-stages"] = { "2", "3" },
  recompute = { "none", "full", "selective", "none,full" },
  ["sequence-parallel"] = { "yes", "no" },
  strategy = { "tensor", "summa", "context" }, software = { "torchtitan-2024", "megatron-core-simumax-1.2", "nosuch" },
  simulate = { "1f1b", "zb1p", "zbv" }, prompt = { "128", "1" }, generate = { "32", "1" }, ttft = { "500ms", "1 us" },
  tpot = { "20ms", "20" }, objective = { "tpot", "cost" }, bytes = { "1MiB", "1MiB,1GiB", "0", "1e30" },
  ["weight-dtype"] = { "fp8", "int4" }, ["kv-dtype"] = { "fp8" }, ["gpu-hour"] = { "2.5" }, top = { "1", "3" },
  devices = { "2", "4" }, microbatches = { "4", "8" }, stages = { "4", "8" }, ["group-size"] = { "2" },
  times = { "f=1,b=2", "f=1,d=1,w=1", "f=1" }, p2p = { "0.1", "1ms" }, ["memory-limit"] = { "2" },
  threads = { "1", "2" },
  svg = { "out.svg" }, html = { "out.html" }, trace = { "out.json" }, plot = { "out.svg" }, out = { "out" },
  ["max-memory"] = { "20MB", "1" }, ["max-instructions"] = { "1000", "100000000" }, gpu = { "h100-sxm" },
  model_name = { "facebook_opt-1.3b" }, gpu_name = { "a100-sxm-40gb" }, total_num_tokens = { "1000000" },
}
local SENSELESS <const> = { "", "0", "-1", "1.5", "nan", "inf", "-inf", "1e400", "1e308", "9223372036854775807", "x",
  "-", "--", "4..", "1..4", "4..1", ",", "1,,2", "a=b", "tp=0", "\xFF", "\u{1F600}", "../..", "/", "/dev/null",
  "99999999999999", "1 GB", "true", ("x"):rep(3000), "a\nb", "%s%n", "-0" }

local ARGUMENTS <const> = {
  search = { MODELS }, train = { MODELS }, memory = { MODELS }, infer = { MODELS }, params = { MODELS },
  collective = { { "all_reduce", "all_gather", "broadcast", "send", "allreduce" } },
  schedule = { { "1f1b", "zbv", "dualpipe", "gpipe", "interleaved_1f1b", "zb_auto" }, { "zb1p", "v_half" } },
  validate = { { "direct.csv", "bad.csv", "collectives.csv" } },
  calibrate = { { "h100-sxm", "box.yaml" }, { "all_reduce.log", "bad.csv", "collectives.csv" } },
  compat = { { "llm-analysis" }, { "train", "infer" } }, help = { commands.names() }, version = {}, repl = {},
  list = { { "models", "systems", "software", "strategies", "schedules", "rules" } },
  show = { { "gpt2", "h100-sxm", "torchtitan-2024", "box.yaml", "bad.yaml" } },
  run = { { "script.lua", "loop.lua", "nosuch.lua", "bad.json" }, { "--x", "1" } }, verify = { { "kept", "." } },
}

-- Options without which commands rarely succeed.
local NEEDED <const> = {
  search = { "system", "gpus", "batch" }, train = { "system", "batch", "tp" }, memory = { "system", "batch" },
  infer = { "system", "prompt", "generate", "tp" }, collective = { "system", "bytes", "gpus" },
  schedule = { "devices", "microbatches" }, compat = { "model_name", "gpu_name" },
}

local function value_of(random, name)
  local known = VALUES[name]
  if known and not random:once_in(6) then return random:choice(known) end
  return random:choice(SENSELESS)
end

local function add_option(line, option, random)
  if not option.value then
    line[#line + 1] = "--" .. option.long
  elseif option.short and random:once_in(3) then
    line[#line + 1] = "-" .. option.short .. value_of(random, option.long)
  elseif random:once_in(2) then
    line[#line + 1] = "--" .. option.long .. "=" .. value_of(random, option.long)
  else
    line[#line + 1] = "--" .. option.long
    line[#line + 1] = value_of(random, option.long)
  end
end

-- A command's name and its arguments.
local function command_line(random)
  local name = random:choice(commands.names())
  local declared = options.of(commands.find(name))
  local line, by_name = { name }, {}
  for _, option in ipairs(declared) do by_name[option.long] = option end
  for _, needed in ipairs(NEEDED[name] or {}) do
    if by_name[needed] and not random:once_in(12) then add_option(line, by_name[needed], random) end
  end
  for _ = 1, random:upto(4) - 1 do
    local option = random:choice(declared)
    if option.long ~= "help" or random:once_in(10) then add_option(line, option, random) end
  end
  for _, list in ipairs(ARGUMENTS[name] or { MODELS }) do
    local argument = random:once_in(10) and random:choice(SENSELESS) or random:choice(list)
    if not random:once_in(20) then table.insert(line, random:once_in(4) and 2 or #line + 1, argument) end
  end
  if random:once_in(15) then line[random:upto(#line)] = random:choice(SENSELESS) end
  return line
end

local manifest, printed -- from a run of script.lua, for `tperf verify`

-- Writes files for the commands to read, valid and broken ones.
local function write_files(folder, random)
  local slurp = program.slurp
  local function head(path)
    return (slurp(path):match("^" .. ("[^\n]*\n"):rep(6)))
  end
  local collectives = head "spec/data/measured/collectives.csv"
  local system, config = slurp "systems/h100-sxm.yaml", slurp "spec/data/hf/llama-2-7b.json"
  local files = {
    ["config.json"] = config, ["bad.json"] = random:spoil(config), ["box.yaml"] = system,
    ["bad.yaml"] = random:spoil(system), ["bom.yaml"] = "\xEF\xBB\xBF" .. slurp "models/gpt2.yaml",
    ["direct.csv"] = head "spec/data/measured/direct.csv", ["collectives.csv"] = collectives,
    ["bad.csv"] = random:spoil(collectives), ["script.lua"] = "print(require 'tperf'.version)",
    ["loop.lua"] = "local t = {} for i = 1, 300000 do t[i] = { i } end print(#t)",
    ["all_reduce.log"] = "# nThread 1\n#  Rank  0 Pid 1 on node1 device 0\n#  Rank  1 Pid 1 on node1 device 1\n"
      .. "  1048576  262144  float  sum  -1  52.43  20.00  20.00  0\n  8  2  float  sum  -1  9.43  0.00  0.00  0\n",
  }
  for name, text in pairs(files) do program.write(folder .. "/" .. name, text) end
  if not manifest then
    assert(program.shell("tperf run --out first script.lua", folder).code == 0)
    manifest, printed = slurp(folder .. "/first/manifest.json"), slurp(folder .. "/first/stdout.txt")
  end
  program.shell("mkdir kept", folder)
  program.write(folder .. "/kept/stdout.txt", printed)
  program.write(folder .. "/kept/manifest.json", random:once_in(3) and manifest or random:spoil(manifest))
end

local INSIDE <const> = { "lua/tperf/", "attempt to ", "stack traceback", "bad argument #", "src/", "sandbox.lua" }

-- Returns words for numbers that are not finite, which tables and JSON must not contain.
local function not_a_number(text)
  return (" " .. text:lower() .. " "):match "[%s,:%[|]%-?(nan)[%s,%]|}]"
    or (" " .. text:lower() .. " "):match "[%s,:%[|]%-?(inf)[%s,%]|}]"
end

local function check_result(line, result)
  local asked = {}
  for _, word in ipairs(line) do asked[word] = true end
  assert(result.code == 0 or result.code == 1 or result.code == 2, "it ends with " .. result.code)
  assert(not result.err:find "Sanitizer" and not result.err:find "runtime error", "a sanitizer speaks")
  if result.code ~= 0 then
    local said = result.err .. (line[1] == "verify" and result.out or "") -- what differs is verify's answer
    assert(said:find "%S", "it fails without a word")
    local first = not asked["--verbose"] and result.err or ""
    for _, word in ipairs(INSIDE) do
      assert(not first:find(word, 1, true) or first:find("(script|loop).lua:"), "it shows its inside: " .. word)
    end
    return
  end
  local echoed = asked.repl or asked.help or asked["--help"] or asked["-h"]
  assert(echoed or not not_a_number(result.out), "it prints a number that is none")
  if asked["--json"] and not echoed and line[1] ~= "run" and result.out ~= "" then
    local value, message = core.yaml(result.out, "stdout")
    assert(value ~= nil, message)
  end
end

--- Runs a command line beside these files, and checks the outcome.
---@param line string[]
---@param random table   corrupts the files
---@param folder string  where files may be written
function cli.try(line, random, folder)
  local quoted = {}
  for i, word in ipairs(line) do quoted[i] = program.quote(word) end
  local text = SANITIZERS .. LIMIT .. " " .. program.quote(program.absolute()) .. " " .. table.concat(quoted, " ")
  wrong.input(text)
  program.shell("rm -rf case && mkdir case", folder)
  write_files(folder .. "/case", random)
  local result = program.shell(text, folder .. "/case")
  wrong.input(("%s\nstatus %d\n%s\n%s"):format(text, result.code, result.err:sub(1, 3000), result.out:sub(1, 3000)))
  check_result(line, result)
end

--- One case: a command line in a separate folder.
---@param random table
---@param folder string  where files may be written
function cli.step(random, folder) cli.try(command_line(random), random, folder) end

return cli
