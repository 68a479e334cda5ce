-- `tperf compat llm-analysis`, and its manual, docs/compat_llm_analysis.md.
local cases = require "llm_analysis_cases"
local program = require "program"

describe("tperf.compat.llm_analysis", function()
  describe("command", function()
    it("prints upstream's JSON, and warnings to standard error", function()
      local result = program.ask("tperf compat llm-analysis infer --model test-13b --seq_len 512 "
        .. "--num_tokens_to_generate 10 --flops_efficiency 0.7 --hbm_memory_efficiency 0.9 --json")
      local name = "test-13b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe0.7-ep1-hbme0.9"
      assert.are.equal(cases.read(name .. "-summary.json") .. "\n", result.out)
      assert.are.equal("warning: Note that Megatron-LM reported up to 0.6 flops efficiency for large scale model "
        .. "training\nwarning: Note that benchmarks show closer to 0.6-0.7 hbm_memory_efficiency in inference "
        .. "workloads\n", result.err)
      assert.are.equal(0, result.code)
    end)

    it("prints the readable text, and takes booleans as Python writes them", function()
      local result = program.ask "tperf compat llm-analysis infer --use_kv_cache False"
      local name = "facebook_opt-1.3b-a100-sxm-40gb-w16a16e16-tp1-pp1-dp1-sp1-fe1-ep1-hbme1"
      assert.are.equal(cases.read(name .. "-summary-readable.txt"), result.out)
    end)

    it("distinguishes wrong usage from a refusal", function()
      local function fails(line, code, text)
        local result = program.ask("tperf compat " .. line)
        assert.are.equal(code, result.code)
        assert.are.equal("", result.out)
        assert.is_truthy(result.err:find(text, 1, true), result.err)
      end
      fails("", 2, "the tool is missing: llm-analysis")
      fails("llm-analysis", 2, "needs one question, train or infer")
      fails("llm-analysis train --flash_attn yes", 2, "--flash_attn must be true or false")
      fails("llm-analysis train --fixed --pp_size 30", 1, "pp_size (30) must be at most num_layers (24)")
      fails("llm-analysis train --tp_sise 2", 2, "did you mean '--tp_size'?")
      fails("llm-analysis infer --ep_size 2", 1, "unknown field 'ep_size'")
      fails("llm-analysis infer --pp_size 0", 1, "'pp_size' must be an integer from 1")
    end)
  end)

  describe("manual", function()
    local manual = program.slurp "docs/compat_llm_analysis.md"

    it("has examples that run", function()
      local count = 0
      for code in manual:gmatch "```lua\n(.-)```" do
        count = count + 1
        local env = setmetatable({ print = function() end }, { __index = _G })
        assert(load(code, "=manual example " .. count, "t", env))()
      end
      assert.are.equal(6, count)
      for line in manual:gmatch "```sh\n(.-)```" do
        for command in line:gmatch "[^\n]+" do assert.are.equal(0, program.ask(command).code, command) end
      end
    end)

    it("lists every argument with its kind and meaning", function()
      for _, list in pairs(require "tperf.compat.llm_analysis.arguments".lists) do
        for _, argument in ipairs(list) do
          local name, kind, _, meaning, revision = table.unpack(argument)
          local line = ("| `%s` | %s | %s | %s |\n"):format(name, kind, meaning, revision or "")
          assert.is_truthy(manual:find(line, 1, true), line)
        end
      end
    end)

    it("lists every method and every function", function()
      for _, name in ipairs(require "tperf.compat.llm_analysis.analysis".methods) do
        assert.is_truthy(manual:find("`" .. name .. "`", 1, true), name)
      end
      for name in pairs(require "tperf.compat.llm_analysis.helpers") do
        assert.is_truthy(manual:find("`" .. name .. "(", 1, true), name)
      end
    end)

    it("lists every correction that the formulas cite", function()
      for _, file in ipairs { "upstream", "fixed", "setup" } do
        for quirk in program.slurp("lua/tperf/compat/llm_analysis/" .. file .. ".lua"):gmatch "Q%d+" do
          assert.is_truthy(manual:find(quirk .. "%D"), quirk)
        end
      end
    end)
  end)
end)
