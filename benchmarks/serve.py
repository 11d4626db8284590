"""The HTTP server under 16 clients, against bare `predict` on the same items.

The server runs in a process of its own; clients are threads that keep their connection open. All
share the cores of one machine, so that the clients take their share of the time too.
"""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np

from rankwise import RankRLS

N_CLIENTS, N_ITEMS, N_FEATURES = 16, 100, 46
SECONDS = 60.0
PEERS = ["starlette", "uvicorn"]

SERVER = """
import numpy as np
from rankwise import RankRLS, serve_ranker
X = np.random.default_rng(0).normal(size=(500, {n_features}))
serve_ranker(RankRLS().fit(X, X[:, 0]), port={port})
"""


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start_server(port: int) -> subprocess.Popen:
    code = SERVER.format(n_features=N_FEATURES, port=port)
    server = subprocess.Popen([sys.executable, "-c", code])
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return server
    raise RuntimeError("the server did not start")


def client(port: int, body: bytes, until: float, latencies: list[float]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    while time.perf_counter() < until:
        start = time.perf_counter()
        connection.request("POST", "/rank", body)
        answer = connection.getresponse()
        content = answer.read()
        latencies.append(time.perf_counter() - start)
        if answer.status != 200:
            raise RuntimeError(content)
    connection.close()


def load(port: int, seconds: float, n_clients: int) -> list[float]:
    """Return the latencies of all requests that the clients made."""
    X = np.random.default_rng(1).normal(size=(N_ITEMS, N_FEATURES))
    body = json.dumps({"items": X.tolist()}).encode()
    latencies: list[list[float]] = [[] for _ in range(n_clients)]
    until = time.perf_counter() + seconds
    threads = [
        threading.Thread(target=client, args=(port, body, until, record)) for record in latencies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [latency for record in latencies for latency in record]


def megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/status") as file:
        line = next(line for line in file if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1e3


def bare_items_per_second(seconds: float = 3.0) -> float:
    X = np.random.default_rng(0).normal(size=(500, N_FEATURES))
    ranker = RankRLS().fit(X, X[:, 0])
    rows, n_calls = X[:N_ITEMS], 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        ranker.predict(rows)
        n_calls += 1
    return n_calls * N_ITEMS / (time.perf_counter() - start)


def json_items_per_second(seconds: float = 3.0) -> float:
    """Return how fast the bodies alone can be read and the answers written."""
    X = np.random.default_rng(1).normal(size=(N_ITEMS, N_FEATURES))
    body, scores = json.dumps({"items": X.tolist()}), X[:, 0].tolist()
    start, n_calls = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        np.array(json.loads(body)["items"])
        json.dumps({"scores": scores, "order": list(range(N_ITEMS))})
        n_calls += 1
    return n_calls * N_ITEMS / (time.perf_counter() - start)


def section() -> str:
    bare, parsing = bare_items_per_second(), json_items_per_second()
    port = free_port()
    server = start_server(port)
    try:
        alone = load(port, 3.0, 1)
        load(port, 5.0, N_CLIENTS)
        before = megabytes(server.pid)
        latencies = load(port, SECONDS, N_CLIENTS)
        after = megabytes(server.pid)
    finally:
        server.terminate()
        server.wait()
    served = len(latencies) * N_ITEMS / SECONDS
    low, high, top = np.percentile(latencies, [50, 95, 99]) * 1e3
    return "\n".join(
        [
            f"Requests of {N_ITEMS} items with {N_FEATURES} features, a linear ranker, one server "
            f"process and {N_CLIENTS} clients on the same {os.cpu_count()} cores, for "
            f"{SECONDS:g} seconds.",
            "",
            "| what | value |",
            "|---|---|",
            f"| items a second, served | {served:,.0f} |",
            f"| items a second, bare predict in calls of {N_ITEMS} | {bare:,.0f} |",
            f"| items a second, reading and writing the JSON alone | {parsing:,.0f} |",
            f"| served, as a share of reading and writing the JSON | {served / parsing:.2f} |",
            f"| latency of one client, median | {np.median(alone) * 1e3:.1f} ms |",
            f"| latency of {N_CLIENTS} clients, median | {low:.1f} ms |",
            f"| latency of {N_CLIENTS} clients, 95th percentile | {high:.1f} ms |",
            f"| latency of {N_CLIENTS} clients, 99th percentile | {top:.1f} ms |",
            f"| requests answered, all with status 200 | {len(latencies):,} |",
            f"| memory before and after | {before:.1f} and {after:.1f} MB |",
            "",
        ]
    )


if __name__ == "__main__":
    print(section())
