// Flag-Q, Eq. 17, k = 8, Sc = R/2^7: where |x| >= Sc, q = Sc * clip(round(x/Sc), -127, 127);
// below, q = Sc/2^7 * round(2^7 * x/Sc).
//
// x    signed W bits, a code at exponent EX
// n    signed NB bits, log2 R of the whole tensor (r_exponent), held for all of its words
// q    9 bits {flag, sign, magnitude[6:0]}: value = +-magnitude * 2^(n - 7 - (flag ? 0 : 7)); zero is 0
// Rounding to nearest, ties to even, is symmetrical: it is done on |x|. A fine value that rounds to Sc
// itself is stored as flag 1, magnitude 1; saturated: the clip changed a coarse value.
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "mut.svh"
module quantize_flag #(
    parameter int W  = 24,
    parameter int EX = -14,
    parameter int NB = 8
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire  [W-1:0]  x,
    input  wire  [NB-1:0] n,
    output logic          out_valid,
    output logic [8:0]    q,
    output logic          saturated
);
  localparam int Y = W + 9;  // |x| shifted left by at most 8 bits, and the rounding's carry

  wire sign = x[W-1];
  wire [W-1:0] a = `MUT_IS(1) ? (sign ? ~x : x) :  // MUT 1: ones' complement
                   `MUT_IS(2) ? (sign ? -x : x) & ~(W'(1) << (W - 1)) :  // MUT 2: |least| overflows
                   sign ? -x : x;

  wire signed [31:0] c = 32'($signed(n)) - EX - 7;  // log2 of Sc in units of x
  wire signed [31:0] edge_at = c + (`MUT_IS(3) ? 1 : 0);  // MUT 3: flag from 2 Sc on
  wire coarse = `MUT_IS(4) ? (c < 0 ? a != 0 : a > W'(1) << c) :  // MUT 4: |x| > Sc
                `MUT_IS(5) ? (c < 1 ? a != 0 : a > W'(1) << (c - 1)) :  // MUT 5: flag by the rounded value
                `MUT_IS(6) && sign ? 1'b0 :  // MUT 6: flag by the signed value
                edge_at < 0 ? a != 0 : (a >> edge_at) != 0;

  wire signed [31:0] d = coarse ? c : c - (`MUT_IS(7) ? 6 : 7);  // MUT 7: fine grid of Sc/2^6
  wire [31:0] left  = d >= 0 ? 0 : -d > 8 ? 8 : -d;
  wire [31:0] right = d <= 0 ? 0 : d > W ? W + 1 : d;
  wire [Y-1:0] y     = Y'(a) << left;
  wire [Y-1:0] floor = y >> right;
  wire [Y-1:0] rem   = y & ~({Y{1'b1}} << right) & {{(Y - 1) {1'b1}}, !`MUT_IS(8)};  // MUT 8: lowest sticky bit lost
  wire [Y-1:0] half  = (Y'(1) << right) >> 1;
  wire up = `MUT_IS(9) ? right != 0 && rem >= half :  // MUT 9: tie away from zero
            `MUT_IS(10) ? right != 0 && (rem > half || (rem == half && !sign)) :  // MUT 10: tie up
            `MUT_IS(11) ? 1'b0 :  // MUT 11: truncated
            right != 0 && (rem > half || (rem == half && floor[0]));
  wire [Y-1:0] sum = floor + Y'(up);

  wire carry = !coarse && sum == 128 && !`MUT_IS(12);  // MUT 12: Sc stored as fine 128
  wire over  = coarse && sum > 127 && !`MUT_IS(13);  // MUT 13: wraps
  wire flag  = coarse || carry;
  wire [6:0] size = carry ? (`MUT_IS(15) ? 7'd0 : 7'd1) :  // MUT 15: carry of magnitude 0
                    over ? (`MUT_IS(16) ? 7'd126 : 7'd127) :  // MUT 16: clips at 126
                    `MUT_IS(14) && sign ? -sum[6:0] :  // MUT 14: magnitude in two's complement
                    sum[6:0];
  wire minus = sign && (size != 0 || flag || `MUT_IS(17));  // MUT 17: negative zero

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= `MUT_IS(18) ? {minus, flag, size} : {flag, minus, size};  // MUT 18: flag and sign swapped
    saturated <= over;
  end
  wire unused = &{1'b0, sum[Y-1:7]};
endmodule
