"""The engine that answers: libtperf.so in this process, or the program `tperf ask` beside it."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import threading

from tperf.answer import Answer, Error

_HERE = pathlib.Path(__file__).resolve().parent
_TREE = _HERE.parents[1]  # of the sources, if the package is used in its place


def _data():
    for folder in (_HERE / "data", _TREE):
        if (folder / "systems").is_dir():
            return str(folder)
    return None


class _Failure(ctypes.Structure):  # tperf_error of include/tperf/error.h
    _fields_ = [("message", ctypes.c_char * 512)]


class _Library:
    """libtperf.so; a thread has a handle of its own."""

    def __init__(self, path):
        self._calls = ctypes.CDLL(str(path))
        self._calls.tperf_open.restype = ctypes.c_void_p
        self._calls.tperf_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(_Failure)]
        self._calls.tperf_ask.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
        self._calls.tperf_free.argtypes = [ctypes.c_void_p]
        self._calls.tperf_close.argtypes = [ctypes.c_void_p]
        self._own = threading.local()

    def _handle(self):
        if not hasattr(self._own, "handle"):
            failure, data = _Failure(), _data()
            handle = self._calls.tperf_open(data and os.fsencode(data), ctypes.byref(failure))
            if not handle:
                raise RuntimeError(failure.message.decode(errors="replace"))
            self._own.handle = _Handle(self._calls, handle)
        return self._own.handle

    def answer(self, question):
        line = ctypes.c_void_p()
        if self._calls.tperf_ask(self._handle().address, question.encode(), ctypes.byref(line)) != 0:
            raise MemoryError("not enough memory for an answer")
        try:
            return ctypes.string_at(line).decode()
        finally:
            self._calls.tperf_free(line)


class _Handle:
    """Closes a handle when its thread has ended."""

    def __init__(self, calls, address):
        self._close, self.address = calls.tperf_close, address

    def __del__(self):
        self._close(self.address)


class _Program:
    """A process of `tperf ask`, asked by one thread at a time."""

    def __init__(self, path):
        self._process = subprocess.Popen([path, "ask"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lock = threading.Lock()

    def answer(self, question):
        with self._lock:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"`tperf ask` has ended with status {self._process.wait()}")
        return line.rstrip("\n")


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
    for question in questions:
        yield Answer(_answer(question))


def version():
    """The version of tperf."""
    return _answer({"ask": "schema", "with": {"question": "train"}, "fields": ["title"]})["version"]
