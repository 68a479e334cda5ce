-- libtperf.so and the Python package: their examples in docs/ask.md, the package's own tests, what is generated.
package.path = "./tools/?.lua;" .. package.path
local core = require "tperf.core"
local program = require "program"
local tperf = require "tperf"

-- The folder of the build that runs this.
local BUILD <const> = program.shell("readlink -f " .. program.quote(program.absolute())).out:match "^(.*)/"
local LIBRARY <const> = BUILD .. "/libtperf.so"

local python = program.shell("command -v python3").code == 0 and it or pending

-- Runs a command in a folder of its own; the library and the package are those of this tree.
local function run(command, files)
  local folder = program.folder()
  finally(function() program.remove(folder) end)
  for name, text in pairs(files or {}) do program.write(folder .. "/" .. name, text) end
  local result = program.shell(("TREE=%s LIBRARY=%s PROGRAM=%s; cd %s && { %s; }"):format(
    program.quote(program.shell("pwd").out:gsub("\n", "")), program.quote(LIBRARY),
    program.quote(program.absolute()), program.quote(folder), command))
  assert.equal(0, result.code, result.out .. result.err)
  return result
end

-- The n-th block of docs/ask.md in a language.
local function example(language, n)
  local list = {}
  for text in program.slurp "docs/ask.md":gmatch("```" .. language .. "\n(.-)```") do list[#list + 1] = text end
  return list[n or 1]
end

describe("libtperf.so", function()
  setup(function()
    local variant = BUILD:match "/build/([^/]+)$"
    local made = program.shell(("make VARIANT=%s build/%s/libtperf.so"):format(variant, variant))
    assert.equal(0, made.code, made.err)
  end)

  it("answers the C program of docs/ask.md", function()
    local result = run([[cc -I "$TREE/include" example.c "$LIBRARY" -Wl,-rpath,"${LIBRARY%/*}" -o example &&
      TPERF_PATH="$TREE" ./example]], { ["example.c"] = example "c" })
    local wanted = tperf.train { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64 }.time
    assert.equal(wanted, core.yaml(result.out, "answer").time)
  end)

  it("says what is wrong with a folder of data, and survives many handles", function()
    run([[cc -I "$TREE/include" handles.c "$LIBRARY" -Wl,-rpath,"${LIBRARY%/*}" -o handles && ./handles "$TREE"]], {
      ["handles.c"] = [[
#include <stdio.h>
#include <string.h>
#include <tperf/ask.h>
int main(int n, char **argument) {
    tperf_error error;
    if (tperf_open("/nowhere", &error) || !strstr(error.message, "has no folder systems")) return 1;
    for (int i = 0; i < 20; i++) {
        tperf_handle *tperf = tperf_open(argument[n - 1], &error);
        char *line;
        if (!tperf || tperf_ask(tperf, "{\"ask\": 3", &line) != TPERF_OK || !strstr(line, "unreadable")) return 2;
        tperf_free(line);
        tperf_close(tperf);
    }
    return 0;
}
]] })
  end)

  it("ends a question that another thread cancels, and answers the next", function()
    run([[cc -I "$TREE/include" cancel.c "$LIBRARY" -lpthread -Wl,-rpath,"${LIBRARY%/*}" -o cancel &&
      ./cancel "$TREE"]], {
      ["cancel.c"] = [[
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <tperf/ask.h>
static void *cancel(void *handle) {
    long done, total;
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    tperf_progress(handle, &done, &total);
    tperf_cancel(handle);
    return NULL;
}
int main(int n, char **argument) {
    tperf_handle *tperf = tperf_open(argument[n - 1], NULL);
    pthread_t thread;
    char *line;
    tperf_cancel(tperf); // no question is under way
    if (tperf_ask(tperf, "{\"ask\": \"schema\", \"with\": {\"question\": \"train\"}}", &line) != TPERF_OK) return 1;
    tperf_free(line);
    pthread_create(&thread, NULL, cancel, tperf);
    if (tperf_ask(tperf, "{\"ask\": \"serve\", \"with\": {\"model\": \"gpt2\", \"system\": \"h100-sxm\", "
                         "\"count\": 1048576, "
                         "\"load\": {\"rate\": 2}, \"prompt\": 1000, \"output\": 400}}", &line) != TPERF_INTERRUPTED)
        return 2;
    pthread_join(thread, NULL);
    if (line || tperf_ask(tperf, "{\"ask\": 3}", &line) != TPERF_OK || !strstr(line, "error")) return 3;
    tperf_free(line);
    tperf_close(tperf);
    return 0;
}
]] })
  end)

  python("and the program serve the package's tests", function()
    local test = [[PYTHONPATH="$TREE/python" TPERF_PROGRAM="$PROGRAM" %s PYTHONDONTWRITEBYTECODE=1 \
      python3 -m unittest discover -q -s "$TREE/python/tests"]]
    run(test:format 'TPERF_LIBRARY="$LIBRARY"')
    run(test:format 'TPERF="$PROGRAM" TPERF_LIBRARY=')
  end)

  python("answers the Python program of docs/ask.md", function()
    local result = run([[PYTHONPATH="$TREE/python" TPERF_LIBRARY="$LIBRARY" PYTHONDONTWRITEBYTECODE=1 \
      python3 ask.py]], { ["ask.py"] = example "python" })
    local question, lines = { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 128 }, {}
    for i, tp in ipairs { 1, 2, 4, 8 } do
      question.tp = tp
      lines[i] = ("%.3f s"):format(tperf.train(question).time)
    end
    question.tp = nil
    lines[5] = "3 " .. tperf.search(question)[1].tp
    assert.equal(table.concat(lines, "\n") .. "\n", result.out)
  end)

  python("answers the notebook as it stands", function()
    run([[PYTHONPATH="$TREE/python" TPERF_LIBRARY="$LIBRARY" PYTHONDONTWRITEBYTECODE=1 \
      python3 "$TREE/tools/notebook.py" "$TREE/docs/notebook.ipynb"]])
  end)

  local pandas = program.shell("python3 -c 'import pandas, matplotlib'").code == 0 and it or pending
  pandas("draws the figure of docs/ask.md", function()
    local result = run([[PYTHONPATH="$TREE/python" TPERF_LIBRARY="$LIBRARY" PYTHONDONTWRITEBYTECODE=1 \
      MPLBACKEND=Agg python3 figure.py && test -s steps.png]], { ["figure.py"] = example("python", 2) })
    local step = tperf.train { model = "llama-3.1-8b", system = "h100-sxm", gpus = 64, global_batch = 512, tp = 2 }
    local time, low = result.out:match "\n64 +(%S+) +(%S+)"
    assert.near(step.time, tonumber(time), 1e-5)
    assert.near(step.interval.low, tonumber(low), 1e-5)
  end)

  python("makes a wheel that works where it is unpacked", function()
    local result = run([[mkdir out && python3 "$TREE/python/build_wheel.py" "$LIBRARY" 1.2.3 out && cd out &&
      python3 -m zipfile -e *.whl place && cd / && PYTHONPATH="$OLDPWD/place" python3 -c '
import tperf
print(tperf.train(model="gpt2", system="h100-sxm", gpus=8, global_batch=64, fields=["time"])["time"])']])
    local wanted = tperf.train { model = "gpt2", system = "h100-sxm", gpus = 8, global_batch = 64 }.time
    assert.equal(wanted, tonumber(result.out:match "([^\n]+)\n$"))
  end)
end)

describe("python/tperf/questions.py", function()
  it("is what `make docs` writes", function()
    local written = require "write_python"
    assert.equal(written.text(), program.slurp(written.path))
  end)
end)
