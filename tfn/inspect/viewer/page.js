"use strict";
// The viewer of one program, or of two beside each other.  Data is text in the page: JSON that was
// compressed, in base64; the long texts of kernels are decompressed when one is first asked for.

const $ = id => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "style") made.style.cssText = value;
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

async function unpacked(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

// Numbers as people read them.

function scaled(value, units, base = 1000) {
  let at = 0;
  while (Math.abs(value) >= base && at < units.length - 1) { value /= base; at += 1; }
  const digits = value === 0 || at === 0 && Number.isInteger(value) ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toFixed(digits) + " " + units[at];
}
const time = ns => scaled(ns, ["ns", "µs", "ms", "s"]);
const size = bytes => scaled(bytes, ["B", "KB", "MB", "GB", "TB"]);
const count = n => n < 1e4 ? n.toLocaleString("en") : scaled(n, ["", "k", "M", "G", "T"]).trim();
const percent = share => share >= 0.0995 ? Math.round(100 * share) + "%" : (100 * share).toFixed(1) + "%";
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

// Colours of code: keywords, strings, comments, numbers.

const SYNTAX = {
  python: /(?<c>#.*)|(?<s>[rbf]*"""[^]*?"""|[rbf]*"(?:\\.|[^"\\])*"|[rbf]*'(?:\\.|[^'\\])*')|(?<k>\b(?:def|return|for|in|if|else|elif|while|import|from|as|with|class|lambda|not|and|or|is|None|True|False|yield|raise|try|except|finally|pass|assert|break|continue)\b)|(?<n>\b\d[\d_.]*(?:e-?\d+)?\b)/g,
  loops: /(?<c>#.*)|(?<k>\b(?:for|in|parallel|upcast|lane|unit|if|else|while|break|min|max|carry)\b)|(?<n>\b\d[\d_.]*(?:e[+-]?\d+)?\b)/g,
  llvm: /(?<c>;.*)|(?<s>"[^"]*")|(?<k>\b(?:define|declare|load|store|br|label|ret|call|phi|add|sub|mul|fadd|fmul|fsub|fdiv|getelementptr|icmp|fcmp|select|insertelement|shufflevector|bitcast|zext|sext|trunc|void|ptr|float|double|i\d+)\b)|(?<n>\b\d[\d.]*(?:e[+-]?\d+)?\b)/g,
  assembly: /(?<c>#.*)|(?<k>^\t[a-z]\w*)|(?<s>^[.\w@$]+:)|(?<n>%\w+)/gm,
};

function coloured(text, language) {
  const out = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(SYNTAX[language])) {
    const kind = Object.keys(match.groups).find(name => match.groups[name] !== undefined);
    out.append(text.slice(end, match.index), element("span", { class: kind }, match[0]));
    end = match.index + match[0].length;
  }
  out.append(text.slice(end));
  return out;
}

const MOST_COLOURED_CHARACTERS = 150000;  // longer texts would take more than a moment to lay out

function code(text, language) {
  const pre = element("pre");
  pre.append(text.length <= MOST_COLOURED_CHARACTERS ? coloured(text, language) : text);
  return pre;
}

// One program: what is looked up while the mouse moves is worked out once.

function prepare(data) {
  const kernels = data.kernels.filter(kernel => kernel.body !== undefined);
  data.kernelsOfLine = data.lines.map(() => []);
  data.nsOfLine = data.lines.map(() => 0);
  for (const kernel of kernels) {
    const body = data.bodies[kernel.body];
    kernel.ns = (body.measured_ns ?? body.ns) * kernel.trips;
    kernel.lines.forEach((line, i) => {
      data.kernelsOfLine[line].push(kernel);
      data.nsOfLine[line] += kernel.ns * kernel.shares[i];
    });
  }
  data.ns = kernels.reduce((sum, kernel) => sum + kernel.ns, 0) || 1;
  data.measured = data.bodies.some(body => body.measured_ns !== undefined);
  data.mostNs = Math.max(1, ...kernels.map(kernel => kernel.ns));
  data.equationsOfLine = data.lines.map(() => 0);
  for (const [, line] of data.jaxpr.rows) if (line >= 0) data.equationsOfLine[line] += 1;
  data.lineNumbers = new Map(data.lines.map(([file, number], i) => [file + ":" + number, i]));
  data.plain = kernels;
  return data;
}

let versions = [], texts = null, program = null;
const state = { tab: "Kernels", kernel: null, stage: "Why", beside: false, line: -1, slowest: false, pass: "" };
const marks = { lines: new Map(), kernels: new Map(), equations: new Map(), values: new Map() };

async function longTexts(kernel) {
  texts = texts ?? await unpacked("texts");
  return texts[versions.indexOf(program)][kernel.body];
}

// Marks: a line and its kernels, or a kernel and its lines.

function add(map, key, made) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(made);
}

function unmark() {
  document.querySelectorAll(".marked").forEach(marked => marked.classList.remove("marked"));
}

function mark(map, keys) {
  for (const key of keys) for (const made of map.get(key) ?? []) made.classList.add("marked");
}

function say(...parts) {
  $("status").replaceChildren(...parts.map((part, i) => i % 2 ? element("b", {}, part) : part));
}

function showLine(line) {
  unmark();
  if (line < 0) return;
  const kernels = program.kernelsOfLine[line], [file, number] = program.lines[line];
  mark(marks.lines, [line]);
  mark(marks.kernels, kernels);
  mark(marks.equations, [line]);
  mark(marks.values, [line]);
  const bodies = new Set(kernels.map(kernel => program.bodies[kernel.body]));
  const instructions = [...bodies].reduce((sum, body) => sum + body.counts.machine, 0);
  const bytes = kernels.reduce((sum, kernel) => sum + kernel.bytes * kernel.trips, 0);
  say(`${program.files[file].name}:${number}  `, plural(program.equationsOfLine[line], "equation"),
    " of the jaxpr, part of ", plural(kernels.length, "kernel"), " with ",
    plural(instructions, "instruction"), " that move ", size(bytes), "; its share of the time: ",
    `${time(program.nsOfLine[line])}, ${percent(program.nsOfLine[line] / program.ns)}`);
}

function showKernel(kernel) {
  unmark();
  mark(marks.kernels, [kernel]);
  mark(marks.lines, kernel.lines);
  const body = program.bodies[kernel.body];
  say(`kernel ${kernel.label}: `, time(kernel.ns), ", ", percent(kernel.ns / program.ns), " of all; ",
    size(kernel.bytes * kernel.trips), " moved, ", count(kernel.flops * kernel.trips),
    " floating operations; ", plural(body.counts.machine, "instruction"),
    kernel.trips > 1 ? `; run ${kernel.trips} times` : "");
}

const pin = () => { unmark(); if (state.line >= 0) showLine(state.line); };

// The user's source.

function source() {
  const pane = element("section", { class: "pane source", "aria-label": "Source" });
  program.files.forEach((file, at) => {
    pane.append(element("h2", { title: file.path }, file.name));
    let last = 0;
    for (const [number, text] of file.lines) {
      if (last && number > last + 1) pane.append(element("div", { class: "gap" }, "⋯"));
      last = number;
      const line = program.lineNumbers.get(at + ":" + number) ?? -1;
      const share = line < 0 ? 0 : program.nsOfLine[line] / program.ns;
      const row = element("div", { class: line < 0 ? "line" : "line used" },
        element("span", { class: "number" }, String(number)),
        element("span", { class: "share" },
          element("i", { style: `width:${Math.min(100, 100 * share)}%` }),
          element("span", {}, share >= 0.0005 ? percent(share) : "")),
        element("code", { title: text.length > 40 ? text.trim() : undefined }, coloured(text || " ", "python")));
      if (line >= 0) {
        row.tabIndex = 0;
        row.addEventListener("mouseenter", () => showLine(line));
        row.addEventListener("focus", () => showLine(line));
        row.addEventListener("mouseleave", pin);
        row.addEventListener("click", () => { state.line = state.line === line ? -1 : line; pin(); });
        add(marks.lines, line, row);
      }
      pane.append(row);
    }
  });
  if (!program.files.length) pane.append(element("div", { class: "prose" }, "No source lines: it was lowered before it came here. Pass the function itself."));
  return pane;
}

// The list of kernels.

function kernelList() {
  const pane = element("section", { class: "pane", "aria-label": "Kernels" });
  const sorted = element("button", { id: "sorted", title: "Change the order", onclick: () => { state.slowest = !state.slowest; go("Kernels"); } },
    state.slowest ? "slowest first" : "in order");
  pane.append(element("h2", {}, program.measured ? "Kernels, measured" : "Kernels, by the model", sorted));
  const listed = state.slowest ? program.plain.toSorted((a, b) => b.ns - a.ns) : program.kernels;
  for (const kernel of listed) {
    const indent = `padding-left:${12 + 14 * (state.slowest ? 0 : kernel.depth)}px`;
    if (kernel.body === undefined) {
      pane.append(element("div", { class: "region", style: indent, title: kernel.region }, kernel.region));
      continue;
    }
    const row = element("div", {
      class: "kernel", style: indent, tabindex: 0, "data-label": kernel.label,
      onmouseenter: () => showKernel(kernel), onfocus: () => showKernel(kernel), onmouseleave: pin,
      onclick: () => select(kernel),
      onkeydown: event => { if (event.key === "Enter") select(kernel); },
    },
    element("span", { class: "label" }, kernel.label),
    element("span", { class: "what", title: kernel.title }, kernel.title,
      kernel.trips > 1 ? element("small", {}, `  ${kernel.trips} times`) : null,
      kernel.scope ? element("small", {}, `  ${kernel.scope}`) : null),
    element("span", { class: "figure" }, time(kernel.ns)),
    element("span", { class: "figure quiet" }, size(kernel.bytes)),
    element("span", { class: "bar", style: `width:${100 * kernel.ns / program.mostNs}%` }));
    kernel.row = row;
    add(marks.kernels, kernel, row);
    pane.append(row);
  }
  return pane;
}

function select(kernel, block = "nearest") {
  state.kernel?.row?.classList.remove("selected");
  state.kernel = kernel;
  kernel.row?.classList.add("selected");
  kernel.row?.scrollIntoView({ block });
  detail();
}

// One kernel at each stage.

const STAGES = {
  Why: why,
  Equations: kernel => equations(kernel.equations),
  Loops: kernel => code(program.bodies[kernel.body].loops, "loops"),
  Splits: kernel => long(kernel, "splits", "loops"),
  Linear: kernel => long(kernel, "linear", "loops"),
  LLVM: kernel => long(kernel, "llvm", "llvm"),
  Assembly: kernel => long(kernel, "assembly", "assembly"),
  Rewrites: rewrites,
};

async function long(kernel, stage, language) {
  const text = (await longTexts(kernel))[stage];
  return code(text ?? `A kernel of this kind has no stage of the name ${stage}.`, language);
}

async function detail() {
  const pane = $("detail"), kernel = state.kernel;
  if (!pane || !kernel) return;
  const body = program.bodies[kernel.body], names = Object.keys(STAGES);
  const choose = name => { state.stage = name; detail(); };
  const tabs = names.map(name => element("button",
    { role: "tab", "aria-selected": String(name === state.stage), onclick: () => choose(name) }, name));
  const beside = element("input", { type: "checkbox", id: "beside",
    onchange: event => { state.beside = event.target.checked; detail(); } });
  beside.checked = state.beside;
  const facts = element("div", { class: "facts" }, element("b", {}, `kernel ${kernel.label}  ${body.name}`),
    element("br"), `writes ${kernel.writes.join(", ")}`, element("br"),
    `reads ${kernel.reads.join(", ") || "nothing"}`, element("br"),
    `${plural(body.tiles, "tile")}; ${count(body.counts.linear)} instructions in order, `
    + `${count(body.counts.llvm)} of LLVM, ${count(body.counts.machine)} of the machine; model ${time(body.ns)}`
    + (body.measured_ns ? `, measured ${time(body.measured_ns)}` : ""));
  const at = names.indexOf(state.stage);
  const shown = state.beside && at > 0 ? [names[at - 1], state.stage] : [state.stage];
  const columns = await Promise.all(shown.map(name => STAGES[name](kernel)));
  if (state.kernel !== kernel) return;
  pane.replaceChildren(
    element("div", { class: "stages", role: "tablist" }, ...tabs,
      element("label", {}, beside, " with the stage before")),
    facts, element("div", { class: "texts" }, ...columns));
}

function equations(rows) {
  const box = element("div");
  for (const [text, line] of rows) box.append(equation(text, line));
  return box;
}

function equation(text, line) {
  const row = element("div", { class: line >= 0 ? "equation used" : "equation" }, text);
  if (line >= 0) {
    row.addEventListener("mouseenter", () => showLine(line));
    row.addEventListener("mouseleave", pin);
    add(marks.equations, line, row);
  }
  return row;
}

function table(head, rows, numbers = []) {
  const cell = (tag, value, i) => element(tag, { class: numbers.includes(i) ? "number" : "code" }, value);
  return element("table", {}, element("tr", {}, ...head.map((text, i) => cell("th", text, i))),
    ...rows.map(row => element("tr", {}, ...row.map((value, i) => cell("td", value, i)))));
}

function why(kernel) {
  const box = element("div", { class: "prose" }), body = program.bodies[kernel.body];
  box.append(element("h3", {}, "Why it ends here"));
  for (const [name, rule, reason, readers, stored, recomputed, times] of kernel.reasons) {
    box.append(element("p", {}, element("code", {}, name), ` is materialised by `, element("b", {}, rule), `: ${reason}.`));
    // What a rule requires has no alternative.
    if (readers > 0 && rule !== "required") box.append(table(["alternative", "expected"], [
      [`through memory: written once, read by ${plural(readers, "kernel")}`, time(stored)],
      [`computed where it is read: each element ${times === 1 ? "once" : times.toLocaleString("en") + " times"}`, `at most ${time(recomputed)} more`]], [1]));
  }
  if (!kernel.reasons.length) box.append(element("p", {}, "It shares its kernel with another result."));
  if (body.decisions.length) box.append(element("h3", {}, "How its loops were chosen"));
  if (body.tuned) box.append(element("p", {}, "A search has found better opt-ops than these of the model: see Splits."));
  let before;
  for (const one of body.decisions) {
    box.append(element("p", {}, element("b", {}, one.rule), one.reason ? `: ${one.reason}.` : "",
      ...one.opts.flatMap(opt => [element("br"), element("code", {}, opt)])));
    if (one.costs.length) {
      const values = one.costs.map(([name, value]) =>
        [name, (value < 100 ? value : Math.round(value)).toLocaleString("en")]);
      values[0][0] += "  (chosen)";
      box.append(table(["alternative", "expected"], values, [1]));
    }
    if (one.measured_ns) {
      const ratio = before ? `, ${(before / one.measured_ns).toFixed(2)} times as fast as before it` : "";
      box.append(element("p", {}, `Measured after it: ${time(one.measured_ns)}${ratio}.`));
      before = one.measured_ns;
    }
  }
  const rate = body.measured_ns ?? body.ns;
  if (rate) {
    box.append(element("h3", {}, "What it reaches"), table(["", ""], [
      [body.measured_ns ? "measured, one core" : "expected, one core", time(rate)],
      ["arithmetic", `${(kernel.flops / rate).toFixed(2)} GFLOP/s`],
      ["memory", `${(kernel.bytes / rate).toFixed(2)} GB/s`],
      ["intensity", `${(kernel.flops / Math.max(1, kernel.bytes)).toFixed(2)} FLOP/B`]], [1]));
  }
  return box;
}

function steps(rows) {
  const made = element("table", { class: "steps" });
  for (const [rule, before, after, times] of rows) {
    const law = program.laws[rule];
    made.append(element("tr", {},
      element("td", { style: "width:190px" }, element("b", {}, rule), times > 1 ? ` ×${times}` : "",
        law ? element("small", {}, law.text) : null, law ? element("small", {}, law.proof) : null),
      element("td", { class: "code" }, element("div", { class: "before" }, before), element("div", { class: "after" }, after))));
  }
  return made;
}

function rewrites(kernel) {
  const box = element("div", { class: "prose" });
  const passes = Object.entries(program.bodies[kernel.body].rewrites);
  if (!passes.some(([, rows]) => rows.length)) box.append("No rule applied to it.");
  for (const [name, rows] of passes.filter(([, rows]) => rows.length)) {
    box.append(element("h3", {}, `${name}: ${plural(rows.length, "rewrite")}`), steps(rows));
  }
  return box;
}

// A pass: the rules that fired, and the whole program after it.

const MOST_REWRITES = 500;  // that are laid out at once: more would take a moment

function rewritesOf(pass) {
  const head = element("h3", {}, `${pass.name}: ${pass.before} → ${pass.after}`);
  if (pass.rewrites) return [head,
    element("p", {}, pass.rewrites.length ? plural(pass.rewrites.length + pass.more, "rewrite") : "It changed nothing by a rule."),
    steps(pass.rewrites), pass.more ? element("p", {}, `and ${pass.more} more`) : null,
    ...(pass.name === "boundaries" ? barriers() : [])];
  const out = [head];
  let listed = 0, all = 0;
  program.bodies.forEach((body, number) => {
    const rows = body.rewrites[pass.name] ?? [], room = MOST_REWRITES - listed;
    all += rows.length;
    if (!rows.length || room <= 0) return;
    const labels = program.plain.filter(kernel => kernel.body === number).map(kernel => kernel.label);
    const few = labels.length > 4 ? `${labels.slice(0, 4).join(", ")} and ${labels.length - 4} more` : labels.join(", ");
    out.push(element("p", {}, element("b", {}, `kernel ${few}`), `: ${plural(rows.length, "rewrite")}`), steps(rows.slice(0, room)));
    listed += Math.min(room, rows.length);
  });
  if (!all) out.push(element("p", {}, "It changed nothing by a rule: what it decides is under Kernels, Why."));
  if (all > listed) out.push(element("p", {}, `and ${count(all - listed)} more, under Kernels`));
  return out;
}

function barriers() {
  const rows = program.plain.flatMap(kernel => kernel.reasons.map(([name, rule, reason]) =>
    [name, kernel.label, element("b", {}, rule), reason]));
  return [element("h3", {}, plural(rows.length, "barrier")), table(["value", "kernel", "rule", "reason"], rows.slice(0, MOST_REWRITES))];
}

const GRAPHS = {  // the text of a kernel after each of its passes, from its body and its long texts
  ranges: body => body.loops,
  decompose: (body, text) => text.decompose ?? body.loops,
  split: (body, text) => text.splits,
  linearize: (body, text) => text.linearize ?? text.linear,
  prefetch: (body, text) => text.linear,
  sort: (body, text) => text.splits ? undefined : text.linear,
};

async function graphAfter(name, pane) {
  texts = texts ?? await unpacked("texts");
  const own = texts[versions.indexOf(program)], whole = own[own.length - 1];
  pane.append(element("h2", {}, `The whole program after ${name}`));
  if (!GRAPHS[name]) {
    const text = whole[name] ?? [program.jaxpr.head + " let", ...program.jaxpr.rows.map(([row]) => "  " + row), "in " + program.jaxpr.results + " }"].join("\n");
    pane.append(code(text, "loops"));
    return;
  }
  const first = new Map();
  const size = program.bodies.reduce((sum, body, i) => sum + (GRAPHS[name](body, own[i]) ?? "").length, 0);
  for (const kernel of program.kernels) {
    const indent = `padding-left:${12 + 14 * kernel.depth}px`;
    if (kernel.body === undefined) { pane.append(element("div", { class: "region", style: indent }, kernel.region)); continue; }
    const text = GRAPHS[name](program.bodies[kernel.body], own[kernel.body]), known = first.get(kernel.body);
    const head = element("div", { class: "part", style: indent }, element("b", {}, `kernel ${kernel.label}`), "  " + kernel.title);
    if (known !== undefined) head.append(element("small", {}, `  as kernel ${known}`));
    else first.set(kernel.body, kernel.label);
    pane.append(head);
    if (known === undefined) {
      const pre = text === undefined ? element("pre", {}, "It does not go through this pass.")
        : size <= MOST_COLOURED_CHARACTERS ? code(text, "loops") : element("pre", {}, text);
      pre.className = "lazy";
      pane.append(pre);
    }
    add(marks.kernels, kernel, head);
    head.addEventListener("mouseenter", () => showKernel(kernel));
  }
}

// The tabs.

const TABS = {
  Kernels() {
    const detailPane = element("section", { class: "pane detail", id: "detail", "aria-label": "Kernel" });
    const panes = element("div", { class: "panes" }, source(), kernelList(), detailPane);
    const slowest = program.plain.reduce((a, b) => a && a.ns >= b.ns ? a : b, null);
    if (!program.plain.includes(state.kernel)) state.kernel = slowest;
    queueMicrotask(() => {
      if (state.kernel) select(state.kernel, "center");
      const hottest = program.nsOfLine.indexOf(Math.max(...program.nsOfLine));
      marks.lines.get(state.line < 0 ? hottest : state.line)?.[0].scrollIntoView({ block: "center" });
    });
    return panes;
  },
  Jaxpr() {
    const right = element("section", { class: "pane" }, element("h2", {}, "Jaxpr: what was traced"),
      element("div", { class: "equation" }, program.jaxpr.head + " let"));
    for (const [text, line] of program.jaxpr.rows) {
      const row = equation(text, line);
      row.style.paddingLeft = "30px";
      right.append(row);
    }
    right.append(element("div", { class: "equation" }, "in " + program.jaxpr.results + " }"));
    return element("div", { class: "panes jaxpr" }, source(), right);
  },
  Passes() {
    const names = program.passes.map(pass => pass.name);
    if (!names.includes(state.pass)) state.pass = names[1];
    const choose = name => { state.pass = name; go("Passes"); };
    const buttons = names.map(name => element("button",
      { role: "tab", "aria-selected": String(name === state.pass), onclick: () => choose(name) }, name));
    const pass = program.passes[names.indexOf(state.pass)];
    const graph = element("section", { class: "pane", id: "graph", "aria-label": "After the pass" });
    queueMicrotask(() => graphAfter(pass.name, graph));
    return element("div", { class: "panes passes" },
      element("section", { class: "pane prose", "aria-label": "Rewrites" },
        element("div", { class: "stages", role: "tablist" }, ...buttons), ...rewritesOf(pass)),
      graph);
  },
  Memory() {
    const box = element("div", { class: "pane arena" });
    box.append(element("h3", {}, "What if it were checkpointed in another way"), ...whatIf());
    for (const arena of program.memory) box.append(...arenaPicture(arena));
    box.append(element("h3", {}, "Arguments and results, which are not in the arena"), outside());
    box.append(element("h3", {}, "Steps, and the place of each value"), element("pre", {}, program.schedule));
    return box;
  },
};

TABS.Roofline = function () {
  const box = element("div", { class: "pane arena" });
  box.append(element("h3", {}, "Kernels beside what one core does at all: area by share of the time"));
  const picture = element("div");
  picture.innerHTML = program.roofline;
  box.append(picture);
  return box;
};

const NAMESPACE = "http://www.w3.org/2000/svg";
function svg(tag, properties, ...children) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function arenaPicture(arena) {
  const wide = 1040, high = Math.min(420, 60 + 12 * arena.values.length), last = Math.max(1, ...arena.values.map(v => v[4] + 1));
  const x = at => 70 + at / last * (wide - 90), y = at => 10 + at / Math.max(1, arena.bytes) * (high - 36);
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": "Arena" });
  for (const [name, bytes, offset, first, end, line, maker, reader] of arena.values) {
    const hue = [...name].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 360, 7);
    const box = svg("rect", { x: x(first), y: y(offset), width: x(end + 1) - x(first), height: Math.max(1, y(offset + bytes) - y(offset)), fill: `hsl(${hue} 55% 58% / .8)` });
    box.addEventListener("mouseenter", () => {
      showLine(line);
      say("", name, ": ", size(bytes), ` at byte ${offset.toLocaleString("en")}, alive from step ${first} to ${end}; `, `made by kernel ${maker}, last used by ${reader}`);
    });
    if (line >= 0) add(marks.values, line, box);
    picture.append(box);
  }
  if (arena.values.length) {
    const at = x(arena.peak.at + 0.5);
    picture.append(svg("line", { x1: at, x2: at, y1: 6, y2: high - 22, class: "peak" }));
  }
  picture.append(svg("text", { x: 6, y: 20 }, "address"), svg("text", { x: 6, y: high - 26 }, size(arena.bytes)),
    svg("text", { x: 70, y: high - 8 }, "step 0"), svg("text", { x: wide - 70, y: high - 8 }, `step ${last - 1}`));
  const alive = arena.values.filter(v => v[3] <= arena.peak.at && arena.peak.at <= v[4]).sort((a, b) => b[1] - a[1]).slice(0, 8);
  return [element("h3", {}, `Arena of ${arena.name}: ${size(arena.bytes)}; ${size(arena.unshared)} if nothing were shared`),
    picture,
    element("p", {}, `At the peak, step ${arena.peak.at}, ${size(arena.peak.bytes)} are alive. The largest:`),
    table(["value", "bytes", "line", "made by kernel", "last used by"], alive.map(v => [v[0], size(v[1]), place(v[5]), v[6], v[7]]), [1])];
}

const place = line => line < 0 ? "" : `${program.files[program.lines[line][0]].name}:${program.lines[line][1]}`;

function outside() {
  const rows = program.outside.map(([name, bytes, what, line, maker, reader]) => {
    const shown = element("span", {}, name);
    if (line >= 0) {
      shown.addEventListener("mouseenter", () => showLine(line));
      add(marks.values, line, shown);
    }
    return [shown, size(bytes), what, place(line), maker, reader];
  });
  return table(["value", "bytes", "what", "line", "made by kernel", "last used by"], rows, [1]);
}

function whatIf() {
  const rows = program.alternatives;
  if (rows.length < 2) return [element("p", {}, rows.length ? "It has neither checkpoints nor loops that are differentiated: nothing would change."
    : "It was traced before it came here. Pass the function itself.")];
  const first = rows[0], change = (x, y) => x === y ? "" : `${x > y ? "+" : ""}${(100 * (x - y) / y).toFixed(1)}%`;
  const tone = (x, y) => element("span", { class: x < y ? "better" : "worse" }, change(x, y));
  const names = { "as written": "as it is written", "nothing": "without any checkpoint", "each loop": "with the body of each loop checkpointed, too" };
  return [table(["alternative", "peak", "", "time on one core", "", "operations", "launches"], rows.map(row => [names[row.strategy],
    size(row.peak_bytes), tone(row.peak_bytes, first.peak_bytes), time(row.ns), tone(row.ns, first.ns), count(row.flops), count(row.launches)]), [1, 2, 3, 4, 5, 6])];
}

// Two programs.

TABS.Compare = function () {
  const [a, b] = versions, box = element("div", { class: "pane prose" });
  const rows = Object.entries(FIGURES).map(([name, [figure, show]]) => {
    const [x, y] = [figure(a), figure(b)], change = x ? (y - x) / x : 0;
    const tone = Math.abs(change) < 0.0005 || NEUTRAL.has(name) ? "" : change < 0 ? "better" : "worse";
    return [name, show(x), show(y), element("span", { class: tone }, x ? `${change > 0 ? "+" : ""}${(100 * change).toFixed(1)}%` : "")];
  });
  box.append(element("h3", {}, `${a.title} and ${b.title}`), table(["", "before", "after", "change"], rows, [1, 2, 3]));
  const named = data => {
    const groups = new Map();
    for (const kernel of data.plain) add(groups, data.bodies[kernel.body].name, kernel);
    return groups;
  };
  const [left, right] = [named(a), named(b)], kernels = [];
  const often = list => (list.length > 1 ? `${list.length} in ` : "") + time(total(list));
  const total = list => list?.reduce((sum, kernel) => sum + kernel.ns, 0);
  for (const name of new Set([...left.keys(), ...right.keys()])) {
    const [x, y] = [left.get(name), right.get(name)];
    kernels.push([(x ?? y)[0].title, name.slice(0, 9), x ? often(x) : "—", y ? often(y) : "—",
      x && y ? "the same" : x ? element("span", { class: "better" }, "gone") : element("span", { class: "worse" }, "new"), total(x) ?? 0, total(y) ?? 0]);
  }
  kernels.sort((p, q) => (p[4] === "the same") - (q[4] === "the same") || q[5] + q[6] - p[5] - p[6]);
  box.append(element("h3", {}, "Kernels, by their text"),
    table(["operations", "kernel", "before", "after", ""], kernels.map(row => row.slice(0, 5)), [2, 3]));
  const listed = data => data.jaxpr.rows.map(([text]) => text);
  box.append(element("h3", {}, "Jaxprs"), difference(listed(a), listed(b)));
  return box;
};

const MOST_COMPARED_LINES = 3000;

function difference(a, b) {
  const box = element("div", { class: "diff code" });
  if (Math.max(a.length, b.length) > MOST_COMPARED_LINES) {
    box.append("They are too long to be compared here.");
    return box;
  }
  // The longest common subsequence, by its lengths from each pair of lines to the ends.
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) { box.append(element("div", {}, "  " + a[i])); i++; j++; }
    else if (j < b.length && (i === a.length || lengths[i][j + 1] >= lengths[i + 1][j])) box.append(element("div", { class: "added" }, "+ " + b[j++]));
    else box.append(element("div", { class: "removed" }, "- " + a[i++]));
  }
  return box;
}

