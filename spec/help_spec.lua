-- Help: no line of it, nor of a table, passes 80 columns; terms and questions are found by their words.
local cases = require "cases"
local find = require "tperf.cli.guide.find"
local glossary = require "tperf.cli.guide.glossary"
local options = require "tperf.input.options"
local program = require "program"
local questions = require "tperf.cli.guide.questions"
local commands = require "tperf.cli.commands"

local WIDTH <const> = 80

local function narrow(text, what)
  for line in text:gmatch "[^\n]+" do
    assert.truthy((utf8.len(line) or #line) <= WIDTH, ("%s: %s"):format(what, line))
  end
end

local function out_of(command)
  local result = program.ask("tperf " .. command)
  assert.equal(0, result.code, command .. ": " .. result.err)
  return result.out
end

describe("help", function()
  it("has no line of more than 80 columns", function()
    narrow(out_of "help", "help")
    for _, name in ipairs(commands.names()) do
      narrow(out_of("help " .. name), "help " .. name)
      narrow(out_of(("help %s all"):format(name)), name)
    end
    for _, kind in ipairs { "models", "strategies", "schedules" } do narrow(out_of("list " .. kind), kind) end
  end)

  it("is short at first where there are many options", function()
    for _, name in ipairs(commands.names()) do
      local command, known = commands.find(name), {}
      for _, option in ipairs(options.of(command)) do known[option.long] = true end
      assert.truthy(command.quick or name == "compat" or #options.of(command) <= 25, name)
      for _, option in ipairs(command.quick or {}) do assert.truthy(known[option], name .. " has no --" .. option) end
      assert.truthy(#(command.quick or {}) <= 10)
    end
    local text = out_of "help search"
    local _, lines = text:gsub("\n", "")
    assert.truthy(lines <= 22, text)
    assert.truthy(text:find("`tperf help search all` prints all", 1, true))
  end)

  it("explains terms, by all their names, with the options of that name", function()
    assert.truthy(out_of("help tp"):find "^tp\n  Tensor parallelism.*\n%-%-tp N.*train")
    assert.truthy(out_of("help MFU"):find "^mfu\n")
    assert.equal(out_of "help mbs", out_of "help mbs")
    assert.truthy(out_of("help micro-batch"):find "^mbs\n.*%-m, %-%-micro%-batch N")
    assert.truthy(out_of("help pipeline bubble"):find "^bubble\n")
    assert.truthy(out_of("help lora-rank"):find "^%-%-lora%-rank R\n")
    for _, group in ipairs(glossary) do
      for _, row in ipairs(group.rows) do narrow(find.find(row[1]), row[1]) end
    end
  end)

  for words, command in pairs {
    ["does it fit"] = "memory", ["how many users"] = "serve", ["why is my run slow"] = "train",
    ["how long and how much does my run cost"] = "search", ["lora on my GPU"] = "train", ["which models can my "
      .. "card train"] = "fits", ["what is the bubble"] = "schedule",
    ["how many GPUs do I need"] = "memory", ["vllm serve"] = "serve", ["figure for a paper"] = "run",
    ["price of a million tokens"] = "infer",
  } do
    it("finds " .. words, function()
      assert.equal(command, find.questions(words)[1][2]:match "^tperf (%w+)")
      assert.truthy(out_of("help " .. words):find("\n  tperf " .. command, 1, true))
    end)
  end

  it("says so if nothing is found", function()
    local result = program.ask "tperf help xyzzy plugh"
    assert.equal(2, result.code)
    assert.truthy(result.err:find("no question has these words", 1, true))
  end)
end)

describe("the questions", function()
  it("name commands with options that exist, and pages that exist", function()
    for _, group in ipairs(questions) do
      for _, row in ipairs(group.rows) do
        local list = {}
        for word in row[2]:gmatch "%S+" do list[#list + 1] = word end
        local command = assert(commands.find(list[2]), row[2])
        local values, message = options.parse(command, list, 3)
        assert.truthy(values, ("%s: %s"):format(row[2], message))
        program.slurp("docs/" .. row.page)
        for _, line in ipairs(find.command(row[2])) do narrow(line, row[2]) end
      end
    end
    for _, group in ipairs(glossary) do
      for _, row in ipairs(group.rows) do
        if row.page then program.slurp("docs/" .. row.page) end
      end
    end
  end)
end)

-- Tables of all kinds; `*`: also in the sample of every run.
local TABLES <const> = {
  "* search mixtral-8x7b -s h100-sxm -g 64 -b 512 --top 2 --tp 8 --pp 4,8 --ep 1,2 --tokens 2e12",
  "search mixtral-8x7b -s h100-sxm -g 64,128 -b 512 --top 3 --strategy all --recompute none,full --tokens 2e12"
    .. " --offload-optimizer 0.5",
  "search llama-3.1-70b -s h100-sxm -g 64 -b 512 --top 3 --precision fp8-block --strategy context --ulysses 1,2",
  "* train mixtral-8x7b -s h100-sxm -b 512 --ep 8 --pp 4 --dp 8 --tokens 2e12 --mtbf gpu=50000h --restart-time 10min"
    .. " --checkpoint-bandwidth 1GB/s --explain",
  "train llama-3.1-8b -s h100-sxm -b 16 --dp 8 --zero 3 --simulate 1f1b",
  "* schedule 1f1b,interleaved_1f1b_overlap -d 4 -m 8 --text", "schedule zb_h1,gpipe -d 12 -m 64 --text",
  "serve llama-3.1-8b -s h100-sxm --rate 5 --prompt 500 --output 100 --count 100",
  "serve llama-3.1-8b -s h100-sxm --rate 5 --prompt 500 --output 100 --count 20 --requests",
  "serve llama-3.1-8b -s h100-sxm --rate 5 --prompt 500 --output 100 --count 5 --steps",
  "serve llama-3.1-8b -s h100-sxm --rate 40 --slo ttft=1s,tpot=50ms --prompt 500 --output 100 --count 100",
  "* infer llama-3.1-8b -s h100-sxm -p 2048 -n 256 -b 8", "infer deepseek-v3 -s h200-sxm -p 2048 -n 256 -g 16",
  "infer llama-3.1-8b -s h100-sxm -p 2048 -n 256 -b 8 --ops",
  "* memory llama-3.1-70b -s h100-sxm -b 512 --tp 8 --pp 4 --dp 8", "memory llama-3.1-70b -s rtx-4090 --fewest -b 64",
  "* params mixtral-8x7b", "params mixtral-8x7b --groups", "params mixtral-8x7b --check", "list systems",
  "* list software", "* fits llama-3.1-8b -s rtx-4090", "list rules", "* list recipes",
  "rl qwen2.5-7b -s h100-sxm -g 8 --prompts 32 --samples 8 --prompt 120 --response mean=1000,max=4096 --train-tp 2"
    .. " --rollout-tp 2 --explain",
  "rl qwen2.5-7b -s h100-sxm -g 16 --prompts 32 --samples 8 --prompt 120 --response mean=1000,max=4096 --search",
  "* collective all_reduce,all_gather -s h100-sxm --bytes 1GB --gpus 8,64",
  "* collective all_reduce -s h100-sxm --bytes 1GB --gpus 64 --tiers",
}

-- The headings of the tables in a text: what stands above each rule.
local function headings(text)
  local list, before = {}, ""
  for line in text:gmatch "[^\n]+" do
    if line:find "^─" and not line:find "[^─ ]" then
      local at = 1
      for run in line:gsub("─", "-"):gmatch "%-+ *" do
        list[#list + 1] = before:sub(at, at + #run - 1):match "^%s*(.-)%s*$"
        at = at + #run
      end
    end
    before = line
  end
  return list
end

-- Whether the glossary has a heading; numbers in it are of the question.
local function explained(heading)
  if heading == "" or find.terms(heading)[1] then return true end
  for _, part in ipairs { (heading:gsub(" [%d.]+%a? ", " ")), heading:match "^(.-)," or "", heading:match "^(.-) "
    .. "%l+ %d+$" or "" } do
    if type(part) == "string" and find.terms(part)[1] then return true end
  end
  return false
end

describe("tables", function()
  for _, given in ipairs(TABLES) do
    local often, command = given:match "^(%*? ?)(.*)$"
    local test = often ~= "" and it or cases(function() end, it)
    test("of 'tperf " .. command .. "' fit, and the glossary has their headings", function()
      narrow(out_of(command), command)
      local wide = command:find "^params" and command or command .. " --wide"
      local list = headings(out_of(wide:gsub(" %-%-text", "")))
      assert.truthy(#list > 0)
      for _, heading in ipairs(list) do
        assert.truthy(explained(heading), ("%s: '%s' is not in the glossary"):format(command, heading))
      end
    end)
  end
end)
