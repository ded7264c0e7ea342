"""Build the documentation site: guides, API reference from docstrings, protocols, papers, results; with a search.

The pages are the repository's own Markdown files, laid out as they are here, so that every relative link stays right;
results, examples and source files that pages link to are copied beside them. The reference is made from the public
names of `isotone`. Nothing of the site is loaded from elsewhere. Warnings of mkdocs are errors. It needs no server: a
browser opens and searches it from the disk too; --serve is one, on loopback.
Exit codes: 0 built, 1 a page is wrong, 3 mkdocs is missing.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(\s*<?([^)\s>#]+)")
GUIDES = ("quickstart", "replicated", "services", "testing", "operating", "replica", "log-on-spark", "pipeline")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PUBLIC = ("isotone", "isotone.client.blocking", "isotone.client.errors", "isotone.replicated.errors", "isotone.testing")
STYLE = "wide.css"
"""Room for lines of code of 120 characters."""
FROM_DISK = "from_disk.js"
"""Browsers start no worker for a page from the disk, and the search is one: there it runs in a frame."""
WORKER = """if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    frame.answer = data => this.dispatchEvent(new MessageEvent("message", {data}));
    frame.srcdoc = `<script>postMessage = frameElement.answer</` + `script><script src="${url}"></` + `script>`;
    this.loaded = new Promise(done => frame.addEventListener("load", () => done(frame.contentWindow)));
    document.documentElement.append(frame);
  }
  async postMessage(data) {
    const inside = await this.loaded;
    inside.dispatchEvent(new inside.MessageEvent("message", {data}));
  }
};
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where the site goes")
    parser.add_argument("--serve", type=int, metavar="PORT", help="serve it on loopback until interrupted")
    arguments = parser.parse_args()
    try:
        importlib.import_module("mkdocs")
    except ImportError:
        print("isotone: mkdocs is missing: pip install 'isotone[site]'", file=sys.stderr)
        return 3
    out = arguments.out.resolve()
    source = out.parent / f"{out.name}-source"
    shutil.rmtree(source, ignore_errors=True)
    lay_out(source)
    settings = out.parent / f"{out.name}.json"  # JSON is YAML
    settings.write_text(json.dumps(settings_of(source, out), indent=1), encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet", "-f", str(settings)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    code = subprocess.run(command, check=False, env=quiet).returncode
    if code:
        return 1
    found = (out / "search" / "search_index.json").read_text(encoding="utf-8")
    (out / "search" / "search_index.js").write_text(f"var __index = {found}", encoding="utf-8")  # read from the disk
    print(f"the site is at {out / 'index.html'}", flush=True)
    if arguments.serve is not None:
        serve(out, arguments.serve)
    return 0


def serve(out: Path, port: int) -> None:
    """On loopback, until interrupted; port 0 is any that is free."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(out))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server, suppress(KeyboardInterrupt):
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


def lay_out(source: Path) -> None:
    """All pages and what they link to, at their places."""
    pages = [ROOT / name for name in PAGES]
    for folder in ("docs", "results", "examples"):
        pages += sorted((ROOT / folder).rglob("*.md"))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for linked in linked_files(page, text):
            copy(linked, source)
        place = source / page.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(with_file_links(page, text), encoding="utf-8")
    (source / "README.md").rename(source / "index.md")
    for page in source.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"\]\(((?:\.\./)*)README\.md(?=[)#])", _home(page, source), text), encoding="utf-8")
    (source / STYLE).write_text(".md-grid { max-width: 88rem; }\n", encoding="utf-8")
    (source / FROM_DISK).write_text(WORKER, encoding="utf-8")
    (source / "reference.md").write_text("".join(reference()), encoding="utf-8")


def _home(page: Path, source: Path) -> Callable[[re.Match[str]], str]:
    """Links to the repository's own front page, which is the site's index; other README pages keep their names."""
    depth = len(page.relative_to(source).parts) - 1

    def replaced(match: re.Match[str]) -> str:
        return f"]({match[1]}index.md" if match[1].count("../") == depth else match[0]

    return replaced


def linked_files(page: Path, text: str) -> Iterator[Path]:
    """Files of the repository that a page links to and that are no pages."""
    for target in LINK.findall(text):
        path = (page.parent / target).resolve()
        if path.is_file() and path.suffix != ".md" and path.is_relative_to(ROOT):
            yield path


def copy(path: Path, source: Path) -> None:
    """Beside the pages. Source files go as text, which browsers show."""
    place = source / shown_name(path.relative_to(ROOT))
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)


def shown_name(path: Path) -> Path:
    """Under which name a linked file stands in the site."""
    return path.with_name(path.name + ".txt") if path.suffix in (".py", ".toml", ".yml", ".service") else path


def with_file_links(page: Path, text: str) -> str:
    """The page with links to copied files as they are named there; links to directories become plain text."""

    def replaced(match: re.Match[str]) -> str:
        target = match[2]
        path = (page.parent / target).resolve()
        if path.is_dir():
            return match[1]
        if path.is_file() and path.suffix != ".md":
            return f"[{match[1]}]({target[: -len(path.name)]}{shown_name(path).name})"
        return match[0]

    return re.sub(r"\[([^\]]*)\]\((?!\w+:)([^)\s#]+)\)", replaced, text)


def settings_of(source: Path, out: Path) -> dict[str, object]:
    """The settings of mkdocs."""

    guides = [f"docs/guide/{name}.md" for name in GUIDES if (source / f"docs/guide/{name}.md").is_file()]
    guides += [
        path
        for path in sorted(str(each.relative_to(source)) for each in (source / "docs/guide").glob("*.md"))
        if path not in guides
    ]
    protocols = sorted(str(each.relative_to(source)) for each in (source / "docs/protocols").glob("*.md"))
    documents = sorted(str(each.relative_to(source)) for each in (source / "docs").glob("*.md"))
    examples = sorted(str(each.relative_to(source)) for each in (source / "examples").rglob("*.md"))
    nav: list[object] = [
        {"Isotone": "index.md"},
        {"Guides": guides},
        {"API reference": "reference.md"},
        {"Documents": documents},
        {"Protocols": protocols},
        *([{"Examples": examples}] if examples else []),
        {"Results": "results/README.md"},
        {"Contributing": "CONTRIBUTING.md"},
        {"Changelog": "CHANGELOG.md"},
    ]
    return {
        "site_name": "Isotone",
        "site_url": "",
        "docs_dir": str(source),
        "site_dir": str(out),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.indexes", "search.highlight", "content.code.copy"],
            "palette": [
                _palette("light", "default", "brightness-7", "Switch to dark"),
                _palette("dark", "slate", "brightness-4", "Switch to light"),
            ],
        },
        "extra": {"generator": False, "polyfills": [FROM_DISK]},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "pymdownx.superfences", "pymdownx.highlight", {"toc": {"permalink": True}}],
        "extra_css": [STYLE],
        "nav": nav,
        "validation": {
            "omitted_files": "info",
            "absolute_links": "warn",
            "unrecognized_links": "warn",
            "anchors": "info",
        },
    }


def _palette(mode: str, scheme: str, icon: str, words: str) -> dict[str, object]:
    """What browsers choose by their own mode; without a toggle the theme would choose the first always."""
    toggle = {"icon": f"material/{icon}", "name": words}
    return {"media": f"(prefers-color-scheme: {mode})", "scheme": scheme, "toggle": toggle}


def reference() -> Iterator[str]:
    """Every public name with its signature and docstring."""
    yield "# API reference\n\nEvery public name, made from its docstring.\n"
    for name in PUBLIC:
        module = importlib.import_module(name)
        yield f"\n## {name}\n\n{inspect.getdoc(module) or ''}\n"
        for public in sorted(getattr(module, "__all__", ()) or defined_in(module)):
            yield from described(f"{name}.{public}", getattr(module, public))


def defined_in(module: ModuleType) -> Iterator[str]:
    """Public names of a module that lists none."""
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__:
            yield name


def described(name: str, value: object) -> Iterator[str]:
    """One name; of a class also its public methods."""
    if inspect.ismodule(value) or not (inspect.isclass(value) or callable(value)):
        return
    yield f"\n### {name}\n\n```python\n{name.rpartition('.')[2]}{signature(value)}\n```\n\n{text_of(value)}\n"
    if inspect.isclass(value):
        for attribute, member in sorted(vars(value).items()):
            if not attribute.startswith("_") and inspect.isfunction(member) and member.__doc__:
                yield f"\n#### {attribute}\n\n```python\n{attribute}{signature(member)}\n```\n\n{text_of(member)}\n"


def signature(value: object) -> str:
    """As it is called; empty where Python does not know."""
    try:
        return str(inspect.signature(value)).replace("'", "")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


def text_of(value: object) -> str:
    """Its docstring as Markdown: names in single backquotes are code there too."""
    return (inspect.getdoc(value) or "").replace("``", "`")


if __name__ == "__main__":
    sys.exit(main())
