"""Fetch the source releases that the history names, or those given as vllm==0.33.0 …

They land in $DTYPEFIX_SOURCES, by default in the user's cache folder, where `dtypefix` finds them too.
"""

from __future__ import annotations

import sys

from corpus import HERE, load, releases

from dtypefix.sources.releases import parse_release, release_root


def main() -> None:
    wanted = sys.argv[1:]
    if not wanted:
        named = releases(load(HERE / "fixes.jsonl"), load(HERE / "negatives.jsonl"))
        wanted = ["==".join(name.rsplit("-", 1)) for name in named]
    for argument in wanted:
        print(release_root(parse_release(argument)[0]))


if __name__ == "__main__":
    main()
