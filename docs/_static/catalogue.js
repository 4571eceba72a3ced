// Search, filters and order of the catalogue's entries.
(() => {
  const form = document.getElementById("catalogue-controls");
  if (!form) return;
  const entries = [...document.querySelectorAll("details.entry")];
  const filters = ["kind", "paper", "status", "verdict"];
  for (const name of filters) {
    const values = [...new Set(entries.map((e) => e.dataset[name]))];
    for (const value of values) form[name].add(new Option(value, value));
  }
  for (const e of entries) e.dataset.text = e.textContent.toLowerCase();
  const factor = (e) => Number(e.dataset.ratio || NaN);
  const apply = () => {
    const words = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const e of entries) {
      const fits =
        filters.every((n) => !form[n].value || e.dataset[n] === form[n].value) &&
        words.every((w) => e.dataset.text.includes(w));
      e.hidden = !fits;
      shown += fits;
    }
    const order = form.order.value;
    const sign = order === "loose" ? -1 : 1;
    const sorted = order
      ? [...entries].sort((a, b) => {
          const [p, q] = [factor(a), factor(b)];
          if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q);
          return sign * (p - q);
        })
      : entries;
    const parent = document.getElementById("catalogue");
    for (const e of sorted) parent.append(e);
    form.querySelector("output").textContent = `${shown} of ${entries.length}`;
  };
  form.addEventListener("input", apply);
  const asked = new URLSearchParams(location.search);
  for (const name of ["text", "order", ...filters])
    if (asked.has(name)) form[name].value = asked.get(name);
  apply();
})();