const NEUTRAL = new Set(["kernels", "launches"]);  // more may be faster
const FIGURES = {
  "kernels": [data => data.totals.kernels, count],
  "launches": [data => data.totals.launches, count],
  "time on one core": [data => data.ns, time],
  "floating operations": [data => data.totals.flops, count],
  "transcendental functions": [data => data.totals.transcendentals, count],
  "bytes moved": [data => data.totals.bytes, size],
  "arguments": [data => data.totals.argument_bytes, size],
  "results": [data => data.totals.output_bytes, size],
  "arena": [data => data.totals.arena_bytes, size],
};

// Search: lines, equations, kernels, rules, then the long texts.

const MOST_HITS = 60;

async function search(text) {
  const wanted = text.toLowerCase(), hits = [];
  const found = value => value && hits.length < MOST_HITS && value.toLowerCase().includes(wanted);
  const open = (tab, then) => () => { go(tab); then?.(); };
  const at = (kernel, stage) => open("Kernels", () => { state.stage = stage; select(kernel); });
  program.files.forEach((file, i) => file.lines.forEach(([number, line]) => {
    const known = program.lineNumbers.get(i + ":" + number) ?? -1;
    if (found(line)) hits.push([`${file.name}:${number}`, line.trim(), open("Kernels", () => { state.line = known; pin(); marks.lines.get(known)?.[0].scrollIntoView({ block: "center" }); })]);
  }));
  for (const kernel of program.plain) {
    const name = program.bodies[kernel.body].name;
    if (found(kernel.label === wanted ? wanted : kernel.title + " " + name)) hits.push([`kernel ${kernel.label}`, `${kernel.title}  ${name}`, at(kernel, state.stage)]);
    for (const [equationText] of kernel.equations) if (found(equationText)) hits.push([`kernel ${kernel.label}`, equationText, at(kernel, "Equations")]);
    for (const [, rule, reason] of kernel.reasons) if (found(rule + " " + reason)) hits.push([`why ${kernel.label}`, `${rule}: ${reason}`, at(kernel, "Why")]);
  }
  for (const [rule, law] of Object.entries(program.laws)) if (found(rule + " " + law.text)) hits.push(["law", `${rule}: ${law.text}`, open("Passes")]);
  if (hits.length < MOST_HITS && wanted.length > 2) {
    texts = texts ?? await unpacked("texts");
    const own = texts[versions.indexOf(program)];
    for (const kernel of program.plain) for (const [stage, name] of [["LLVM", "llvm"], ["Assembly", "assembly"], ["Splits", "splits"]]) {
      const long = own[kernel.body][name] ?? "", place = long.toLowerCase().indexOf(wanted);
      if (place >= 0 && hits.length < MOST_HITS) hits.push([`${stage} ${kernel.label}`, long.slice(long.lastIndexOf("\n", place) + 1).split("\n", 1)[0].trim(), at(kernel, stage)]);
    }
  }
  return hits;
}

