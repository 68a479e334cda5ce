-- `tperf params` on the command line.
local program = require "program"

describe("tperf params", function()
  it("prints a table per component", function()
    local result = program.ask "tperf params deepseek-v3"
    assert.equal(0, result.code, result.err)
    assert.matches("experts +653908770816 +97.45 %% +20434649088", result.out)
    assert.matches("total +671026419200 +100 %% +37552297472", result.out)
    assert.matches("multi_token_prediction +11610068224", result.out)
  end)

  it("takes the folder of a Hugging Face checkpoint", function()
    local folder, plain = program.folder(), program.ask("tperf params spec/data/hf/apertus-8b.json").out
    assert.truthy(plain:find "total")
    program.write(folder .. "/config.json", program.slurp "spec/data/hf/apertus-8b.json")
    for _, name in ipairs { folder, folder .. "/" } do
      assert.equal(plain, program.ask("tperf params " .. name).out)
    end
    program.remove(folder)
  end)

  it("prints a row per group of layers", function()
    -- Dense layer: queries 7168 1536 + 1536 128 192, keys and values 7168 576 + 512 128 256, output 128 128 7168,
    -- MLP 3 7168 18432, norms 2 7168 + 1536 + 512.
    local result = program.ask "tperf params deepseek-v3 --groups --csv"
    assert.equal("first,last,kind,attention,mlp,per_layer,parameters,active", result.out:match "^[^\n]+")
    assert.matches("\n1,3,dense,mla,dense,583483392,1750450176,1750450176\n4,61,moe,mla,experts,", result.out)
    assert.matches("window", program.ask "tperf params gemma-2-27b --groups".out)
  end)

  it("reads a Hugging Face configuration and prints JSON and CSV", function()
    local path = "spec/data/hf/llama-3.1-8b.json"
    local json = program.ask("tperf params --json " .. path).out
    assert.matches('"total", "parameters": 8030261248, "share": 1, "active": 8030261248, "bytes": 16060522496, '
      .. '"data_files": ["' .. path, json, 1, true)
    assert.matches("\ntotal,8030261248,1,8030261248,16060522496\n", program.ask("tperf params --csv " .. path).out, 1,
      true)
  end)

  it("refuses unknown models and invalid arguments", function()
    local unknown = program.ask "tperf params gemma-2-27"
    assert.equal(1, unknown.code)
    assert.matches("did you mean 'gemma-2-27b'", unknown.err, 1, true)
    for _, arguments in ipairs { "", "gpt-oss-120b kimi-k2", "kimi-k2 --json --csv", "kimi-k2 --jason" } do
      assert.equal(2, program.ask("tperf params " .. arguments).code, arguments)
    end
  end)
end)
