"""What `check` shows of a comparison: lines for people, one JSON object, JUnit XML for build servers."""

import dataclasses
import re
from typing import Any
from xml.etree import ElementTree

from intnet.packs import mx
from intnet.packs.check import Mismatch, PortResult, Result
from intnet.packs.ports import Port

READ = 3  # ports told by name that were not compared


def show(result: Result) -> None:
    """What is wrong, port by port, and one line at the end: PASS or FAIL."""
    manifest = result.pack.manifest
    print(f"{manifest['name']} {manifest['version']}, level {manifest['level']}: files as SHA256SUMS says")
    for problem in result.problems:
        print(f"\n{problem}")
    for port in result.ports:
        if port.status != "pass":
            print(f"\n{port_text(port)}")
    if result.untraced:
        print(f"\nwhat follows from what is not known: {result.untraced}")
    if result.first_step is not None:
        print(f"\nfirst bad step: {result.first_step}")
    bad = [port for port in result.ports if port.status != "pass"]
    for line in unknown_lines(result):
        print(line)
    what = {"dut": "the device", "recomputation": "the recomputation", "spec": "the definition"}[result.kind]
    took = f", in {result.seconds:.1f} s" if result.kind == "spec" else ""
    if result.exit_status == 0:
        left = f"; {len(result.unknown):,} ports were not recomputed" * bool(result.unknown)
        print(f"PASS: {len(result.ports)} ports, {result.words:,} words of {what} are equal{took}{left}")
    elif not result.ports and not result.problems:
        print(f"\nNOTHING COMPARED: no word of this pack is one of {what}")
    else:
        wrong = sum(port.wrong for port in bad)
        files = sum(bool(port.problem) for port in bad)
        parts = [f"{wrong:,} wrong elements"] * bool(wrong) + [f"{files} bad or missing files"] * bool(files)
        parts += [f"{len(result.problems)} parts of the pack differ"] * bool(result.problems)
        print(f"\nFAIL: {', '.join(parts)}; {len(bad)} of {len(result.ports)} ports{took}")


