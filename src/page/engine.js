// The page's side of the worker: questions one after the other, and scripts in workers of their own, so that an endless
// script can be stopped. A second worker stands by, warm: it takes over if the first is busy with an outdated question.
"use strict";
const PATIENCE = 40; // ms that a new question waits for an outdated one
const REST = 250; // ms without a question to answer before the second worker is prepared

const engine = (() => {
  const text = id => document.getElementById(id).textContent;
  const url = URL.createObjectURL(new Blob([text("worker")], { type: "text/javascript" }));
  let made = null, worker = null, ready = null, current = null, next = 0, sent = {};
  let spare = null, opening = false, resting = 0; // the second worker
  let wanted = null; // the search that it repeats to warm up
  const waiting = [];

  // A started worker: { worker, ready }.
  function open(onMessage) {
    const w = new Worker(url);
    const started = new Promise((resolve, reject) => {
      w.onmessage = ({ data }) => {
        if (data.ready) {
          made = { module: data.module, files: data.files };
          resolve();
        } else if (data.broken && data.id === undefined) reject(new Error(data.broken));
        else onMessage(data);
      };
      w.onerror = event => {
        const message = event.message || "the worker could not be started";
        reject(new Error(message));
        onMessage({ broken: message });
      };
    });
    w.postMessage({ start: made || { engine: text("engine"), files: text("data") } });
    return { worker: w, ready: started };
  }

  // Replaces the first worker by the second, or by a new one.
  function restart() {
    if (worker) worker.terminate();
    sent = {};
    if (spare) {
      ({ worker, ready, sent } = spare);
      spare.use();
      spare = null;
    } else ({ worker, ready } = open(answered));
  }

  // Starts a second worker, and has it answer the last search, so that everything needed is loaded.
  function standBy() {
    if (spare || opening || !wanted) return;
    opening = true;
    const { question, texts } = wanted;
    let listen = data => { if (data.broken) w.worker.terminate(); else mine.warm = true; };
    const w = open(data => listen(data)), mine = { worker: w.worker, ready: w.ready, sent: { ...texts }, warm: false,
      use() { listen = answered; } };
    w.ready.then(() => {
      w.worker.postMessage({ id: -1, question: { ...question, changed: true }, texts });
      spare = mine;
      opening = false;
    }, () => { opening = false; });
  }

  function answered(data) {
    const job = current;
    if (data.id === -1) return; // the warm-up's answer
    if (!job || data.id !== undefined && data.id !== job.id) return;
    current = null;
    if (data.broken) {
      restart();
      job.reject(new Error(data.broken));
    } else job.resolve(data.answer);
    resting = setTimeout(standBy, REST);
    turn();
  }

  // Starts the oldest waiting job.
  async function turn() {
    if (current || waiting.length === 0) return;
    const job = current = waiting.shift();
    try {
      await ready;
    } catch (problem) {
      current = null;
      return job.reject(problem);
    }
    if (current !== job) return;
    clearTimeout(resting);
    if (job.codes) return worker.postMessage({ id: job.id, unpack: job.codes });
    if (job.question.ask === "plan") wanted = job;
    const texts = {};
    for (const name in job.texts) if (sent[name] !== job.texts[name]) texts[name] = sent[name] = job.texts[name];
    worker.postMessage({ id: job.id, question: { ...job.question, changed: Object.keys(texts).length > 0 }, texts });
  }

  function queue(job) {
    return new Promise((resolve, reject) => {
      waiting.push({ ...job, id: next++, resolve, reject, since: performance.now() });
      turn();
    });
  }

  // Answers a question; null if it was cleared before. texts: the files that it names.
  const ask = (question, texts = {}) => queue({ question, texts });

  // The texts in a link, by name: { texts, problems }; null if it was cleared before.
  const unpack = codes => queue({ codes });

  // Drops all questions so far.
  function clear() {
    for (const job of waiting.splice(0)) job.resolve(null);
    const late = current;
    if (!late) return;
    setTimeout(function giveUp() {
      if (current !== late || waiting.length === 0) return;
      if (!spare) {
        standBy();
        return setTimeout(giveUp, PATIENCE);
      }
      current = null;
      late.resolve(null);
      restart();
      turn();
    }, Math.max(0, PATIENCE - (performance.now() - late.since)));
  }

  // Runs a command line in a fresh instance: { done: promise of { status, files }, stop }.
  function run(command, texts, print) {
    let finish;
    const done = new Promise((resolve, reject) => { finish = { resolve, reject }; });
    const w = open(data => {
      if (data.out !== undefined) print("out", data.out);
      else if (data.err !== undefined) print("err", data.err);
      else {
        w.worker.terminate();
        if (data.broken) finish.reject(new Error(data.broken));
        else finish.resolve(data);
      }
    });
    w.ready.then(() => w.worker.postMessage({ id: 0, run: command, texts }), finish.reject);
    return { done, stop() { w.worker.terminate(); finish.resolve({ status: null, files: {} }); } };
  }

  restart();
  return { ask, unpack, clear, run, files: () => made && made.files };
})();
