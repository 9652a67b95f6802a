"""From what the probes saw on both trees to verdicts. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtypefix.validate.faults import in_words, is_dtype_error, is_fault, reason_of
from dtypefix.validate.verdict import Judgement, Place, Reason, Verdict

Outcome = Mapping[str, Any]

# A vLLM that refuses a whole scheme or class on a platform is not a gap of the proof: the place cannot
# be reached there.
_REFUSED = "is currently not supported in"


def judge_model(place: Place, case: str, base: Outcome, patched: Outcome) -> Judgement | None:
    """Judge a place by one case of the model probe; None when the case ran and did not reach it.

    The fault must show on the base tree for the dtypes that are not the model's own, and must be gone
    on the patched tree with the very result the same values give in the model's dtype; the control,
    the model's own dtype, must give the same bits on both.
    """
    if "covered" in base and [place.path, place.line] not in base["covered"]:
        return None
    if (stopped := _stopped(base, patched, case)) is not None:
        return stopped
    control = base["control"]
    before, after = base["runs"], patched["runs"]
    if (failed := _judge_control(case, before[control], after.get(control), base, patched)) is not None:
        return failed
    foreign = [name for name in before if name != control]
    reproduced = [
        name for name in foreign if "error" in before[name] and is_fault(before[name]["error"], place)
    ]
    if not reproduced:
        other = next((before[name]["error"] for name in foreign if "error" in before[name]), None)
        worse = next((after[name]["error"] for name in foreign if "error" in after[name]), None)
        if worse is not None and other is None:
            return Judgement(
                Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, in_words(worse), case, "ok", in_words(worse)
            )
        if other is not None:
            return Judgement(Verdict.NOT_VALIDATED, reason_of(other), in_words(other), case, in_words(other))
        said = _said(before[foreign[0]]) if foreign else ""
        return Judgement(Verdict.NOT_REPRODUCED, Reason.BASE_PASSES, "", case, said, said)
    told = in_words(before[reproduced[0]]["error"])
    for name in foreign:
        run = after[name]
        if "error" in run:
            return Judgement(
                Verdict.REPRODUCED_NOT_FIXED,
                Reason.STILL_FAILS,
                f"{name} input",
                case,
                told,
                in_words(run["error"]),
            )
        if run["digest"] != after[control]["digest"]:
            return Judgement(
                Verdict.REPRODUCED_NOT_FIXED,
                Reason.CAST_TOO_LATE,
                f"{name} input gives {_said(run)}, the same values in {control} give {_said(after[control])}",
                case,
                told,
                _said(run),
            )
    return Judgement(
        Verdict.VALIDATED,
        None,
        f"{' and '.join(reproduced)} input failed before; after, every input gives the {control} result",
        case,
        told,
        _said(after[foreign[0]]),
    )


def judge_flip(place: Place, case: str, base: Outcome, patched: Outcome) -> Judgement | None:
    """Judge a place by one case of the flip or platform probe; None when the case never reaches it.

    The dtypes held by objects of the place's class must follow the process default on the base tree,
    and be the model's on the patched tree under every default.
    """
    if "flips" not in base:
        return None
    model = base["model_dtype"]
    flips, after = base["flips"], patched.get("flips", {})
    if not any([place.path, place.line] in flip["covered"] for flip in flips.values()):
        return None
    if not after:
        stopped = _stopped(base, patched, case)
        detail = stopped.detail if stopped else ""
        return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, detail, case, "ok", detail)
    held, now = _attributes(flips, place), _attributes(after, place)
    moving = sorted(key for key, values in held.items() if len(set(values.values())) > 1)
    outputs, outputs_now = _outputs(flips), _outputs(after)
    before_words, after_words = _flip_words(held, moving, outputs), _flip_words(now, moving, outputs_now)
    control, control_now = flips[model], after.get(model, {})
    if "error" in control_now and "error" not in control:
        told = in_words(control_now["error"])
        return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, told, case, "ok", told)
    if control.get("digest") != control_now.get("digest"):
        return Judgement(
            Verdict.CONTROL_FAILED, Reason.CONTROL_DIFFERS, "another output under the model's own dtype", case
        )
    if not held:
        error = control.get("error")
        reason = reason_of(error) if error else Reason.NOT_REACHED
        told = in_words(error) if error else "the line ran, but no object of its class holds a dtype"
        return Judgement(Verdict.NOT_VALIDATED, reason, told, case)
    if not moving:
        return Judgement(Verdict.NOT_REPRODUCED, Reason.BASE_PASSES, "", case, before_words, after_words)
    still = [key for key in moving if set(now.get(key, {}).values()) != {model}]
    if still:
        return Judgement(
            Verdict.REPRODUCED_NOT_FIXED,
            Reason.STILL_FOLLOWS,
            ", ".join(still),
            case,
            before_words,
            after_words,
        )
    if "error" in control and control.get("stage") == "construct":
        error = control["error"]
        return Judgement(
            Verdict.NOT_VALIDATED, reason_of(error), in_words(error), case, before_words, after_words
        )
    late = [name for name, run in after.items() if run.get("output") not in (None, model)]
    if late:
        return Judgement(
            Verdict.REPRODUCED_NOT_FIXED,
            Reason.STILL_FOLLOWS,
            f"the layer's output is {after[late[0]]['output']} under default {late[0]}",
            case,
            before_words,
            after_words,
        )
    executed = all(run.get("output") for run in after.values())
    detail = "real output" if executed and base.get("executed") else "dtypes propagated, no kernel executed"
    if not executed:
        stop = next((run["error"] for run in after.values() if "error" in run), None)
        detail = "attribute only" + (f"; stopped at {in_words(stop)}" if stop else "")
    kernels = sorted({run["kernel"] for run in after.values() if run.get("kernel")})
    if kernels:
        detail += f"; kernel {', '.join(kernels)}"
    return Judgement(Verdict.VALIDATED, None, detail, case, before_words, after_words)


def _stopped(base: Outcome, patched: Outcome, case: str) -> Judgement | None:
    """The judgement where a case did not get as far as its runs on one of the trees."""
    for tree, outcome in (("base", base), ("patched", patched)):
        if "stopped" in outcome:
            reason = Reason[outcome["stopped"]]
            told = ": ".join(part for part in (outcome.get("detail"), outcome.get("log")) if part)
            return Judgement(Verdict.NOT_VALIDATED, reason, f"{tree} tree: {told}", case)
    if "error" in base:
        if refused := _refused(base, case):
            return refused
        error = base["error"]
        default = Reason.OTHER_ERROR if base.get("stage") == "call" else Reason.BUILD_FAILED
        return Judgement(
            Verdict.NOT_VALIDATED, reason_of(error, default), in_words(error), case, in_words(error)
        )
    if "error" in patched:
        told = in_words(patched["error"])
        return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, told, case, "ok", told)
    return None


def _refused(outcome: Outcome, case: str) -> Judgement | None:
    error = outcome.get("error")
    if error is None or _REFUSED not in error["text"]:
        return None
    return Judgement(Verdict.NOT_APPLICABLE, Reason.UNSUPPORTED, in_words(error), case)


def _judge_control(
    case: str, before: Outcome, after: Outcome | None, base: Outcome, patched: Outcome
) -> Judgement | None:
    if "error" in before:
        told = in_words(before["error"])
        return Judgement(Verdict.NOT_VALIDATED, Reason.BASE_CONTROL, told, case, told)
    if not base.get("repeats", True):
        return Judgement(
            Verdict.NOT_VALIDATED,
            Reason.BASE_CONTROL,
            f"not the same twice, or not finite: {_said(before)}",
            case,
        )
    if after is None or "error" in after:
        told = in_words(after["error"]) if after else "no result"
        return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, told, case, _said(before), told)
    if patched.get("needs_config") and not base.get("needs_config"):
        return Judgement(
            Verdict.CONTROL_FAILED,
            Reason.CONTROL_RAISES,
            "asks for the current vLLM config at run time, where none is set",
            case,
            _said(before),
            "Current vLLM config is not set",
        )
    if before["digest"] != after["digest"]:
        return Judgement(
            Verdict.CONTROL_FAILED, Reason.CONTROL_DIFFERS, f"{_said(before)} became {_said(after)}", case
        )
    return None


def _said(run: Outcome) -> str:
    return f"{run['dtype']}, |x| = {run['norm']}"


def _attributes(flips: Mapping[str, Outcome], place: Place) -> dict[str, dict[str, str]]:
    """Per dtype attribute that the place's file is responsible for: its value under each default."""
    found: dict[str, dict[str, str]] = {}
    for default, run in flips.items():
        for key, value in run.get("attributes", {}).items():
            if place.class_name in run.get("owners", {}).get(key.partition(".")[0], ()):
                found.setdefault(key, {})[default] = value
    return found


