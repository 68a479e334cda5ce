// The package's functions, on top of an engine that tperfLoad (node.js, browser.js) compiles at the first question.
class TperfError extends Error {
  constructor(error) {
    super(error.message);
    this.name = "TperfError";
    for (const name of ["code", "field", "value", "remedy"]) this[name] = error[name];
  }
}

let tperfStarted = null;

function tperfOpen() {
  const nothing = { stdout() {}, stderr() {} };
  tperfStarted ??= tperfLoad().then(made => tperfStart(made, nothing));
  return tperfStarted;
}

async function askText(text) {
  const line = tperfLine(await tperfOpen(), "tperf_door_ask", text);
  if (line === null) throw new RangeError("not enough memory for an answer");
  return line;
}

async function ask(question) {
  const answer = JSON.parse(await askText(JSON.stringify(question)));
  if (answer.error) throw new TperfError(answer.error);
  return answer;
}
