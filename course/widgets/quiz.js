// A quiz with native inputs. Answers go to Python to be graded; the keys never come here.
function render({ model, el }) {
  enter(el, "quiz");
  el.addEventListener("focusin", () => model.send({ do: "begin" }), { once: true });
  const words = model.get("words");
  const forms = make("div");
  const score = make("p", { className: "score", role: "status", tabIndex: -1 });
  const buttons = make("div", { className: "buttons" });
  el.append(forms, score, buttons);

  let shown = [];
  const ask = () => {
    const inside = el.contains(document.activeElement);
    shown = model.get("questions").map((question, i) => form(model, words, question, i + 1));
    forms.replaceChildren(...shown.map(({ node }) => node));
    if (inside && el.isConnected) forms.querySelector("input, button, select, textarea")?.focus();
  };
  const tell = () => shown.forEach(({ tell }) => tell());
  const sum = () => {
    score.textContent = model.get("score");
  };
  const offer = () => {
    const names = model.get("buttons");
    if ([...buttons.children].map((b) => b.dataset.do).join() === names.join()) return;
    if (buttons.contains(document.activeElement)) score.focus(); // a button that goes would take the focus with it
    buttons.replaceChildren(
      ...names.map((name) => {
        const button = make("button", { type: "button" }, words[name]);
        button.dataset.do = name;
        button.addEventListener("click", () => model.send({ do: name }));
        return button;
      }),
    );
  };
  model.on("change:questions", () => (ask(), tell()));
  for (const name of ["grades", "answers", "closed"]) model.on(`change:${name}`, tell);
  model.on("change:score", sum);
  model.on("change:buttons", offer);
  for (const show of [ask, tell, sum, offer]) show();
  for (const { recall } of shown) recall();
}

// One question. `tell` shows its grade, `recall` the answer that was kept.
function form(model, words, question, number) {
  const inputs = inputsOf(question, words);
  const status = make("div", { role: "status", tabIndex: -1 });
  const button = make("button", { type: "submit" }, model.get("at_the_end") ? words.keep : words.check);
  const [first, ...rest] = question.text;
  const more = make("div", { id: fresh("text"), className: "more" }, ...grow(rest));
  const legend = make("legend", {}, `${number}. `, ...(first?.[0] === "p" ? grow(first.slice(1)) : grow(first ? [first] : [])));
  const fieldset = make("fieldset", {}, legend, ...(rest.length ? [more] : []), ...inputs.nodes, make("div", {}, button), status);
  if (rest.length) fieldset.setAttribute("aria-describedby", more.id);
  const node = make("form", {}, fieldset);
  node.dataset.question = question.id;
  node.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!button.disabled) model.send({ do: "answer", question: question.id, answer: inputs.read() });
  });

  let last = "";
  const tell = () => {
    const grade = model.get("grades")[question.id];
    const kept = question.id in model.get("answers");
    const closed = model.get("closed").includes(question.id);
    const now = JSON.stringify([grade, kept, closed]);
    if (now === last) return;
    last = now;
    const said = kept && model.get("at_the_end") ? words.kept : closed ? words.no_answer : "";
    const note = said ? [make("p", {}, said)] : [];
    status.replaceChildren(...(grade ? comment(grade, question, words) : note));
    if (closed && !button.disabled) {
      // What is disabled loses the focus, and JupyterLab would take the next key for a command: hand it on first.
      if (node.contains(document.activeElement)) status.focus();
      inputs.close();
      button.disabled = button.hidden = true;
    }
  };
  const recall = () => {
    const answer = model.get("answers")[question.id];
    if (answer !== undefined) inputs.write(answer);
  };
  return { node, tell, recall };
}

function comment({ remarks, read_again: heading, notice, solution }, question, words) {
  const lines = remarks.map(({ place, right, text }) => {
    const sign = make("span", { className: "unseen" }, `${right ? words.right : words.wrong} `);
    const about = { match: question.lefts, order: question.items?.map((item) => item.text) }[question.kind]?.[place];
    const which = about ? [make("strong", {}, ...grow(about)), ": "] : [];
    return make("div", { className: `remark ${right ? "good" : "bad"}` }, sign, ...which, ...grow(text));
  });
  if (notice) lines.push(make("p", { className: "notice" }, ...prose(notice)));
  if (solution) lines.push(make("div", { className: "solution" }, make("strong", {}, words.solution), ...grow(solution)));
  if (heading) lines.push(make("p", {}, `${words.read_again} `, link(heading)));
  return lines;
}

// The heading to read again: a button that goes there, or only its name where it is in another lesson.
function link(heading) {
  const shown = heading.replaceAll("`", "");
  const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")];
  const target = headings.find((h) => h.textContent.replace("¶", "").trim() === shown);
  if (!target) return make("em", {}, ...prose(heading));
  const button = make("button", { type: "button", className: "link" }, ...prose(heading));
  button.addEventListener("click", () => target.scrollIntoView({ behavior: "smooth" }));
  return button;
}

export default { render };
