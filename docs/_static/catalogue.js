// Search, filters and order of the catalogue's table.
(() => {
  const form = document.getElementById("catalogue-controls");
  if (!form) return;
  const table = document.getElementById("catalogue");
  const rows = [...table.tBodies[0].rows];
  const menus = [...form.querySelectorAll("select")];
  const values = (row, name) => (row.dataset[name] || "").split("|").filter(Boolean);
  for (const menu of menus)
    for (const value of new Set(rows.flatMap((row) => values(row, menu.name)).sort()))
      menu.add(new Option(value, value));
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const apply = () => {
    const words = form.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !(
        menus.every((menu) => !menu.value || values(row, menu.name).includes(menu.value)) &&
        words.every((word) => texts.get(row).includes(word))
      );
      shown += !row.hidden;
    }
    form.querySelector("output").textContent = `${shown} of ${rows.length}`;
  };
  // the first click sorts upwards, the next one downwards; empty cells are last
  const order = (button) => {
    const sign = button.dataset.sign === "1" ? -1 : 1;
    button.dataset.sign = sign;
    const by = button.dataset.by;
    const key = (row) => (by === "statement" ? row.id : row.dataset[by] || "");
    const compare = (a, b) => {
      const [p, q] = [key(a), key(b)];
      if (!p || !q) return Number(!p) - Number(!q);
      return sign * (by === "ratio" ? p - q : p.localeCompare(q));
    };
    table.tBodies[0].append(...[...rows].sort(compare));
  };
  form.addEventListener("input", apply);
  for (const button of table.querySelectorAll("button"))
    button.addEventListener("click", () => order(button));
  for (const link of document.querySelectorAll("table.papers a"))
    link.addEventListener("click", () => {
      for (const menu of menus) menu.value = "";
      form.paper.value = link.dataset.paper;
      form.status.value = link.dataset.status;
      apply();
    });
  const asked = new URLSearchParams(location.search);
  for (const name of ["text", ...menus.map((menu) => menu.name)])
    if (asked.has(name)) form[name].value = asked.get(name);
  apply();
})();
