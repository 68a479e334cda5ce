"""Predict how large transformer models train and serve on clusters.

    import tperf
    c = tperf.train(model="llama-3.1-8b", system="h100-sxm", gpus=64, tp=2, global_batch=128)
    c["time"], c["mfu"], c["memory"]["total"]          # seconds, a part, bytes

    found = tperf.search(model="llama-3.1-70b", system="h100-sxm", gpus=256, global_batch=512)
    pandas.DataFrame(found["rows"])                    # a row for each configuration, best first

Each question is a function of keyword arguments; `fields=["time", "memory.total"]` asks for these figures alone, which
is much faster. Answers are dicts. Errors are raised as `tperf.Error`, with `code`, `field`, `value` and `remedy`.
docs/ask.md describes questions and answers.
"""

from tperf.answer import Answer, Error, Picture
from tperf.engine import ask, ask_many, ask_text, plot, version
from tperf.questions import *  # noqa: F401,F403: one function for each question
from tperf.questions import __all__ as _questions
from tperf.waiting import progress

__all__ = ["Answer", "Error", "Picture", "ask", "ask_many", "ask_text", "plot", "progress", "version", *_questions]
