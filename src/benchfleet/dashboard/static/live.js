// Keeps a page live: one tab reads the event stream and relays it to the others; without a stream it
// polls. A change refreshes the part of the page called #live in place.
(function () {
  "use strict";
  var REFRESH_MS = 1500, SLOW_REFRESH_MS = 4000, MAX_REFRESH_MS = 30000, POLL_MS = 2000, STREAM_AGAIN_MS = 60000, FAILURES = 3;
  var root = document.documentElement;
  var clockAhead = null;  // seconds: the server's clock against ours; null before its first message
  var kept = null;
  try { kept = localStorage.getItem("benchfleet-theme"); } catch (error) { kept = null; }
  if (kept) root.setAttribute("data-theme", kept);
  else if (matchMedia("(prefers-color-scheme: dark)").matches) root.setAttribute("data-theme", "dark");

  document.addEventListener("DOMContentLoaded", function () {
    themeButton();
    if (document.body.dataset.onDisk) clockAhead = 0;
    relativeTimes();
    setInterval(relativeTimes, 5000);
    markWide();
    if (document.body.dataset.slug && !document.body.dataset.onDisk) watch();
  });

  function themeButton() {
    var button = document.getElementById("theme");
    if (button) button.addEventListener("click", function () {
      var next = root.getAttribute("data-theme") === "dark" ? "light" : "dark";
      root.setAttribute("data-theme", next);
      try { localStorage.setItem("benchfleet-theme", next); } catch (error) { return; }
    });
  }

  // Boxes with more to the right than they show fade out there.
  function markWide() {
    document.querySelectorAll(".scroll, .chart").forEach(function (box) {
      box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    });
  }
  document.addEventListener("scroll", markWide, true);
  document.addEventListener("load", markWide, true);  // of a picture
  window.addEventListener("resize", markWide);

  function relativeTimes() {
    if (clockAhead === null) return;  // the server's texts are newer
    document.querySelectorAll("time[data-at]").forEach(function (time) {
      time.textContent = ago(serverNow() - Number(time.dataset.at));
    });
  }

  // The time by the server's clock, since this machine's may differ.
  function serverNow() {
    return Date.now() / 1000 + (clockAhead || 0);
  }

  function ago(seconds) {
    if (seconds < -60) return "by a clock that is ahead";
    seconds = Math.max(0, seconds);
    if (seconds < 60) return Math.round(seconds) + " s ago";
    if (seconds < 3600) return Math.round(seconds / 60) + " min ago";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h ago";
    return Math.round(seconds / 86400) + " days ago";
  }

  function watch() {
    var body = document.body, base = body.dataset.root, slug = body.dataset.slug;
    var cursor = body.dataset.cursor, source = null, failures = 0, timer = 0, dirty = false;
    var latest = {}, refreshedAt = Date.now(), refreshTook = 0, refreshing = false, refused = false, mayRelay = false, lastMessage = 0, spokenAt = 0;
    var channel = window.BroadcastChannel ? new BroadcastChannel("benchfleet-" + location.port + "-" + slug) : null;
    if (channel) channel.onmessage = function (event) { take(event.data); };
    if (navigator.locks && channel) {
      navigator.locks.request("benchfleet-" + location.port + "-" + slug, function () {
        mayRelay = true;
        open();
        return new Promise(function () {});
      });
    } else {
      open();
      document.addEventListener("visibilitychange", function () {
        if (document.hidden) close(); else open();
      });
    }
    document.addEventListener("visibilitychange", function () { if (!document.hidden) refreshSoon(); });
    window.addEventListener("offline", check);
    window.addEventListener("online", function () { if (reads()) open(); });
    setInterval(showStatus, 1000);

    function reads() {
      return mayRelay || !(navigator.locks && channel);
    }

    // The browser says that it is offline: ask whether this server is away too.
    function check() {
      fetch(base + "api/changes?campaign=" + encodeURIComponent(slug) + "&since=" + cursor).catch(function () {
        failures = FAILURES;
        showStatus();
        if (reads()) { close(); poll(); }
      });
    }

    function open() {
      close();
      source = new EventSource(base + "api/stream?campaign=" + encodeURIComponent(slug) + "&since=" + cursor);
      source.onmessage = function (event) {
        relay(JSON.parse(event.data));
      };
      source.onerror = function () {
        failures += 1;
        if (failures >= FAILURES || source.readyState === EventSource.CLOSED) { close(); poll(); }
      };
    }

    function close() {
      if (source) source.close();
      source = null;
      clearTimeout(timer);
    }

    function poll() {
      var began = Date.now();
      clearTimeout(timer);
      (function again() {
        fetch(base + "api/changes?campaign=" + encodeURIComponent(slug) + "&since=" + cursor)
          .then(function (answer) { return answer.ok ? answer.json() : Promise.reject(answer.status); })
          .then(function (message) {
            var wasAway = failures >= FAILURES;
            relay(message);
            if (wasAway || Date.now() - began > STREAM_AGAIN_MS) { open(); return; }
            timer = setTimeout(again, POLL_MS);
          })
          .catch(function () { showStatus(); timer = setTimeout(again, POLL_MS); });
      })();
    }

    function relay(message) {
      if (mayRelay && channel) channel.postMessage(message);
      take(message);
    }

    function take(message) {
      lastMessage = Date.now();
      failures = 0;
      clockAhead = message.now - Date.now() / 1000;
      if (message.cursor) cursor = message.cursor;
      body.dataset.readAt = message.read_at;
      body.dataset.error = message.error || "";
      body.dataset.storeAge = message.store_age || 0;
      showNewer(message);
      showStatus();
      showReading(message.reading);
      if (!message.changed) return;
      latest = message.counts;
      if (!document.getElementById("live")) counts(latest);
      document.dispatchEvent(new CustomEvent("benchfleet:changes", { detail: message }));
      dirty = true;
      refreshSoon();
    }

    // A page without a live part says that it is older than the results.
    function showNewer(message) {
      var place = document.getElementById("newer");
      if (place && !message.error) place.hidden = message.results === body.dataset.results;
    }

    // What the page said when it was made, until it is true no more. A page that was made before
    // the cells were read lacks more than its live part.
    function showReading(cells) {
      var alert = document.getElementById("alert"), place = document.querySelector("[data-reading]");
      var isRead = !body.dataset.error && Number(body.dataset.readAt);
      if (body.dataset.unread && isRead) location.reload();
      else if (alert && isRead) alert.remove();
      else if (place && cells) place.textContent = cells.toLocaleString("en");
    }

    // Beside the live part, which the server counts: with it, so that both say the same.
    function counts(values) {
      document.querySelectorAll("[data-count]").forEach(function (place) {
        if (!place.closest("#live")) place.textContent = (values[place.dataset.count] || 0).toLocaleString("en");
      });
      var failed = (values.failed || 0) + (values.partial || 0);
      document.querySelectorAll("[data-failed]").forEach(function (badge) {
        if (failed > Number(badge.textContent)) speak(failed + " cells failed", true);
        badge.textContent = failed;
        badge.hidden = !failed;
      });
      speak((values.success || 0) + " cells done, " + (values.running || 0) + " running", false);
    }

    function speak(text, now) {
      if (!now && Date.now() - spokenAt < 30000) return;
      spokenAt = Date.now();
      document.getElementById("speech").textContent = text;
    }

    // A refresh that the server refuses, such as one that is busy, changes nothing, and is tried again.
    document.addEventListener("htmx:response:error", function () { refused = true; });

    function refreshSoon() {
      var live = document.getElementById("live");
      if (!live || !dirty || document.hidden || refreshing || document.querySelector("dialog[open]")) return;
      var every = live.dataset.live === "slow" ? SLOW_REFRESH_MS : REFRESH_MS;
      every = Math.max(every, Math.min(MAX_REFRESH_MS, 10 * refreshTook));  // the costly more seldom
      var wait = Math.max(50, every - (Date.now() - refreshedAt));
      refreshing = true;
      setTimeout(function () {
        dirty = refused = false;
        refreshedAt = Date.now();
        window.htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "outerMorph" })
          .then(function () { dirty = dirty || refused; refreshTook = refused ? 500 : Date.now() - refreshedAt; relativeTimes(); markWide(); counts(latest); }, function () { dirty = true; })
          .then(function () { refreshing = false; if (dirty) refreshSoon(); });
      }, wait);
    }

    function showStatus() {
      var status = document.getElementById("status"), text = status.querySelector(".status-text");
      var readAt = Number(body.dataset.readAt || status.dataset.readAt);
      var age = serverNow() - readAt + Number(body.dataset.storeAge || 0), old = readAt ? took(age) + " old: " : "";
      var silent = lastMessage && Date.now() - lastMessage > 20000;
      var error = body.dataset.error !== undefined ? body.dataset.error : status.dataset.error;
      var away = Boolean(error) || silent || failures >= FAILURES;
      var newer = document.getElementById("newer"), isOld = Boolean(newer && !newer.hidden);
      status.classList.toggle("away", away);
      status.classList.toggle("live", !away && !isOld && Boolean(lastMessage));
      var shown = !lastMessage && !away ? text.textContent
        : failures >= FAILURES || silent ? old + "the dashboard does not answer"
        : error ? old + "the ledger cannot be read"
        : isOld ? took(serverNow() - Number(body.dataset.madeAt)) + " old"
        : !readAt ? "not read yet" : age > 4 ? "read " + took(age) + " ago" : "live";
      if (text.textContent !== shown) text.textContent = shown;
    }

    function took(seconds) {
      return seconds < 90 ? Math.round(seconds) + " s" : Math.round(seconds / 60) + " min";
    }
  }
})();
