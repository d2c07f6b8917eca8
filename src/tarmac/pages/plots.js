// Tells the values at the pointer, and draws one line through all plots of a group. Pages are whole
// without it.
(() => {
  "use strict";
  const STRETCH = 10000;
  const scaleOf = (element, letter) => {
    const text = element.dataset[letter];
    if (!text) return null;
    const [low, high, kind] = text.split(" ");
    return { low: +low, high: +high, isLog: kind === "log",
             unit: element.dataset[letter + "Unit"], label: element.dataset[letter + "Label"] };
  };
  const valueAt = (scale, place) => scale.isLog
    ? Math.exp(Math.log(scale.low) + place * (Math.log(scale.high) - Math.log(scale.low)))
    : scale.low + place * (scale.high - scale.low);
  const plain = (value) => {
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 0 });
    return size !== 0 && size < 1e-4 ? value.toExponential(2) : String(+value.toPrecision(4));
  };
  const worded = (value, unit) => {
    if (unit === "ratio") return plain(value * 100) + " %";
    if (unit === "bytes") {
      const names = ["B", "KiB", "MiB", "GiB", "TiB"];
      let step = 0;
      while (Math.abs(value) >= 1024 && step < 4) { value /= 1024; step += 1; }
      return plain(value) + " " + names[step];
    }
    if (unit === "s") {
      if (value < 60) return plain(value) + " s";
      const whole = Math.round(value);
      if (whole < 3600) return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
      return Math.floor(whole / 3600) + " h " + Math.floor((whole % 3600) / 60) + " min";
    }
    return unit ? plain(value) + " " + unit : plain(value);
  };
  // The points of a path of tarmac.pages: whole numbers in a square of STRETCH.
  const pointsOf = (path) => {
    if (path.points) return path.points;
    const points = [];
    for (const [, kind, first, second] of
         path.getAttribute("d").matchAll(/([MLHV])(-?\d+)(?: (-?\d+))?/g)) {
      if (kind === "V") points[points.length - 1][1] = +first;
      else if (kind === "H") points.push([+first, points[points.length - 1][1]]);
      else points.push([+first, +second]);
    }
    path.points = points;
    return points;
  };
  const nearest = (points, x) => {
    let low = 0, high = points.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < x) low = middle; else high = middle;
    }
    return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? low : high;
  };
  const colourOf = (path) => [...path.classList].find((name) => /^s\d$/.test(name)) || "";
  const row = (box, name, text, colour) => {
    const line = document.createElement("div");
    if (colour) { const mark = document.createElement("i"); mark.className = colour; line.append(mark); }
    line.append(name ? name + ": " + text : text);
    box.append(line);
  };
  const clear = () => document.querySelectorAll(".pointer, .readout").forEach((one) => one.remove());
  const show = (host, place) => {
    clear();
    const x = scaleOf(host, "x");
    if (!x) return;
    const group = host.dataset.group;
    const hosts = group
      ? [...document.querySelectorAll(`[data-group="${CSS.escape(group)}"]`)] : [host];
    for (const one of hosts) {
      const svg = one.querySelector("svg");
      const line = document.createElement("div");
      line.className = "pointer";
      line.style.left = svg.getBoundingClientRect().left - one.getBoundingClientRect().left
        + place * svg.clientWidth + "px";
      one.append(line);
    }
    const box = document.createElement("div");
    box.className = "readout";
    row(box, x.label, worded(valueAt(x, place), x.unit), "");
    for (const one of hosts) {
      const y = scaleOf(one, "y");
      if (!y) continue;
      for (const path of one.querySelectorAll("path[data-name]")) {
        const points = pointsOf(path).filter((point) => !path.matches(".fill") || point[1] < STRETCH
                                                        || point[0] > 0);
        if (!points.length) continue;
        const point = points[nearest(points, place * STRETCH)];
        if (Math.abs(point[0] - place * STRETCH) > STRETCH / 20 && points.length > 20) continue;
        row(box, path.dataset.name, worded(valueAt(y, 1 - point[1] / STRETCH), y.unit),
            colourOf(path));
      }
    }
    const width = host.querySelector("svg").getBoundingClientRect().width;
    for (const mark of host.querySelectorAll(".mark")) {
      if (Math.abs(parseFloat(mark.getAttribute("x1")) / 100 - place) * width < 6) {
        row(box, "", mark.dataset.text, "");
      }
    }
    host.append(box);
    const left = host.querySelector(".pointer").offsetLeft;
    const room = host.clientWidth - left;
    box.style.left = (room > box.offsetWidth + 16 ? left + 10
      : Math.max(0, left - box.offsetWidth - 10)) + "px";
    box.style.top = "8px";
  };
  const moved = (event) => {
    const host = event.target instanceof Element
      ? event.target.closest(".area[data-x], .strip[data-x]") : null;
    if (!host || event.target.closest(".block")) { clear(); return; }
    const frame = host.querySelector("svg").getBoundingClientRect();
    const place = (event.clientX - frame.left) / frame.width;
    if (place < 0 || place > 1) clear(); else show(host, place);
  };
  document.addEventListener("pointermove", moved, { passive: true });
  document.addEventListener("pointerdown", moved, { passive: true });
  document.addEventListener("pointerleave", clear);
})();
