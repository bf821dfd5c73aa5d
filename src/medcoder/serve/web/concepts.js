// A CONCEPT.csv of OMOP: sent once, used by every format that needs its ids.

import { post } from "./api.js";
import { h, say } from "./dom.js";
import { keep, recall } from "./kept.js";

export function conceptTables() {
  const lines = [];

  function show(text) {
    const table = recall("concepts", null, sessionStorage);
    const said = text ?? (table ? `${table.name} is there.` : "");
    for (const line of lines) {
      line.classList.remove("error");
      line.textContent = said;
    }
  }

  async function take(input, line) {
    const file = input.files[0];
    if (!file) return;
    input.disabled = true;
    show(`Sending ${file.name}…`);
    try {
      const form = new FormData();
      form.append("file", file, file.name);
      const { concepts } = await post("concept-tables", form);
      keep("concepts", { id: concepts, name: file.name }, sessionStorage);
      show();
      say(`${file.name} is there`);
    } catch (error) {
      show();
      line.classList.add("error");
      line.textContent = error.message;
    } finally {
      input.disabled = false;
      input.value = "";
      input.focus();
    }
  }

  // What a format needs, and what to ask for it with.
  function field(format) {
    const line = h("span", { class: "soft small", role: "status" });
    const input = h("input", { type: "file", id: `concepts-${format}`, accept: ".csv,.gz", onchange: () => take(input, line) });
    const zero = h("input", { type: "checkbox" });
    lines.push(line);
    show();
    return {
      options: ["concepts", "missing_ok"],
      element: h("div", { class: "concepts" }, h("label", { for: input.id }, "CONCEPT.csv from Athena"), input, line,
        h("label", { class: "row small" }, zero, "Concepts that it lacks become 0")),
      query: () => ({ concepts: recall("concepts", null, sessionStorage)?.id, missing_ok: zero.checked || null }),
    };
  }

  function forget() {
    keep("concepts", null, sessionStorage);
    show();
  }

  return { field, forget };
}
