// Keeps an open page current, and applies filters and sorting as one types. Everything but that works without it, by
// ordinary links and forms. Only what the server wrote is inserted, where every text is escaped.
"use strict";

(() => {
  /** How long typing must pause before a filter is applied, in milliseconds. */
  const PAUSE = 150;
  /** The shortest time between two loads, in milliseconds; after a slow load, longer. */
  const SHORTEST = 500;
  /** How soon to try again after a failure, in milliseconds. */
  const RETRY = 5000;
  /** How soon to try again while other pages of the same reader are being loaded, in milliseconds. */
  const BUSY = 500;
  /** How often to load a page whose contents stay, because ages grow and silence means something, too. */
  const ANYWAY = 60000;

  const form = document.getElementById("filter");
  const chosen = new Map();
  let source, request, typing, waiting, retrying;
  let earliest = 0;

  const live = () => document.getElementById("live");
  const say = (id, text) => {
    const place = document.getElementById(id);
    if (place.textContent !== text) place.textContent = text;
  };

  /** Puts what was loaded in the place of what is shown. Focus, open parts and choices stay. */
  function swap(fresh) {
    const old = live();
    const twin = (one) => fresh.querySelector(`#${CSS.escape(one.id)}`);
    for (const [id, open] of chosen) {
      const part = fresh.querySelector(`#${CSS.escape(id)}`);
      if (part) part.open = open;
    }
    for (const select of old.querySelectorAll("select[id]")) {
      const other = twin(select);
      if (other && [...other.options].some((option) => option.value === select.value)) other.value = select.value;
    }
    const scrolled = [...old.querySelectorAll(".wide")].map((part) => part.scrollLeft);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    old.replaceWith(document.adoptNode(fresh));
    fresh.querySelectorAll(".wide").forEach((part, index) => (part.scrollLeft = scrolled[index] ?? 0));
    if (!focused) return;
    const link = focused.getAttribute("href");
    const heir = (focused.id && twin(focused)) || (link && fresh.querySelector(`a[href="${CSS.escape(link)}"]`));
    (heir || document.getElementById("content")).focus({ preventScroll: true });
  }

  /** Loads what is shown again. A later load replaces an earlier one. */
  async function load() {
    request?.abort();
    const own = (request = new AbortController());
    const began = performance.now();
    clearTimeout(waiting);
    waiting = undefined;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, signal: own.signal });
      if (answer.status === 429) {
        clearTimeout(retrying);
        retrying = setTimeout(soon, BUSY * (1 + Math.random()));
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (!fresh) throw new Error(String(answer.status));
      if (own.signal.aborted) return;
      swap(fresh);
      document.title = page.title;
      say("connection", "");
    } catch (error) {
      if (own.signal.aborted) return;
      say("connection", "Not current: the server cannot be reached. Trying again…");
      clearTimeout(retrying);
      retrying = setTimeout(soon, RETRY);
    } finally {
      earliest = performance.now() + Math.max(SHORTEST, 3 * (performance.now() - began));
    }
  }

  function soon() {
    waiting ??= setTimeout(load, Math.max(0, earliest - performance.now()));
  }

  /** Listens for changes of what is shown, while anyone can see it. */
  function follow() {
    source?.close();
    source = undefined;
    if (document.hidden || !live().dataset.version) return;
    const own = (source = new EventSource(location.href));
    own.onmessage = (event) => {
      if (event.data !== live().dataset.version) soon();
    };
    own.onerror = () => {
      // A stream ends every minute, and the browser opens the next; only a refusal ends it.
      if (own !== source || own.readyState !== EventSource.CLOSED) return;
      soon();
      setTimeout(() => own === source && follow(), RETRY);
    };
  }

  async function go(address) {
    history.replaceState(null, "", address);
    await load();
    follow();
    say("told", live().querySelector(".states")?.textContent ?? "nothing found");
  }

  function apply() {
    const pairs = new URLSearchParams(location.search);
    for (const field of form.querySelectorAll("input:not([type=hidden])")) {
      const value = field.value.trim();
      if (value) pairs.set(field.name, value);
      else pairs.delete(field.name);
    }
    const query = pairs.toString();
    go(query ? `/?${query}` : "/");
  }

  form?.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(apply, PAUSE);
  });
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    apply();
  });
  document.addEventListener("click", (event) => {
    const summary = event.target.closest("summary");
    if (summary?.parentElement.id) chosen.set(summary.parentElement.id, !summary.parentElement.open);
    const link = event.target.closest("a[data-live]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  document.addEventListener("visibilitychange", () => {
    follow();
    if (!document.hidden) soon();
  });
  const seconds = Number(live().dataset.refresh);
  setInterval(() => document.hidden || soon(), seconds ? 1000 * seconds : ANYWAY);
  follow();
})();
