// Accept at once what the machine is sure of.

import { post } from "./api.js";
import { ask } from "./dialog.js";
import { debounce, h } from "./dom.js";
import { count, percent, plural } from "./words.js";

// The answer of the service, or null.
export function bulkAccept(project, summary, who) {
  const path = `projects/${encodeURIComponent(project)}/accept`;
  return ask("Accept above a precision", (close) => {
    const promised = summary.meta?.precision ?? 0.98;
    const field = h("input", {
      id: "precision", autofocus: true, type: "number", min: "50", max: "99.9", step: "0.1", required: true, value: String(+(100 * promised).toFixed(1)),
      oninput: () => { later(); },
    });
    const said = h("p", { role: "status" });
    const button = h("button", { class: "main" }, "Accept");
    const value = () => (field.checkValidity() ? Number(field.value) / 100 : null);
    const later = debounce(200, preview);

    async function preview() {
      const precision = value();
      if (precision === null) {
        said.textContent = "Between 50 and 99.9.";
        button.disabled = true;
        return;
      }
      try {
        const answer = await post(path, { precision, who, only_count: true });
        button.disabled = answer.terms === 0;
        said.textContent = answer.terms === 0
          ? "No open term is that sure."
          : `${plural(answer.terms, "open term")} in ${plural(answer.rows, "row")}, each with a confidence of ${percent(answer.threshold)} or more.`;
        button.textContent = answer.terms ? `Accept ${count(answer.terms)}` : "Accept";
      } catch (error) {
        said.textContent = error.message;
        button.disabled = true;
      }
    }

    preview();
    return h("form", {
      onsubmit: async (event) => {
        event.preventDefault();
        const precision = value();
        if (precision === null) return;
        button.disabled = true;
        try {
          close(await post(path, { precision, who }));
        } catch (error) {
          said.textContent = error.message;
          button.disabled = false;
        }
      },
    },
    h("label", { for: "precision" }, "Share that must be right, in %"), field, said,
    h("p", { class: "soft small" }, "Their first candidate becomes your decision, as equivalent. Each can be undone by itself."),
    h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => close() }, "Cancel"), button));
  });
}
