local core = require "tperf.core"
local reference = require "sha256" -- a separate one, in Lua

describe("core.file.sha256", function()
  -- The examples of FIPS 180-4's companion document and the empty message.
  it("gives the published digests", function()
    local published = {
      [""] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      ["abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"] =
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
      [("a"):rep(1000000)] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
    }
    for text, digest in pairs(published) do assert.equal(digest, core.file.sha256(text)) end
  end)

  it("agrees with another implementation at every length around the block's", function()
    for length = 0, 130 do
      local text = ("x"):rep(length) .. string.char(length)
      assert.equal(reference(text), core.file.sha256(text))
    end
  end)
end)
