// Search, filters, groups and order of the catalogue's entries.
(() => {
  const form = document.getElementById("catalogue-controls");
  if (!form) return;
  const parent = document.getElementById("catalogue");
  const entries = [...parent.querySelectorAll("details.entry")];
  const single = ["kind", "paper", "status", "verdict", "panel"];
  const filters = [...single, "assumption"];
  const assumptions = (e) => (e.dataset.assumption || "").split("|").filter(Boolean);
  for (const name of filters) {
    const of = name === "assumption" ? assumptions : (e) => [e.dataset[name]];
    const values = [...new Set(entries.flatMap(of))];
    if (name === "assumption") values.sort();
    for (const value of values) form[name].add(new Option(value, value));
  }
  for (const e of entries) e.dataset.text = e.textContent.toLowerCase();
  const factor = (e) => Number(e.dataset.ratio || NaN);
  const wanted = (e, words) =>
    single.every((n) => !form[n].value || e.dataset[n] === form[n].value) &&
    (!form.assumption.value || assumptions(e).includes(form.assumption.value)) &&
    words.every((w) => e.dataset.text.includes(w));
  const ordered = () => {
    if (!form.order.value) return entries;
    const sign = form.order.value === "loose" ? -1 : 1;
    return [...entries].sort((a, b) => {
      const [p, q] = [factor(a), factor(b)];
      if (Number.isNaN(p) || Number.isNaN(q)) return Number.isNaN(p) - Number.isNaN(q);
      return sign * (p - q);
    });
  };
  const apply = () => {
    const words = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const e of entries) {
      e.hidden = !wanted(e, words);
      shown += !e.hidden;
    }
    for (const heading of parent.querySelectorAll(".group")) heading.remove();
    const groups = new Map();
    for (const e of ordered()) {
      const key = form.group.value ? e.dataset[form.group.value] : "";
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(e);
    }
    for (const [key, members] of groups) {
      const visible = members.filter((e) => !e.hidden).length;
      if (form.group.value && visible) {
        const heading = document.createElement("p");
        heading.className = "rubric group";
        heading.textContent = `${key} (${visible})`;
        parent.append(heading);
      }
      for (const e of members) parent.append(e);
    }
    form.querySelector("output").textContent = `${shown} of ${entries.length}`;
  };
  const open = () => {
    const entry = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (entry && entries.includes(entry)) entry.open = true;
  };
  form.addEventListener("input", apply);
  for (const link of document.querySelectorAll("table.papers a"))
    link.addEventListener("click", () => {
      for (const name of filters) form[name].value = "";
      form.paper.value = link.dataset.paper;
      form.status.value = link.dataset.status;
      apply();
    });
  const asked = new URLSearchParams(location.search);
  for (const name of ["text", "order", "group", ...filters])
    if (asked.has(name)) form[name].value = asked.get(name);
  apply();
  open();
  window.addEventListener("hashchange", open);
})();
