// A quiz with native inputs. Answers go to Python to be graded; the keys never come here.
function render({ model, el }) {
  enter(el, "quiz");
  const words = model.get("words");
  const score = make("p", { className: "score", role: "status" });
  el.append(...model.get("questions").map((question, i) => ask(model, words, question, i + 1)), score);
  const show = () => {
    score.textContent = model.get("score");
  };
  model.on("change:score", show);
  show();
}

function ask(model, words, { id, kind, text, choices, unit }, number) {
  const name = fresh(id);
  const type = { one: "radio", several: "checkbox", number: "text" }[kind];
  const inputs = (choices ?? [null]).map((_, value) => make("input", { type, name, value: choices ? value : "", autocomplete: "off" }));
  const lines = choices
    ? choices.map((choice, i) => make("label", { className: "choice" }, inputs[i], make("span", {}, ...prose(choice))))
    : [make("label", {}, `${words.answer} `, inputs[0], ` ${unit}`)];
  const status = make("div", { role: "status" });
  const button = make("button", { type: "submit" }, words.check);
  const form = make(
    "form",
    {},
    make("fieldset", {}, make("legend", {}, `${number}. `, ...prose(text)), ...lines, make("div", {}, button), status),
  );
  form.dataset.question = id;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const picked = inputs.filter((input) => input.checked).map((input) => Number(input.value));
    const answer = { one: picked[0], several: picked, number: inputs[0].value }[kind];
    model.send({ question: id, answer: answer ?? null });
  });
  const show = () => {
    const grade = model.get("grades")[id];
    if (grade) status.replaceChildren(...comment(grade, words));
  };
  model.on("change:grades", show);
  show();
  return form;
}

function comment({ remarks, read_again: heading, notice }, words) {
  const lines = remarks.map(({ right, text }) => make("p", { className: `remark ${right ? "good" : "bad"}` }, ...prose(text)));
  if (notice) lines.push(make("p", { className: "notice" }, notice));
  if (heading) {
    const link = make("button", { type: "button", className: "link" }, heading);
    link.addEventListener("click", () => goTo(heading));
    lines.push(make("p", {}, `${words.read_again} `, link));
  }
  return lines;
}

function goTo(heading) {
  const headings = [...document.querySelectorAll("h1, h2, h3")];
  headings.find((h) => h.textContent.replace("¶", "").trim() === heading)?.scrollIntoView({ behavior: "smooth" });
}

export default { render };
