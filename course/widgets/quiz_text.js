// Texts of a quiz come as trees: a string, or a list of a tag and what is in it. Each element is made by its name from
// these two lists, and every string goes in as text: nothing in a quiz can be markup or script.
const TAGS = new Set(["p", "code", "pre", "strong", "em", "ul", "ol", "li", "br"]);
const MATH = new Set(["math", "mrow", "mi", "mn", "mo", "mtext", "mfrac", "msqrt", "msub", "msup", "msubsup"]);
const MATHML = "http://www.w3.org/1998/Math/MathML"; // drawn by the browser itself, without script, font or network

function grow(tree) {
  return tree.map((part) => {
    if (typeof part === "string") return part;
    const [tag, ...inside] = part;
    const node = MATH.has(tag)
      ? document.createElementNS(MATHML, tag)
      : document.createElement(TAGS.has(tag) ? tag : "span");
    node.append(...grow(inside));
    return node;
  });
}

// Words with holes, such as "{place} of {count}".
function fill(words, values) {
  return words.replace(/\{(\w+)\}/g, (hole, name) => values[name] ?? hole);
}
