"""What a question is answered with."""

import html


class Error(Exception):
    """A question that has no answer.

    code: "unknown_field", "unknown_name", "missing", "invalid", "infeasible", "out_of_memory" or "unreadable".
    field, value: the argument that is wrong, if it is one. remedy: what to do about it.
    """

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.field = error.get("field")
        self.value = error.get("value")
        self.remedy = error.get("remedy")


# Of rows in a notebook: these in this order, then the other plain figures unless there are too many.
_MOST = 14
_FIRST = ["gpus", "tp", "pp", "dp", "micro_batch", "time", "tokens_per_second", "mfu", "feasible"]


_ABOUT = {"ask", "id", "schema", "version"}  # no figures


class Picture(str):
    """A picture as SVG; a notebook shows it."""

    def _repr_html_(self):
        return str(self)

    def save(self, path):
        """Write it to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


class Answer(dict):
    """The figures of an answer by name; those of a list in "rows"."""

    def _repr_html_(self):
        if "svg" in self:
            return self["svg"]
        rows = self.get("rows")
        if rows and all(isinstance(row, dict) for row in rows):
            names = [name for name in rows[0] if not isinstance(rows[0][name], (dict, list))]
            first = [name for name in _FIRST if name in names]
            rest = [name for name in names if name not in first]
            names = first + (rest if len(names) <= _MOST or not first else [])
            return _table(names, [[row.get(name) for name in names] for row in rows])
        plain = {name: value for name, value in self.items()
                 if name not in _ABOUT and not isinstance(value, (dict, list))}
        return _table(["", ""], [list(item) for item in plain.items()])


def _table(heads, rows):
    def cells(kind, values):
        return "".join(f"<{kind}>{_shown(value)}</{kind}>" for value in values)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', heads)}</tr>{body}</table>"


def _shown(value):
    if value is None:
        return ""
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))
