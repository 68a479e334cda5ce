// The page: views, each with a form and an answer, and the address that encodes them.
"use strict";

(() => {
  const VIEWS = [plan, compare, schedules, serve, rl, script];
  const FEW = 5; // problems of a link that are shown
  const main = document.getElementById("view"), nav = document.getElementById("views");
  let lists = null, shown = null, turn = 0;

  showTitles(document.body, document.getElementById("title-tip"));
  const links = VIEWS.map(view => make("a", { href: "#" + view.name }, view.title));
  nav.append(...links);

  // Asks about the form's values: ask(question, changes). Errors are shown; null: the answer came too late.
  function asker(form, values, out, problem, mine) {
    const ask = async (question, changes = {}) => {
      const asked = { ...values, ...changes };
      for (const name in asked) if (asked[name] === undefined) delete asked[name];
      const answer = await engine.ask({ ...question, values: asked }, form.texts);
      if (mine !== turn || answer === null) return null;
      if (answer.error === undefined) {
        out.classList.remove("stale");
        return answer;
      }
      form.mark(answer.error);
      problem.textContent = sentence(form.worded(answer.error));
      problem.hidden = false;
      out.classList.add("stale"); // what is below answers an earlier question
      return null;
    };
    ask.values = values;
    return ask;
  }

  async function answer(view, form, out, problem) {
    const mine = ++turn, values = form.values();
    engine.clear();
    const fields = view.fields(lists);
    for (const field of fields) {
      const relevant = !view.relevant || view.relevant(field, values);
      const e = document.getElementById(`${view.name}-${field.name}`);
      e.closest(".field, fieldset").hidden = !relevant;
      if (!relevant) delete values[field.name];
    }
    form.mark(null);
    problem.hidden = true;
    main.setAttribute("aria-busy", "true");
    try {
      await view.show(asker(form, values, out, problem, mine), out, Math.max(out.clientWidth, 280));
    } catch (failure) {
      if (mine === turn) {
        problem.textContent = `tperf broke: ${failure.message}`;
        problem.hidden = false;
      }
    }
    if (mine === turn) {
      main.removeAttribute("aria-busy");
      performance.mark("answered");
    }
  }

  const viewOf = name => VIEWS.find(v => v.name === name) || plan;
  // The names of the texts that a view's forms take.
  const filesOf = name => {
    const view = viewOf(name), fields = view.fields(lists).filter(field => field.file);
    return [...fields.map(field => field.file.name), ...(view.file ? [view.file] : [])];
  };

  async function open(hash) {
    const mine = ++turn;
    engine.clear();
    const state = await readState(hash, filesOf, engine.unpack);
    if (mine !== turn || !state) return;
    const view = viewOf(state.view);
    links.forEach((link, i) => {
      if (VIEWS[i] === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    document.title = `${view.title} · tperf`;
    const out = make("div", { class: "answer" });
    const problem = make("p", { class: "problem", role: "alert", hidden: true });
    const left = state.problems.slice(0, FEW).map(text => make("p", { class: "problem" }, text));
    const address = later(async () => {
      shown = await writeState(view.name, form.differences(), form.texts);
      if (location.hash !== shown) history.replaceState(null, "", shown);
    }, 150);
    const again = later(() => answer(view, form, out, problem), 0); // once for all events of a change
    const form = makeForm(view.name, view.fields(lists), state.values, state.texts, () => {
      address();
      if (!view.manual) again();
    });
    main.replaceChildren(make("h1", {}, view.heading),
      make("div", { class: "columns" }, form.element, make("div", {},
        make("p", { class: "jump" }, make("button", { type: "button",
          onclick: () => form.element.scrollIntoView() }, "change the question")), ...left, problem,
        make("p", { class: "busy" }, make("progress", { "aria-label": "computing" }), " computing"), out)));
    if (view.manual) view.open(form, out, address);
    else await answer(view, form, out, problem);
  }

  addEventListener("hashchange", () => { if (location.hash !== shown) open(location.hash); });

  (async () => {
    try {
      lists = await engine.ask({ ask: "lists" });
      document.getElementById("version").textContent = lists.version;
      await open(location.hash);
    } catch (problem) {
      main.replaceChildren(make("p", { class: "problem", role: "alert" }, `tperf could not start: ${problem.message}`));
    }
  })();

  // For the console and for tests: asks as the page does.
  window.tperf = { ask: (question, texts) => engine.ask(question, texts) };
})();
