"use strict";
// Objects and their histories.  All texts are set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const list = document.getElementById("objects");
const SHOWN = 50;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind !== undefined) made.className = kind;
  return made;
}

function showDiff(diff) {
  const [attribute, removed, added, removesAll] = diff;
  const line = element("p", attribute + ": ");
  if (removesAll) line.append(element("span", "− all values ", "removed"));
  for (const value of removed) line.append(element("span", "− " + value + " ", "removed"));
  for (const value of added) line.append(element("span", "+ " + value + " ", "added"));
  return line;
}

function showEvent(event, place, events) {
  const [run, source, position, time, who, type, columns, outcome, reason, meaning, number] = event;
  const box = element("div", undefined, "event is-" + data.outcomes[outcome]);
  const when = time === null ? "" : new Date(time / 1000).toISOString().replace("T", " ").replace(/\.000Z$/, "") + " ";
  const by = who ? " by " + who : "";
  box.append(element("p", when + (type ?? "record") + (columns.length ? ": " + columns.join(", ") : "") + by));
  const because = (reason ? " (" + reason + ")" : "") + (meaning ? ": " + meaning : "");
  box.append(element("p", data.outcomes[outcome] + because));
  box.append(element("p", position + " of " + data.sources[source] + " in " + data.runs[run], "count"));
  const next = events[place + 1];
  if (number !== null && next !== undefined && next[10] === number) {
    box.append(element("p", "together with the next record"));
  } else if (number !== null) {
    const [operation, id, diffs] = data.documents[number];
    box.append(element("p", operation + " " + id));
    if (diffs === null) box.append(element("p", "The document is not readable any more.", "count"));
    else for (const diff of diffs) box.append(showDiff(diff));
  }
  return box;
}

function showObject(object) {
  const [name, table, events, omitted] = object;
  const box = element("details");
  const rejected = events.some((event) => data.outcomes[event[7]] === "rejected");
  const count = events.length + omitted;
  box.append(element("summary", name + " — " + count + (count === 1 ? " record" : " records") + (rejected ? ", some rejected" : "")));
  box.addEventListener("toggle", () => {
    if (!box.open || box.childElementCount > 1) return;
    if (omitted) box.append(element("p", omitted + " older records are not shown.", "count"));
    box.append(...events.map(showEvent));
  });
  return box;
}

const texts = data.objects.map((object) => {
  const parts = object[2].flatMap((event) => {
    const document_ = event[10] === null ? [] : data.documents[event[10]];
    return [...event.slice(2), data.sources[event[1]], data.outcomes[event[7]], document_];
  });
  return JSON.stringify([object[0], object[1], parts]).toLowerCase();
});

function search() {
  const words = document.getElementById("search").value.toLowerCase().split(/\s+/).filter(Boolean)
    .map((word) => JSON.stringify(word).slice(1, -1));
  const found = data.objects.filter((_, number) => words.every((word) => texts[number].includes(word)));
  list.replaceChildren(...found.slice(0, SHOWN).map(showObject));
  if (found.length === 1) list.firstChild.open = true;
  const more = found.length > SHOWN ? ", the first " + SHOWN + " are shown" : "";
  document.getElementById("matches").textContent = found.length + (found.length === 1 ? " object" : " objects") + more;
}

// report.html#words opens the page with a search
try {
  document.getElementById("search").value = decodeURIComponent(location.hash.slice(1));
} catch { /* not the form of an address: no search */ }
document.getElementById("search").addEventListener("input", search);
search();
