// Map: a file in, its columns chosen, the work watched.

import { get, post } from "./api.js";
import { h, say } from "./dom.js";
import { jobs } from "./jobs.js";
import { keep, recall } from "./kept.js";
import { failed } from "./toast.js";
import { TARGETS, count } from "./words.js";

const ROLES = {
  column: { label: "Text to map", like: /term|text|name|desc|bezeich|label|diagnos|wort/i },
  code: { label: "Your code", like: /^(code|id|key)$|code$|_id$/i },
  count: { label: "How often it occurs", like: /^(n|count|freq.*|anzahl|occurrences?)$/i },
  language: { label: "Language", like: /^(lang|language|sprache)$/i },
};

export function mount(root) {
  const work = jobs();
  const place = h("div", { class: "stack" });
  const input = h("input", { type: "file", class: "hidden", id: "file", accept: ".csv,.tsv,.txt,.xlsx,.parquet", onchange: () => take(input.files[0]) });
  const zone = h("label", {
    class: "drop", for: "file",
    ondragover: (event) => { event.preventDefault(); zone.classList.add("over"); },
    ondragleave: () => zone.classList.remove("over"),
    ondrop: (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      take(event.dataTransfer.files[0]);
    },
  }, h("b", {}, "Drop a table here, or choose a file"), h("span", { class: "soft" }, "CSV, TSV, Excel or Parquet. It stays on the machine that serves this page."), input);
  root.append(h("div", { class: "stack narrow" }, h("h1", {}, "Map a table"), zone, place, work.element));

  async function take(file) {
    if (!file) return;
    input.value = "";
    place.replaceChildren(h("p", { class: "soft", role: "status" }, `Reading ${file.name}…`));
    try {
      const form = new FormData();
      form.append("file", file, file.name);
      const upload = { ...(await post("uploads", form)), file: file.name };
      keep("upload", upload, sessionStorage);
      await choose(upload);
      place.querySelector("select")?.focus();
    } catch (error) {
      place.replaceChildren(h("p", { class: "error panel", role: "alert" }, error.message));
    }
  }

  async function choose(upload) {
    const all = upload.columns;
    const { vocabularies: names = [], targets = ["any"] } = await get("filters").catch(() => ({}));
    const table = preview(upload);
    const used = {};
    const taken = new Set();
    const fields = Object.entries(ROLES).map(([role, { label, like }]) => {
      const needed = role === "column";
      const free = all.filter((name) => !taken.has(name));
      const guess = free.find((name) => like.test(name)) ?? (needed ? free.find((name) => !/^(id|code|n|count)$/i.test(name)) ?? all[0] : "");
      if (guess) taken.add(guess);
      used[role] = h("select", { id: `role-${role}`, value: guess, onchange: mark },
        !needed && h("option", { value: "" }, "–"), all.map((name) => h("option", { value: name }, name)));
      return h("div", {}, h("label", { for: `role-${role}` }, label), used[role]);
    });
    const precision = h("input", { id: "promise", type: "number", min: "50", max: "99.9", step: "0.1", value: "98", required: true });
    const top = h("input", { id: "top", type: "number", min: "1", max: "20", value: "5", required: true });
    const vocabulary = h("select", { id: "vocabulary" }, h("option", { value: "" }, "Any"),
      names.map(({ name }) => h("option", { value: name }, name)));
    const target = h("select", { id: "targets" }, targets.map((name) => h("option", { value: name }, TARGETS[name] ?? name)));
    const split = h("input", { id: "split", type: "checkbox" });
    split.checked = true;
    const button = h("button", { class: "main" }, "Map");
    place.replaceChildren(h("form", {
      class: "panel stack", onsubmit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        try {
          const chosen = Object.fromEntries(Object.entries(used).filter(([, field]) => field.value).map(([role, field]) => [role, field.value]));
          await post("map", {
            upload: upload.upload, ...chosen, top: Number(top.value), precision: Number(precision.value) / 100,
            vocabularies: vocabulary.value ? [vocabulary.value] : [], targets: target.value, split: split.checked,
          });
          keep("upload", null, sessionStorage);
          place.replaceChildren();
          say("Mapping has started");
          await work.refresh();
          work.element.focus();
        } catch (error) {
          failed(error);
          button.disabled = false;
        }
      },
    },
    h("div", { class: "row spread" }, h("h2", {}, upload.file), h("span", { class: "soft" }, upload.rows ? `${count(upload.rows)} rows` : "")),
    h("div", { class: "fields" }, fields),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "First rows" }, table),
    h("div", { class: "fields" },
      h("div", {}, h("label", { for: "promise" }, "Precision of automatic ones, in %"), precision),
      h("div", {}, h("label", { for: "top" }, "Candidates a term"), top),
      h("div", {}, h("label", { for: "vocabulary" }, "Vocabulary"), vocabulary),
      h("div", {}, h("label", { for: "targets" }, "Which concepts"), target)),
    h("label", { class: "row", for: "split" }, split, "Answer several things in a cell one by one"),
    h("div", { class: "buttons" },
      h("button", { type: "button", onclick: () => { keep("upload", null, sessionStorage); place.replaceChildren(); } }, "Cancel"), button)));
    mark();

    function mark() {
      const chosen = new Set(Object.values(used).map((field) => field.value));
      for (const row of table.rows) [...row.cells].forEach((cell, place_) => cell.classList.toggle("used", chosen.has(all[place_])));
    }
  }

  function preview(upload) {
        return h("table", { class: "preview" },
      h("thead", {}, h("tr", {}, upload.columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, upload.preview.slice(0, 6).map((row) => h("tr", {}, row.map((cell) => h("td", { dir: "auto" }, cell))))));
  }

  const open = recall("upload", null, sessionStorage);
  if (open) choose(open);
  return { close: work.close };
}
