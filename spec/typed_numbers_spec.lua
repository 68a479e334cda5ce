-- Numbers as people type them: counts are decimal, sizes in bytes are nccl-tests' (src/common.cu, parsesize: K, M and G
-- are binary), vLLM's options are vLLM's (k is 1,000, K 1,024).
local numbers = require "tperf.input.numbers"
local program = require "program"

describe("a number that is typed", function()
  it("is decimal if it counts something", function()
    for text, number in pairs { ["8k"] = 8000, ["1.5k"] = 1500, ["2T"] = 2 * 10 ^ 12, ["7B"] = 7 * 10 ^ 9,
      ["3M"] = 3 * 10 ^ 6, ["1G"] = 10 ^ 9, ["1,024"] = 1024, ["1,000,000"] = 1000000, ["1e3"] = 1000, ["64"] = 64 } do
      assert.equal(math.tointeger(number), numbers.one("integer", text), text)
      assert.equal(number, numbers.one("number", text), text)
    end
    assert.equal("integer", math.type(numbers.one("integer", "2T")))
    assert.equal(0.5, numbers.one("number", "0.5"))
  end)

  it("is refused where it may be two", function()
    local _, message = numbers.one("integer", "8K")
    assert.equal("an integer is needed, got '8K'; write 8192, or 8k for 8000", message)
    for _, text in ipairs { "1.5", "1.0005k", "k", "8kk", "1,02", "1e400", "nan", "inf", "", "8 k", "8kB" } do
      assert.is_nil(numbers.one("integer", text), text)
    end
  end)

  it("is one of a list, or an end of a range", function()
    assert.same({ 1000, 2000, 4000, 8 }, numbers.list("1k..4k,8", 1))
    assert.is_nil(numbers.list("1,024", 1))
  end)

  it("is binary if it is a size in bytes without a unit, as in nccl-tests", function()
    for text, bytes in pairs { ["1K"] = 2 ^ 10, ["1k"] = 2 ^ 10, ["8M"] = 2 ^ 23, ["16G"] = 2 ^ 34, ["1T"] = 2 ^ 40,
      ["1kB"] = 1e3, ["1KB"] = 1e3, ["1KiB"] = 2 ^ 10, ["8 MB"] = 8e6, ["1024"] = 1024, ["0.5G"] = 2 ^ 29 } do
      assert.equal(bytes, numbers.bytes(text), text)
    end
    for _, text in ipairs { "1X", "K", "1 furlong", "8s" } do assert.is_nil(numbers.bytes(text), text) end
  end)

  it("is vLLM's in vLLM's command", function()
    for text, number in pairs { ["32k"] = 32000, ["32K"] = 32768, ["25.6k"] = 25600, ["1m"] = 10 ^ 6, ["1M"] = 2 ^ 20,
      ["1g"] = 10 ^ 9, ["1G"] = 2 ^ 30, ["2048"] = 2048 } do
      assert.equal(math.tointeger(number), numbers.of_vllm(text), text)
    end
    for _, text in ipairs { "1.5K", "k", "32kb", "1.0001k" } do assert.is_nil(numbers.of_vllm(text), text) end
  end)

  it("means the same wherever it stands", function()
    local function batch(options)
      return program.ask("tperf train gpt2 -s h100-sxm --software none --csv " .. options).out
    end
    assert.equal(batch "-b 2000", batch "-b 2k")
    assert.equal(batch "-b 1024", batch "-b 1,024")
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    local function serve(options)
      program.write(folder .. "/serve.sh", "vllm serve meta-llama/Llama-2-7b-hf " .. options .. "\n")
      local result = program.ask("tperf serve --from " .. folder .. "/serve.sh -s h100-sxm --rate 1 --prompt 512 "
        .. "--output 64 --json")
      assert.equal(0, result.code, result.err)
      return result.out
    end
    local long = serve "--max-model-len 2048 --max-num-batched-tokens 8192"
    assert.equal(long, serve "--max-model-len 2K --max-num-batched-tokens 8K")
    assert.equal(serve "--max-model-len 2000 --max-num-batched-tokens 8000",
      serve "--max-model-len 2k --max-num-batched-tokens 8k")
    local wrong = program.shell("tperf serve --from serve.sh -s h100-sxm --rate 1 --prompt 512 --output 64",
      (program.write(folder .. "/serve.sh", "vllm serve meta-llama/Llama-2-7b-hf --max-model-len 2x\n") or folder))
    assert.truthy(wrong.err:find("2x", 1, true), wrong.err)
  end)
end)
