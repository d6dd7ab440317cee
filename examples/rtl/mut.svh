// `MUT_IS(n) is true in a build with -DMUT=n and a constant false in any other: the units are exact
// unless a mutant is asked for. Every mutant's line ends in `// MUT n: what it is`.
`ifndef MUT_SVH
`define MUT_SVH
`ifdef MUT
`define MUT_IS(n) (`MUT == (n))
`else
`define MUT_IS(n) 1'b0
`endif
`endif
