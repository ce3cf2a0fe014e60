// Keys, dialogs, copying, and moving in tables with the arrows.
(function () {
  "use strict";
  var PAGES = { o: "", m: "matrix", f: "failures", h: "machines", c: "compare", p: "plan" };
  var STOPS = "tbody a, tbody summary, tbody input";
  var waiting = false, opener = null;

  function isOn() {
    try { return localStorage.getItem("benchfleet-keys") !== "off"; } catch (error) { return true; }
  }

  function click(selector) {
    var target = document.querySelector(selector);
    if (target) target.click();
    return Boolean(target);
  }

  function pageAddress(page) {
    if (document.body.dataset.onDisk) return document.body.dataset.root + (page || "index") + ".html";
    return document.body.dataset.root + "c/" + encodeURIComponent(document.body.dataset.slug) + "/" + page;
  }

  document.addEventListener("keydown", function (event) {
    var inField = event.target.closest("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape" && inField) { inField.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || inField) return;
    if (moves(event)) { event.preventDefault(); return; }
    if (document.querySelector("dialog[open]") || !isOn()) return;
    if (waiting) {
      waiting = false;
      if (event.key in PAGES) location.href = pageAddress(PAGES[event.key]);
      return;
    }
    var done = true;
    if (event.key === "g") { waiting = true; setTimeout(function () { waiting = false; }, 1500); }
    else if (event.key === "/") { var field = document.querySelector("input[type=search]"); if (field) field.focus(); }
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "[") done = click("a[rel=prev]");
    else if (event.key === "]") done = click("a[rel=next]");
    else if (event.key === "f") done = click("#follow");
    else if (event.key === "r") done = click("a[data-dialog][href*='verb=retry'], #selection:not([hidden]) button[value=retry]");
    else if (event.key === "x") done = select(document.activeElement, null);
    else if (event.key === "j" || event.key === "k") done = step(event.key === "j" ? 1 : -1);
    else if (event.key === "+" || event.key === "-") done = click("[data-zoom='" + event.key + "']");
    else if (event.key === "s") done = click("a[data-key=s]");
    else done = false;
    if (done) event.preventDefault();
  });

  // The next or the previous question of a comparison, or row of a table.
  function step(by) {
    var all = Array.prototype.slice.call(document.querySelectorAll(".pairs > li"));
    var at = all.indexOf(document.activeElement && document.activeElement.closest(".pairs > li"));
    var next = all[at < 0 && by > 0 ? 0 : at + by];
    if (next) next.focus();
    return all.length > 0 || go([by, 0], false);
  }

  // Select the place, or from one place to it.
  function select(place, from) {
    return !place.dispatchEvent(new CustomEvent("benchfleet:select", { bubbles: true, cancelable: true, detail: from }));
  }

  // One focus stop a table: arrows move among its links.
  function moves(event) {
    var step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || document.activeElement.closest("details[open] dl")) return false;
    return Boolean(document.activeElement.closest("[data-grid]")) && go(step, event.shiftKey);
  }

  function go(step, selects) {
    var from = document.activeElement, grid = from.closest("[data-grid]");
    if (!grid) return focusGrid();
    var cell = from.closest("td, th"), line = cell.parentElement;
    var rows = Array.prototype.slice.call(grid.querySelectorAll("tbody tr"));
    var x = Array.prototype.indexOf.call(line.children, cell), y = rows.indexOf(line);
    for (var n = 0; n < 200; n += 1) {
      x += step[1]; y += step[0];
      if (!rows[y] || x < 0 || x >= rows[y].children.length) return true;
      var next = rows[y].children[x].querySelector(STOPS);
      if (!next) continue;
      rove(grid, next);
      next.focus();
      if (selects) select(next, from);
      return true;
    }
    return true;
  }

  function focusGrid() {
    var stop = document.querySelector("[data-grid] tbody [tabindex='0']");
    if (stop) stop.focus();
    return Boolean(stop);
  }

  function rove(grid, chosen) {
    grid.querySelectorAll(STOPS).forEach(function (one) { one.tabIndex = one === chosen ? 0 : -1; });
  }

  function prepare() {
    document.querySelectorAll("[data-grid]").forEach(function (grid) {
      var first = grid.querySelector("tbody [tabindex='0']") || grid.querySelector("tbody a, tbody summary") || grid.querySelector(STOPS);
      if (first) rove(grid, first);
    });
  }

  document.addEventListener("click", function (event) {
    var link = event.target.closest("a[data-dialog]"), copy = event.target.closest("[data-copy]");
    if (link && window.htmx && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      opener = link;
      show(fetch(link.href, { headers: { "X-Dialog": "yes" } }));
    } else if (copy && navigator.clipboard) {
      navigator.clipboard.writeText(copy.dataset.copy).then(function () { copy.textContent = "Copied"; });
    } else if (event.target.closest("#keys-help")) {
      document.getElementById("keys").showModal();
    } else if (event.target.closest("[data-close]")) {
      event.preventDefault();
      document.getElementById("dialog").close();
    }
  });

  // Orders are asked and given in the dialog; other forms lead to their pages.
  document.addEventListener("submit", function (event) {
    var form = event.target.closest("#dialog form[method=post], #selection"), button = event.submitter;
    if (!form || !window.htmx || (button && button.hasAttribute("formaction"))) return;
    event.preventDefault();
    var values = new URLSearchParams(new FormData(form, button)), selection = document.getElementById("selection");
    if (form !== selection) {
      form.querySelectorAll("button").forEach(function (one) { one.disabled = true; });
      if (selection) selection.reset();
    } else opener = null;
    show(fetch(form.action, { method: "POST", headers: { "X-Dialog": "yes" }, body: values }));
  });

  // The answer is a page of ours: its part called #order is shown.
  function show(request) {
    var address = "";
    request.then(function (answer) { address = answer.url; return answer.text(); }).then(function (text) {
      var page = new DOMParser().parseFromString(text, "text/html"), part = page.getElementById("order");
      var dialog = document.getElementById("dialog");
      if (part) part.querySelectorAll("form").forEach(function (form) {
        form.setAttribute("action", new URL(form.getAttribute("action"), address).href);
      });
      dialog.replaceChildren(part || document.createTextNode(text.slice(0, 300)));
      if (!dialog.open) dialog.showModal();
      var button = dialog.querySelector("button, a");
      if (button) button.focus();
    }, function () {
      var dialog = document.getElementById("dialog");
      dialog.replaceChildren(document.createTextNode("The dashboard does not answer; nothing is known to have happened. Try again: a repeated request acts once."));
      if (!dialog.open) dialog.showModal();
    });
  }

  document.addEventListener("DOMContentLoaded", start);
  if (document.readyState !== "loading") start();
  function start() {
    if (start.done) return;
    start.done = true;
    prepare();
    document.addEventListener("htmx:after:swap", prepare);
    var box = document.getElementById("keys-on");
    box.checked = isOn();
    box.addEventListener("change", function () {
      try { localStorage.setItem("benchfleet-keys", box.checked ? "on" : "off"); } catch (error) { return; }
    });
    document.getElementById("dialog").addEventListener("close", function () { if (opener) opener.focus(); else focusGrid(); });
    document.querySelectorAll("[data-filters] select").forEach(function (select) {
      select.addEventListener("change", function () { select.form.requestSubmit(); });
    });
  }
})();