let searches = 0;
async function type() {
  const text = $("search").value.trim(), mine = ++searches, list = $("hits");
  if (!text) { list.hidden = true; return; }
  const hits = await search(text);
  if (mine !== searches) return;
  const close = act => () => { list.hidden = true; act(); };
  list.replaceChildren(...hits.map(([where, line, act]) => element("li", { onclick: close(act) }, element("b", {}, where), line)));
  if (!hits.length) list.append(element("li", {}, "nothing"));
  list.hidden = false;
}

// The frame.

function go(tab) {
  state.tab = tab;
  for (const map of Object.values(marks)) map.clear();
  for (const button of $("tabs").children) button.setAttribute("aria-selected", String(button.textContent === tab));
  for (const button of $("versions").children) button.setAttribute("aria-selected", String(versions[button.dataset.at] === program));
  $("main").replaceChildren(TABS[tab]());
  pin();
}

function frame() {
  $("title").textContent = program.title;
  $("target").textContent = program.target;
  const figures = Object.entries(FIGURES).filter(([, [figure]]) => figure(program) > 0);
  $("totals").replaceChildren(...figures.map(([name, [figure, show]]) => element("li", {}, element("b", {}, show(figure(program))), " " + name)));
}

function open(data) {
  program = data;
  state.kernel = null;
  state.line = -1;
  frame();
  go(state.tab);
}

