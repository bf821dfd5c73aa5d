"""Runs in the tree under attack: a process for each command, forked once imports are done.

It is not imported but run by its path. Each line on standard input is a command; it answers with
the number of the process, and then with its exit code.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import signal
import sys
import threading
import traceback

# What changes files. A process can be killed just before the nth of these, whatever the load.
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
_CHANGES |= {"shutil.rmtree", "shutil.copyfile", "sqlite3.connect", "fcntl.flock"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def serve(preload):
    """Fork until there are no more commands. Returns in the processes that it forked."""
    gc.disable()
    for name in preload:
        try:
            importlib.import_module(name)
        except ImportError:  # the command will say that it is missing
            continue
    _assemble()
    gc.freeze()  # what is here will stay: no command looks for garbage in it
    gc.enable()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            return job
        print(json.dumps({"pid": child}), flush=True)
        _, status, used = os.wait4(child, 0)
        ended = {"rc": os.waitstatus_to_exitcode(status), "memory": used.ru_maxrss * 1024}
        print(json.dumps(ended), flush=True)
    return None


def _assemble():
    """Read the options of all commands once, which takes longer than many commands."""
    import typer.main

    from medcoder.cli import app

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)


def become(job):
    """The process of a command, as a shell would have started it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
        handle = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.argv = ["medcoder", *job["args"]]
    _count_changes(job)


def _count_changes(job):
    """Die just before the change of files with the number `job["at"]`."""
    seen = 0
    own = (sys.prefix, sys.base_prefix, "/dev/", "/proc/")

    def hook(event, values):
        nonlocal seen
        if event == "open":
            name, _, flags = values
            if not isinstance(name, str) or not flags & _WRITES or name.startswith(own):
                return
        elif event not in _CHANGES:
            return
        seen += 1
        if seen == job["at"]:
            os.kill(os.getpid(), job["signal"])

    def tell():
        handle = os.open(job["count"], os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(handle, str(seen).encode())
        os.close(handle)

    if job["count"]:
        atexit.register(tell)
    sys.addaudithook(hook)


def work():
    """Run the command and end as Python does, but for taking all modules apart: torch has many."""
    from medcoder.cli import main

    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    except KeyboardInterrupt:
        traceback.print_exc()
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    given = serve(sys.argv[1:])
    if given is not None:
        become(given)
        work()