def _outputs(flips: Mapping[str, Outcome]) -> dict[str, str]:
    told = {}
    for default, run in flips.items():
        told[default] = run["output"] if run.get("output") else "error" if "error" in run else "-"
    return told


def _flip_words(held: Mapping[str, Mapping[str, str]], keys: list[str], outputs: Mapping[str, str]) -> str:
    parts = [f"{key} = {'/'.join(held.get(key, {}).get(d, '-') for d in outputs)}" for key in keys]
    parts.append(f"output {'/'.join(outputs.values())}")
    return "; ".join(parts) + f" under default {'/'.join(outputs)}"


def judge_e2e(place: Place, case: str, base: Outcome, patched: Outcome) -> Judgement:
    """Judge a place by a whole engine: the same tokens without a fault, and with one injected.

    An injected float32 hidden state must fail on the base tree at or under the place, and must give
    tokens on the patched tree.
    """
    for outcome in (base, patched):
        if "stopped" in outcome:
            reason = Reason[outcome["stopped"]]
            return Judgement(Verdict.NOT_VALIDATED, reason, str(outcome.get("detail", "")), case)
    injected = bool(base.get("injected"))
    if injected and "error" in base and is_fault(base["error"], place):
        told = in_words(base["error"])
        if "error" in patched:
            after = in_words(patched["error"])
            return Judgement(Verdict.REPRODUCED_NOT_FIXED, Reason.STILL_FAILS, "injected", case, told, after)
        tokens = f"{_count(patched)} tokens, combiner called {patched['combined']} times"
        return Judgement(Verdict.VALIDATED, None, "float32 hidden states injected", case, told, tokens)
    if "error" in base:
        error = base["error"]
        told = in_words(error)
        return Judgement(Verdict.NOT_VALIDATED, reason_of(error), told, case, told)
    if (changed := compare_tokens(case, base, patched)) is not None:
        return changed
    detail = "the engine does not show the fault" if injected else "same tokens before and after"
    return Judgement(Verdict.NOT_REPRODUCED, Reason.BASE_PASSES, detail, case)


