// A log: older lines on request, new ones while the cell runs, followed until one scrolls up.
(function () {
  "use strict";
  var MAX_LINES = 20000, POLL_MS = 1000;
  var log = document.getElementById("log");
  if (!log) return;
  var follow = document.getElementById("follow"), wrap = document.getElementById("wrap");
  var older = document.getElementById("older"), fresh = document.getElementById("new-lines");
  var begin = Number(log.dataset.begin), end = Number(log.dataset.end), hidden = 0;
  var source = log.dataset.source + (log.dataset.source.indexOf("?") < 0 ? "?" : "&");

  function atEnd() { return log.scrollHeight - log.scrollTop - log.clientHeight < 40; }
  function toEnd() { log.scrollTop = log.scrollHeight; hidden = 0; fresh.hidden = true; }

  follow.checked = log.dataset.running === "yes";
  toEnd();
  wrap.addEventListener("change", function () { log.classList.toggle("nowrap", !wrap.checked); });
  follow.addEventListener("change", function () { if (follow.checked) toEnd(); });
  log.addEventListener("scroll", function () { follow.checked = atEnd(); if (follow.checked) { hidden = 0; fresh.hidden = true; } });
  fresh.addEventListener("click", function () { follow.checked = true; toEnd(); });

  function lines(text) {
    var holder = document.createElement("template");
    holder.innerHTML = text;
    return holder.content;
  }

  if (older) older.addEventListener("click", function () {
    fetch(source + "before=" + begin).then(function (answer) {
      begin = Number(answer.headers.get("X-Log-Begin"));
      return answer.text();
    }).then(function (text) {
      var height = log.scrollHeight;
      log.prepend(lines(text));
      log.scrollTop += log.scrollHeight - height;
      older.hidden = begin === 0 || log.children.length >= MAX_LINES;
    });
  });

  function more() {
    fetch(source + "after=" + end).then(function (answer) {
      if (!answer.ok) return "";
      end = Number(answer.headers.get("X-Log-End"));
      return answer.text();
    }).then(function (text) {
      if (text.trim()) {
        var wasFollowing = follow.checked, before = log.children.length;
        log.append(lines(text));
        hidden += log.children.length - before;
        while (log.children.length > MAX_LINES) log.firstElementChild.remove();
        if (wasFollowing) toEnd();
        else { fresh.hidden = false; fresh.textContent = hidden + " new ↓"; }
      }
    }, function () {}).then(function () { setTimeout(more, POLL_MS); });
  }
  if (log.dataset.running === "yes") more();
})();
