"""The package, over libtperf.so or over the program, as TPERF_LIBRARY and TPERF say."""

import contextlib
import inspect
import io
import json
import os
import signal
import subprocess
import threading
import time
import unittest
from unittest import mock

import tperf
from tperf import engine

LAYOUT = {"model": "gpt2", "system": "h100-sxm", "gpus": 8, "global_batch": 64}


def of_command(*words):
    run = subprocess.run([os.environ["TPERF_PROGRAM"], *words, "--json"], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)[0]


class Questions(unittest.TestCase):
    def test_uses_the_engine_that_the_environment_names(self):
        tperf.train(**LAYOUT, fields=["time"])
        wanted = engine._Library if os.environ.get("TPERF_LIBRARY") else engine._Program
        self.assertIsInstance(engine._engine, wanted)

    def test_answers_as_the_command_line(self):
        wanted = of_command("train", "gpt2", "-s", "h100-sxm", "-g", "8", "-b", "64")
        answer = tperf.train(**LAYOUT)
        for name in ("time", "mfu", "memory", "breakdown", "tokens_per_second"):
            self.assertEqual(answer[name], wanted[name], name)
        self.assertEqual(answer["model"], "gpt2")

    def test_has_rows_for_pandas_and_a_table_for_notebooks(self):
        found = tperf.search(**LAYOUT, top=3, fields=["time", "tp", "memory.total"])
        self.assertEqual([sorted(row) for row in found["rows"]], [["memory.total", "time", "tp"]] * 3)
        times = [row["time"] for row in found["rows"]]
        self.assertEqual(times, sorted(times))
        self.assertEqual(found._repr_html_().count("<tr>"), 4)

    def test_raises_errors_with_field_value_and_remedy(self):
        with self.assertRaises(tperf.Error) as raised:
            tperf.train(**{**LAYOUT, "model": "gpt22"})
        error = raised.exception
        self.assertEqual((error.code, error.field, error.value), ("unknown_name", "model", "gpt22"))
        self.assertIn("gpt2", error.remedy)
        with self.assertRaises(tperf.Error) as raised:
            tperf.train(**LAYOUT, tpp=2)
        self.assertEqual((raised.exception.code, raised.exception.field), ("unknown_field", "tpp"))

    def test_goes_on_after_an_error_in_many(self):
        questions = [{"ask": "train", "id": i, "fields": ["time"], "with": {**LAYOUT, "tp": tp}}
                     for i, tp in enumerate((1, 3, 2))]
        answers = list(tperf.ask_many(questions))
        self.assertEqual([answer["id"] for answer in answers], [0, 1, 2])
        self.assertEqual(["error" in answer for answer in answers], [False, True, False])

    def interrupted(self, ask):
        """Seconds from an interrupt until `ask` ends."""
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.2, interrupt)
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                ask()
        finally:
            timer.cancel()
        return time.monotonic() - sent[0]

    def test_is_interrupted_at_once_and_goes_on(self):
        wanted = tperf.train(**LAYOUT, fields=["time"])["time"]
        load = {"load": {"rate": 2}, "prompt": 1000, "output": 400, "count": 1 << 20}
        self.assertLess(self.interrupted(lambda: tperf.serve(model="gpt2", system="h100-sxm", **load)), 5)
        ways = [{"ask": "train", "fields": ["time"], "with": {**LAYOUT, "tp": tp}} for tp in (1, 2)] * (1 << 20)
        self.assertLess(self.interrupted(lambda: list(tperf.ask_many(ways))), 5)
        self.assertEqual(tperf.train(**LAYOUT, fields=["time"])["time"], wanted)

    def test_answers_in_a_process_that_was_forked(self):
        wanted = tperf.train(**LAYOUT, fields=["time"])["time"]
        child = os.fork()
        if child == 0:
            os._exit(0 if tperf.train(**LAYOUT, fields=["time"])["time"] == wanted else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_shows_how_far_it_is_and_removes_the_line(self):
        shown = io.StringIO()
        with contextlib.redirect_stderr(shown), mock.patch("tperf.waiting._WAIT", 0):
            tperf.progress(True)
            list(tperf.ask_many([{"ask": "train", "fields": ["time"], "with": LAYOUT}] * 4))
            tperf.progress(None)
        self.assertRegex(shown.getvalue(), r"^\rtperf: questions ")
        self.assertRegex(shown.getvalue(), r"\r +\r$")
        with contextlib.redirect_stderr(io.StringIO()) as silent:
            list(tperf.ask_many([{"ask": "train", "fields": ["time"], "with": LAYOUT}]))
        self.assertEqual(silent.getvalue(), "")

    def test_draws_rows(self):
        rows = [{"gpus": 8, "time": 2.0}, {"gpus": 16, "time": 1.0}]
        picture = tperf.plot(rows, x="gpus", y="time")
        self.assertTrue(picture._repr_html_().startswith("<svg "))
        with self.assertRaises(tperf.Error) as raised:
            tperf.plot(rows, x="gpus", y="tiem")
        self.assertEqual((raised.exception.field, raised.exception.remedy), ("y", "use 'time'"))

    def test_is_for_threads(self):
        wanted = tperf.train(**LAYOUT, fields=["time"])["time"]
        got = []

        def asks():
            got.extend(tperf.train(**LAYOUT, fields=["time"])["time"] for _ in range(20))

        threads = [threading.Thread(target=asks) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, [wanted] * 80)

    def test_has_the_types_of_the_schema(self):
        self.assertEqual(inspect.signature(tperf.train).return_annotation, "Answer")
        written = inspect.signature(tperf.train).parameters
        self.assertEqual(written["tp"].annotation, "int | None")
        self.assertEqual(written["global_batch"].annotation, "int")

    def test_documents_every_argument(self):
        for name in ("train", "search", "infer", "serve"):
            schema = tperf.ask({"ask": "schema", "with": {"question": name}})
            document = getattr(tperf, name).__doc__
            for argument in schema["properties"]:
                self.assertIn(f"\n    {argument}: ", document)


if __name__ == "__main__":
    unittest.main()
