"""The package, over libtperf.so or over the program, as TPERF_LIBRARY and TPERF say."""

import inspect
import json
import os
import subprocess
import threading
import unittest

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
