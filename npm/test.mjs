// Tests of the installed package, against the program that TPERF names.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import test from "node:test";
import { ask, askText, TperfError } from "tperf";

const LAYOUT = { model: "gpt2", system: "h100-sxm", gpus: 8, global_batch: 64 };

test("answers with the program's bytes", async () => {
  const questions = [
    { ask: "train", with: LAYOUT },
    { ask: "search", id: "x", with: { ...LAYOUT, top: 2 }, fields: ["time", "tp", "memory.total"] },
    { ask: "infer", with: { model: "llama-3.1-8b", system: "h100-sxm", tp: 2, prompt: 1000, generate: 100 } },
    { ask: "serve", with: { model: "gpt2", system: "h100-sxm", load: { rate: 2 }, prompt: 100, output: 10, count: 20 } },
    { ask: "train", with: { ...LAYOUT, tp: 3 } },
    { ask: "schema", with: { question: "train" } },
  ].map(question => JSON.stringify(question));
  let wanted;
  try {
    wanted = execFileSync(process.env.TPERF, ["ask"], { input: questions.join("\n"), encoding: "utf8" });
  } catch (failed) {
    wanted = failed.stdout; // its status is 1: one question has no answer
  }
  const lines = [];
  for (const question of questions) lines.push(await askText(question));
  assert.equal(lines.join("\n") + "\n", wanted);
});

test("rejects with field, value and remedy", async () => {
  await assert.rejects(ask({ ask: "train", with: { ...LAYOUT, tpp: 2 } }), error => {
    assert.ok(error instanceof TperfError);
    assert.deepEqual([error.code, error.field, error.value], ["unknown_field", "tpp", 2]);
    assert.match(error.remedy, /^use '/);
    return true;
  });
});

test("can be required", async () => {
  const { ask: required } = createRequire(import.meta.url)("tperf");
  const answer = await required({ ask: "train", with: LAYOUT, fields: ["time"] });
  assert.equal(answer.time, (await ask({ ask: "train", with: LAYOUT })).time);
});
