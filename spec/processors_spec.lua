-- The number of threads for a question: the processors available to the process, not those of the machine.
local program = require "program"
local threads = require "tperf.core".search.threads

-- A folder that imitates a machine: content by path.
local function machine(files)
  local root = program.folder()
  for path, text in pairs(files) do
    os.execute("mkdir -p " .. program.quote(root .. "/" .. path:match "^(.*)/"))
    program.write(root .. "/" .. path, text)
  end
  return root
end

describe("the number of threads", function()
  local allowed = threads(machine {}) -- no quota at all

  local function expect(count, files)
    local root = machine(files)
    assert.equal(math.min(count, allowed), threads(root))
    program.remove(root)
  end

  it("keeps to the processors that the process may run on", function()
    local folder = program.folder()
    program.write(folder .. "/x.lua", 'print(require "tperf.core".search.threads())')
    local one = "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')"
    local command = ("taskset -c %s %s run --trust x.lua"):format(one, program.quote(program.absolute()))
    local result = program.shell(command, folder)
    program.remove(folder)
    assert.equal("1\n", result.out, result.err)
  end)

  it("keeps to a container's quota, a part of a processor counted as one", function()
    expect(1, { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "50000 100000\n" })
    expect(1, { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "100000 100000\n" })
    expect(2, { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "150000 100000\n" })
    expect(allowed, { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "max 100000\n" })
    expect(allowed, { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "200000000 100000\n" })
  end)

  it("keeps to a container's quota also as one of several processes", function()
    local share = require "tperf.core".ranks.share
    for quota, count in pairs { ["50000 100000"] = 1, ["100000 100000"] = 1, ["max 100000"] = allowed } do
      local root = machine { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = quota .. "\n" }
      assert.equal(math.min(count, allowed), share(root), quota)
      program.remove(root)
    end
  end)

  it("divides processors and quotas among the copies of a process", function()
    local folder = program.folder()
    program.shell("mkdir -p m/proc/self m/sys/fs/cgroup; echo 0::/ > m/proc/self/cgroup; "
      .. "echo 600000 100000 > m/sys/fs/cgroup/cpu.max", folder)
    program.write(folder .. "/x.lua", [[local core = require "tperf.core"
      print(core.ranks.share "none", core.ranks.share "m")]])
    local function shares(before)
      local run = ("%s %s run --trust --processes 3 x.lua"):format(before, program.quote(program.absolute()))
      local result = program.shell(run, folder)
      local own, limited = result.out:match "(%d+)\t(%d+)"
      assert.truthy(own, result.err)
      return { math.tointeger(tonumber(own)), math.tointeger(tonumber(limited)) }
    end
    -- of all processors, and of one to which nobody gave the copies one each
    local third = math.max(allowed // 3, 1)
    assert.same({ third, math.min(third, 2) }, shares "")
    assert.same({ 1, 1 }, shares "taskset -c $(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')")
    program.remove(folder)
  end)

  it("takes the lowest quota of the groups around its own", function()
    expect(1, {
      ["proc/self/cgroup"] = "0::/jobs/one\n", ["sys/fs/cgroup/jobs/one/cpu.max"] = "max 100000\n",
      ["sys/fs/cgroup/jobs/cpu.max"] = "100000 100000\n", ["sys/fs/cgroup/cpu.max"] = "800000 100000\n",
    })
  end)

  it("reads the quotas of the first version of control groups", function()
    expect(1, {
      ["proc/self/cgroup"] = "5:memory:/x\n4:cpu,cpuacct:/jobs\n",
      ["sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us"] = "100000\n",
      ["sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us"] = "100000\n",
    })
    expect(allowed, {
      ["proc/self/cgroup"] = "4:cpu,cpuacct:/\n", ["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "-1\n",
      ["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n",
    })
  end)
end)

describe("a machine without usable quotas", function()
  local allowed = threads(machine {})

  for what, files in pairs {
    ["lines without a group"] = { ["proc/self/cgroup"] = "0\n0:\n\n" },
    ["a quota without a period"] = { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "100000\n" },
    ["a zero period"] = { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "100000 0\n" },
    ["a negative quota"] = { ["proc/self/cgroup"] = "0::/\n", ["sys/fs/cgroup/cpu.max"] = "-5 100000\n" },
    ["the first version without a period"] = { ["proc/self/cgroup"] = "4:cpu:/\n",
      ["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "100000\n" },
    ["the first version with a zero period"] = { ["proc/self/cgroup"] = "4:cpu:/\n",
      ["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "100000\n", ["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "0\n" },
    ["a group whose name is longer than a path"] = { ["proc/self/cgroup"] = "0::/" .. ("x"):rep(4080) .. "\n" },
    ["a group of the first version with such a name"] = { ["proc/self/cgroup"] = "4:cpu:/" .. ("x"):rep(4080) .. "\n" },
    ["a group without a slash"] = { ["proc/self/cgroup"] = "0::x\n" },
  } do
    it("has no quota: " .. what, function()
      local root = machine(files)
      assert.equal(allowed, threads(root))
      program.remove(root)
    end)
  end

  it("may have several groups, of which the lowest quota counts", function()
    for _, order in ipairs { "4:cpu:/\n0::/\n", "0::/\n4:cpu:/\n" } do
      local root = machine {
        ["proc/self/cgroup"] = order, ["sys/fs/cgroup/cpu.max"] = "100000 100000\n",
        ["sys/fs/cgroup/cpu/cpu.cfs_quota_us"] = "900000\n", ["sys/fs/cgroup/cpu/cpu.cfs_period_us"] = "100000\n",
      }
      assert.equal(1, threads(root))
      program.remove(root)
    end
  end)

  it("may have a group whose path leaves no room for the name of its quota's file", function()
    for _, kind in ipairs { { "0::", "" }, { "4:cpu:", "/cpu" } } do
      for room = 1, 24, 4 do
        local root = machine {}
        local taken = #(root .. "/sys/fs/cgroup" .. kind[2]) + room
        os.execute("mkdir -p " .. program.quote(root .. "/proc/self"))
        program.write(root .. "/proc/self/cgroup", kind[1] .. "/" .. ("x"):rep(4095 - taken) .. "\n")
        assert.equal(allowed, threads(root))
        program.remove(root)
      end
    end
  end)

  it("may lie deeper than the longest path", function() assert.equal(allowed, threads(("/x"):rep(2045))) end)
end)
