// The tightness map: one curve for each push A, points that tell what they are.
(() => {
  const root = document.getElementById("tightness-map");
  if (!root) return;
  const points = JSON.parse(document.getElementById("map-points").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const unique = (key) => [...new Set(points.map((p) => p[key]))];
  const colour = (i, n) => `hsl(${230 - (250 * i) / (n - 1)} 65% var(--map-lightness))`;
  const number = (v) => (v === 0 ? "0" : v >= 1e4 || v < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(4))));

  root.innerHTML = `<form class="controls" onsubmit="return false">
    <select name="kind" aria-label="Mechanism"></select>
    <select name="noise" aria-label="Noise of a step"></select>
    <select name="value" aria-label="What is drawn">
      <option value="ratio">bound / certified</option>
      <option value="published">published bound / certified</option>
      <option value="lower">certified epsilon</option>
      <option value="upper">epsilon of the tightest bound</option>
    </select></form>
    <div class="legend"></div><div class="plot"></div>
    <div class="told" aria-live="polite">Point at a mark, or tap it.</div>`;
  const form = root.querySelector("form");
  for (const kind of unique("kind")) form.kind.add(new Option(kind, kind));
  for (const noise of unique("noise").sort((a, b) => a - b))
    form.noise.add(new Option(`s = ${noise} D`, noise));
  form.noise.value = "0.05";
  const plot = root.querySelector(".plot");
  const told = root.querySelector(".told");

  const value = (p, what) =>
    what === "ratio" ? p.upper / p.lower : what === "published" ? p.published / p.lower : p[what];
  const element = (name, attributes, parent, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) made.setAttribute(k, v);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const tell = (p) => {
    told.innerHTML = `<strong>A = ${p.A}, x = ${p.x}, s = ${p.noise} D, ${p.steps} steps</strong><br>
      certified ${number(p.lower)} <span>(${p.pair})</span><br>
      tightest bound ${number(p.upper)} <span>(${p.theorem})</span>, ratio ${number(p.upper / p.lower)}<br>
      tightest published ${number(p.published)} <span>(${p.published_theorem})</span>`;
  };

  const ticks = (low, high) => {
    const found = [];
    const decades = Math.log10(high / low);
    const steps = decades > 3 ? [1] : decades > 1 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const m of steps) {
        const t = m * 10 ** e;
        if (t >= low * 0.999 && t <= high * 1.001) found.push(t);
      }
    return found;
  };

  const draw = () => {
    const shown = points.filter((p) => p.kind === form.kind.value && p.noise === Number(form.noise.value));
    const what = form.value.value;
    const pushes = [...new Set(shown.map((p) => p.A))].sort((a, b) => a - b);
    const width = Math.max(300, plot.clientWidth);
    const height = Math.min(420, Math.max(280, width * 0.6));
    const margin = { left: 52, right: 12, top: 12, bottom: 44 };
    const values = shown.map((p) => value(p, what));
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (what === "ratio" || what === "published") low = 1;
    high = Math.max(high * 1.08, low * 1.5);
    const across = (x) => margin.left + ((Math.log10(x) + 2) / 4) * (width - margin.left - margin.right);
    const up = (v) =>
      height - margin.bottom - (Math.log(v / low) / Math.log(high / low)) * (height - margin.top - margin.bottom);
    plot.textContent = "";
    const svg = element("svg", { width, height, role: "img", "aria-label": "Tightness map" }, plot);
    for (const x of [0.01, 0.1, 1, 10, 100]) {
      element("line", { x1: across(x), x2: across(x), y1: margin.top, y2: height - margin.bottom, class: "grid" }, svg);
      element("text", { x: across(x), y: height - margin.bottom + 16, "text-anchor": "middle" }, svg, x);
    }
    for (const t of ticks(low, high)) {
      element("line", { x1: margin.left, x2: width - margin.right, y1: up(t), y2: up(t), class: "grid" }, svg);
      element("text", { x: margin.left - 6, y: up(t) + 4, "text-anchor": "end" }, svg, number(t));
    }
    element("text", { x: (width + margin.left) / 2, y: height - 6, "text-anchor": "middle" }, svg,
      "x: steps in burn-in times");
    pushes.forEach((push, i) => {
      const line = shown.filter((p) => p.A === push).sort((a, b) => a.x - b.x);
      const stroke = colour(i, pushes.length);
      element("polyline", {
        points: line.map((p) => `${across(p.x)},${up(Math.max(low, value(p, what)))}`).join(" "),
        fill: "none", style: `stroke:${stroke}`, "stroke-width": 1.5,
      }, svg);
      for (const p of line) {
        const mark = element("circle", {
          cx: across(p.x), cy: up(Math.max(low, value(p, what))), r: 5, style: `fill:${stroke}`, tabindex: 0,
          "aria-label": `A ${p.A}, x ${p.x}: ${number(value(p, what))}`,
        }, svg);
        for (const event of ["pointerenter", "click", "focus"]) mark.addEventListener(event, () => tell(p));
      }
    });
    root.querySelector(".legend").innerHTML = pushes
      .map((push, i) => `<span><i style="background:${colour(i, pushes.length)}"></i>A = ${push}</span>`)
      .join("");
  };
  form.addEventListener("input", draw);
  new ResizeObserver(draw).observe(plot);
})();
