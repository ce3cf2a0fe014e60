// Every cell as a small square, beside the table that says the same.
(function () {
  "use strict";
  var canvas = document.getElementById("map");
  if (!canvas) return;
  var STATES = ["pending", "retrying", "running", "success", "partial", "failed", "cancelled", "skipped"];
  var WIDTH = 240, MIN_SIZE = 2, MAX_SIZE = 14, size = MIN_SIZE, columns = 120, states = null, scheduled = false;

  function colours() {
    var style = getComputedStyle(document.documentElement);
    return STATES.map(function (name) { return style.getPropertyValue("--" + name).trim(); });
  }

  function draw() {
    scheduled = false;
    if (!states) return;
    size = Math.max(MIN_SIZE, Math.min(MAX_SIZE, Math.floor(WIDTH / Math.sqrt(states.length))));
    columns = Math.max(Math.floor(WIDTH / size), Math.ceil(Math.sqrt(states.length / 2)));
    var lines = Math.ceil(states.length / columns);
    canvas.width = columns * size;
    canvas.height = Math.max(1, lines) * size;
    var context = canvas.getContext("2d"), fills = colours(), gap = size > 4 ? 1 : 0;
    STATES.forEach(function (_, state) {
      context.fillStyle = fills[state];
      for (var index = 0; index < states.length; index += 1) {
        if (states[index] === state) context.fillRect((index % columns) * size, Math.floor(index / columns) * size, size - gap, size - gap);
      }
    });
  }

  function load() {
    fetch(canvas.dataset.source).then(function (answer) { return answer.arrayBuffer(); })
      .then(function (bytes) { states = new Uint8Array(bytes); draw(); }, function () {});
  }

  document.addEventListener("benchfleet:changes", function (event) {
    if (event.detail.reset || !states) { load(); return; }
    event.detail.cells.forEach(function (change) { if (change[0] < states.length) states[change[0]] = change[1]; });
    if (!scheduled) { scheduled = true; requestAnimationFrame(draw); }
  });
  document.getElementById("theme").addEventListener("click", function () { setTimeout(draw, 0); });
  load();
})();
