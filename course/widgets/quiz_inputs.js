// The inputs of each kind of question: native elements, their labels, and how an answer is read and shown again.
// Each returns { nodes, read(), write(answer), close() }.
function inputsOf(question, words) {
  return { one: choose, several: choose, number, order, match, schedule }[question.kind](question, words);
}

function choose({ id, kind, choices }) {
  const name = fresh(id);
  const type = kind === "one" ? "radio" : "checkbox";
  const inputs = choices.map((_, value) => make("input", { type, name, value }));
  const nodes = choices.map((choice, i) => make("label", { className: "choice" }, inputs[i], make("span", {}, ...grow(choice))));
  return {
    nodes,
    read: () => {
      const picked = inputs.filter((input) => input.checked).map((input) => Number(input.value));
      return kind === "one" ? picked[0] ?? null : picked;
    },
    write: (answer) => inputs.forEach((input, i) => (input.checked = kind === "one" ? i === answer : answer.includes(i))),
    close: () => inputs.forEach((input) => (input.disabled = true)),
  };
}

function number({ unit }, words) {
  const input = make("input", { type: "text", inputMode: "decimal", autocomplete: "off" });
  return {
    nodes: [make("label", {}, `${words.answer} `, input, ` ${unit}`)],
    read: () => input.value,
    write: (answer) => (input.value = answer),
    close: () => (input.disabled = true),
  };
}

// A list whose items move by buttons. The focus stays on the button, so that one can press it again.
function order({ items }, words) {
  const said = make("span", { className: "unseen", role: "status" });
  const list = make("ol", { className: "order" });
  const button = (label, sign, step, i) => {
    const move = make("button", { type: "button", className: "move" }, sign);
    move.setAttribute("aria-label", `${label} ${items[i].plain}`);
    move.addEventListener("click", () => {
      const rows = [...list.children];
      const at = rows.findIndex((row) => row.dataset.place === String(i));
      const other = rows[at + step];
      if (!other) return;
      if (step < 0) other.before(rows[at]);
      else other.after(rows[at]);
      move.focus();
      said.textContent = fill(words.moved, { place: at + step + 1, count: rows.length });
    });
    return move;
  };
  items.forEach(({ text }, i) => {
    const row = make(
      "li",
      {},
      make("span", { className: "thing" }, ...grow(text)),
      button(words.up, "↑", -1, i),
      button(words.down, "↓", 1, i),
    );
    row.dataset.place = i;
    list.append(row);
  });
  return {
    nodes: [list, said],
    read: () => [...list.children].map((row) => Number(row.dataset.place)),
    write: (answer) => list.append(...answer.map((i) => list.querySelector(`:scope > [data-place="${i}"]`))),
    close: () => list.querySelectorAll("button").forEach((move) => (move.disabled = true)),
  };
}

function match({ lefts, rights }, words) {
  const selects = lefts.map(() => {
    const nothing = make("option", { value: "" }, `— ${words.pick} —`);
    return make("select", {}, nothing, ...rights.map((right, i) => make("option", { value: i }, right)));
  });
  return {
    nodes: [make("div", { className: "pairs" }, ...lefts.map((left, i) => make("label", {}, make("span", {}, ...grow(left)), selects[i])))],
    read: () => selects.map((select) => (select.value === "" ? null : Number(select.value))),
    write: (answer) => selects.forEach((select, i) => (select.value = answer[i])),
    close: () => selects.forEach((select) => (select.disabled = true)),
  };
}

function schedule({ ranks }, words) {
  const id = fresh("schedule");
  const area = make("textarea", { id, rows: ranks + 1, spellcheck: false, autocomplete: "off" });
  const help = make("p", { id: `${id}-help`, className: "help" }, ...prose(words.schedule_help));
  area.setAttribute("aria-describedby", help.id);
  area.setAttribute("autocapitalize", "characters");
  return {
    nodes: [make("label", { htmlFor: id }, fill(words.schedule, { count: ranks })), area, help],
    read: () => area.value.split("\n"),
    write: (answer) => (area.value = typeof answer === "string" ? answer : answer.join("\n")),
    close: () => (area.disabled = true),
  };
}
