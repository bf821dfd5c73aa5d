"""Damaged tables sent to a service: it refuses them, or maps them, and never fails by itself."""

import http.client
import json
import re
import secrets
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from attack.frame import Attack

_SECONDS = 60.0


class Service:
    """A service that tables are sent to."""

    def __init__(self, attack: Attack, index: Path) -> None:
        folder = attack.folder / "service"
        folder.mkdir()
        self._log = folder / "log"
        with self._log.open("wb") as log:
            words = ("serve", "--index", index, "--port", 0, "--folder", folder / "uploads")
            self._process = attack.start(*words, stdout=log, stderr=subprocess.STDOUT)
        self.lock = threading.Lock()
        self._port = self._started()

    def send(self, name: str, content: bytes) -> tuple[bool, list[str]]:
        """Upload a table and map it. Whether it was taken, and what went wrong."""
        try:
            status, reply = self._upload(name, content)
            if status != 201:
                return False, _refusal(status, reply)
            wanted = {"upload": reply["upload"], "column": "text", "code": "id", "count": "n"}
            status, reply = self._call("POST", "/v1/map", json.dumps(wanted).encode())
            if status != 202:
                return False, _refusal(status, reply)
            return self._finished(reply["id"])
        except (OSError, http.client.HTTPException) as error:
            if self._process.poll() is not None:
                said = self._log.read_text(encoding="utf-8", errors="replace")
                self._port = 0
                return False, [f"the service has ended: {said[-500:]}"]
            return False, [f"no reply: {error!r}"]

    def _finished(self, job: str) -> tuple[bool, list[str]]:
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            status, reply = self._call("GET", f"/v1/jobs/{job}")
            if status != 200:
                return False, _refusal(status, reply)
            if reply["state"] not in ("waiting", "running"):
                unexpected = "see the log" in (reply["error"] or "")
                said = self._log.read_text(encoding="utf-8", errors="replace")[-500:]
                return reply["state"] == "done", [f"a job fails: {said}"] if unexpected else []
            time.sleep(0.02)
        return False, [f"a job takes more than {_SECONDS:.0f} s"]

    def _upload(self, name: str, content: bytes) -> tuple[int, Any]:
        mark = secrets.token_hex(16)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = head.encode() + content + f"\r\n--{mark}--\r\n".encode()
        return self._call("POST", "/v1/uploads", body, f"multipart/form-data; boundary={mark}")

    def _call(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_SECONDS)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def _started(self) -> int:
        end = time.monotonic() + 300
        while time.monotonic() < end and self._process.poll() is None:
            said = self._log.read_text(encoding="utf-8", errors="replace")
            if found := re.search(r"http://127.0.0.1:(\d+)", said):
                return int(found[1])
            time.sleep(0.05)
        raise RuntimeError(f"the service does not start: {self._log.read_text()}")


def _refusal(status: int, reply: Any) -> list[str]:
    """A refusal says why; a failure of the service is one of ours."""
    return [f"status {status}: {reply}"] if status >= 500 and status not in (503, 507) else []
