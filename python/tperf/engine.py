"""The engine that answers: libtperf.so in this process, or the program `tperf ask` beside it."""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import threading

from tperf.answer import Answer, Error, Picture
from tperf.waiting import Line

_HERE = pathlib.Path(__file__).resolve().parent
_TREE = _HERE.parents[1]  # of the sources, if the package is used in its place

_OK, _INTERRUPTED = 0, 3  # tperf_status of include/tperf/error.h
_LOOK_EVERY = 0.1  # s


def _data():
    for folder in (_HERE / "data", _TREE):
        if (folder / "systems").is_dir():
            return str(folder)
    return None


class _Failure(ctypes.Structure):  # tperf_error of include/tperf/error.h
    _fields_ = [("message", ctypes.c_char * 512)]


def _calls_of(path):
    calls = ctypes.CDLL(str(path))
    calls.tperf_open.restype = ctypes.c_void_p
    calls.tperf_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Failure)]
    calls.tperf_ask.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
    calls.tperf_progress.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_long), ctypes.POINTER(ctypes.c_long)]
    for name in ("tperf_cancel", "tperf_free", "tperf_close"):
        getattr(calls, name).argtypes = [ctypes.c_void_p]
    return calls


class _Library:
    """libtperf.so; a thread has a handle of its own.

    The main thread, which alone gets KeyboardInterrupt, has a second thread answer, since nothing interrupts a call of C.
    """

    def __init__(self, path):
        self._calls = _calls_of(path)
        self._own = threading.local()
        self._asked = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="tperf")

    def _handle(self):
        if not hasattr(self._own, "handle"):
            self._own.handle = _Handle(self._calls)
        return self._own.handle

    def answer(self, question):
        handle = self._handle()
        if threading.current_thread() is not threading.main_thread():
            return handle.answer(question)
        with Line() as line:
            answered = self._asked.submit(handle.answer, question)
            try:
                while True:
                    try:
                        return answered.result(_LOOK_EVERY)
                    except concurrent.futures.TimeoutError:
                        line.tell(*handle.progress())
            except BaseException:
                while not answered.done():
                    handle.cancel()
                    concurrent.futures.wait([answered], _LOOK_EVERY)
                raise


class _Handle:
    """Closes a handle when its thread has ended."""

    def __init__(self, calls):
        failure, data = _Failure(), _data()
        self._calls, self._address = calls, calls.tperf_open(data and os.fsencode(data), ctypes.byref(failure))
        if not self._address:
            raise RuntimeError(failure.message.decode(errors="replace"))

    def answer(self, question):
        line = ctypes.c_void_p()
        status = self._calls.tperf_ask(self._address, question.encode(), ctypes.byref(line))
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        if status != _OK:
            raise MemoryError("not enough memory for an answer")
        try:
            return ctypes.string_at(line).decode()
        finally:
            self._calls.tperf_free(line)

    def cancel(self):
        self._calls.tperf_cancel(self._address)

    def progress(self):
        done, total = ctypes.c_long(), ctypes.c_long()
        self._calls.tperf_progress(self._address, ctypes.byref(done), ctypes.byref(total))
        return done.value, total.value

    def __del__(self):
        if self._address:
            self._calls.tperf_close(self._address)


class _Program:
    """A process of `tperf ask`, asked by one thread at a time; another one after a question that was interrupted."""

    def __init__(self, path):
        self._path, self._process, self._lock = path, None, threading.Lock()

    def answer(self, question):
        with self._lock, Line() as line:
            if not self._process:
                self._process = subprocess.Popen([self._path, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                 text=True)
            try:
                line.tell(0, 0)
                self._process.stdin.write(question + "\n")
                self._process.stdin.flush()
                answered = self._process.stdout.readline()
            except BaseException:
                self._end()
                raise
            if not answered:
                raise RuntimeError(f"`tperf ask` has ended with status {self._end()}")
        return answered.rstrip("\n")

    def _end(self):
        process, self._process = self._process, None
        process.kill()
        with process:
            return process.wait()


# TPERF_LIBRARY names the library, TPERF the program; else what is beside the package, else the program on the path.
def _library():
    named = os.environ.get("TPERF_LIBRARY")
    if not named and os.environ.get("TPERF"):
        return None
    for path in [named] if named else [_HERE / "libtperf.so", _TREE / "build/release/libtperf.so"]:
        if os.path.exists(path):
            return path
    return None


def _open():
    path = _library()
    if path:
        return _Library(path)
    program = os.environ.get("TPERF") or shutil.which("tperf") or shutil.which(str(_TREE / "tperf"))
    if program:
        return _Program(program)
    raise ImportError("there is no libtperf.so and no program tperf: `make python` builds the package with its library, "
                      "TPERF_LIBRARY or TPERF names another place")


_engine = None
_opening = threading.Lock()


def _forget():  # a process that was forked has no threads, and shares the program's pipes
    global _engine, _opening
    _engine, _opening = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def ask_text(question):
    """Answer a question in JSON with the line of JSON that `tperf ask` prints; an error is an answer with `error`."""
    global _engine
    with _opening:
        _engine = _engine or _open()
    return _engine.answer(question)


def _answer(question):
    return json.loads(ask_text(json.dumps(question)))


def ask(question):
    """Answer a question, a dict with `ask`, `with` and perhaps `fields` and `id`. Raises tperf.Error."""
    answer = Answer(_answer(question))
    if "error" in answer:
        raise Error(answer["error"])
    return answer


def ask_many(questions):
    """Answer questions one by one, without raising: what has no answer is a dict with `error`."""
    total = len(questions) if hasattr(questions, "__len__") else 0
    with Line("questions ") as line:
        for done, question in enumerate(questions):
            line.tell(done, total)
            yield Answer(_answer(question))


def plot(rows, x=None, y=None, kind="lines", **more):
    """Draw rows, such as those of an answer, as lines, scatter, bars, histogram, ecdf, box, heatmap or contour.

    x, y: names of figures, such as "memory.total", or {"key": …, "title": …, "unit": "s"}
    more: series="tp", logx=2, title=… and what else tperf.plot of that kind takes (docs/api.md)
    """
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    given = {"rows": list(rows), "kind": kind, "x": x, "y": y, **more}
    given = {name: value for name, value in given.items() if value is not None}
    return Picture(ask({"ask": "plot", "with": given, "fields": ["svg"]})["svg"])


def version():
    """The version of tperf."""
    return _answer({"ask": "schema", "with": {"question": "train"}, "fields": ["title"]})["version"]
