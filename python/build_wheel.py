"""Writes an installable wheel of the package with its library and its data: build_wheel.py LIBRARY VERSION FOLDER.

A wheel is a zip file with metadata (packaging.python.org, "Binary distribution format"); no other tool is needed.
"""

import base64
import hashlib
import pathlib
import sys
import sysconfig
import zipfile

TREE = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("models", "systems", "software", "kernels", "recipes")
MOMENT = (1980, 1, 1, 0, 0, 0)  # the same bytes on every day


def contents(library):
    package = TREE / "python/tperf"
    for path in [*sorted(package.glob("*.py")), package / "py.typed"]:
        yield f"tperf/{path.name}", path.read_bytes()
    yield "tperf/libtperf.so", pathlib.Path(library).read_bytes()
    for folder in FOLDERS:
        for path in sorted((TREE / folder).rglob("*")):
            if path.is_file():
                yield f"tperf/data/{path.relative_to(TREE)}", path.read_bytes()


def metadata(version, tag):
    about = (f"Metadata-Version: 2.1\nName: tperf\nVersion: {version}\n"
             "Summary: Predicts how large transformer models train and serve on clusters\n"
             "Requires-Python: >=3.8\n")
    wheel = f"Wheel-Version: 1.0\nGenerator: tperf\nRoot-Is-Purelib: false\nTag: {tag}\n"
    return {"METADATA": about.encode(), "WHEEL": wheel.encode()}


def record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main(library, version, folder):
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag, about = f"py3-none-{platform}", f"tperf-{version}.dist-info"
    path = pathlib.Path(folder) / f"tperf-{version}-{tag}.whl"
    lines = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        files = list(contents(library))
        files += [(f"{about}/{name}", data) for name, data in metadata(version, tag).items()]
        for name, data in files:
            lines += record(name, data)
            wheel.writestr(zipfile.ZipInfo(name, MOMENT), data, zipfile.ZIP_DEFLATED)
        lines += f"{about}/RECORD,,\n"
        wheel.writestr(zipfile.ZipInfo(f"{about}/RECORD", MOMENT), lines, zipfile.ZIP_DEFLATED)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
