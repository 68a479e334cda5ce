// Headless Chromium through its debugging protocol, over a pipe: no port, no driver.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
  "--remote-debugging-pipe"];
const PATIENCE = 60000; // ms: this may run beside a whole test suite

// { page(url, options), close() }; a profile of its own, removed at the end.
export function browser() {
  const profile = mkdtempSync(join(tmpdir(), "tperf-page-"));
  const chromium = spawn("chromium", [...FLAGS, `--user-data-dir=${profile}`],
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const waiting = new Map(), listeners = new Set();
  let last = 0, received = "";
  chromium.stdio[4].setEncoding("utf8").on("data", data => {
    const messages = (received + data).split("\0");
    received = messages.pop();
    for (const text of messages) {
      const message = JSON.parse(text), promise = waiting.get(message.id);
      if (message.id === undefined) for (const listener of listeners) listener(message);
      else if (message.error) promise.reject(new Error(JSON.stringify(message.error)));
      else promise.resolve(message.result);
      waiting.delete(message.id);
    }
  });
  const send = (method, params = {}, sessionId = undefined) => new Promise((resolve, reject) => {
    waiting.set(++last, { resolve, reject });
    chromium.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId }) + "\0");
  });

  // A page in a profile of its own. options: width, height, dark. Its `log` has errors, `requests` its network
  // requests.
  async function page(url, { width = 1280, height = 900, dark = false } = {}) {
    const { browserContextId } = await send("Target.createBrowserContext");
    const { targetId } = await send("Target.createTarget", { url: "about:blank", browserContextId });
    const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
    const call = (method, params) => send(method, params, sessionId), log = [], requests = [];
    const listener = ({ method, params, sessionId: from }) => {
      if (from !== sessionId) return;
      if (method === "Runtime.exceptionThrown") log.push(params.exceptionDetails.exception?.description
        ?? params.exceptionDetails.text);
      if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type))
        log.push(params.args.map(a => a.value ?? a.description).join(" "));
      if (method === "Log.entryAdded") log.push(params.entry.text);
      if (method === "Network.requestWillBeSent" && !/^(data|blob):/.test(params.request.url))
        requests.push(params.request.url.replace(/#.*/s, ""));
    };
    listeners.add(listener);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await call(domain + ".enable");
    await call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
    await call("Emulation.setEmulatedMedia",
      { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await call("Page.navigate", { url });

    // The value of an expression, awaited if it is a promise.
    async function value(expression) {
      const { result, exceptionDetails } = await call("Runtime.evaluate",
        { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    }
    async function until(expression) {
      const late = Date.now() + PATIENCE;
      while (!await value(`Boolean(${expression})`)) {
        if (Date.now() > late) throw new Error(`waited in vain for ${expression}\n${log.join("\n")}`);
        await new Promise(resolve => setTimeout(resolve, 25));
      }
    }
    async function key(name, code = 0) {
      const text = name === "Enter" ? "\r" : name.length === 1 ? name : undefined;
      const event = { key: name, code: name, windowsVirtualKeyCode: code };
      await call("Input.dispatchKeyEvent", { type: "keyDown", text, ...event });
      await call("Input.dispatchKeyEvent", { type: "keyUp", ...event });
    }
    async function point(x, y) {
      await call("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
    }
    // A picture of the whole page.
    async function picture(path) {
      const whole = await value("document.documentElement.scrollHeight");
      await call("Emulation.setDeviceMetricsOverride", { width, height: whole, deviceScaleFactor: 1, mobile: false });
      await new Promise(resolve => setTimeout(resolve, 400));
      const { data } = await call("Page.captureScreenshot", { format: "png" });
      writeFileSync(path, Buffer.from(data, "base64"));
    }
    async function close() {
      listeners.delete(listener);
      await send("Target.disposeBrowserContext", { browserContextId });
    }
    return { value, until, key, point, picture, close, log, requests };
  }

  async function close() {
    const gone = new Promise(resolve => chromium.on("exit", resolve));
    send("Browser.close").catch(() => {});
    const kill = setTimeout(() => chromium.kill("SIGKILL"), 3000);
    await gone;
    clearTimeout(kill);
    rmSync(profile, { recursive: true, force: true });
  }
  return { page, close };
}
