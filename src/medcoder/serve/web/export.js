// Export: every format, with what its file does not hold.

import { get, send } from "./api.js";
import { conceptTables } from "./concepts.js";
import { h, say } from "./dom.js";
import { keep, recall } from "./kept.js";
import { chooser, noProjects, projects } from "./projects.js";
import { go, replace, write } from "./route.js";
import { STATUSES, plural } from "./words.js";

const FORMATS = {
  csv: ["CSV", "Your table with concept, code, confidence and status added."],
  xlsx: ["Excel", "The same as a workbook."],
  parquet: ["Parquet", "The same with candidates and their scores as nested columns."],
  sssom: ["SSSOM", "A mapping set in the standard of the ontology community."],
  fhir: ["FHIR ConceptMap", "R4, for terminology servers."],
  omop: ["OMOP", "source_to_concept_map. Needs an index of OMOP vocabularies, or a CONCEPT.csv."],
  usagi: ["Usagi", "To go on in Usagi. Needs the same as OMOP."],
};

export function mount(root, route) {
  let closed = false;
  let tables = null;
  let turn = 0;

  async function update(next) {
    const mine = (turn += 1);
    const over = () => closed || mine !== turn;
    try {
      const all = await projects();
      if (over()) return;
      if (!all.length) {
        root.replaceChildren(h("h1", {}, "Export"), noProjects());
        return;
      }
      const known = (id) => all.some((one) => one.id === id);
      const last = recall("project");
      const project = known(next.parts[0]) ? next.parts[0] : known(last) ? last : all[0].id;
      keep("project", project);
      replace(write("export", [project]));
      const [summary, { formats }] = await Promise.all([get(`projects/${encodeURIComponent(project)}`), get("exports")]);
      if (!over()) draw(all, project, summary, formats);
    } catch (error) {
      if (!over()) root.replaceChildren(h("p", { class: "error panel", role: "alert" }, error.message));
    }
  }

  function draw(all, project, summary, formats) {
    tables = conceptTables();
    const counts = Object.entries(summary.counts).filter(([, one]) => one.terms);
    const open = summary.counts.review.terms + summary.counts.flagged.terms;
    root.replaceChildren(
      h("div", { class: "row spread" }, h("h1", {}, "Export"), chooser(all, project, (id) => go(write("export", [id])))),
      h("p", { class: "row soft" }, counts.map(([status, one]) => h("span", {}, h("span", { class: `dot ${status}`, "aria-hidden": "true" }), ` ${STATUSES[status]} ${one.terms}`))),
      open > 0 && h("p", {}, `${plural(open, "term")} ${open === 1 ? "is" : "are"} still open. `, h("a", { href: write("review", [project]) }, "Review")) || "",
      h("ul", { class: "formats" }, inOrder(formats).map((one) => format(summary, one))));
  }

  function format(project, { format: name, ending, options }) {
    const [title, text] = FORMATS[name] ?? [name, ""];
    const notes = h("div", { role: "status" });
    const ids = options.some(({ type }) => type === "file") ? tables.field(name) : null;
    const more = optionFields(options.filter((option) => !ids?.options.includes(option.name)));
    const query = () => ({ ...ids?.query(), ...more.query() });
    const button = h("button", { type: "button", "data-format": name, onclick: () => download(project, name, ending, button, notes, query()) }, "Download", h("span", { class: "hidden" }, ` ${title}`));
    return h("li", { class: "format panel" }, h("h2", {}, title), h("p", { class: "soft" }, text), ids?.element, more.element, notes, h("div", { class: "buttons" }, button));
  }

  async function download(project, name, ending, button, notes, query) {
    button.disabled = true;
    notes.replaceChildren(h("p", { class: "soft small" }, "Writing…"));
    try {
      const answer = await send("GET", `projects/${encodeURIComponent(project.id)}/exports/${name}`, { query });
      const said = notesOf(answer);
      save(await answer.blob(), project.name.replace(/\.\w+$/, "") + ending);
      notes.replaceChildren(said.length ? h("ul", { class: "soft small" }, said.map((one) => h("li", {}, one))) : "");
      say(`${FORMATS[name]?.[0] ?? name} is downloaded`);
    } catch (error) {
      if (error.detail?.code === "no_concepts") tables.forget();
      notes.replaceChildren(h("p", { class: "error small" }, error.message));
    } finally {
      button.disabled = false;
      button.focus();
    }
  }

  update(route);
  return { update, close: () => { closed = true; } };
}

// What else may be said of a format, as the service describes it.
function optionFields(options) {
  const inputs = options.map(({ name, type }) => [name, h("input", { type: type === "bool" ? "checkbox" : "text", name, maxlength: type === "str" && 500 })]);
  const fields = options.map(({ name, help }, index) => [h("label", { class: "small" }, name, inputs[index][1]), h("p", { class: "soft small" }, help)]);
  const value = (input) => (input.type === "checkbox" ? input.checked : input.value.trim()) || null;
  return {
    element: options.length > 0 && h("details", {}, h("summary", {}, "Options"), fields),
    query: () => Object.fromEntries(inputs.map(([name, input]) => [name, value(input)])),
  };
}

// As listed above; one that is new comes last.
function inOrder(formats) {
  const names = Object.keys(FORMATS);
  const place = ({ format }) => (names.includes(format) ? names.indexOf(format) : names.length);
  return [...formats].sort((one, other) => place(one) - place(other));
}

function notesOf(answer) {
  try {
    const told = JSON.parse(answer.headers.get("X-Medcoder-Notes") ?? "[]");
    return Array.isArray(told) ? told : [];
  } catch {
    return [];
  }
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 30_000);
}
