"""A line that tells how far long work is, on a terminal and in a notebook."""

import sys
import threading
import time

_WAIT, _REDRAW = 1.0, 0.2  # s until the first line, and from one to the next

_shown = threading.local()  # the line that this thread shows: others that it starts meanwhile say nothing


def _is_watched():
    return sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)


def _words(seconds, done, total):
    if total <= 0 or done <= 0:
        return f"{seconds:.0f} s" + (f", {done} done" if done > 0 else "")
    left = seconds / done * (total - done)
    left = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
    return f"{100 * done / total:.0f} %, {left} left"


class Line:
    """Used as a context, at whose end the line disappears. `progress` turns all lines off or on."""

    watched = None  # whether somebody sees them; None: on terminals and in notebooks

    def __init__(self, what=""):
        self._what, self._start, self._due, self._wide = what, None, None, 0

    def __enter__(self):
        if getattr(_shown, "line", None) is None:
            watched = Line.watched if Line.watched is not None else _is_watched()
            if watched:
                _shown.line = self
                self._start = time.monotonic()
                self._due = self._start + _WAIT
        return self

    def tell(self, done, total):
        """So much of `total` is done; 0: that is not known."""
        if self._start is None:
            return
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _REDRAW
        text = f"tperf: {self._what}{_words(now - self._start, done, total)}"
        sys.stderr.write("\r" + text.ljust(self._wide))
        sys.stderr.flush()
        self._wide = len(text)

    def __exit__(self, *_):
        if self._wide:
            sys.stderr.write("\r" + " " * self._wide + "\r")
            sys.stderr.flush()
        if self._start is not None:
            _shown.line = None


def progress(shown):
    """Whether long questions and `ask_many` show a line on standard error: by default on terminals and in notebooks."""
    Line.watched = shown
