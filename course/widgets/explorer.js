// An explorer: sliders above, a picture and the facts below. Python draws; this page only shows.
function render({ model, el }) {
  enter(el, "explorer");
  const controls = make("div", { className: "controls" });
  const picture = make("div", { className: "picture" });
  const facts = make("dl", { className: "facts" });

  for (const { name, label, least, most, unit, names } of model.get("controls")) {
    const id = fresh(name);
    const shown = make("output", { htmlFor: id });
    const slider = make("input", { type: "range", id, min: least, max: most, step: 1, value: model.get("values")[name] });
    const say = () => {
      const value = names.length ? names[slider.value - least] : slider.value;
      shown.textContent = unit ? `${value} ${unit}` : value;
      slider.setAttribute("aria-valuetext", shown.textContent);
    };
    slider.addEventListener("input", () => {
      say();
      model.set("values", { ...model.get("values"), [name]: Number(slider.value) });
      model.save_changes();
    });
    say();
    const control = make("div", { className: "control" }, make("label", { htmlFor: id }, label), slider, shown);
    control.classList.toggle("named", names.length > 0); // a name needs more room than a number
    controls.append(control);
  }

  const showPicture = () => {
    picture.innerHTML = model.get("picture");
  };
  const showFacts = () => {
    facts.replaceChildren(...model.get("facts").map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  };
  model.on("change:picture", showPicture);
  model.on("change:facts", showFacts);
  showPicture();
  showFacts();
  el.append(controls, picture, facts);
}

export default { render };
