// Usage: node visit.mjs PAGE AXE INPUT OUTPUT [PICTURES]. Walks through the page as a user does and writes a record as
// JSON, for spec/page/page_spec.lua. INPUT: { questions, config, system, link, pictures }. PICTURES: a folder for every view as PNG.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { browser } from "./browser.mjs";

const [pagePath, axePath, inputPath, outputPath, pictures] = process.argv.slice(2);
const home = pathToFileURL(pagePath).href, axe = readFileSync(axePath, "utf8");
const input = JSON.parse(readFileSync(inputPath, "utf8"));
const VIEWS = ["plan", "compare", "compare?for=serving&gpus=8", "schedules", "serve", "rl", "script"];
const chromium = browser(), seen = { views: [], log: [], requests: [] };

const READY = "document.querySelector('main h1') && !document.querySelector('main[aria-busy]')"
  + " && (document.querySelector('.answer tbody tr, .editor') || !document.querySelector('.problem').hidden)";
const cells = "[...document.querySelectorAll('.answer table')].map(t => [...t.rows].map(r => "
  + "[...r.cells].map(c => c.textContent).join('|')))";

async function open(fragment, options) {
  const page = await chromium.page(home + fragment, options);
  await page.until(READY);
  return page;
}
async function leave(page, expected = []) {
  seen.log.push(...page.log.filter(text => !expected.some(e => text.includes(e))));
  seen.requests.push(...page.requests);
  await page.close();
}
// Writes into a field as a user does, and waits for the answer.
async function put(page, id, text) {
  await page.value(`{ const e = document.getElementById(${JSON.stringify(id)}); e.value = ${JSON.stringify(text)};
    for (const name of ["input", "change"]) e.dispatchEvent(new Event(name, { bubbles: true })); }`);
  await new Promise(resolve => setTimeout(resolve, 300));
  await page.until(READY);
}

async function everyView() {
  for (const view of VIEWS) {
    for (const [width, dark] of [[1280, false], [360, true], [2000, true], ...(pictures ? [[360, false]] : [])]) {
      const page = await open("#" + view, { width, dark });
      const record = { view, width, dark };
      record.overflow = await page.value("document.documentElement.scrollWidth - innerWidth");
      record.charts = await page.value("document.querySelectorAll('.answer svg[width]').length");
      if (width < 2000) {
        await page.value(axe + ";0");
        record.violations = await page.value("axe.run().then(r => r.violations.map(v => v.id + ': ' + "
          + "v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join('; ')))");
      }
      const name = `${view.replace(/\W+/g, "-")}-${width}-${dark ? "dark" : "light"}.png`;
      if (pictures) await page.picture(`${pictures}/${name}`);
      seen.views.push(record);
      await leave(page);
    }
  }
}

// What stands on the first screen, before anybody scrolls.
async function firstScreen() {
  seen.first = [];
  for (const width of [360, 1024, 1280]) {
    const page = await open("", { width, height: 740 });
    seen.first.push(await page.value(`(() => {
      const box = e => e.getBoundingClientRect(), facts = [...document.querySelectorAll(".facts > div")];
      const heading = [...document.querySelectorAll(".answer th")].find(th => th.textContent === "memory");
      return { width: ${width}, facts: facts.map(e => e.textContent),
        shown: facts.every(e => box(e).bottom <= innerHeight && box(e).right <= innerWidth),
        memory: box(heading).right <= box(heading.closest(".scroll")).right,
        answerFirst: box(facts[0]).top < box(document.querySelector("form")).top };
    })()`));
    await leave(page);
  }
  const page = await open("");
  await page.value("[...document.querySelectorAll('.sort')].find(b => b.textContent === 'mfu').click()");
  seen.headingTip = await page.value("document.getElementById('title-tip').textContent");
  seen.trains = await page.value("[...document.getElementById('plan-software').options].map(o => o.value).join(' ')");
  await put(page, "plan-batch", "10x");
  seen.stale = [await page.value("document.querySelector('.answer').classList.contains('stale')")];
  await put(page, "plan-batch", "512");
  seen.stale.push(await page.value("document.querySelector('.answer').classList.contains('stale')"));
  await leave(page);
  const served = await open("#serve");
  seen.served = await served.value("[...document.querySelectorAll('.facts dt')].map(e => e.textContent)");
  seen.steady = await served.value("document.querySelectorAll('.answer .reason').length");
  await leave(served);
}

