// SQ(., K), Eq. 8: q = clip(round(x * 2^(ex + K-1 - n)), -(2^(K-1)-1), 2^(K-1)-1), ties to even.
//
// x    signed W bits, a code at exponent EX
// n    signed NB bits, log2 R of the whole tensor (r_exponent), held for all of its words
// q    signed K bits, a code at exponent n - (K-1); saturated: the clip changed it
// Right by d = n - EX - (K-1) bits where d > 0, left by -d where d < 0; any n and x are legal.
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "mut.svh"
module quantize_sq #(
    parameter int W  = 24,
    parameter int EX = -14,
    parameter int NB = 8,
    parameter int K  = 8
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire  [W-1:0]  x,
    input  wire  [NB-1:0] n,
    output logic          out_valid,
    output logic [K-1:0]  q,
    output logic          saturated
);
  localparam int Y = W + K + 1;  // x shifted left by at most K bits, and the rounding's carry
  localparam logic signed [Y-1:0] HI = (Y'(1) << (K - 1)) - Y'(1);

  // Beyond K bits left every x but 0 saturates; beyond W bits right every x rounds to 0.
  wire signed [31:0] d = (`MUT_IS(1) ? 32'(n) :  // MUT 1: n without its sign
                          32'($signed(n))) - EX - (K - 1)
                         + (`MUT_IS(2) ? 1 : 0);  // MUT 2: shift off by one
  wire [31:0] left  = `MUT_IS(3) ? 0 :  // MUT 3: no left shift
                      d >= 0 ? 0 : -d > K ? K : -d;
  wire [31:0] right = `MUT_IS(4) ? (d <= 0 ? 0 : d & 15) :  // MUT 4: four bits of shift amount
                      d <= 0 ? 0 : d > W ? W + 1 : d;

  wire signed [Y-1:0] y     = Y'($signed(x)) <<< left;
  wire signed [Y-1:0] floor = `MUT_IS(5) ? $signed(Y'(y[W-1:0]) >> right) :  // MUT 5: sign lost on shift
                              y >>> right;
  wire [Y-1:0] rem  = y & ~({Y{1'b1}} << right) & {{(Y - 1) {1'b1}}, !`MUT_IS(6)};  // MUT 6: lowest sticky bit lost
  wire [Y-1:0] half = (Y'(1) << right) >> 1;
  wire up = `MUT_IS(7) ? right != 0 && rem >= half :  // MUT 7: tie up
            `MUT_IS(8) ? right != 0 && rem > half - Y'(!x[W-1]) :  // MUT 8: tie away from zero
            `MUT_IS(9) ? 1'b0 :  // MUT 9: floor
            `MUT_IS(10) ? rem > half || (rem == half && floor[0]) :  // MUT 10: an exact odd value is a tie
            right != 0 && (rem > half || (rem == half && floor[0]));

  wire signed [Y-1:0] sum  = floor + $signed(Y'(up));
  wire signed [Y-1:0] low  = `MUT_IS(11) ? -HI - Y'(1) : -HI;  // MUT 11: asymmetrical clip
  wire signed [Y-1:0] test = `MUT_IS(12) ? floor : sum;  // MUT 12: clips before rounding
  wire over  = test > HI && !`MUT_IS(13);  // MUT 13: wraps at the top
  wire under = test < low && !`MUT_IS(14);  // MUT 14: wraps at the bottom
  wire [Y-1:0] kept = over ? HI : under ? low : sum;

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= kept[K-1:0];
    saturated <= over || (under && !`MUT_IS(15));  // MUT 15: only the top is reported
  end
  wire unused = &{1'b0, kept[Y-1:K]};
endmodule
