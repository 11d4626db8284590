"""How long the next question takes after an answer, as the page sees it."""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.harness import Row

N_ANSWERS = 60


def answer_times(n_items: int, pause: float = 0.3) -> list[float]:
    """Answer questions over HTTP with a pause between them; return the seconds of each request."""
    with tempfile.TemporaryDirectory() as folder:
        rows = "".join(f"item {i}\n" for i in range(n_items))
        Path(folder, "items.csv").write_text("name\n" + rows)
        command = [sys.executable, "-m", "rankwise", "ask", "items.csv", "--no-browser"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            port = next(
                int(found[1])
                for line in process.stdout
                if (found := re.search(r"http://127.0.0.1:(\d+)/", line))
            )
            return _answer(port, np.random.default_rng(0).normal(size=n_items), pause)
        finally:
            process.terminate()
            process.communicate()


def _answer(port: int, truth: np.ndarray, pause: float) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}

    def post(path: str, body: dict) -> tuple[dict, str | None]:
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        return json.loads(response.read()), response.getheader("set-cookie")

    state, cookie = post("/api/join", {"name": "bench"})
    headers["Cookie"] = cookie.split(";")[0]
    times = []
    for _ in range(N_ANSWERS):
        question = state["question"]
        left, right = (int(question[side]["name"].split()[1]) for side in ("left", "right"))
        answer = "left" if truth[left] > truth[right] else "right"
        start = time.perf_counter()
        state, _ = post("/api/answer", {"question": question["id"], "answer": answer})
        times.append(time.perf_counter() - start)
        time.sleep(pause)
    return times


def table() -> list[Row]:
    """Return median times to the next question beside what a person may notice."""
    rows = []
    for n_items, bar in [(200, 0.1), (1000, 0.3)]:
        times = answer_times(n_items)
        median, late = np.median(times), np.quantile(times, 0.95)
        rows.append(
            Row(
                f"the next question after an answer, {n_items} items, over HTTP",
                f"{1000 * bar:.0f} ms",
                "at most 1x",
                float(median),
                bar,
                float(median / bar),
                f"95 % of {len(times)} answers within {1000 * late:.0f} ms",
            )
        )
    return rows
