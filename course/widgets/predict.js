// A prediction: the learner commits to a number, then sees the answer.
function render({ model, el }) {
  enter(el, "predict");
  const words = model.get("words");
  const id = fresh("prediction");
  const input = make("input", { type: "text", inputMode: "decimal", id, autocomplete: "off" });
  const button = make("button", { type: "submit" }, words.commit);
  const reveal = make("div", { role: "status" });
  const form = make(
    "form",
    {},
    make("fieldset", {}, make("legend", {}, make("label", { htmlFor: id }, ...prose(model.get("question")))), input, ` ${model.get("unit")} `, button),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    model.send({ prediction: input.value });
  });
  const show = () => {
    const { sentences = [], notice = "", picture = "" } = model.get("outcome");
    const drawing = make("div", { className: "picture" });
    drawing.innerHTML = picture;
    reveal.replaceChildren(
      ...sentences.map((text) => make("p", {}, ...prose(text))),
      ...(notice ? [make("p", { className: "notice" }, notice)] : []),
      drawing,
    );
  };
  model.on("change:outcome", show);
  show();
  el.append(form, reveal);
}

export default { render };
