// Shows the question and the ranking; every answer is sent once and acknowledged before the next.

const get = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let question = null;
let busy = false;

async function call(address, body) {
  const options = body === undefined
    ? {}
    : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(address, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || response.statusText);
  return answer;
}

async function send(address, body) {
  if (busy) return;
  setBusy(true);
  try {
    show(await call(address, body));
    get("problem").hidden = true;
  } catch (error) {
    get("problem").textContent = `${error.message} Nothing was lost: try again.`;
    get("problem").hidden = false;
  } finally {
    setBusy(false);
  }
}

function setBusy(now) {
  busy = now;
  get("question").setAttribute("aria-busy", String(now));
}

function give(answer) {
  if (question !== null) send("/api/answer", { question: question.id, answer });
}

function show(state) {
  get("join").hidden = state.rater !== null;
  get("goal").textContent = `Goal: ${state.goal}. ${state.answers} answers so far.`;
  get("title").textContent = state.title;
  document.title = state.title;
  get("finished").hidden = !state.finished;
  get("more").hidden = state.settled;
  showQuestion(state.question);
  get("certainty").value = state.certainty;
  get("message").textContent = `${state.message} (the goal is ${Math.round(100 * state.confidence)} %).`;
  get("trouble").textContent = state.trouble ?? "";
  get("trouble").hidden = state.trouble === null;
  get("settled").hidden = !state.settled;
  document.querySelectorAll(".ranking").forEach((part) => { part.hidden = state.hidden; });
  if (!state.hidden) {
    showRanking(state.ranking);
    showRaters(state.raters);
  }
}

function showQuestion(next) {
  const section = get("question");
  const changed = next !== null && (question === null || question.id !== next.id);
  question = next;
  section.hidden = next === null;
  if (changed) {
    showItem(get("left"), next.left);
    showItem(get("right"), next.right);
  }
}

function showItem(card, item) {
  const image = card.querySelector("img");
  image.hidden = item.image === null;
  if (item.image !== null) image.src = item.image;
  else image.removeAttribute("src");
  card.querySelector(".name").textContent = item.name;
  card.querySelector(".name").hidden = item.name === "";
  card.classList.toggle("pictured", item.image !== null);
  card.parentElement.classList.toggle("pictured", item.image !== null);
  const text = card.querySelector(".text");
  text.hidden = item.text === "";
  text.textContent = item.text;
  text.scrollTop = 0;
}

function showRanking(ranking) {
  const rows = ranking.slice(0, 200).map((item, place) => {
    const row = document.createElement("tr");
    const between = item.low === item.high ? `${item.low}` : `${item.low}–${item.high}`;
    row.append(cell(String(place + 1)), cell(item.name), bar(item, ranking.length, between));
    return row;
  });
  get("ranking").tBodies[0].replaceChildren(...rows);
}

function bar(item, total, between) {
  const box = document.createElement("td");
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", `0 0 ${total} 1`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `ranks ${between}`);
  picture.append(rect("track", 0, total, 0.4, 0.2), rect("between", item.low - 1, item.high - item.low + 1, 0.15, 0.7));
  box.append(picture);
  return box;
}

function rect(kind, x, width, y, height) {
  const shape = document.createElementNS(SVG, "rect");
  shape.setAttribute("class", kind);
  for (const [name, value] of Object.entries({ x, width, y, height })) shape.setAttribute(name, value);
  return shape;
}

function showRaters(raters) {
  const rows = raters.map((rater) => {
    const row = document.createElement("tr");
    const agrees = rater.agreement === null ? "–" : `${Math.round(100 * rater.agreement)} %`;
    const care = rater.care === null ? "" : `, with care: ${Math.round(100 * rater.care)} %`;
    const last = cell(rater.unusual ? `${agrees} (unusual${care})` : agrees);
    if (rater.unusual) last.className = "unusual";
    row.append(cell(rater.name), cell(String(rater.answers)), last);
    return row;
  });
  get("raters").tBodies[0].replaceChildren(...rows);
}

function cell(text) {
  const box = document.createElement("td");
  box.textContent = text;
  return box;
}

const KEYS = { 1: "left", 2: "right", ArrowLeft: "left", ArrowRight: "right", "=": "tie", s: "skip" };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.target instanceof HTMLInputElement) return;
  if (event.key === "u") send("/api/undo", {});
  else if (event.key in KEYS) give(KEYS[event.key]);
  else return;
  event.preventDefault();
});
document.querySelectorAll("[data-answer]").forEach((button) => {
  button.addEventListener("click", () => give(button.dataset.answer));
});
get("undo").addEventListener("click", () => send("/api/undo", {}));
get("again").addEventListener("click", () => send("/api/again", {}));
get("join").addEventListener("submit", (event) => {
  event.preventDefault();
  send("/api/join", { name: get("name").value });
});

async function refresh() {
  if (!busy && !document.hidden) {
    try {
      const state = await call("/api/state");
      if (!busy) show(state);
    } catch {
      // The next refresh tries again; answers report their own problems.
    }
  }
  window.setTimeout(refresh, 3000);
}

refresh();
