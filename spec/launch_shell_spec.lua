-- The small shell that reads launch scripts: words, variables, conditions, files, and unknown commands. Compared with
-- bash itself if it is installed.
local marker = require "tperf.import.launch.shell.marker"
local program = require "program"
local shell = require "tperf.import.launch.shell"
local tperf = require "tperf"

local function run(text, given, environment)
  local sh = shell.new(given or {}, environment or {}, function() end)
  local ok, problem = pcall(sh.run, sh, text, "run.sh")
  if not ok then error(type(problem) == "table" and problem.shell or problem, 0) end
  return sh
end

-- The words of the command named `launch`, as one line.
local function launched(text, given, environment)
  for _, command in ipairs(run(text, given, environment).commands) do
    if command.words[1] == "launch" then return marker.shown(table.concat(command.words, "|", 2)) end
  end
end

-- Scripts whose words bash prints the same way: `launch` is a function there.
local SCRIPTS <const> = {
  "A=1 B=2\nlaunch $A ${B} \"$A $B\" '$A' \\$A",
  "A='x  y'\nlaunch $A \"$A\" pre$A\"post\"",
  "unset A\nlaunch ${A:-d} ${A-e} ${B:=f} $B ${B:+g}",
  "N=12\nlaunch $((N / 5)) $((N % 5)) $((-N / 5)) $((2 ** 5)) $((N > 3 ? 1 : 2)) $(( (N + 3) * 2 )) $((N<<2))",
  "L=(a 'b c' d)\nL+=(e)\nlaunch \"${L[@]}\" ${L[1]} ${#L[@]} \"${L[*]}\"",
  "declare -A M=([x]=1 [y]=\"2 3\")\nK=y\nlaunch ${M[x]} \"${M[$K]}\"",
  "F=dir/file.tar.gz\nlaunch ${F##*/} ${F%.gz} ${F%%.*} ${F#*/} ${F/file/x} ${#F} ${F:4:4} ${F^^}",
  "A=\"--one 1 \\\n  --two 2\"\nlaunch $A",
  "f() { local x=$1; launch $x $2 $#; }\nf a b c",
  "for i in 1 2 3; do S=\"$S$i\"; done\nlaunch $S",
  "A=3\nif [ $A -gt 2 ] && [ \"$A\" != 4 ]; then launch yes; else launch no; fi",
  "A=h100\ncase $A in h*) launch hopper ;; *) launch other ;; esac",
  "A=v1.2\nif [[ $A == v* && -n $A ]]; then launch match; fi",
  "[[ 3 -lt 5 ]] && launch less || launch more",
  "launch $(echo one two) \"$(echo 'a  b')\" `echo three`",
  "launch $(basename /x/y.sh .sh) $(dirname /x/y.sh)",
  "A=x\nC='launch $A \"two words\"'\neval $C",
  "launch a \\\n  b # not c\n",
  "export A=1; A=2 true; launch $A",
  "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; launch $i",
  "cat > /dev/null <<EOF\nlaunch no\nEOF\nlaunch after",
  "A=5; ((A > 3)) && launch big",
  "set -- p q r; launch a",
  "function g { launch $FUNCARG in; }\nFUNCARG=z; g",
  "A=a; A+=b; launch $A; B=\"$A\"c; launch $B",
}

