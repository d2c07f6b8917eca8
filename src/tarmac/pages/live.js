// Replaces the parts of a served page that have changed, as its server tells them.
(() => {
  "use strict";
  const state = document.getElementById("live-state");
  const source = new EventSource(document.body.dataset.events);
  const opened = (root) => [...root.querySelectorAll("details[open][id]")].map((one) => one.id);
  source.addEventListener("open", () => { state.textContent = "live"; });
  source.addEventListener("error", () => { state.textContent = "not connected, trying again"; });
  source.addEventListener("reload", () => { location.reload(); });
  source.addEventListener("gone", () => { source.close(); state.textContent = "removed"; });
  source.addEventListener("message", (event) => {
    const part = JSON.parse(event.data);
    const old = document.getElementById(part.id);
    const holder = document.createElement("template");
    holder.innerHTML = part.html;
    const fresh = holder.content.firstElementChild;
    if (!fresh) { if (old) old.remove(); return; }
    if (!old) { document.getElementById("content").append(fresh); return; }
    const keep = opened(old);
    const focus = document.activeElement && old.contains(document.activeElement)
      ? document.activeElement.id : "";
    old.replaceWith(fresh);
    for (const id of keep) { const one = document.getElementById(id); if (one) one.open = true; }
    if (focus) { const one = document.getElementById(focus); if (one) one.focus(); }
  });
})();
