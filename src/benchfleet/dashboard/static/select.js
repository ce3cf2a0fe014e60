// Selecting cells: checkboxes in tables, ranges with Shift, and the bar that says how many.
(function () {
  "use strict";
  var bar = document.getElementById("selection");
  if (!bar) return;
  var BOX = "input[form=selection]", chosen = new Set(), anchor = null, end = null;

  function boxes() { return Array.prototype.slice.call(document.querySelectorAll(BOX)); }

  // The box of a place in a table: that of its cell, or the only one of its row.
  function boxOf(place) {
    var cell = place.closest("td, th"), all = cell ? cell.parentElement.querySelectorAll(BOX) : [];
    return all.length === 1 ? all[0] : cell && cell.querySelector(BOX);
  }

  function between(value, one, other) {
    return value >= Math.min(one, other) && value <= Math.max(one, other);
  }

  // All boxes of the rectangle between two of them.
  function range(from, to, on) {
    var a = from.parentElement, b = to.parentElement;
    boxes().forEach(function (box) {
      var at = box.parentElement;
      if (between(at.parentElement.rowIndex, a.parentElement.rowIndex, b.parentElement.rowIndex) &&
          between(at.cellIndex, a.cellIndex, b.cellIndex)) box.checked = on;
    });
  }

  function show() {
    var checked = boxes().filter(function (box) { return box.checked; });
    chosen = new Set(checked.map(function (box) { return box.value; }));
    bar.hidden = !chosen.size;
    bar.querySelector("output").textContent = chosen.size + " selected";
    bar.querySelectorAll("button[data-most]").forEach(function (button) {
      var tiles = button.dataset.cells && checked.some(function (box) { return box.name === "tile"; });
      button.disabled = tiles || chosen.size > Number(button.dataset.most) || chosen.size < Number(button.dataset.least || 1);
    });
  }

  document.addEventListener("mousedown", function (event) {
    if (event.shiftKey && event.target.closest(BOX)) event.preventDefault();  // selects no text
  });

  document.addEventListener("click", function (event) {
    var box = event.target.closest(BOX);
    if (!box) return;
    if (event.shiftKey && anchor && anchor.isConnected) range(anchor, box, box.checked);
    else anchor = box;
    end = box;
    show();
  });

  // By keys: the focused place, or from where the focus was to where it is.
  document.addEventListener("benchfleet:select", function (event) {
    var box = boxOf(event.target), from = event.detail && boxOf(event.detail);
    if (!box) return;
    event.preventDefault();
    if (from) {
      if (from !== end || !anchor) anchor = from;
      end = box;
      range(anchor, box, true);
    } else {
      box.checked = !box.checked;
      anchor = end = box;
    }
    show();
  });

  bar.addEventListener("reset", function () { setTimeout(show, 0); });
  document.addEventListener("htmx:after:swap", function () {  // a refresh unchecks all
    boxes().forEach(function (box) { box.checked = chosen.has(box.value); });
    show();
  });
  show();
})();
