#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/site/pages.py SOURCE BUILD OUT, for `make html`: the pages of the site, as Markdown for Sphinx.

The texts are those of the tree: doc/, a page for each plugin, man pages, the headers of the SDK, and the results of
experiments/ with a gallery of their pictures. Their own format stays: man pages and READMEs are text of fixed width.
No page has to be written twice.
"""

import pathlib
import re
import shutil
import subprocess
import sys

GUIDES = {
    "Use": ["install", "serving", "console", "api", "api/vllm", "api/llamacpp", "api/ollama", "api/anthropic", "api/responses",
            "api/samplers", "api/tgi", "scaling", "capacity", "speculation", "reliability", "packaging"],
    "Choose and write policies": ["policies", "plugins", "debugging", "abi"],
    "Change llmserve": ["hacking", "style", "release"],
}  # fmt: skip
KINDS = {"schedulers": "scheduler", "caches": "cache", "predictors": "predictor", "drafters": "drafter"}


def fixed(title, text, language="text"):
    fence = "`" * 4
    return f"# {title}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def toctree(caption, names):
    return "```{toctree}\n:maxdepth: 1\n:caption: " + caption + "\n\n" + "\n".join(names) + "\n```\n\n"


def manual(path):
    command = ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=100n", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout


def guides(source, out):
    index = ""
    for caption, names in GUIDES.items():
        for name in names:
            target = out / "doc" / f"{name}.md"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / "doc" / f"{name}.md", target)
        index += toctree(caption, [f"doc/{name}" for name in names])
    shutil.copytree(source / "doc/console", out / "doc/console")  # its pictures
    return index


def plugins(source, out):
    """A page for each plugin: its README, with the paper, the rules, the parameters and the figures that it reports."""
    names = []
    for folder, kind in KINDS.items():
        for readme in sorted((source / "plugins" / folder).glob("*/README")):
            name = f"plugins/{kind}-{readme.parent.name}"
            (out / "plugins").mkdir(exist_ok=True)
            (out / f"{name}.md").write_text(fixed(f"{kind} {readme.parent.name}", readme.read_text()))
            names.append(name)
    return toctree("Plugins", names)


def manuals(source, build, out):
    names = []
    (out / "man").mkdir()
    pages = list((build / "man").glob("*.[157]")) + list((source / "man").glob("*.[157]"))
    for page in sorted(set(pages), key=lambda p: (p.suffix, p.name)):
        title = f"{page.stem}({page.suffix[1:]})"
        if re.match(r"llmserve-(?:scheduler|cache|predictor|drafter)_", page.name):
            continue  # the same text as the plugin's page
        (out / "man" / f"{page.name}.md").write_text(fixed(title, manual(page)))
        names.append(f"man/{page.name}")
    return toctree("Manuals", names)


def headers(source, out):
    names = []
    for header in sorted((source / "include/llmserve").rglob("*.h")):
        name = header.relative_to(source / "include")
        target = out / "sdk" / name.with_suffix(".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(fixed(f"<{name}>", header.read_text(), "c"))
        names.append(f"sdk/{name.with_suffix('')}")
    return toctree("SDK", names)


def pictures(page):
    """The pictures of a page of results: (the heading above, file) each."""
    heading = ""
    for line in page.read_text().splitlines():
        if match := re.match(r"#+ (.*)", line):
            heading = match.group(1)
        for file in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", line):
            yield heading, file


def gallery(source, out):
    """Every picture of the results, with the page that has its command, machine and date, and those of the console."""
    text = "# Gallery\n\nWhat was measured, as pictures; the page below each has the command, the machine and the numbers.\n"
    for page in sorted((source / "experiments/results").glob("*.md")):
        title = re.search(r"^# (.*)", page.read_text(), re.M).group(1)
        for heading, file in pictures(page):
            text += f"\n## {heading}\n\n![{heading}](experiments/results/{file})\n\n[{title}](experiments/results/{page.name})\n"
    text += "\n## The console\n\n"
    for view in ("chat", "now", "side", "whatif"):
        text += f"![{view}](doc/console/{view}-1400.png)\n\n"
    (out / "gallery.md").write_text(text + "[The console](doc/console.md)\n")


def within(folder, link):
    """A link as it is, or as text with a path if only the repository has its target."""
    return link[0] if (folder / link[2]).exists() else f"{link[1]} (`{link[2]}`)"


def results(source, out):
    """What was measured: the index of experiments/ and its pages, which are in the repository only."""
    folder = source / "experiments/results"
    if not folder.is_dir():
        return ""
    target = out / "experiments/results"
    target.mkdir(parents=True)
    shutil.copy(source / "experiments/README.md", out / "experiments")
    for file in sorted(folder.iterdir()):
        shutil.copy(file, target)
    for page in [out / "experiments/README.md", *target.glob("*.md")]:
        page.write_text(re.sub(r"\[([^\]]*)\]\(([^)#:]+)\)", lambda link: within(page.parent, link), page.read_text()))
    pages = [f"experiments/results/{page.stem}" for page in sorted(folder.glob("*.md"))]
    gallery(source, out)
    hidden = "```{toctree}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n\n"
    return toctree("Measured", ["gallery", "experiments/README"]) + hidden


def main():
    source, build, out = (pathlib.Path(argument) for argument in sys.argv[1:4])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(source / "tools/site/conf.py", out)
    for name in ("README", "NEWS"):
        (out / f"{name.lower()}.md").write_text(fixed({"README": "What it is", "NEWS": "News"}[name], (source / name).read_text()))
    index = "# llmserve\n\nA server for large language models whose scheduling, cache and prediction policies are plugins.\n\n"
    index += toctree("Start", ["readme", "news"]) + guides(source, out) + plugins(source, out)
    index += manuals(source, build, out) + headers(source, out) + results(source, out)
    (out / "index.md").write_text(index + "- {ref}`search`\n")


main()