def compare_tokens(case: str, base: Outcome, patched: Outcome) -> Judgement | None:
    """The failed control where two engines that should agree do not, else None."""
    if "error" in patched and "error" not in base:
        told = in_words(patched["error"])
        return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_RAISES, told, case, "ok", told)
    for key in ("tokens", "logprobs"):
        if base.get(key) != patched.get(key):
            return Judgement(Verdict.CONTROL_FAILED, Reason.CONTROL_DIFFERS, f"other {key}", case)
    return None


def judge_lora(place: Place, case: str, base: Outcome, patched: Outcome) -> Judgement | None:
    """Judge a place by the symptom it was reported with; None when the case never reaches the place."""
    runs, after = base.get("runs", {}), patched.get("runs", {})
    if not any([place.path, place.line] in run["covered"] for run in runs.values()):
        return None
    if (stopped := _stopped(base, patched, case)) is not None:
        return stopped
    control = base["model_dtype"]
    if "error" in runs[control]:
        told = in_words(runs[control]["error"])
        return Judgement(Verdict.NOT_VALIDATED, Reason.BASE_CONTROL, told, case, told)
    if runs[control].get("digest") != after[control].get("digest"):
        error = after[control].get("error")
        reason = Reason.CONTROL_RAISES if error else Reason.CONTROL_DIFFERS
        return Judgement(Verdict.CONTROL_FAILED, reason, in_words(error) if error else "", case)
    foreign = next(name for name in runs if name != control)
    before_run, after_run = runs[foreign], after[foreign]
    error = before_run.get("error")
    if error is None or before_run["stage"] != "shrink" or not is_dtype_error(error):
        if error is not None:
            return Judgement(Verdict.NOT_VALIDATED, reason_of(error), in_words(error), case)
        return Judgement(Verdict.NOT_REPRODUCED, Reason.BASE_PASSES, "", case)
    told = f"{in_words(error)} `{error['source']}`"
    if "error" in after_run:
        return Judgement(
            Verdict.REPRODUCED_NOT_FIXED, Reason.STILL_FAILS, "", case, told, in_words(after_run["error"])
        )
    if after_run["digest"] != after[control]["digest"]:
        return Judgement(
            Verdict.REPRODUCED_NOT_FIXED, Reason.CAST_TOO_LATE, "lora_shrink gives another result", case, told
        )
    return Judgement(
        Verdict.VALIDATED,
        None,
        "lora_shrink takes the layer's output",
        case,
        told,
        f"output {after_run['output']}, lora_shrink ran",
    )


def unreached(case: str, base: Outcome) -> Judgement:
    """What to say of a case that reaches a place elsewhere, but stopped before it on this platform."""
    error = base.get("error") or next(
        (flip["error"] for flip in base.get("flips", {}).values() if "error" in flip), None
    )
    if "stopped" in base:
        return Judgement(Verdict.NOT_VALIDATED, Reason[base["stopped"]], str(base.get("detail", "")), case)
    if error is None:
        return Judgement(Verdict.NOT_VALIDATED, Reason.NOT_REACHED, "", case)
    if refused := _refused({"error": error}, case):
        return refused
    return Judgement(Verdict.NOT_VALIDATED, reason_of(error, Reason.BUILD_FAILED), in_words(error), case)


def told_of(outcome: Outcome) -> str:
    """Why an outcome has no result, in one line."""
    if "error" in outcome:
        return in_words(outcome["error"])
    return ": ".join(str(outcome[key]) for key in ("detail", "log") if outcome.get(key)) or "no result"


def _count(outcome: Outcome) -> int:
    return sum(len(tokens) for tokens in outcome["tokens"])
