# SPDX-License-Identifier: Apache-2.0
# Sphinx's settings for `make html`; pages.py writes the folder that it reads.
import os

project = "llmserve"
copyright = "the llmserve authors"  # noqa: A001: Sphinx's name
release = version = os.environ.get("LLS_VERSION", "")
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {  # wide enough for lines of 120 characters, which the texts of fixed width have
    "description": "LLM serving whose policies are plugins",
    "body_max_width": "none",
    "page_width": "1280px",
    "code_font_size": "0.72em",
}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_copy_source = False
html_show_sourcelink = False
