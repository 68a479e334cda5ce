"""Runs a notebook's code cells without Jupyter: notebook.py [--write] FILE.

Compares what cells print and show with the outputs that the file holds; --write puts them there.
"""

import ast
import contextlib
import io
import json
import sys


def run(code, names):
    """The outputs of a cell: what it prints, and what its last line shows."""
    tree, shown, printed = ast.parse(code), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last:
            shown = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if shown is not None:
        data = {"text/plain": lines(f"<{type(shown).__name__}>" if hasattr(shown, "_repr_html_") else repr(shown))}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = lines(shown._repr_html_())
        outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
    return outputs


def lines(text):
    return text.splitlines(keepends=True)


def main(write, path):
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    names, wrong = {"__name__": "__main__"}, 0
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        outputs = run("".join(cell["source"]), names)
        if outputs != cell["outputs"] and not write:
            wrong += 1
            print(f"cell {i}: got {json.dumps(outputs)[:400]}, the file has {json.dumps(cell['outputs'])[:400]}")
        cell["outputs"] = outputs
    if write:
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return wrong > 0


sys.exit(main("--write" in sys.argv, sys.argv[-1]))
