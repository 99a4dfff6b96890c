# SPDX-License-Identifier: Apache-2.0
"""The code blocks of a page of docs/, one text. A line of a block has its line of the page, so that errors name it."""


def blocks(page, language):
    lines, inside = [], False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            inside = not inside and line == "```" + language
            line = ""
        lines.append(line if inside else "")
    return "\n".join(lines) + "\n"