// A low window, whose charts are far out of sight.
async function outOfSight() {
  const page = await open("", { height: 300 });
  await page.until("document.querySelector('.chart rect.pass')");
  const shown = "document.querySelector('.chart rect.pass').checkVisibility({ contentVisibilityAuto: true })";
  await page.until("!" + shown);
  seen.laidOut = [await page.value(shown)];
  seen.spare = await page.value("document.querySelector('.frame').clientHeight "
    + "- document.querySelector('.chart').getAttribute('height')");
  await page.value("document.querySelector('.chart').scrollIntoView()");
  await page.until(shown);
  seen.laidOut.push(await page.value(shown));
  await leave(page);
}

async function plan() {
  const page = await open("");
  seen.opened = await page.value("performance.now()");
  seen.title = await page.value("document.title");
  seen.plan = (await page.value(cells))[0];
  seen.timeline = await page.value("document.querySelectorAll('.chart rect.pass').length");
  seen.recipe = await page.value("document.querySelector('.answer pre').textContent");
  // sorting, by the heading of the last column, twice
  const sort = "[...document.querySelectorAll('.sort')].at(-1)";
  await page.value(`${sort}.click()`);
  await page.value(`${sort}.click()`);
  seen.sorted = (await page.value(cells))[0];
  seen.sortedBy = await page.value("document.querySelector('[aria-sort]').getAttribute('aria-sort')");
  // choosing with the keyboard
  await page.value("document.querySelector('.answer input[type=radio]:checked').focus()");
  const before = await page.value("document.querySelector('.detail h2').textContent");
  await page.key("ArrowDown", 40);
  await page.until(`document.querySelector('.detail h2').textContent !== ${JSON.stringify(before)}`);
  seen.chosen = await page.value("document.querySelectorAll('tr.chosen').length");
  // the tips of a figure and of the timeline
  const at = selector => page.value(`(e => {
    e.scrollIntoView({ block: "center" });
    const box = e.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
  })(document.querySelector('${selector}'))`);
  await page.until("document.querySelector('.chart rect.pass')");
  await page.point(...await at("figure svg path:has(title), figure svg > [data-tip]"));
  await page.until("!document.getElementById('title-tip').hidden");
  seen.figureTip = await page.value("document.getElementById('title-tip').textContent");
  await page.point(...await at(".chart rect.pass"));
  await page.until("!document.getElementById('tip').hidden");
  seen.chartTip = await page.value("document.getElementById('tip').textContent");
  // wrong values, and back
  await put(page, "plan-batch", "10x");
  seen.wrong = await page.value("document.querySelector('.problem').textContent");
  seen.marked = await page.value("document.querySelector('[aria-invalid]').id");
  await put(page, "plan-batch", "512");
  seen.mended = await page.value("document.querySelector('.problem').hidden");
  seen.address = await page.value("location.hash");
  await put(page, "plan-model", "llama-3.1-405b");
  await put(page, "plan-gpus", "8");
  seen.reason = await page.value("document.querySelector('.reason').textContent");
  await leave(page);
}

async function pasted() {
  const page = await open("#plan?gpus=64&batch=128");
  await put(page, "plan-model-file", input.config);
  await new Promise(resolve => setTimeout(resolve, 400));
  const link = await page.value("location.hash");
  seen.pasted = (await page.value(cells))[0];
  await put(page, "plan-model-file", '{ "model_type": "nonesuch" }');
  seen.pastedWrong = await page.value("document.querySelector('.problem').textContent");
  await put(page, "plan-model-file", '{ "model_type": ');
  seen.pastedBroken = await page.value("document.querySelector('.problem').textContent");
  await leave(page);
  const fresh = await open(link);
  seen.shared = (await fresh.value(cells))[0];
  seen.sharedText = await fresh.value("document.getElementById('plan-model-file').value");
  await leave(fresh);
  const given = await open(input.link);
  seen.linked = (await given.value(cells))[0];
  await put(given, "plan-system-file", input.system);
  seen.edited = (await given.value(cells))[0];
  await leave(given);
}

