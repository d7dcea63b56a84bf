"use strict";
(function () {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const chosen = { dataset: new Set(), q: new Set(), method: new Set() };
  const blocks = all(".block");
  document.documentElement.classList.remove("no-js");

  // A thing that belongs to no data set, q or method is never filtered by it.
  const wanted = (element) =>
    Object.keys(chosen).every(
      (key) =>
        !(key in element.dataset) || !chosen[key].size || chosen[key].has(element.dataset[key])
    );

  function filterColumns(table) {
    const titles = all(".titles th", table);
    const tagged = titles.filter((th) => "dataset" in th.dataset || "q" in th.dataset);
    if (!tagged.length) return true;
    const shown = titles.map(wanted);
    for (const th of all(".over th", table)) th.hidden = !wanted(th);
    for (const row of [table.tHead.rows[table.tHead.rows.length - 1], ...table.tBodies[0].rows])
      shown.forEach((is, i) => (row.cells[i].hidden = !is));
    return tagged.some((th) => !th.hidden);
  }

  function filter() {
    let rows = 0;
    let shown = 0;
    for (const block of blocks) {
      const table = block.querySelector("table");
      let any = wanted(block);
      if (table) {
        const columns = filterColumns(table);
        const lines = Array.from(table.tBodies[0].rows);
        for (const row of lines) row.hidden = !wanted(row);
        const left = lines.filter((row) => !row.hidden).length;
        any = any && columns && left > 0;
        rows += lines.length;
        shown += any ? left : 0;
      }
      block.hidden = !any;
      const fold = block.closest(".fold");
      if (fold) fold.hidden = block.hidden;
    }
    const figures = all("figure.block").filter((f) => !f.hidden).length;
    document.getElementById("status").textContent =
      `${shown} of ${rows} table rows and ${figures} figures shown`;
    for (const link of all(".inside a"))
      link.parentNode.hidden = document.getElementById(link.hash.slice(1)).hidden;
  }

  // What a link leads to, and everything that is printed, is unfolded.
  function unfold(element) {
    const fold = element && element.closest(".fold");
    if (fold) fold.open = true;
  }
  const linked = () => unfold(location.hash && document.getElementById(location.hash.slice(1)));
  window.addEventListener("hashchange", linked);
  window.addEventListener("beforeprint", () => blocks.forEach(unfold));
  linked();

  function name(facet) {
    const boxes = all("input:checked", facet);
    const label = boxes.length === 1 ? boxes[0].parentNode.textContent.trim() : String(boxes.length);
    facet.querySelector(".chosen").textContent = boxes.length ? label : "all";
  }

  for (const facet of all(".facet")) {
    facet.addEventListener("change", (event) => {
      const set = chosen[facet.dataset.key];
      if (event.target.checked) set.add(event.target.value);
      else set.delete(event.target.value);
      name(facet);
      filter();
    });
    facet.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && facet.open) {
        facet.open = false;
        facet.querySelector("summary").focus();
      }
    });
    facet.addEventListener("toggle", () => {
      if (facet.open) for (const other of all(".facet")) if (other !== facet) other.open = false;
    });
  }
  document.addEventListener("click", (event) => {
    for (const facet of all(".facet[open]")) if (!facet.contains(event.target)) facet.open = false;
  });
  document.getElementById("reset").addEventListener("click", () => {
    for (const set of Object.values(chosen)) set.clear();
    for (const box of all(".facet input")) box.checked = false;
    for (const facet of all(".facet")) name(facet);
    filter();
  });

  // Numbers sort within their block (gaps apart from violations); what has no number comes last.
  function sort(th) {
    const table = th.closest("table");
    const column = th.cellIndex;
    const rising = th.getAttribute("aria-sort") !== "ascending";
    const sign = rising ? 1 : -1;
    const rows = Array.from(table.tBodies[0].rows);
    const numeric = rows.some((row) => "v" in row.cells[column].dataset);
    const value = (row) =>
      "v" in row.cells[column].dataset ? Number(row.cells[column].dataset.v) : NaN;
    const text = (row) => row.cells[column].textContent.trim();
    rows.sort((a, b) => {
      if (!numeric) return sign * text(a).localeCompare(text(b), "en", { numeric: true });
      if (a.dataset.block !== b.dataset.block) return a.dataset.block - b.dataset.block;
      const x = value(a);
      const y = value(b);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return sign * (x - y);
    });
    table.tBodies[0].append(...rows);
    for (const other of all("th[aria-sort]", table)) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", rising ? "ascending" : "descending");
  }
  for (const button of all(".sort"))
    button.addEventListener("click", () => sort(button.closest("th")));

  for (const button of all("button.all"))
    button.addEventListener("click", () => {
      const few = button.closest("article").querySelector("table").classList.toggle("few");
      button.setAttribute("aria-pressed", String(!few));
    });

  function save(address, file) {
    const link = document.createElement("a");
    link.href = address;
    link.download = file;
    document.body.append(link);
    link.click();
    link.remove();
  }
  const kinds = { csv: "text/csv", md: "text/markdown", tex: "application/x-tex" };
  let texts = null;
  for (const button of all("button[data-table]"))
    button.addEventListener("click", () => {
      const { table, format } = button.dataset;
      texts = texts || JSON.parse(document.getElementById("texts").textContent);
      const blob = new Blob([texts[table][format]], { type: kinds[format] + ";charset=utf-8" });
      const address = URL.createObjectURL(blob);
      save(address, table + "." + format);
      setTimeout(() => URL.revokeObjectURL(address), 1000);
    });
  for (const button of all("button[data-figure]"))
    button.addEventListener("click", () => {
      const address = button.closest("figure").querySelector("img").src;
      save(address, button.dataset.figure + (address.startsWith("data:image/png") ? ".png" : ".svg"));
    });
  filter();
})();
