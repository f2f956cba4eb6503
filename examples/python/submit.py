#!/usr/bin/env python3
"""Submits a job file to a Manyhands gateway, is told when it is over, and reads the results.

Python's standard library and the HTTP API, nothing else: what is here is all that a program in any
language has to do.

    MANYHANDS_TOKEN=... python3 submit.py job.toml [http://127.0.0.1:8080]

Writes a line of JSON for each unit, in order. Ends with 0 if all units did, with 1 if any failed,
with 2 if the job was never taken.
"""

import base64
import http.client
import json
import os
import re
import sys
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

# The gateway says something at least every 15 s; three times that is silence.
SILENCE = 45
# A gateway that restarts is waited for; a broken one is not waited for without end.
TRIES = 10
# What may be in a job file and goes to the API as it is.
PLAIN = ["arguments", "environment", "sweep", "max_retries", "priority", "fuel_limit", "find", "bit_exact", "owner"]


class Refused(Exception):
    """The gateway, or this program, says what is wrong and what to do."""


class Gateway:
    def __init__(self, url, token):
        self.url, self.token = url.rstrip("/"), token

    def open(self, path, data=None, **headers):
        """One request; answers that mean "try again" and lost connections are tried again."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        headers["Authorization"] = "Bearer " + self.token
        request = urllib.request.Request(urllib.parse.urljoin(self.url, path), data, headers)
        for attempt in range(TRIES):
            try:
                return urllib.request.urlopen(request, timeout=SILENCE)
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise Refused(detail(error)) from None
                last = detail(error)
            except OSError as error:
                last = f"{self.url} cannot be reached: {getattr(error, 'reason', error)}"
            time.sleep(min(0.1 * 2**attempt, 2))
        raise Refused(last)

    def json(self, path, data=None, **headers):
        with self.open(path, data, **headers) as answer:
            return json.load(answer)

    def upload(self, path):
        """Content is named by its hash, so sending it again is harmless."""
        return self.json("/api/v1/blobs", path.read_bytes(), Content_Type="application/octet-stream")["id"]

    def submit(self, job):
        # Under one key a repetition gives the same job: nothing is lost or done twice, whenever
        # the connection breaks.
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        return self.json("/api/v1/jobs", json.dumps(job).encode(), **headers)

    def wait(self, job):
        """Returns once the gateway has told that the job is over; no polling."""
        pause = 0.1
        while True:
            try:
                with self.open(f"/api/v1/jobs/{job}/events", Accept="text/event-stream") as stream:
                    for event, data in events(stream):
                        if event == "job":
                            told = json.loads(data)
                            if told["state"] in ("done", "failed", "cancelled"):
                                return told
                            pause = 0.1
            except (OSError, http.client.HTTPException):
                pass
            # The stream broke or the gateway restarted: ask anew, it begins with how things stand.
            time.sleep(pause)
            pause = min(pause * 2, 2)

    def results(self, job):
        """All units that ended, in order."""
        start = 0
        while start is not None:
            page = self.json(f"/api/v1/jobs/{job}/results?from={start}")
            yield from page["results"]
            start = page["next"]

    def bytes_of(self, output):
        """A small output comes along, a large one lies at its URL."""
        if output.get("base64") is not None:
            return base64.b64decode(output["base64"])
        with self.open(output["url"]) as answer:
            return answer.read()


def detail(error):
    """What a problem document says (RFC 9457)."""
    try:
        return json.load(error)["detail"]
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered {error.code} {error.reason}"


def events(stream):
    """The events of a stream, as (name, data). Lines that begin with a colon only keep it alive."""
    name, data = "message", []
    for line in stream:
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif not field and not value and data:
            yield name, "\n".join(data)
            name, data = "message", []


def size(value):
    """Bytes, of "64MiB" or of a number."""
    found = re.fullmatch(r"(\d+)\s*([KMG]i?B?|B?)", str(value), re.IGNORECASE)
    if not found:
        raise Refused(f"{value!r} is no size: write bytes, or a number with KiB, MiB, GiB, kB, MB or GB")
    unit = found[2].lower()
    base = 1000 if unit in ("kb", "mb", "gb") else 1024
    return int(found[1]) * base ** " kmg".find(unit[0] if unit not in ("", "b") else " ")


def seconds(value):
    """Seconds, of "1h30m" or of a number; 0 of "none"."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
    text = {"none": "0"}.get(str(value), str(value))
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", text)
    if "".join(number + unit for number, unit in parts) != text.replace(" ", "") or not parts:
        raise Refused(f"{value!r} is no duration: write seconds, or numbers with ms, s, m, h or d")
    return sum(float(number) * units[unit] for number, unit in parts)


def loss(value):
    wait = str(value).removeprefix("wait ")
    return "recover" if value == "recover" else {"wait": seconds(wait)}


LIMITS = {
    "memory_limit": size,
    "output_limit": size,
    "time_limit": seconds,
    "checkpoint": seconds,
    "on_loss": loss,
}


def job_of(path, gateway):
    """The API's job, of a job file; what it names is sent ahead."""
    with path.open("rb") as file:
        said = tomllib.load(file)
    program = path.parent / said.pop("program")
    job = {"name": said.pop("name", program.stem), "program": gateway.upload(program)}
    if "stdin" in said:
        job["stdin"] = gateway.upload(path.parent / said.pop("stdin"))
    job["files"] = [
        {"path": str(Path(name)), "blob": gateway.upload(path.parent / name)} for name in said.pop("files", [])
    ]
    job |= {key: said.pop(key) for key in PLAIN if key in said}
    job |= {key: read(said.pop(key)) for key, read in LIMITS.items() if key in said}
    if said:
        raise Refused(f"{path}: {', '.join(said)} is more than this example knows; use `manyhands submit`")
    return job


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(arguments[0])
    url = arguments[1] if len(arguments) > 1 else os.environ.get("MANYHANDS_GATEWAY", "http://127.0.0.1:8080")
    token = os.environ.get("MANYHANDS_TOKEN")
    if not token:
        print("no token: set MANYHANDS_TOKEN to what `manyhands token` shows on the gateway's terminal", file=sys.stderr)
        return 2
    gateway = Gateway(url, token)
    try:
        job = gateway.submit(job_of(path, gateway))
        print(f"submitted {job['name']} as {job['short']}", file=sys.stderr)
        ended = gateway.wait(job["id"])
        print(f"{job['short']} is over: {ended['state']}", file=sys.stderr)
        for unit in gateway.results(job["id"]):
            told = {"unit": unit["index"], "success": unit["success"], "message": unit["message"]}
            told["stdout"] = gateway.bytes_of(unit["stdout"]).decode(errors="replace")
            told["files"] = [file["path"] for file in unit["files"]]
            print(json.dumps(told))
    except (Refused, OSError, KeyError, tomllib.TOMLDecodeError) as error:
        missing = f"{path}: there is no {error}" if isinstance(error, KeyError) else error
        print(f"submit.py: {missing}", file=sys.stderr)
        return 2
    return 0 if ended["state"] == "done" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