async function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches || location.hash === "#dark";
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").addEventListener("click", () => {
    const root = document.documentElement.dataset;
    root.theme = root.theme === "dark" ? "light" : "dark";
  });
  versions = (await unpacked("data")).map(prepare);
  const tabs = Object.keys(TABS).filter(name => name === "Compare" ? versions.length > 1 : name !== "Roofline" || versions.every(data => data.roofline));
  $("tabs").append(...tabs.map(name => element("button", { role: "tab", onclick: () => go(name) }, name)));
  if (versions.length > 1) {
    state.tab = "Compare";
    versions.forEach((data, i) => $("versions").append(element("button", { role: "tab", "data-at": i, onclick: () => { if (state.tab === "Compare") state.tab = "Kernels"; open(data); } }, i ? "after" : "before")));
  }
  $("search").addEventListener("input", type);
  document.addEventListener("keydown", event => {
    const typing = document.activeElement === $("search");
    if (event.key === "/" && !typing) { $("search").focus(); event.preventDefault(); }
    if (event.key === "Escape") { $("hits").hidden = true; $("search").blur(); state.line = -1; pin(); }
    if (event.key === "Enter" && typing) $("hits").querySelector("li")?.click();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !typing && state.tab === "Kernels" && program.plain.length) {
      const list = state.slowest ? program.plain.toSorted((a, b) => b.ns - a.ns) : program.plain;
      const at = list.indexOf(state.kernel) + step;
      if (list[at]) { select(list[at]); showKernel(list[at]); }
      event.preventDefault();
    }
  });
  open(versions[versions.length - 1]);
  document.documentElement.dataset.ready = "yes";
}

start();
