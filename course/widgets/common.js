// What every front shares. Keys stay inside: JupyterLab would take arrows and letters for commands.
function enter(el, name) {
  el.classList.add("course", `course-${name}`);
  for (const event of ["keydown", "keyup", "keypress"]) el.addEventListener(event, (e) => e.stopPropagation());
}

// An element with properties and children. Strings become text, never markup.
function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

// A text in which `backticks` mark code.
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));
}

let count = 0;
function fresh(name) {
  count += 1;
  return `course-${name}-${count}-${Math.random().toString(36).slice(2, 8)}`;
}
