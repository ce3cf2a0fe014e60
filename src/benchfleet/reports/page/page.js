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
