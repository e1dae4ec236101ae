// What a test asks of a page. Each function looks at what the browser has computed.

function channels(color) {
  const parts = color.match(/[\d.]+/g).map(Number);
  return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
}

// Relative luminance, as WCAG 2.2 defines it.
function luminance(rgb) {
  const [r, g, b] = rgb.map(value => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// The colour behind an element: of the next one that has any. Half transparent ones are not reckoned with.
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const { rgb, alpha } = channels(getComputedStyle(at).backgroundColor);
    if (alpha === 1) return rgb;
    if (alpha > 0) throw new Error("a half transparent background of " + at.tagName);
  }
  throw new Error("nothing is behind " + element.tagName);
}

function texts() {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    if (text) found.push([walker.currentNode.parentElement, text]);
  }
  return found;
}

function contrasts() {
  return texts().map(([element, text]) => {
    const style = getComputedStyle(element);
    const { rgb, alpha } = channels(style.color);
    if (alpha !== 1 || style.opacity !== "1") throw new Error("half transparent text: " + text);
    const [high, low] = [luminance(rgb), luminance(behind(element))].sort((a, b) => b - a);
    return { text: text.slice(0, 40), ratio: (high + 0.05) / (low + 0.05) };
  });
}

function brightness() {
  return luminance(behind(document.body));
}

function tooWide() {
  return [...document.querySelectorAll("body *")]
    .filter(it => it.getBoundingClientRect().right > innerWidth && !it.closest(".scroll"))
    .map(it => it.tagName + ": " + it.innerText.slice(0, 60));
}

function structure() {
  const problems = [];
  const must = (holds, problem) => holds || problems.push(problem);
  must(document.documentElement.lang === "en", "no language");
  must(document.title.length > 10, "no title");
  must(document.characterSet === "UTF-8", "not in UTF-8");
  must(document.querySelectorAll("h1").length === 1, "not one h1");
  must(document.querySelectorAll("main").length === 1, "not one main");
  let last = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.tagName[1]);
    must(level <= last + 1, heading.innerText + ": a level of headings is left out");
    must(heading.innerText.trim(), "an empty heading");
    last = level;
  }
  for (const cell of document.querySelectorAll("th")) {
    const scope = cell.closest("thead") ? "col" : "row";
    must(cell.scope === scope, cell.innerText + ": the header's scope is " + cell.scope);
  }
  for (const table of document.querySelectorAll("table")) {
    must(table.querySelector("thead th"), "a table without headers");
    const width = table.rows[0].cells.length;
    must([...table.rows].every(row => row.cells.length === width), "a table with rows of different lengths");
    must([...table.tBodies[0].rows].every(row => row.querySelectorAll("th").length === 1), "a row without its header");
    // Who has no mouse scrolls it by the keyboard, and is told what it is.
    const region = table.closest("[role=region]");
    must(region && region.tabIndex === 0 && region.getAttribute("aria-label"), "a table that the keyboard does not reach");
  }
  const labels = [...document.querySelectorAll("[aria-label]")].map(it => it.getAttribute("aria-label"));
  must(new Set(labels).size === labels.length, "two regions with one label");
  const zoom = document.querySelector("meta[name=viewport]").content;
  must(!/user-scalable|maximum-scale/.test(zoom), "the page cannot be enlarged");
  return problems;
}

// Cells of one column with other colours have other words.
function onlyByColor() {
  const problems = [];
  for (const cell of document.querySelectorAll(".good, .bad, .warning")) {
    if (!cell.innerText.trim()) problems.push("a colour without a word");
  }
  for (const table of document.querySelectorAll("table")) {
    const colors = new Map();
    for (const cell of table.querySelectorAll("td")) {
      const word = cell.cellIndex + " " + cell.innerText;
      const color = getComputedStyle(cell).color;
      if (colors.has(word) && colors.get(word) !== color) problems.push(cell.innerText + " has two colours");
      colors.set(word, color);
    }
    const words = new Map();
    for (const cell of table.querySelectorAll("td.good, td.bad")) {
      const word = cell.cellIndex + " " + cell.innerText;
      if (words.has(word) && words.get(word) !== cell.className) problems.push(cell.innerText + " is good and bad");
      words.set(word, cell.className);
    }
  }
  return problems;
}
