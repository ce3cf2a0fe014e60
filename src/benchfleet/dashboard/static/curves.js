// The value under the pointer, in all curves of the page at once: they share their time.
(function () {
  "use strict";
  var WIDTH = 600, TOP = 78, HEIGHT = 74;

  function points(figure) {
    return figure.querySelector("polyline").getAttribute("points").split(" ").map(function (pair) {
      return pair.split(",").map(Number);
    });
  }

  function show(share) {
    var longest = Math.max.apply(null, figures.map(function (one) { return Number(one.dataset.seconds); }));
    figures.forEach(function (figure) {
      var seconds = share * longest, most = Number(figure.dataset.most), at = WIDTH * share * longest / Number(figure.dataset.seconds);
      var nearest = points(figure).reduce(function (best, one) {
        return Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best;
      });
      var line = figure.querySelector(".cursor");
      line.setAttribute("x1", nearest[0]);
      line.setAttribute("x2", nearest[0]);
      var value = Math.max(0, (TOP - nearest[1]) / HEIGHT * Math.max(most, 1e-9));
      figure.querySelector("output").textContent = value.toPrecision(3) + " " + figure.dataset.unit + " at " + seconds.toFixed(0) + " s";
    });
  }

  var figures = Array.prototype.slice.call(document.querySelectorAll("figure[data-curve]"));
  figures.forEach(function (figure) {
    var box = figure.querySelector("svg");
    box.addEventListener("pointermove", function (event) {
      var area = box.getBoundingClientRect();
      show(Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)) * Number(figure.dataset.seconds)
        / Math.max.apply(null, figures.map(function (one) { return Number(one.dataset.seconds); })));
    });
  });
})();
