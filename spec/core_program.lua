-- C programs that a spec links with the core's objects of the variant that runs it: they count towards coverage, and
-- sanitizers see them.
local program = require "program"

local core_program = {}

local FLAGS <const> = "-std=c11 -D_POSIX_C_SOURCE=200809L -Iinclude -Isrc -Wall -Wextra -Werror "
local OWN <const> = { asan = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all ",
  tsan = "-O1 -g -fsanitize=thread ", coverage = "-O0 -g --coverage " }
local ROOMS <const> = { "base", "machine", "grid", "op", "price", "plan", "schedule", "step", "search", "event",
  "serve" }

local build = io.popen("readlink -f " .. program.quote(program.absolute())):read("l"):match "^(.*)/"

-- The objects of the sources there are: those of others may be left over in the build folder.
local function objects()
  local list = { build .. "/serve/schedulers.o" }
  for _, room in ipairs(ROOMS) do
    local sources = program.shell(("ls src/%s/*.c src/%s/*/*.c 2> /dev/null"):format(room, room)).out
    for source in sources:gmatch "src/(%S+)%.c" do
      if not source:find "/test/" then list[#list + 1] = ("%s/%s.o"):format(build, source) end
    end
  end
  return table.concat(list, " ")
end

--- Builds a program from a source file.
---@param source string  its path
---@param folder string  where to put it
---@return string path
function core_program.build(source, folder)
  local path, variant = folder .. "/" .. source:match "([^/]*)%.c$", build:match "[^/]*$"
  local flags = FLAGS .. (OWN[variant] or "") .. (variant == "coverage" and "-dumpdir " .. folder .. "/" or "")
  local built = program.shell(("${CC:-cc} %s -o %s %s %s -lm -pthread"):format(flags, path, source, objects()))
  if built.code ~= 0 then error(built.err .. built.out, 0) end
  return path
end

--- Runs it; it must end well.
---@return string out  what it prints
function core_program.run(path, arguments)
  local ran = program.shell(("ASAN_OPTIONS=detect_leaks=0 %s %s"):format(path, arguments or ""))
  if ran.code ~= 0 then error(ran.err .. ran.out, 0) end
  return ran.out
end

return core_program
