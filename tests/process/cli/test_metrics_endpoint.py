"""`run --prometheus` and `--log-json`, through the real command."""

import contextlib
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from ramledger.cli.metrics_endpoint import MetricsServer

COMMAND = Path(sys.executable).with_name("ramledger")
TRAINING = """
import sys, time
import ramledger
ledger = ramledger.record()
kept = []
for g in range(8):
    with ledger.phase("work", generation=g):
        kept.append(bytearray(1 << 20))
        time.sleep(0.05)
print("trained", flush=True)
sys.stdin.readline()
"""
SAMPLE = re.compile(r'^[a-z_]+(\{[a-z]+="(?:[^"\\]|\\.)*"(,[a-z]+="(?:[^"\\]|\\.)*")*\})? \S+$')


def test_a_scrape_of_a_live_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    options = [
        "--quiet",
        "--log-json",
        "--prometheus",
        ":0",
        "--out",
        str(tmp_path / "r.ledger.jsonl"),
    ]
    with subprocess.Popen(
        [COMMAND, "run", *options, "--", sys.executable, script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        url = process.stderr.readline().split()[-1]
        text = scraped(url, "ramledger_generation")
        out, _ = process.communicate("go on\n", timeout=100)
    assert text.endswith("# EOF\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.match(line) for line in samples), samples
    tree = next(line for line in samples if line.startswith("ramledger_tree_resident_bytes "))
    assert float(tree.split()[-1]) > 8 << 20
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [line["ramledger"] for line in lines].count("generation") >= 7
    assert lines[-1]["ramledger"] == "end"
    assert lines[-1]["exit_code"] == 0


def scraped(url: str, until: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(url, timeout=100) as answer:
            text: str = answer.read().decode()
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        if until in text or time.monotonic() > deadline:
            return text
        time.sleep(0.2)


def test_a_port_in_use_is_said_and_nothing_runs() -> None:
    server = MetricsServer(":0")
    try:
        port = server.server_address[1]
        done = subprocess.run(
            [COMMAND, "run", "--prometheus", f":{port}", "--", sys.executable, "-c", "print(1)"],
            capture_output=True, text=True, timeout=100,
        )  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
    assert not done.stdout


def test_probes_may_ask_for_the_head_and_an_ipv6_address_is_one() -> None:
    hosts = ["127.0.0.1"]
    # a machine may have none
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as six:
        six.bind(("::1", 0))
        hosts.append("[::1]")
    for host in hosts:
        server = MetricsServer(f"{host}:0")
        assert server.url.startswith(f"http://{host}:")
        head = urllib.request.Request(server.url, method="HEAD")
        with urllib.request.urlopen(head) as reply:
            assert reply.headers["Content-Length"] == "6"
            assert reply.read() == b""
        server.shutdown()
        server.server_close()