async function scripts() {
  const page = await open("#script");
  const run = async text => {
    await page.value(`{ const e = document.getElementById("script-text"); e.value = ${JSON.stringify(text)};
      e.dispatchEvent(new Event("input", { bubbles: true })); e.focus(); }`);
    await page.value("document.querySelector('button.main').click()");
    await page.until("document.querySelectorAll('.actions button')[1].disabled");
    return page.value("document.querySelector('.answer pre').textContent");
  };
  await page.value("document.querySelector('button.main').click()");
  await page.until("document.querySelectorAll('.actions button')[1].disabled");
  seen.shipped = await page.value("document.querySelector('.answer pre').textContent");
  seen.printed = await run(`print(("é %d"):format(6 * 7))
    local tperf = require "tperf"
    tperf.plot.lines({ rows = { { x = 1, y = 1 }, { x = 2, y = 4 } }, x = "x", y = "y" }):save "a.svg"`);
  seen.drawn = await page.value("document.querySelectorAll('.answer figure img').length");
  seen.written = await page.value("document.querySelector('.answer li a').textContent");
  await run(`require "tperf".schedule { schedule = "1f1b", devices = 2, microbatches = 2 }:save "b.svg"`);
  seen.image = await page.value("document.querySelector('.answer figure img').decode().then(() => "
    + "document.querySelector('.answer figure img').naturalWidth)");
  await page.value(`{ const e = document.getElementById("script-command"); e.value = "params";
    e.dispatchEvent(new Event("change", { bubbles: true })); }`);
  seen.asked = await run(input.model);
  await page.value(`{ const e = document.getElementById("script-command"); e.value = "";
    e.dispatchEvent(new Event("change", { bubbles: true })); }`);
  seen.refused = await run("os.execute 'ls'");
  seen.syntax = await run("x = = 1");
  await page.until("location.hash.includes('file.script.lua')");
  await new Promise(resolve => setTimeout(resolve, 500)); // the address follows the text
  const address = await page.value("location.hash");
  await page.value(`{ const e = document.getElementById("script-text"); e.value = "while true do end"; }`);
  await page.value("document.querySelector('button.main').click()");
  await page.until("!document.querySelectorAll('.actions button')[1].disabled");
  await page.value("document.querySelectorAll('.actions button')[1].click()");
  await page.until("document.querySelectorAll('.actions button')[1].disabled");
  seen.stopped = await page.value("document.querySelector('.answer pre').textContent");
  await leave(page);
  const fresh = await open(address);
  seen.kept = await fresh.value("document.getElementById('script-text').value");
  await leave(fresh);
}

// What somebody else's link and script may hold.
async function hostile() {
  const shipped = await open("#plan?gpus=64");
  const expected = JSON.stringify((await shipped.value(cells))[0]);
  const other = await shipped.value(`encode(${JSON.stringify(input.system.replace(/TFLOP/g, "GFLOP"))})`);
  const bomb = await shipped.value("encode('0'.repeat(200 << 20))");
  await leave(shipped);
  const names = ["../../share/tperf/systems/h100-sxm.yaml", "systems/h100-sxm.yaml"].map(encodeURIComponent);
  const page = await open("#plan?gpus=64" + names.map(name => `&file.${name}=${other}`).join("") +
    `&file.config.json=${bomb}`);
  seen.hostileSame = JSON.stringify((await page.value(cells))[0]) === expected;
  seen.hostileTold = await page.value("[...document.querySelectorAll('.problem:not([hidden])')].map(e => e.textContent)");
  await leave(page);
  const views = await open("#script");
  await views.value(`{ const e = document.getElementById("script-text"); e.value = ${JSON.stringify(input.pictures)};
    e.dispatchEvent(new Event("input", { bubbles: true })); }`);
  await views.value("document.querySelector('button.main').click()");
  await views.until("document.querySelectorAll('.actions button')[1].disabled");
  await new Promise(resolve => setTimeout(resolve, 1500));
  seen.pictures = await views.value("document.querySelectorAll('.answer figure img').length");
  seen.inside = await views.value("document.querySelectorAll('.answer svg, meta[http-equiv=refresh], iframe').length");
  seen.stayed = await views.value("location.href.startsWith(" + JSON.stringify(home) + ") && !window.ran");
  await leave(views);
}

async function questions() {
  const page = await open("#script");
  seen.answers = [];
  for (const question of input.questions) {
    seen.answers.push(await page.value(`tperf.ask(${question})`));
  }
  await leave(page);
}

try {
  await outOfSight();
  await firstScreen();
  await plan();
  await pasted();
  await scripts();
  await hostile();
  await questions();
  await everyView();
} catch (failure) {
  seen.failure = String(failure.stack);
} finally {
  writeFileSync(outputPath, JSON.stringify(seen));
  await chromium.close();
}
