// Review: which project, which terms, and the one in front.

import { h } from "./dom.js";
import { keep, recall } from "./kept.js";
import { chooser, noProjects, projects } from "./projects.js";
import { reviewing } from "./reviewing.js";
import { go, replace, write } from "./route.js";

export function mount(root, route) {
  let session = null;
  let closed = false;
  let all = [];

  async function update(next) {
    let project = next.parts[0];
    try {
      if (!all.some((one) => one.id === project)) all = await projects();
    } catch (error) {
      root.replaceChildren(h("p", { class: "error panel", role: "alert" }, error.message));
      return;
    }
    if (closed) return;
    if (!all.length) {
      root.replaceChildren(h("h1", {}, "Review"), noProjects());
      return;
    }
    if (!all.some((one) => one.id === project)) {
      const last = recall("project");
      project = all.some((one) => one.id === last) ? last : all[0].id;
      replace(write("review", [project], Object.fromEntries(next.query)));
      next = { ...next, parts: [project] };
    }
    keep("project", project);
    if (session?.project === project) {
      session.update(next);
      return;
    }
    session?.close();
    const choose = chooser(all, project, (id) => go(write("review", [id])));
    session = reviewing(root, project, next, choose);
  }

  update(route);
  return { update, close: () => { closed = true; session?.close(); } };
}
