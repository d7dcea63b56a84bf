"use strict";
// Asks /model once, and /explain after every change. No library, no other host.
const byId = (id) => document.getElementById(id);
const LIKELY = 0.8; // of the first state, where soft evidence begins
const DELAY = 250; // ms of silence before a question is sent
let model = null;
let asked = 0;
let timer = null;
const soft = new Map(); // likelihoods by variable

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const shown = (value, digits = 4) =>
  value === null || value === undefined ? "-" : String(Number(value.toPrecision(digits)));

async function fetched(path, body) {
  const options = body === undefined ? {} :
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || `the service answered ${response.status}`);
  return answer;
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(ask, DELAY);
}

function variableRow(variable, number) {
  const id = `v${number}`;
  const select = make("select", { id }, make("option", { value: "" }, "not seen"));
  variable.states.forEach((state) => select.append(make("option", { value: `=${state}` }, state)));
  select.append(make("option", { value: "soft" }, "likely, not sure ..."));
  const row = make("div", { class: "variable", "data-name": variable.name },
    make("label", { for: id }, variable.name), select);
  select.addEventListener("change", () => {
    row.querySelector(".soft")?.remove();
    soft.delete(variable.name);
    if (select.value === "soft") row.append(softInputs(variable, id));
    later();
  });
  return row;
}

function softInputs(variable, id) {
  const rest = (1 - LIKELY) / Math.max(1, variable.states.length - 1);
  const values = variable.states.map((_, k) => (k ? rest : LIKELY));
  soft.set(variable.name, values);
  const box = make("div", { class: "soft" });
  variable.states.forEach((state, k) => {
    const input = make("input",
      { id: `${id}-${k}`, type: "range", min: 0, max: 1, step: 0.01, value: values[k] });
    input.addEventListener("input", () => { values[k] = Number(input.value); later(); });
    box.append(make("label", { for: `${id}-${k}` }, state), input);
  });
  return box;
}

function limitRow(constraint, number) {
  const id = `q${number}`;
  const input = make("input",
    { id, type: "number", step: "any", value: constraint.limit, "data-name": constraint.name });
  input.addEventListener("input", later);
  const word = constraint.relation === "<=" ? "at most" : "at least";
  return make("div", { class: "limit" }, make("label", { for: id }, `${constraint.name}: ${word}`), input);
}

function question() {
  const row = {};
  model.variables.forEach((variable, number) => {
    const value = byId(`v${number}`).value;
    if (value === "soft") row[variable.name] = soft.get(variable.name);
    else if (value) row[variable.name] = value.slice(1);
  });
  const limits = {};
  document.querySelectorAll("#limits input").forEach((input) => {
    if (input.value !== "") limits[input.dataset.name] = [Number(input.value)];
  });
  return { rows: [row], ...(Object.keys(limits).length ? { limits } : {}) };
}

async function ask() {
  const number = ++asked;
  byId("results").setAttribute("aria-busy", "true");
  let told;
  try {
    told = await fetched("/explain", question());
  } catch (error) {
    told = { proof: String(error.message), failed: true };
  }
  if (number !== asked) return; // a later question is on its way
  show(told);
  byId("results").setAttribute("aria-busy", "false");
}

function show(told) {
  const proof = byId("proof");
  proof.textContent = told.conflict ? `There is none: ${told.conflict.text}` : told.proof;
  proof.className = told.conflict || told.failed ? "bad" : "";
  ["answer", "sure", "cost", "others"].forEach((id) => byId(id).replaceChildren());
  if (told.failed || !told.alternatives) return;
  showAnswer(told);
  showCosts(told);
  showOthers(told);
}

function showAnswer(told) {
  const states = told.alternatives.length ? told.alternatives[0].states : told.answer.states;
  const sure = told.sure.marginals;
  const body = make("tbody");
  model.variables.forEach((variable, number) => {
    const state = String(states[variable.name]);
    const cells = [make("td", {}, variable.name), make("td", {}, state)];
    const seen = byId(`v${number}`).value;
    const share = sure ? sure[variable.name][variable.states.indexOf(state)] : null;
    const mark = make("td", { class: "number" });
    if (seen && seen !== "soft") mark.append("seen");
    else if (share !== null && share !== undefined) {
      mark.append(make("meter", { value: share, "aria-label": `how likely ${state} is` }), ` ${shown(share, 3)}`);
    }
    body.append(make("tr", {}, ...cells, mark));
  });
  const head = make("tr", {}, ...["variable", "state", "how likely"].map((w) => make("th", { scope: "col" }, w)));
  byId("answer").append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the states" },
    make("table", {}, make("thead", {}, head), body)));
  const text = told.sure.reason ? `How sure it is cannot be summed: ${told.sure.reason}` :
    `As a whole it has probability ${shown(told.sure.probability, 3)}` +
    (told.sure.estimated ? ", estimated from samples." : ".");
  byId("sure").append(make("h3", {}, "How sure"), make("p", {}, text));
}

