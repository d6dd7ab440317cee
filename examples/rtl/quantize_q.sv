// Q(., k), Eq. 6: q = round(x / 2^S), ties to even; the resolution is fixed, the range is not limited.
//
// x    signed W bits, a code at exponent ex            S = -(k-1) - ex: dropped bits; S <= 0 adds zeros
// q    signed OW bits, a code at exponent -(k-1)       OW holds every result, the rounding's carry too
// Latency 1: q and out_valid follow in_valid by one clock; a word can enter every clock.
`include "mut.svh"
module quantize_q #(
    parameter int W  = 24,
    parameter int S  = 16,
    parameter int OW = S > 0 ? W - S + 1 : W - S  // derived: leave it
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire  [W-1:0]  x,
    output logic          out_valid,
    output logic [OW-1:0] q
);
  wire [OW-1:0] rounded;

  generate
    if (S > 0) begin : narrow
      localparam logic [S:0] HALF = (S + 1)'(1) << (S - 1);
      wire [OW-1:0] all   = {{(OW - W + S) {x[W-1]}}, x[W-1:S]};
      wire [OW-1:0] floor = `MUT_IS(1) ? {all[OW-1], all[OW-1:1]} :  // MUT 1: shifts one bit too far
                            `MUT_IS(2) ? {{(OW - W + S) {1'b0}}, x[W-1:S]} :  // MUT 2: sign lost on shift
                            all;
      wire [S:0] rem = {1'b0, x[S-1:0]} & {{S{1'b1}}, !`MUT_IS(3)};  // MUT 3: the lowest sticky bit lost
      wire up = `MUT_IS(4) ? rem >= HALF :  // MUT 4: tie up
                `MUT_IS(5) ? rem > HALF || (rem == HALF && !x[W-1]) :  // MUT 5: tie away from zero
                `MUT_IS(6) ? 1'b0 :  // MUT 6: floor
                `MUT_IS(7) ? x[W-1] && rem != 0 :  // MUT 7: truncated toward zero
                `MUT_IS(8) ? rem > HALF || (rem == HALF && !floor[0]) :  // MUT 8: tie to odd
                rem > HALF || (rem == HALF && floor[0]);
      wire [OW-1:0] sum = floor + OW'(up);
      assign rounded = `MUT_IS(9) ? {floor[OW-1:1], floor[0] ^ up} :  // MUT 9: carry dropped
                       `MUT_IS(10) ? {sum[OW-2], sum[OW-2:0]} :  // MUT 10: no bit for the carry
                       `MUT_IS(11) && sum[OW-1:OW-2] == 2'b01 ? sum - OW'(1) :  // MUT 11: saturates
                       sum;
    end else begin : widen
      assign rounded = OW'(x) << -S;
    end
  endgenerate

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= rounded;
  end
endmodule
