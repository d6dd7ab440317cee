// R = 2^round(log2 max|x|), Eq. 7, 8, 17: with m the greatest |x| of a vector, in units of 2^EX,
// n = EX + (the integer p with 2^(2p-1) <= m^2 < 2^(2p+1)); n = 0 where m = 0, since R(0) = 1.
//
// x      signed W bits, a code at exponent EX; first and last mark a vector's ends
// n      signed NB bits
// Latency 1 from the beat with last: n and out_valid follow it by one clock; a word can enter every clock.
`include "mut.svh"
module r_exponent #(
    parameter int W  = 24,
    parameter int EX = -14,
    parameter int NB = 8
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire           first,
    input  wire           last,
    input  wire  [W-1:0]  x,
    output logic          out_valid,
    output logic [NB-1:0] n
);
  logic [W-1:0] seen;  // the maximum before this beat

  wire [W-1:0] a = `MUT_IS(1) ? (x[W-1] ? ~x : x) :  // MUT 1: ones' complement
                   `MUT_IS(2) ? (x[W-1] ? -x : x) & ~(W'(1) << (W - 1)) :  // MUT 2: |least| overflows
                   `MUT_IS(3) ? (x[W-1] ? '0 : x) :  // MUT 3: maximum of x, not of |x|
                   x[W-1] ? -x : x;
  wire [W-1:0] held = first && !`MUT_IS(4) ? '0 : seen;  // MUT 4: not cleared
  wire [W-1:0] top = `MUT_IS(5) ? held | a :  // MUT 5: ORs instead of comparing
                     a > held ? a : held;
  wire [W-1:0] m = `MUT_IS(6) ? held :  // MUT 6: last beat not seen
                   `MUT_IS(7) ? top & ~W'(1) :  // MUT 7: lowest bit dropped
                   top;

  logic [31:0] p;  // position of m's leading one
  always_comb begin
    p = 0;
    for (int i = 0; i < W; i++) if (m[i]) p = i;
  end
  wire [2*W-1:0] square = (2 * W)'(m) * (2 * W)'(m);
  wire [2*W-1:0] two    = (2 * W)'(1) << (2 * p + 1);  // (sqrt2 * 2^p)^2
  wire up = `MUT_IS(8) ? square > two :  // MUT 8: > in place of >=
            `MUT_IS(9) ? 1'b0 :  // MUT 9: floor(log2)
            `MUT_IS(10) ? m != W'(1) << p :  // MUT 10: ceil(log2)
            `MUT_IS(11) ? (2 * W)'(m) * 2 >= (2 * W)'(3) << p :  // MUT 11: compares with 1.5
            `MUT_IS(12) ? (2 * W)'(m) << 15 >= (2 * W)'(46341) << p :  // MUT 12: sqrt2 of 16 bits
            square >= two;
  wire signed [31:0] exponent = 32'(p) + 32'(up) + (`MUT_IS(13) ? -EX : EX);  // MUT 13: EX's sign

  always_ff @(posedge clk) begin
    out_valid <= in_valid && last && !rst;
    if (rst) seen <= '0;
    else if (in_valid || `MUT_IS(14)) seen <= top;  // MUT 14: takes words without valid
    n <= m == 0 && !`MUT_IS(15) ? '0 : exponent[NB-1:0];  // MUT 15: R(0) is not 1
  end
  wire unused = &{1'b0, exponent[31:NB]};
endmodule