def unknown_lines(result: Result) -> list[str]:
    """The ports that the definition cannot give, under the reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in result.unknown.items():
        reasons.setdefault(reason, []).append(name)
    return [f"\nNOT RECOMPUTED, {reason}:\n  {', '.join(names)}" for reason, names in reasons.items()]


def port_text(port: PortResult) -> str:
    """One port that is not as expected."""
    name = port.port.name
    if port.problem and not port.wrong:
        return f"{name}: {port.problem}"
    lines = [f"{name}: {port.problem}"] * bool(port.problem)
    lines += [f"{name}: {port.wrong:,} of {port.elements:,} elements differ{cause_text(port)}"]
    if port.own == 0:
        return "\n".join(lines)
    lines += [f"  diagnosis: {verdict}" for verdict in port.verdicts] or ["  diagnosis: no known mistake"]
    for mismatch in port.mismatches:
        lines += mismatch_lines(port.port, mismatch)
    told = port.own or port.wrong
    if told > len(port.mismatches):
        lines.append(f"  ... and {told - len(port.mismatches):,} more")
    return "\n".join(lines)


def cause_text(port: PortResult) -> str:
    """Whose fault it is, where that is known."""
    others = ", ".join(port.follows)
    if port.own is None:
        return ""
    if port.own == 0:
        return f": follows from {others}"
    names = ", ".join(port.assumes[:READ])
    names += f" and {len(port.assumes) - READ:,} more" * (len(port.assumes) > READ)
    given = f", if right is what was not compared: {names}" * bool(names)
    if not others:
        return f": its own fault{given}"
    return f": its own fault in {port.own:,}, the others follow from {others}{given}"


def mismatch_lines(port: Port, one: Mismatch) -> list[str]:
    """Place, case, both words, and how the right one came about."""
    axes = ", ".join(f"{axis}={i}" for axis, i in zip(port.axes.split(","), one.index, strict=True))
    case = f", case {one.case}" * (bool(one.case) and not one.case.startswith(f"{port.name}#"))
    words = f"got {_word(port, one.got)}, want {_word(port, one.want)}"
    lines = [f"  word {one.word:,} lane {one.lane} ({axes}){case}: {words}"]
    return lines + [f"    {line}" for line in trail_lines(port, one)]


def _word(port: Port, code: int) -> str:
    """Digits, and the number where they stand for one."""
    digits = f"{code & ((1 << port.bits) - 1):0{-(-port.bits // 4)}x}"
    return digits if port.encoding != "integer" else f"{digits} ({code:,})"


def trail_lines(port: Port, one: Mismatch) -> list[str]:
    """floor + remainder, the decision, the limits."""
    way, how = one.way, port.rounding
    if "floor" not in way:
        return []
    fraction, sticky = way["remainder"] >> 1, way["remainder"] & 1
    part = f"{fraction / 2**32:.9f}" + "..." * sticky
    tie = " (a tie)" * (way["remainder"] == 1 << 32)
    lines = [f"scaled = {way['floor']:,} + {part}{tie}; fraction {fraction:08x}, sticky {sticky}"]
    if "words" in way:
        bits = int(how["word_bits"])
        word, limit = way["words"] >> 32 - bits, fraction >> 32 - bits
        lines.append(
            f"random word {word:0{bits // 4}x} {'<' if word < limit else '>='} {limit:0{bits // 4}x}"
        )
    lines.append(f"{how['mode']}: {'up' if way['up'] else 'down'} to {way['presat']:,}")
    if port.encoding == "minifloat":
        most = mx.along_of(how[mx.MX]).greatest
        lines.append(f"in steps of 2^{way['exponent']} over the block's scale")
        lines += [f"limited to +-{most:g}"] * (abs(way["presat"]) * 2.0 ** way["exponent"] > most)
    low, high = how.get("low"), how.get("high")
    if "limit" in way:
        low, high = -way["limit"], way["limit"]
    if low is not None and high is not None and not low <= way["presat"] <= high:
        lines.append(f"limited to {low:,}..{high:,}")
    if "coarse" in way:
        lines.append("on the coarse grid" if way["coarse"] else "on the fine grid")
    return lines


# -- for machines ------------------------------------------------------------------------------


def to_dict(result: Result) -> dict[str, Any]:
    """The result as JSON."""
    manifest = result.pack.manifest
    return {
        "pack": str(result.pack.folder),
        "name": manifest["name"],
        "version": manifest["version"],
        "level": manifest["level"],
        "compared": result.kind,
        "status": {0: "pass", 1: "mismatch", 2: "bad"}[result.exit_status],
        "words": result.words,
        "problems": list(result.problems),
        "first_step": result.first_step,
        "untraced": result.untraced,
        "ports": [_port_dict(port) for port in result.ports],
    } | ({"not_recomputed": dict(result.unknown), "seconds": result.seconds} if result.kind == "spec" else {})


def _port_dict(port: PortResult) -> dict[str, Any]:
    return {
        "port": port.port.name,
        "file": port.port.file,
        **{name: getattr(port, name) for name in ("status", "problem", "elements", "wrong", "own")},
        "follows": list(port.follows),
        "assumes": list(port.assumes),
        "diagnosis": [dataclasses.asdict(v) | {"whole": v.whole} for v in port.verdicts],
        "mismatches": [
            {
                "word": one.word,
                "lane": one.lane,
                "index": list(one.index),
                "axes": port.port.axes,
                "case": one.case,
                "flags": one.flags,
                "got": one.got,
                "want": one.want,
                "trail": one.way,
            }
            for one in port.mismatches
        ],
    }


def junit(result: Result) -> bytes:
    """JUnit XML: one test case a port, and one for the pack."""

    def plain(text: str) -> str:
        """Without what XML 1.0 has no way to write."""
        return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)

    name = f"{result.pack.manifest['name']}-{result.pack.manifest['version']}"
    counts = {"tests": len(result.ports) + 1, "failures": 0, "errors": 0}
    suite = ElementTree.Element("testsuite", name=name)
    whole = ElementTree.SubElement(suite, "testcase", classname=name, name="pack")
    if result.problems:
        counts["failures"] += 1
        ElementTree.SubElement(whole, "failure", message=result.problems[0]).text = "\n".join(result.problems)
    for port in result.ports:
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=port.port.name)
        if port.status == "pass":
            continue
        kind = "error" if port.status == "bad" else "failure"
        counts[f"{kind}s"] += 1
        text = port_text(port)
        ElementTree.SubElement(case, kind, message=text.split("\n")[0]).text = text
    for key, count in counts.items():
        suite.set(key, str(count))
    for element in suite.iter():
        element.text = None if element.text is None else plain(element.text)
        element.attrib.update({key: plain(value) for key, value in element.attrib.items()})
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True) + b"\n"
