"use strict";
(() => {
  const form = document.getElementById("filters");
  const findings = [...document.querySelectorAll(".finding")];
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const file = form.elements.namedItem("file");
  const count = document.getElementById("count");

  const chosen = (name) =>
    new Set(boxes.filter((box) => box.name === name && box.checked).map((box) => box.value));

  function apply() {
    const sets = { rule: chosen("rule"), level: chosen("level"), kind: chosen("kind") };
    const part = file.value.trim().toLowerCase();
    let shown = 0;
    let all = 0;
    for (const finding of findings) {
      const data = finding.dataset;
      const visible =
        Object.entries(sets).every(([name, set]) => set.has(data[name])) &&
        data.files.toLowerCase().includes(part);
      finding.hidden = !visible;
      all += Number(data.number);
      if (visible) shown += Number(data.number);
    }
    count.textContent = `${shown} of ${all} findings shown`;
  }

  // The address keeps what was chosen, so that a view can be linked to: #rule=a,b&level=error&file=fp8
  function store() {
    const parts = new URLSearchParams();
    for (const name of ["rule", "level", "kind"]) {
      const group = boxes.filter((box) => box.name === name);
      if (group.some((box) => box.checked !== box.defaultChecked)) parts.set(name, [...chosen(name)].join(","));
    }
    if (file.value.trim()) parts.set("file", file.value.trim());
    history.replaceState(null, "", `#${parts}`);
  }

  function restore() {
    const hash = location.hash.slice(1);
    const target = hash && document.getElementById(decodeURIComponent(hash));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      for (const name of ["rule", "level", "kind"]) {
        for (const box of boxes) if (box.name === name && box.value === target.dataset[name]) box.checked = true;
      }
    } else {
      const parts = new URLSearchParams(hash);
      for (const box of boxes) {
        if (parts.has(box.name)) box.checked = parts.get(box.name).split(",").includes(box.value);
      }
      if (parts.has("file")) file.value = parts.get("file");
    }
    apply();
    if (target instanceof HTMLDetailsElement) target.scrollIntoView();
  }

  // Draws the steps of the evidence as a line from badge to badge, through the margin on their left.
  function draw(finding) {
    const chain = finding.querySelector(".chain");
    const wire = finding.querySelector(".wire");
    const frame = chain.getBoundingClientRect();
    const badges = [...chain.querySelectorAll(".badge")].sort((a, b) => a.dataset.step - b.dataset.step);
    const points = badges.map((badge) => {
      const box = badge.getBoundingClientRect();
      return { x: box.left - frame.left, y: box.top - frame.top + box.height / 2, r: box.width / 2 };
    });
    const paths = [];
    for (let i = 1; i < points.length; i += 1) {
      const a = points[i - 1];
      const b = points[i];
      if (Math.abs(a.y - b.y) < 2) continue; // two steps on one line stand side by side
      const end = b.x - 5;
      const bend = Math.max(Math.min(a.x, b.x) - 10 - Math.min(Math.abs(b.y - a.y) / 8, 24), 6);
      paths.push(`<path d="M${a.x} ${a.y} C${bend} ${a.y} ${bend} ${b.y} ${end} ${b.y}"/>`);
      paths.push(`<path class="head" d="M${end} ${b.y - 3.5} L${b.x} ${b.y} L${end} ${b.y + 3.5} Z"/>`);
    }
    wire.innerHTML = paths.join("");
  }

  for (const finding of findings) {
    finding.addEventListener("toggle", () => finding.open && draw(finding));
  }
  addEventListener("resize", () => findings.filter((finding) => finding.open).forEach(draw));
  form.addEventListener("input", () => {
    apply();
    store();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", restore);

  const expand = document.getElementById("expand");
  expand.addEventListener("click", () => {
    const open = expand.textContent === "Open all";
    for (const finding of findings) if (!finding.hidden) finding.open = open;
    expand.textContent = open ? "Close all" : "Open all";
  });
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = (root.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.style.colorScheme = dark ? "light" : "dark";
  });
  restore();
})();
