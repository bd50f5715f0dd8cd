// SPDX-License-Identifier: Apache-2.0
// Graphs that move and zoom, and what a chosen box is. All that is shown is in the page: a box is a
// link to the row of its call, whose cells are copied beside the graph.
"use strict";
document.documentElement.classList.add("script");

function element(name, ...content) {
  const made = document.createElement(name);
  made.append(...content);
  return made;
}

function copy(cell) {
  return [...cell.cloneNode(true).childNodes];
}

// What is known of a call: a list of titles of columns and cells of the row.
function described(row) {
  const titles = row.closest("table").tHead.rows[0].cells;
  const list = element("dl");
  [...row.cells].forEach((cell, i) => {
    if (cell.textContent.trim()) {
      list.append(element("dt", titles[i].textContent), element("dd", ...copy(cell)));
    }
  });
  const c = document.getElementById(`c-${row.id.slice(5)}`);
  return c ? [list, element("pre", ...copy(c))] : [list];
}

function chosen(link) {
  const [first, last] = link.dataset.calls.split("-").map(Number);
  const title = element("h4", link.querySelector("title").textContent);
  const rows = [];
  for (let n = first; n <= last; n += 1) {
    rows.push(document.getElementById(`call-${n}`));
  }
  if (rows.length === 1) {
    return [title, ...described(rows[0])];
  }
  const list = element("ul");
  for (const row of rows) {
    const to = element("a", `call ${row.cells[0].textContent}`);
    to.href = `#${row.id}`;
    list.append(element("li", to, ` ${row.cells[1].textContent}`));
  }
  return [title, list];
}

function live(graph) {
  const stage = graph.querySelector(".stage");
  const svg = stage.querySelector("svg");
  const detail = graph.querySelector(".detail");
  const boxes = [...svg.querySelectorAll("a")];
  const whole = svg.viewBox.baseVal;
  const full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
  let view = { ...full };
  let grip = null;

  function show() {
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
  }
  // All of the graph, or as much of its beginning as can be read.
  function fit(all) {
    const { clientWidth: wide, clientHeight: high } = stage;
    const scale = all ? Math.min(wide / full.w, high / full.h, 1) : Math.min(1, Math.max(wide / full.w, 0.5));
    view.w = wide / scale;
    view.h = high / scale;
    view.x = full.x + (full.w - view.w) / 2;
    view.y = all ? full.y + (full.h - view.h) / 2 : full.y - 4;
    show();
  }
  function zoom(by, atX = 0.5, atY = 0.5) {
    const factor = Math.min(Math.max(by, (0.02 * full.w) / view.w), (8 * (full.w + full.h)) / view.w);
    view.x += view.w * atX * (1 - factor);
    view.y += view.h * atY * (1 - factor);
    view.w *= factor;
    view.h *= factor;
    show();
  }
  function key(name) {
    if (name === "+" || name === "=") {
      zoom(0.8);
    } else if (name === "-") {
      zoom(1.25);
    } else if (name === "0") {
      fit(true);
    } else {
      return false;
    }
    return true;
  }
  function focus(index) {
    const box = boxes[Math.min(Math.max(index, 0), boxes.length - 1)];
    boxes.forEach((b) => b.setAttribute("tabindex", b === box ? "0" : "-1"));
    box.focus({ preventScroll: true });
    const place = box.getBBox();
    if (place.x < view.x || place.y < view.y || place.x + place.width > view.x + view.w ||
        place.y + place.height > view.y + view.h) {
      view.x = place.x + place.width / 2 - view.w / 2;
      view.y = place.y + place.height / 2 - view.h / 2;
      show();
    }
  }

  boxes.forEach((box, i) => {
    box.setAttribute("tabindex", i ? "-1" : "0");
    box.addEventListener("click", (event) => {
      event.preventDefault();
      boxes.forEach((b) => b.classList.toggle("chosen", b === box));
      detail.replaceChildren(...chosen(box));
    });
  });
  svg.addEventListener("keydown", (event) => {
    const at = boxes.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: boxes.length };
    if (event.key in to) {
      focus(to[event.key]);
    } else if (event.ctrlKey || event.metaKey || !key(event.key)) {
      return;
    }
    event.preventDefault();
  });
  stage.addEventListener("wheel", (event) => {
    if (!stage.contains(document.activeElement) && !event.ctrlKey) {
      return;
    }
    event.preventDefault();
    const frame = stage.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, (event.clientX - frame.x) / frame.width, (event.clientY - frame.y) / frame.height);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, y: event.clientY, moved: false };
  });
  window.addEventListener("pointermove", (event) => {
    if (!grip || (!grip.moved && Math.hypot(event.clientX - grip.x, event.clientY - grip.y) < 4)) {
      return;
    }
    grip.moved = true;
    view.x -= ((event.clientX - grip.x) * view.w) / stage.clientWidth;
    view.y -= ((event.clientY - grip.y) * view.h) / stage.clientHeight;
    grip.x = event.clientX;
    grip.y = event.clientY;
    show();
  });
  window.addEventListener("pointerup", () => {
    const moved = grip && grip.moved;
    grip = null;
    if (moved) { // a drag that ends on a box does not choose it
      stage.addEventListener("click", (event) => { event.preventDefault(); event.stopPropagation(); }, { capture: true, once: true });
      setTimeout(() => stage.dispatchEvent(new Event("click")));
    }
  });
  stage.addEventListener("dragstart", (event) => event.preventDefault());
  graph.querySelectorAll(".tools button").forEach((button) => button.addEventListener("click", () => key(button.dataset.key)));
  graph.querySelector(".tools").hidden = false;
  stage.classList.add("live");
  stage.style.height = `min(34rem, ${full.h + 24}px)`;
  fit(false);
}

document.querySelectorAll(".graph").forEach(live);
