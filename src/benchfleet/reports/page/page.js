// Boxes with more to the right than they show fade out there.
for (const box of document.querySelectorAll(".wide, .chart")) {
  const mark = () =>
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener("scroll", mark);
  new ResizeObserver(mark).observe(box);
}

// Draws every chart of the page from the data that the page holds.
const figures = JSON.parse(document.getElementById("figures").textContent);
const options = {
  actions: { export: true, source: false, compiled: false, editor: false },
  ast: true, // expressions are interpreted: the page's policy forbids to compile them
  renderer: "svg",
};
for (const place of document.querySelectorAll("[data-chart]")) {
  const figure = figures[place.dataset.figure];
  const entries = figure.values.map((values) =>
    Object.fromEntries(figure.fields.map((field, place) => [field, values[place]])),
  );
  const fitting = (innerWidth < 640 && figure.narrow) || figure[place.dataset.chart];
  const chart = { ...fitting, datasets: { entries } };
  vegaEmbed(place, chart, options).catch((error) => {
    place.textContent = `This chart could not be drawn: ${error.message}`;
  });
}
