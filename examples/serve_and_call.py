"""Start `dragoman serve` on a free port, and call its LibreTranslate API with the standard library alone.

    python examples/serve_and_call.py runs/demo "Where is the station?"

The server needs the extra: pip install '.[serve]'
"""

import argparse
import json
import re
import signal
import subprocess
import sys
from typing import Any
from urllib.request import Request, urlopen


def main() -> None:
    """Print the languages of the server, and a translation with two alternatives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder or a run")
    parser.add_argument("text", help="a text to translate")
    options = parser.parse_args()

    command = [sys.executable, "-m", "dragoman", "serve", options.model, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        addresses = (re.search(r"http://[\d.]+:\d+", line) for line in server.stderr)
        address = next(found[0] for found in addresses if found)

        language = call(f"{address}/languages")[0]
        source, target = language["code"], language["targets"][0]
        body = {"q": options.text, "source": source, "target": target, "alternatives": 2}
        answer = call(f"{address}/translate", body)
        print(f"{source} to {target}: {answer['translatedText']}")
        print(f"or: {', '.join(answer['alternatives'])}")
    finally:
        server.send_signal(signal.SIGTERM)  # it answers the requests in progress first
        server.wait()


def call(url: str, body: dict[str, object] | None = None) -> Any:
    """Return the JSON that a GET answers, or a POST if there is a body."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=10) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
