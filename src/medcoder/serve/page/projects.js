// The projects that the service knows, and a field to choose one.

import { get } from "./api.js";
import { h } from "./dom.js";

export async function projects() {
  const answer = await get("projects");
  return (answer.projects ?? answer).map((one) => (typeof one === "string" ? { id: one, name: one } : { ...one, id: one.id ?? one.name, name: one.name ?? one.id }));
}

export function chooser(all, chosen, changed) {
  return h("span", { class: "row" }, h("label", { for: "project" }, "Project"),
    h("select", { id: "project", value: chosen, onchange: (event) => changed(event.target.value) },
      all.map((one) => h("option", { value: one.id }, one.name))));
}

export function noProjects() {
  return h("div", { class: "empty panel" }, h("p", {}, "There is no mapping project yet."),
    h("p", {}, h("a", { href: "#/map" }, "Map a table"), ", or start the service with ", h("code", {}, "--project"), "."));
}
