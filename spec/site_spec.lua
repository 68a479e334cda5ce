-- The site: every link leads somewhere, and nothing is loaded from elsewhere. The files of a release.
package.path = "./tools/?.lua;" .. package.path
local markdown = require "site.markdown"
local program = require "program"

local VERSION <const> = program.slurp "VERSION":match "%S+"

local function same(wanted, text) assert.equal(wanted, markdown.html(text, function(to) return to end)) end

describe("tools/site/markdown.lua", function()
  it("writes the Markdown of the pages as HTML", function()
    same('<h2 id="the-sandbox">The <code>sandbox</code></h2>\n<p>a <strong>b</strong> <em>c</em> &lt;d&gt;</p>',
      "## The `sandbox`\n\na **b** *c* <d>\n")
    same('<p><a href="x.md#y">a <code>b*c*</code></a></p>', "[a `b*c*`](x.md#y)")
    same("<ul><li>a\nb</li>\n<li>c</li></ul>\n<ol><li>d</li></ol>", "* a\n  b\n* c\n\n1. d")
    same('<pre class="lua"><code>a &lt; b\n\nc</code></pre>\n<pre><code>d\n  e</code></pre>',
      "```lua\na < b\n\nc\n```\n\n    d\n      e\n")
    same('<div class="scroll"><table><thead><tr><th>a</th><th class="n">b</th></tr></thead><tbody><tr><td>c|d</td>'
      .. '<td class="n">1</td></tr></tbody></table></div>', "| a | b |\n|---|---:|\n| c\\|d | 1 |")
  end)
end)

describe("make site", function()
  it("has links that lead somewhere, all of them relative", function()
    local folder, anchors, wrong, count = program.folder(), {}, {}, 0
    finally(function() program.remove(folder) end)
    local made = program.shell(("tperf run --trust tools/site/write.lua %s VERSION"):format(folder))
    assert.equal(0, made.code, made.err)
    local function anchors_of(path)
      if not anchors[path] then
        anchors[path] = {}
        for id in program.slurp(path):gmatch ' id="([^"]*)"' do anchors[path][id] = true end
      end
      return anchors[path]
    end
    for path in program.shell(("find %s -name '*.html' -not -path '*/page/*'"):format(folder)).out:gmatch "[^\n]+" do
      local base = path:match "^(.*/)"
      for kind, to in program.slurp(path):gmatch ' (%l+)="([^"]*)"' do
        if kind == "src" or kind == "href" and not to:find "^https?:" then
          count = count + 1
          local file, anchor = to:match "^([^#]*)#?(.*)$"
          local target = file == "" and path or base .. file
          local there = io.open(target)
          if there then there:close() end
          if not there or anchor ~= "" and not anchors_of(target)[anchor] then
            wrong[#wrong + 1] = path .. ": " .. to
          end
        end
      end
    end
    assert.equal("", table.concat(wrong, "\n"))
    assert.truthy(count > 1000, count)
    assert.truthy(program.slurp(folder .. "/downloads/SHA256SUMS"):find "^%x+  VERSION\n$")
  end)
end)

describe("a release", function()
  it("has one version", function()
    assert.equal(VERSION, program.slurp "CITATION.cff":match "\nversion: (%S+)")
    assert.truthy(program.slurp "CHANGELOG.md":find("\n## " .. VERSION, 1, true))
  end)

  it("has a rockspec that names where its sources are", function()
    local folder = program.folder()
    finally(function() program.remove(folder) end)
    local made = program.shell(("packaging/dist.sh %s %s/dist https://example.org/files"):format(VERSION, folder))
    assert.equal(0, made.code, made.err)
    local url = program.slurp(("%s/dist/tperf-%s-1.rockspec"):format(folder, VERSION)):match 'url = "([^"]*)"'
    assert.equal(("https://example.org/files/tperf-%s.tar.gz"):format(VERSION), url)
    local sums = program.shell(("cd %s/dist && sha256sum -c --quiet SHA256SUMS && tar tzf *.tar.gz"):format(folder))
    assert.equal(0, sums.code, sums.err)
    assert.truthy(sums.out:find("\ntperf-" .. VERSION .. "/Makefile\n", 1, true))
  end)
end)