function showCosts(told) {
  const box = byId("cost");
  model.constraints.forEach((constraint, j) => {
    const found = told.fronts[j];
    const value = told.answer.constraints[j].value;
    box.append(make("h3", {}, `What "${constraint.name}" costs`));
    if (found.reason) { box.append(make("p", {}, found.reason)); return; }
    const best = Math.max(...found.objective);
    const lost = best - told.answer.objective;
    const text = lost < 1e-6 ? "Nothing: no other limit gives a likelier answer." :
      `Without this limit the best answer is ${shown(Math.exp(lost), 3)} times as probable.`;
    box.append(make("p", {}, `The answer has ${shown(value)}. ${text}`));
    if (found.values.length > 1) box.append(picture(found, constraint, Number(byId(`q${j}`).value)));
  });
}

function picture(found, constraint, limit) {
  const space = "http://www.w3.org/2000/svg";
  const points = found.values.map((v, k) => [v, found.objective[k]]).filter(([v]) => v !== null);
  const [left, right] = [points[0][0], points[points.length - 1][0]];
  const heights = points.map((p) => p[1]);
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const x = (v) => 55 + 430 * (v - left) / (right - left || 1);
  const y = (h) => 125 - 105 * (h - low) / (high - low || 1);
  const up = constraint.relation === "<=";
  let path = "";
  points.forEach(([v, h], k) => {
    const before = points[k - 1];
    if (!before) path += `M${x(v)} ${y(h)}`;
    else path += up ? `H${x(v)}V${y(h)}` : `V${y(h)}H${x(v)}`;
  });
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 500 160");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `best log-probability for every limit of ${constraint.name}`);
  const part = (tag, attributes, text = "") => {
    const element = document.createElementNS(space, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.textContent = text;
    svg.append(element);
  };
  part("path", { d: path });
  if (limit >= left && limit <= right) part("line", { x1: x(limit), x2: x(limit), y1: 15, y2: 130 });
  part("text", { x: 0, y: 22 }, shown(high));
  part("text", { x: 0, y: 128 }, shown(low));
  part("text", { x: 55, y: 145 }, shown(left));
  part("text", { x: 485, y: 145, "text-anchor": "end" }, shown(right));
  part("text", { x: 270, y: 157, "text-anchor": "middle" }, `${constraint.name} ${constraint.relation} limit`);
  return svg;
}

function showOthers(told) {
  if (told.alternatives.length < 2) return;
  const best = told.alternatives[0];
  const list = make("ol");
  told.alternatives.slice(1).forEach((other) => {
    const changes = Object.keys(other.states).filter((name) => other.states[name] !== best.states[name])
      .map((name) => `${name}=${other.states[name]}`);
    const share = shown(Math.exp(other.objective - best.objective), 3);
    list.append(make("li", {}, `${changes.join(", ")}: ${share} times as probable`));
  });
  byId("others").append(make("h3", {}, "The next best"), list);
}

async function begin() {
  model = await fetched("/model");
  byId("title").textContent = model.name ? `Explore ${model.name}` : "Explore a model";
  byId("variables").append(...model.variables.map(variableRow));
  byId("limits").append(...model.constraints.map(limitRow));
  if (!model.constraints.length) byId("limits").append("The problem has no limits.");
  byId("find").addEventListener("input", () => {
    const wanted = byId("find").value.toLowerCase();
    document.querySelectorAll(".variable").forEach((row) => {
      row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
    });
  });
  byId("clear").addEventListener("click", () => {
    document.querySelectorAll(".variable select").forEach((select) => { select.value = ""; });
    document.querySelectorAll(".soft").forEach((box) => box.remove());
    soft.clear();
    ask();
  });
  await ask();
}

begin().catch((error) => { byId("proof").textContent = String(error.message); });
