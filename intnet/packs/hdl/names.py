"""Names of a unit of one's own: what SystemVerilog and C take, and the generated testbench leaves free."""

import re
from collections.abc import Iterable, Sequence

from intnet.errors import PackError

# IEEE 1800-2017, annex B
_KEYWORDS = """
    accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup coverpoint
    cross deassign default defparam design disable dist do edge else end endcase endchecker endclass
    endclocking endconfig endfunction endgenerate endgroup endinterface endmodule endpackage
    endprimitive endprogram endproperty endspecify endsequence endtable endtask enum event
    eventually expect export extends extern final first_match for force foreach forever fork
    forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins
    implements implies import incdir include initial inout input inside instance int integer
    interconnect interface intersect join join_any join_none large let liblist library local
    localparam logic longint macromodule matches medium modport module nand negedge nettype new
    nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed parameter pmos
    posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime
    ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always
    s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal showcancelled
    signed small soft solve specify specparam static string strong strong0 strong1 struct super
    supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time
    timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union
    unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
    wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
"""
# ISO/IEC 9899:2011
_OF_C = """
    auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while
"""
# the handshake's ports, and what `drive.py` and `stream.py` declare
_TESTBENCH = """
    clk rst in_valid out_valid in_ready out_ready BEATS RESULTS LATENCY
    only pack out at done file got bad wrong dump s line_word noise due fold dut
    clocks entered idle tail age born takes gives shown kept timeout had waited refused stalled beats_held
    results_held alone begun resets place until_reset reset_clock reset_at midway armed midvector fresh
"""
_DEFINITION = re.compile(r"holds|(v|low|size)\d+|(size|high)\d+_\d+")  # wires of `circuits/verilog.py`
# what `pack.svh` and the testbench declare beside a port
_BESIDE = """
    {0}_words {0}_file {0}_kept unused_{0} {0}_BEAT_BITS
    {0}_WORDS {0}_BITS {0}_SIGNED {0}_LANES {0}_WORD_BITS {0}_EXPONENT {0}_GUARD
"""
C_KEYWORDS = frozenset(_OF_C.split())
KEYWORDS = C_KEYWORDS.union(_KEYWORDS.split())
TESTBENCH = frozenset(_TESTBENCH.split())


def check_name(name: str, what: str) -> None:
    """PackError unless a port, a parameter or a module may be called so; what: 'a port of shift_to_odd'."""
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise PackError(f"{name!r}, {what}: a name is letters, digits and _, and begins with no digit")
    if name in KEYWORDS:
        raise PackError(f"{name!r}, {what}: this is a word of SystemVerilog or C; take another name")
    if name in TESTBENCH:
        raise PackError(f"{name!r}, {what}: the testbench has a {name} of its own; take another name")
    if _DEFINITION.fullmatch(name):
        raise PackError(f"{name!r}, {what}: the definition in SystemVerilog has a {name} of its own")


def beside(port: str) -> list[str]:
    """What else is declared for a port of this name."""
    return _BESIDE.format(port).split()


def check_apart(unit: str, parameters: Iterable[str], ports: Sequence[str]) -> None:
    """PackError where two of unit, parameters and ports, and of what is beside ports, have one name."""
    names = [unit, *parameters, *ports]
    if len(set(names)) < len(names):
        raise PackError(f"{unit}: two of unit, parameters and ports have one name: {', '.join(names)}")
    taken = set(names)
    for port in ports:
        for name in beside(port):
            if name in taken:
                told = f"the testbench declares a {name} for port {port}, and that name is taken"
                raise PackError(f"{unit}: {told}: rename one of {', '.join(names)}")
            taken.add(name)
