"""What drives a unit of latency above 1, with valid and ready, or that is reset in between (`drive.py`).

A result is judged where it is given: its words, and how many clocks after its beat it comes. With ready, out
is held back in four ways in turn, four results each, and what stands there must not change meanwhile. With
reset, the unit is reset up to `RESETS` times, and goes on with the first vector whose result it has not
given. `rules` says all that to a designer.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import dedent, fill
from typing import Any

Entry = dict[str, Any]

RESETS = 32  # of a pack, at most
PATIENCE = 1000  # clocks, and the latency, in which nothing is taken or given: a timeout
HOLDS = 2  # results in a row that are held back in one way
MOST_HELD = 100  # clocks, and the latency, that a result is held back so that the unit fills up
SHOWN = 8  # mismatches


def streams(unit: dict[str, Any]) -> bool:
    """Whether a unit is more than words in and, a clock later, words out."""
    return unit["latency"] > 1 or bool(unit.get("ready") or unit.get("reset"))


_READY = """\
A result is given at an edge at which out_valid and out_ready are 1 and rst is 0: in order, each once.
out_valid, once 1, stays 1 and no output changes until the result is given; it must not wait for out_ready. \
in_ready may follow out_ready within a clock. The testbench's side of it: in_valid and its data, once shown, \
stay until they are taken, and wait for nothing.
The testbench holds results back, {holds} in a row each way: not at all; until it has seen out_valid; until \
no beat was taken for 4 clocks, but not more than {most}; at random. Beats come with gaps and without.
More than {patience} clocks in which nothing is taken or given fail, as a timeout."""
_RESET = """\
At an edge at which rst is 1 nothing is taken{given}, whatever stands at in_valid. Behind it out_valid is 0, \
and forgotten are {lost}.
The testbench resets for one clock, up to {resets} times, 0 to {most} clocks behind a beat, and goes on with \
the first {beat} whose result it has not got.{cleared}"""


def rules(unit: dict[str, Any]) -> Iterator[str]:
    """The lines of CONTRACT.md from which a designer builds."""
    latency, whole = unit["latency"], unit["per_vector"]
    ready, reset = bool(unit.get("ready")), bool(unit.get("reset"))
    beat = "the last beat of its vector" if whole else "its beat"
    taken = "in_valid and in_ready are 1" if ready else "in_valid is 1"
    alone = "no other result was on its way at edge k and out_ready has been 1 since"
    when = f" at the earliest, and exactly there where {alone}" if ready else ", and for that edge alone"
    told = f"""\