describe("the shell of launch files", function()
  it("splits words as bash does", function()
    local count = 0
    for _, script in ipairs(SCRIPTS) do
      local quoted = ("launch() { local IFS='|'; printf '%%s' \"$*\"; exit; }\n%s\n"):format(script)
      local path = os.tmpname()
      program.write(path, quoted)
      local told = program.shell("bash " .. path).out
      os.remove(path)
      assert.equal(told, launched(script), script)
      count = count + 1
    end
    assert.equal(#SCRIPTS, count)
  end)

  it("tracks unknown values until they matter", function()
    assert.equal("--n|${NNODES}", launched "launch --n $NNODES")
    assert.equal("--n|${NNODES}", launched "N=$((NNODES * 8))\nlaunch --n $N")
    assert.equal("--n|16", launched("N=$((NNODES * 8))\nlaunch --n $N", { NNODES = "2" }))
    assert.equal("--n|4", launched "launch --n ${NNODES:-4}")
    assert.equal("--h|$(hostname)", launched "launch --h $(hostname)")
    assert.equal("3", launched "S=$1\nif [ \"$S\" == \"\" ]; then S=3; fi\nlaunch $S") -- a default of an argument
  end)

  it("marks as unknown what a condition on an unknown value decides", function()
    local script = "if [ $SIZE -eq 8 ]; then T=2; else T=4; fi\nlaunch $T"
    assert.equal("${SIZE}", launched(script))
    assert.equal("2", launched(script, { SIZE = "8" }))
    assert.equal("4", launched(script, { SIZE = "70" }))
    assert.equal("1", launched "T=1\nif [ \"$DEBUG\" = true ]; then T=2; fi\nlaunch $T") -- a switch that is off
    assert.equal("${MODE}", launched "case $MODE in a) T=1;; b) T=2;; esac\nlaunch $T")
  end)

  it("continues despite missing arguments, files and programs", function()
    assert.equal("on", launched "if [ $# -lt 1 ]; then echo usage; exit 1; fi\nlaunch on")
    assert.equal("on", launched "if [ ! -f pretrain_gpt.py ]; then exit 1; fi\nlaunch on")
    assert.equal("on", launched "while getopts 'n:' o; do N=$OPTARG; done\nwhile read l; do N=1; done < f\nlaunch on")
    assert.equal("on", launched "command -v nvcc > /dev/null || exit 1\nlaunch on")
    assert.equal("$[[ … =~ ^(a|b) ]]", launched "A=ab\nif [[ $A =~ ^(a|b) ]]; then T=1; else T=2; fi\nlaunch $T")
  end)

  it("follows scripts in strings, in documents and beside the script", function()
    local sh = run "A=7\nsrun -N 2 bash -c \"launch $A \\$B\""
    assert.equal("srun -N 2 bash -c launch 7 \1B\2", table.concat(sh.commands[1].words, " "))
    assert.equal("7", launched "A=7\nsbatch <<EOF\nlaunch $A\nEOF")
    assert.equal('{ "a": 7 }\n', run("A=7\ncat <<EOF > f.json\n{ \"a\": $A }\nEOF").files["f.json"])
    assert.equal("$A\n", run("A=7\ncat > f <<'EOF'\n$A\nEOF").files.f)
  end)

  it("terminates on any input", function()
    for script, message in pairs {
      ["while true; do A=1; done"] = "more than 100000 commands",
      ["f() { f; }\nf"] = "more than %d+ deep",
      ["A=x\nwhile true; do A=$A$A$A$A; done"] = "more than %d+ bytes",
      [("( "):rep(200)] = "nested more than",
      ["if true; then launch"] = "'fi' is missing",
      ["eval 'eval \"$E\"'; E='eval \"$E\"'; eval \"$E\""] = "within each other",
      ["launch $((1 / 0))"] = "division by zero",
    } do
      assert.error_matches(function() run(script) end, message)
    end
    for _, text in ipairs { "'", '"', "${", "$((", "`", "<<", "case x in", "a=(", "[[", ")", "}", "&&", "\\" } do
      pcall(run, text) -- refused or read, but it returns
    end
  end)

  it("names what is missing, the file and the remedy", function()
    local file = { name = "run.sh",
      text = "torchrun --nproc_per_node 8 --nnodes $NNODES pretrain_gpt.py --num-layers 8 "
      .. "--tensor-model-parallel-size $TP --micro-batch-size 1 --seq-length 128" }
    assert.error_matches(function() tperf.import.launch { files = { file }, stack = "megatron" } end,
      "run.sh does not say TP %(for %-%-tensor%-model%-parallel%-size%), NNODES %(for the launcher%): %-%-set TP=")
    local launch = tperf.import.launch { files = { file }, stack = "megatron", given = { NNODES = 2, TP = 4 } }
    assert.same({ 16, 4, 4 }, { launch.gpus, launch.tp, launch.dp })
  end)

  it("asks for a choice between several commands", function()
    local flags = " pretrain_gpt.py --micro-batch-size 1 --seq-length 64 --num-layers 4 --tensor-model-parallel-size "
    local file = { name = "run.sh", text = "# small one\ntorchrun --nproc_per_node 2" .. flags .. "1\n# the large one\n"
      .. "torchrun --nproc_per_node 8" .. flags .. "2\n" }
    local function tp(command)
      return tperf.import.launch { files = { file }, given = { command = command } }.tp
    end
    assert.error_matches(tp, "starts 2 commands; say which with 'command' .* 1: line 2 %(small one%); 2: line 4")
    assert.same({ 1, 2, 1, 2, 2 }, { tp "first command", tp "second command", tp(1), tp "large one",
      tp "last command" })
    assert.error_matches(function() tp "huge" end, "no one command is called \"huge\"")
  end)
end)

describe("a script that submits another one", function()
  it("is read with the settings of both, and the nodes that the submission says", function()
    local files = {
      { name = "run.sh", text = "SIZE=big\nif [ $SIZE == big ]; then TP=8; NNODES=4; else TP=1; NNODES=1; fi\n"
        .. ". `pwd`/CONFIG.sh\n. `pwd`/SUBMIT.sh\nexit 0\n" },
      { name = "CONFIG.sh", text = "export PARAMETERS=\" --tensor-model-parallel-size ${TP} --micro-batch-size 1 \\\n"
        .. " --global-batch-size 64 --num-layers 24 --hidden-size 2304 --num-attention-heads 24 --seq-length 2048 \\\n"
        .. " --max-position-embeddings 2048 --fp16 \"\n" },
      { name = "SUBMIT.sh", text = "sbatch -p x --nodes=${NNODES} --export=PARAMETERS START.sh\nexit 0\n" },
      { name = "START.sh", text = "#!/bin/bash\n#SBATCH -t 0:30:00 --exclusive --mem=0 --ntasks-per-node=8\n"
        .. 'CMD="python -u pretrain_gpt.py ${PARAMETERS}"\nsrun -l --output=x.log sh -c "${CMD}"\n' },
    }
    local r = tperf.import.launch { files = files }
    assert.same({ "Megatron-LM", 32, 8, 4 }, { r.stack, r.gpus, r.tp, r.dp })
    r = tperf.import.launch { files = files, given = { SIZE = "small" } }
    assert.same({ 8, 1, 8 }, { r.gpus, r.tp, r.dp })
    files[1].text = files[1].text:gsub(" NNODES=%d;", "")
    local _, message = pcall(tperf.import.launch, { files = files })
    assert.matches("does not say NNODES", message, 1, true)
  end)

  it("computes with expr as with $((…))", function()
    assert.equal("4|7", launched "N=4\nlaunch $(expr 16 / $N) $(expr 3 + $N)")
    assert.equal("$(expr 16 / $(unknown))", launched "launch $(expr 16 / $(unknown))")
  end)
end)
