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
from collections.abc import Callable

import numpy as np

from rankwise import RankRLS

N_CLIENTS, N_ITEMS, N_FEATURES = 16, 100, 46
SECONDS = 20.0
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


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def per_call(job: Callable[[], object], n_calls: int = 500) -> float:
    """Return the processor seconds of one call."""
    job()
    start = time.process_time()
    for _ in range(n_calls):
        job()
    return (time.process_time() - start) / n_calls


def bare_costs() -> tuple[float, float]:
    """Return the processor seconds of `predict`, and of reading and writing the JSON."""
    X = np.random.default_rng(0).normal(size=(500, N_FEATURES))
    ranker, rows = RankRLS().fit(X, X[:, 0]), X[:N_ITEMS]
    body, scores = json.dumps({"items": rows.tolist()}), rows[:, 0].tolist()
    order = list(range(N_ITEMS))

    def translate() -> None:
        np.array(json.loads(body)["items"])
        json.dumps({"scores": scores, "order": order})

    return per_call(lambda: ranker.predict(rows)), per_call(translate)


def section() -> str:
    predict, translate = bare_costs()
    port = free_port()
    server = start_server(port)
    try:
        alone = load(port, 3.0, 1)
        load(port, 5.0, N_CLIENTS)
        before, busy = megabytes(server.pid), processor_seconds(server.pid)
        latencies = load(port, SECONDS, N_CLIENTS)
        after, busy = megabytes(server.pid), processor_seconds(server.pid) - busy
    finally:
        server.terminate()
        server.wait()
    served = len(latencies) * N_ITEMS / SECONDS
    cost = busy / len(latencies)
    low, high, top = np.percentile(latencies, [50, 95, 99]) * 1e3
    return "\n".join(
        [
            f"Requests of {N_ITEMS} items with {N_FEATURES} features, a linear ranker, one server "
            f"process and {N_CLIENTS} clients on the same {os.cpu_count()} cores, for "
            f"{SECONDS:g} seconds, next to other work on the machine.",
            "",
            "| what | value |",
            "|---|---|",
            f"| processor time of the server for a request | {cost * 1e3:.2f} ms |",
            f"| the same, against reading and writing its JSON alone | {cost / translate:.1f}x |",
            f"| the same, against bare predict | {cost / predict:.1f}x |",
            f"| items a second, served | {served:,.0f} |",
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
