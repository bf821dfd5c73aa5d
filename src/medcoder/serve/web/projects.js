// The projects that the service knows, and a field to choose one.

import { get } from "./api.js";
import { h } from "./dom.js";
import { plural, when } from "./words.js";

export async function projects() {
  return (await get("projects")).projects;
}

export function chooser(all, chosen, changed) {
  return h("span", { class: "row" }, h("label", { for: "project", class: "project" }, "Project"),
    h("select", { id: "project", value: chosen, onchange: (event) => changed(event.target.value) },
      all.map((one) => h("option", { value: one.id }, `${one.name} · ${plural(one.rows, "row")}, ${one.complete ? when(one.created) : "being mapped"}`))));
}

export function noProjects() {
  return h("div", { class: "empty panel" }, h("p", {}, "There is no mapping project yet."),
    h("p", {}, h("a", { href: "#/map" }, "Map a table"), ", or start the service with ", h("code", {}, "--project"), "."));
}
