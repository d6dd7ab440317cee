// CQ, Eq. 7: q = clip(Sr(dr * x / R), -(dr-1), dr-1), dr = 2^log_dr, Sr stochastic.
//
// x       signed W bits, a code at exponent EX
// n       signed NB bits, log2 R of the whole tensor (r_exponent); log_dr: 0..DB-1; both held for a tensor
// word    32 random bits: with f the fraction of dr*x/R above its floor, up iff word < floor(f * 2^32)
// q       signed DB bits, a code at exponent -(kGC-1); saturated: the clip changed it
// Right by d = n - EX - log_dr bits where d > 0, left by -d where d < 0; any n and x are legal.
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "mut.svh"
module quantize_cq #(
    parameter int W  = 40,
    parameter int EX = -14,
    parameter int NB = 8,
    parameter int DB = 8
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire  [W-1:0]  x,
    input  wire  [NB-1:0] n,
    input  wire  [2:0]    log_dr,
    input  wire  [31:0]   word,
    output logic          out_valid,
    output logic [DB-1:0] q,
    output logic          saturated
);
  localparam int Y = W + DB + 1;  // x shifted left by at most DB bits, and the rounding's carry

  // Beyond DB bits left every x but 0 saturates; W+32 bits right leave nothing but the sign.
  wire signed [31:0] d = 32'($signed(n)) - EX
                         - (`MUT_IS(1) ? DB - 1 : 32'(log_dr))  // MUT 1: dr always at its first value
                         + (`MUT_IS(2) ? 1 : 0);  // MUT 2: shift off by one
  wire [31:0] left  = `MUT_IS(3) ? 0 :  // MUT 3: no left shift
                      d >= 0 ? 0 : -d > DB ? DB : -d;
  wire [31:0] right = d <= 0 ? 0 : d > W + 32 ? W + 32 : d;

  wire signed [Y-1:0] y     = Y'($signed(x)) <<< left;
  wire signed [Y-1:0] floor = `MUT_IS(4) ? $signed(Y'(y[W-1:0]) >> right) :  // MUT 4: sign lost on shift
                              y >>> right;
  wire [Y+31:0] bits = $signed({y, 32'b0}) >>> right;  // the fraction's first 32 bits are the low ones
  wire [31:0]   f    = `MUT_IS(5) ? bits[31:0] + 32'((bits << right) != {y, 32'b0}) :  // MUT 5: rounded up
                       `MUT_IS(6) ? {bits[31:16], 16'b0} :  // MUT 6: 16 bits of fraction
                       bits[31:0];
  wire [31:0]   r    = `MUT_IS(7) ? {word[15:0], word[31:16]} :  // MUT 7: halves of the word swapped
                       `MUT_IS(8) ? {word[31:1], 1'b0} :  // MUT 8: 31 bits of the word
                       `MUT_IS(9) ? {word[31:16], 16'b0} :  // MUT 9: the top 16 bits of the word
                       `MUT_IS(10) ? ~word :  // MUT 10: the complement (carry form)
                       word;
  wire up = `MUT_IS(11) ? r <= f :  // MUT 11: word <= f
            `MUT_IS(12) ? $signed(r) < $signed(f) :  // MUT 12: signed compare
            `MUT_IS(13) ? f > 32'h80000000 || (f == 32'h80000000 && floor[0]) :  // MUT 13: nearest
            `MUT_IS(14) ? 1'b0 :  // MUT 14: floor
            `MUT_IS(15) ? (x[W-1] ? f != 0 && r >= -f : r < f) :  // MUT 15: rounds the magnitude
            r < f;

  wire signed [Y-1:0] sum  = floor + $signed(Y'(up));
  wire signed [Y-1:0] high = `MUT_IS(16) ? Y'(1) << log_dr :  // MUT 16: clips at +-dr
                             `MUT_IS(17) ? Y'((1 << (DB - 1)) - 1) :  // MUT 17: clip does not follow dr
                             (Y'(1) << log_dr) - Y'(1);
  wire signed [Y-1:0] low  = `MUT_IS(18) ? -high - Y'(1) : -high;  // MUT 18: asymmetrical clip
  wire over  = sum > high && !`MUT_IS(19);  // MUT 19: wraps at the top
  wire under = sum < low;
  wire [Y-1:0] kept = over ? high : under ? low : sum;

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= kept[DB-1:0];
    saturated <= over || under;
  end
  wire unused = &{1'b0, kept[Y-1:DB], bits[Y+31:32]};
endmodule
