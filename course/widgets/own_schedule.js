// The workbench: a rung, a text with a line a rank, and what Python makes of it. A text is kept for each rung.
function render({ model, el }) {
  enter(el, "own-schedule");
  const words = model.get("words");
  const ids = [fresh("rung"), fresh("lines")];
  const select = make("select", { id: ids[0] }, ...model.get("tasks").map((_, i) => make("option", { value: i }, String(i + 1))));
  const task = make("p", { id: `${ids[1]}-task` });
  const area = make("textarea", { id: ids[1], rows: 4, spellcheck: false, autocomplete: "off", value: model.get("text") });
  area.setAttribute("aria-describedby", task.id);
  const said = make("div", { role: "status" });
  const picture = make("div", { className: "picture" });
  const texts = model.get("tasks").map(() => "");
  texts[model.get("rung")] = area.value;

  let waiting = 0;
  area.addEventListener("input", () => {
    texts[model.get("rung")] = area.value;
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      model.set("text", area.value);
      model.save_changes();
    }, 150);
  });
  select.addEventListener("change", () => {
    clearTimeout(waiting);
    const rung = Number(select.value);
    area.value = texts[rung];
    model.set({ rung, text: area.value });
    model.save_changes();
    showTask();
  });
  const showTask = () => {
    select.value = String(model.get("rung"));
    task.replaceChildren(...prose(model.get("tasks")[model.get("rung")]));
  };
  const showOutcome = () => {
    const { sentences, picture: drawing } = model.get("outcome");
    said.replaceChildren(...sentences.map((text) => make("p", {}, ...prose(text))));
    picture.innerHTML = drawing;
  };
  model.on("change:outcome", showOutcome);
  showTask();
  showOutcome();
  el.append(
    make("div", { className: "rung" }, make("label", { htmlFor: ids[0] }, words.rung), " ", select),
    task,
    make("label", { htmlFor: ids[1] }, words.lines),
    area,
    make("p", { className: "help" }, ...prose(words.help)),
    said,
    picture,
  );
}

export default { render };
