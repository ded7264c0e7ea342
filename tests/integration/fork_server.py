"""A process that has imported everything once and forks commands of ``isotone``: each is a process of its own.

One JSON object in, one out: {"words": […], "out": path, "err": path} starts and answers {"pid": n}; {"pid": n} answers
{"code": n}, null while it runs. When its input ends it kills what is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import warnings

import isotone.cli.main
import isotone.host.backup
import isotone.host.repairing
import isotone.host.serving


def begin(words: list[str], out: str, err: str) -> None:
    """In the child."""
    os.setsid()
    for path, number in ((os.devnull, 0), (out, 1), (err, 2)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = ["isotone", *words]
    isotone.cli.main.main()


def code_of(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    codes: dict[int, int | None] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "words" in asked:
            pid = os.fork()
            if pid == 0:
                os.environ.update(asked.get("environment", {}))
                begin(asked["words"], asked["out"], asked["err"])
                os._exit(0)
            codes[pid] = None
            answer: object = {"pid": pid}
        else:
            pid = asked["pid"]
            if codes[pid] is None:
                found, status = os.waitpid(pid, os.WNOHANG)
                codes[pid] = code_of(status) if found else None
            answer = {"code": codes[pid]}
        print(json.dumps(answer), flush=True)
    for pid, code in codes.items():
        if code is None:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