A beat is taken at a rising edge of clk at which {taken} and rst is 0.
Latency {latency}: with {beat} taken at edge k, a result stands at the outputs, out_valid 1, at edge \
k + {latency}{when}."""
    if ready:
        told += "\n" + _READY.format(holds=HOLDS, most=MOST_HELD + latency, patience=PATIENCE + latency)
    if reset:
        lost = ["results on their way", *["results held back"] * ready, *["the sum of a vector"] * whole]
        told += "\n" + _RESET.format(
            given=" or given" * ready,
            lost=", ".join(lost),
            resets=RESETS,
            most=latency + 1,
            beat="vector" if whole else "beat",
            cleared=" `first` is 0 there: after a reset a sum is 0 without it." * whole,
        )
    yield "### Timing\n"
    yield from (fill(line, 110, initial_indent="- ", subsequent_indent="  ") for line in told.split("\n"))
    yield ""


# -- the testbench -----------------------------------------------------------------------------------


def declared(unit: dict[str, Any], outs: Mapping[str, str]) -> str:
    """What the loop counts and remembers; outs: name of an output -> range of its bits."""
    ready, reset = bool(unit.get("ready")), bool(unit.get("reset"))
    lines = [f"localparam int LATENCY = {unit['latency']};"]
    lines += ["wire in_ready;", "logic out_ready;"] if ready else ["wire in_ready = 1'b1, out_ready = 1'b1;"]
    lines += [
        "integer clocks, entered, idle, tail, age;",
        "integer born[0:RESULTS];  // the clock in which a result's beat was taken",
        "logic takes, gives, shown, kept, timeout;",
        "logic [31:0] noise;",
    ]
    if ready or reset:
        lines.append("integer had;  // faults ahead of a result")
    if ready:
        lines += ["integer waited, refused, stalled, beats_held, results_held;", "logic alone[0:RESULTS];"]
        lines += [f"logic {span} {name}_kept;" for name, span in outs.items()]
    if reset:
        lines += ["integer begun[0:RESULTS];  // the beat with which a result begins"]
        lines += ["integer resets, place, until_reset, reset_clock, reset_at, midway;", "logic armed;"]
        lines += ["integer midvector;", "logic fresh;  // no beat since a reset"] * unit["per_vector"]
    return "\n".join(f"  {line}" for line in lines)


def started(unit: dict[str, Any]) -> str:
    """Their first values."""
    zero = ["at", "done", "clocks", "entered", "idle", "tail", "shown", "kept", "timeout"]
    text = ["noise = 32'h2545f491;"]
    if unit.get("ready"):
        zero += ["waited", "refused", "beats_held", "results_held"]
        text.append("stalled = -1;")
    if unit.get("reset"):
        zero += ["resets", "until_reset", "begun[0]", "armed", "midway"]
        zero += ["midvector", "fresh"] * unit["per_vector"]
        text += ["place = 1;", "reset_clock = -1;", "reset_at = -1;"]
    return "\n".join(f"    {line}" for line in [*(f"{name} = 0;" for name in zero), *text])


def loop(unit: dict[str, Any], ins: Sequence[Entry], outs: Sequence[Entry], compared: str) -> str:
    """The loop over clocks; compared: the comparison of all outputs with what result `done` must be."""
    parts = [_drive(unit, ins), "      #5;", _checks(unit, outs, compared), _edge(unit, outs)]
    return f"""\
    while (bad == 0 && !timeout && (dump || wrong < {SHOWN}) && tail < 2 * LATENCY + 8) begin
      noise = noise ^ (noise << 13);
      noise = noise ^ (noise >> 17);
      noise = noise ^ (noise << 5);
{"".join(f"{part}{chr(10)}" for part in parts)}    end
{_summary(unit)}"""


def _drive(unit: dict[str, Any], ins: Sequence[Entry]) -> str:
    """What the testbench puts on its wires when clk has fallen."""
    lines = ["if (!shown) in_valid = at < BEATS && (noise[1:0] != 0 || at[4]);"]
    for name in (entry["name"] for entry in ins):
        given = f"{name}_words[at]" + (" & !fresh" if name == "first" and unit.get("reset") else "")
        lines.append(f"{name} = in_valid ? {given} : ~{name}_words[at < BEATS ? at : 0];")
    if unit.get("ready"):
        lines += [
            f"case (done / {HOLDS} % 4)",
            "  0: out_ready = 1;",
            "  1: out_ready = kept;  // seen, and taken a clock later",
            "  // until the unit takes no more, or as many clocks as it may need for that",
            f"  2: out_ready = refused > 3 || waited > {MOST_HELD} + LATENCY;",
            "  default: out_ready = noise[16];",
            "endcase",
        ]
    if unit.get("reset"):
        lines.append("rst = armed && until_reset == 0;")
    return "\n".join(f"      {line}" for line in lines)


def _fault(text: str, *values: str) -> str:
    """A statement that counts a fault and shows the first ones."""
    shown = ", ".join([f'"{text}"', *values])
    return f"begin\n  wrong = wrong + 1;\n  if (wrong <= {SHOWN}) $display({shown});\nend"


def _checks(unit: dict[str, Any], outs: Sequence[Entry], compared: str) -> str:
    """What stands there ahead of the edge."""
    ready, reset = bool(unit.get("ready")), bool(unit.get("reset"))
    lines = [
        "takes = in_valid && in_ready === 1'b1 && !rst;",
        "gives = out_valid === 1'b1 && out_ready && !rst;",
    ]
    body = [f"if (^out_valid === 1'bx) {_fault('out_valid is %b at result %0d', 'out_valid', 'done')}"]
    if ready:
        body += [f"if (^in_ready === 1'bx) {_fault('in_ready is %b at beat %0d', 'in_ready', 'at')}"]
        body.append(
            f"if (kept && out_valid === 1'b0) "
            f"{_fault('out_valid fell before out_ready took result %0d', 'done')}"
        )
        for name in (entry["name"] for entry in outs):
            text = f"{name}[%0d]: changed from %h to %h before out_ready took it"
            body.append(f"if (kept && {name} !== {name}_kept) {_fault(text, 'done', f'{name}_kept', name)}")
    exact = " && alone[done] && stalled < born[done]" if ready else ""
    untimely = f"(age < LATENCY || (age > LATENCY{exact}))"
    behind = "no result is due, but out_valid is 1"
    nothing = _fault(behind)
    if reset:
        nothing = (
            f"if (reset_clock >= 0 && clocks - reset_clock <= 2 * LATENCY + 8)\n"
            f"{_indented(_fault(behind + ', %0d clocks behind a reset', 'clocks - reset_clock'))}\n"
            f"else {nothing}"
        )
    late = _fault("result %0d comes %0d clocks behind its beat, not %0d", "done", "age", "LATENCY")
    body += [
        "age = done < entered ? clocks - born[done] : 0;",
        f"if (out_valid === 1'b1 && !kept && done == entered)\n{_indented(nothing)}",
        f"else if (out_valid === 1'b1 && !kept && {untimely})\n{_indented(late)}",
        "if (gives && done < entered) begin",
        _indented(_hinted(unit, outs, dedent(compared))),
        "  done = done + 1;",
        "end",
    ]
    lines += ["if (!rst) begin", _indented("\n".join(body)), "end"]
    return _indented("\n".join(lines), 6)


def _hinted(unit: dict[str, Any], outs: Sequence[Entry], compared: str) -> str:
    """The comparison, and what a wrong result tells: that a reset has gone before, or whose words it has."""
    told = []
    if unit.get("reset"):
        sums = ", sums too" if unit["per_vector"] else ""
        told.append(("done == reset_at", f'"  it is the first one behind a reset: is all cleared{sums}?"'))
    if unit.get("ready"):
        for bound, other, what in (
            ("done + 1 < RESULTS", "done + 1", "was one lost?"),
            ("done > 0", "done - 1", "did it come twice?"),
        ):
            same = " && ".join(f"{entry['name']} === {entry['name']}_words[{other}]" for entry in outs)
            shown = f'"  those are the words of result %0d: {what}", {other}'
            told.append((f"{bound} && {same}", shown))
    chain = "\nelse ".join(f"if ({condition}) $display({shown});" for condition, shown in told)
    hint = f"if (wrong != had && wrong <= {SHOWN}) begin\n{_indented(chain)}\nend"
    return f"had = wrong;\n{compared}\n{hint}" if told else compared


def _edge(unit: dict[str, Any], outs: Sequence[Entry]) -> str:
    """The edge, and what the testbench remembers of it."""
    ready, reset = bool(unit.get("ready")), bool(unit.get("reset"))
    enters = [
        "born[entered] = clocks;",
        *["alone[entered] = done == entered;"] * ready,
        "entered = entered + 1;",
    ]
    enters += ["begun[entered] = at + 1;"] * reset
    taken = [f"if ({'last' if unit['per_vector'] else 1}) begin", _indented("\n".join(enters)), "end"]
    taken += ["at = at + 1;"]
    if reset:
        last = " && (last || resets % 2 == 1)" if unit["per_vector"] else ""
        taken += ["fresh = 0;"] * unit["per_vector"]
        taken += [
            f"if (resets < {RESETS} && !armed && entered >= place{last}) begin",
            "  armed = 1;",
            "  until_reset = resets % (LATENCY + 2) + 1;",
            "end",
        ]
    if not unit["per_vector"]:
        taken[:3] = enters
    lines = ["if (takes) begin", _indented("\n".join(taken)), "end"]
    lines.append("shown = in_valid && !takes;")
    lines.append(f"kept = out_valid === 1'b1 && !gives{' && done < entered' * ready};")
    if ready:
        lines += ["if (!out_ready) stalled = clocks;", "waited = gives ? 0 : waited + 1;"]
        lines += ["refused = shown ? refused + 1 : 0;"]
        lines += ["if (shown) beats_held = beats_held + 1;", "if (kept) results_held = results_held + 1;"]
        lines += [f"{entry['name']}_kept = {entry['name']};" for entry in outs]
    if reset:
        lines += [_rewound(unit)]
    lines += [
        "idle = takes || gives || (at == BEATS && done == entered) ? 0 : idle + 1;",
        "tail = at == BEATS && done == entered ? tail + 1 : 0;",
        f"timeout = idle > {PATIENCE} + LATENCY;",
        "clocks = clocks + 1;",
        "clk = 1;",
        "#5 clk = 0;",
    ]
    return _indented("\n".join(lines), 6)


def _rewound(unit: dict[str, Any]) -> str:
    """After a reset: the first beat whose result was not given comes next."""
    lines = ["resets = resets + 1;", "if (done < entered) midway = midway + 1;"]
    if unit["per_vector"]:
        lines += ["if (at > begun[entered]) midvector = midvector + 1;", "fresh = 1;"]
    lines += [
        f"place = entered + 4 + integer'(noise % 32'(2 * RESULTS / {RESETS} + 8));",
        "at = begun[done];",
        "entered = done;",
        "reset_clock = clocks;",
        "reset_at = done;",
        "armed = 0;",
        "shown = 0;",
        "kept = 0;",
    ]
    return f"if (armed) until_reset = until_reset - 1;\nif (rst) begin\n{_indented(chr(10).join(lines))}\nend"


def _summary(unit: dict[str, Any]) -> str:
    """What was tried, so that nobody takes a short pack for more."""
    lines = []
    if unit.get("ready"):
        held = '"held back: beats for %0d clocks, results for %0d", beats_held, results_held'
        lines.append(f"$display({held});")
    if unit.get("reset"):
        within = ", %0d within a vector" if unit["per_vector"] else ""
        more = ", midvector" if unit["per_vector"] else ""
        lines.append(f'$display("resets: %0d, %0d with results in the unit{within}", resets, midway{more});')
    lines += [
        "if (timeout && done < entered)",
        '  $display("FAIL timeout: result %0d of %0d did not come, out_valid is %b for %0d clocks",',
        "           done, RESULTS, out_valid, idle);",
        "else if (timeout)",
        '  $display("FAIL timeout: beat %0d of %0d was not taken, in_ready is %b for %0d clocks",',
        "           at, BEATS, in_ready, idle);",
    ]
    return _indented("\n".join(lines), 4)


def _indented(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line if line else line for line in text.split("\n"))
