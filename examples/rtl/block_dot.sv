// Dot product of block float vectors: y = float32(sum over blocks of 2^(xe + we) * sum over 4 of xm * wm),
// the sum exact, rounded once to float32, ties to even.
//
// xm, wm    BLOCK signed mantissas of M bits, lane 0 lowest; one block a beat, first and last mark a vector
// xe, we    signed 8 bits, the blocks' exponents
// y         float32 bits. Subnormals are kept; 0 is +0, a negative underflow -0. Beyond float32 y is the
//           infinity of the sum's sign and overflow is set (the training library stops with an error there)
// The accumulator has a bit for every place a product can reach, 2^-256 up to 2^(255 + 2M - 1), and GUARD
// bits for 2^GUARD / BLOCK blocks a vector.
// Latency 1 from the beat with last: outputs and out_valid follow by a clock; a block can enter every clock.
`include "mut.svh"
module block_dot #(
    parameter int BLOCK = 4,
    parameter int M     = 8,
    parameter int GUARD = 12
) (
    input  wire               clk,
    input  wire               rst,
    input  wire               in_valid,
    input  wire               first,
    input  wire               last,
    input  wire [BLOCK*M-1:0] xm,
    input  wire [BLOCK*M-1:0] wm,
    input  wire [7:0]         xe,
    input  wire [7:0]         we,
    output logic              out_valid,
    output logic [31:0]       y,
    output logic              overflow
);
  localparam int LSB = -256;                      // exponent of the accumulator's bit 0
  localparam int AW  = 511 + 2 * M + GUARD;
  localparam int SUBNORMAL = -149 - LSB;          // position of the least subnormal's bit

  logic signed [AW-1:0] sum;  // of the blocks before this one
  logic signed [2*M+7:0] dot;
  always_comb begin
    dot = '0;
    for (int i = 0; i < BLOCK - (`MUT_IS(1) ? 1 : 0); i++)  // MUT 1: last lane dropped
      dot = dot + (2 * M + 8)'($signed(xm[i*M+:M])) * (2 * M + 8)'($signed(wm[i*M+:M]));
  end
  wire signed [31:0] exponent = `MUT_IS(2) ? 32'($signed(xe)) + 32'(we) :  // MUT 2: we without its sign
                                `MUT_IS(3) ? 32'($signed(8'(xe + we))) :  // MUT 3: sum of exponents wraps
                                `MUT_IS(4) ? 32'($signed(xe)) :  // MUT 4: we ignored
                                32'($signed(xe)) + 32'($signed(we));
  wire signed [AW-1:0] placed = AW'(dot) <<< (exponent - LSB);
  wire signed [AW-1:0] held = first && !`MUT_IS(5) ? '0 : sum;  // MUT 5: not cleared
  wire signed [AW-1:0] cut    =
      `MUT_IS(6) ? placed & ({AW{1'b1}} << SUBNORMAL) :  // MUT 6: products cut at 2^-149
      placed;
  wire signed [AW-1:0] after  = held + cut;

  wire minus = after[AW-1];
  wire [AW-1:0] size = `MUT_IS(7) && minus ? ~after : minus ? -after : after;  // MUT 7: ones' complement
  logic [31:0] p;  // position of the leading one
  logic [AW-1:0] upper;  // size >> p
  always_comb begin
    p = 0;
    upper = size;
    for (int i = $clog2(AW) - 1; i >= 0; i--)
      if (upper >> (1 << i) != 0) begin
        p = p + (1 << i);
        upper = upper >> (1 << i);
      end
  end
  // The result's lowest bit: 23 below the leading one, or the least subnormal's.
  wire [31:0] t = p < SUBNORMAL + 23 && !`MUT_IS(8) ? SUBNORMAL : p - 23;  // MUT 8: 24 bits of a subnormal
  wire [AW-1:0] floor = size >> t;
  wire [AW-1:0] lost  = size & ~({AW{1'b1}} << t);
  wire [AW-1:0] rem   = `MUT_IS(9) ? lost & ({AW{1'b1}} << (t - 24)) :  // MUT 9: sticky bits beyond 24 lost
                        lost;
  wire [AW-1:0] half  = (AW'(1) << t) >> 1;
  wire up = `MUT_IS(10) ? rem >= half :  // MUT 10: tie away from zero
            `MUT_IS(11) ? rem > half || (rem == half && !minus) :  // MUT 11: tie up
            `MUT_IS(12) ? 1'b0 :  // MUT 12: truncated
            rem > half || (rem == half && floor[0]);
  // Exponent and mantissa as one number: its hidden bit and the rounding's carry step the exponent.
  wire [31:0] steps = t - SUBNORMAL;
  wire [31:0] code  =
      `MUT_IS(13) ? {9'(steps) + 9'(floor[23]), floor[22:0] + 23'(up)} :  // MUT 13: carry dropped
      `MUT_IS(14) && !floor[23] ? 0 :  // MUT 14: subnormals flushed
      (steps << 23) + floor[31:0] + 32'(up);
  wire inf = code >= 32'h7f800000 && !`MUT_IS(15);  // MUT 15: no infinity
  wire [31:0] kept = inf ? (`MUT_IS(16) ? 32'h7f7fffff : 32'h7f800000) : code;  // MUT 16: greatest float

  always_ff @(posedge clk) begin
    out_valid <= in_valid && last && !rst;
    if (rst) sum <= '0;
    else if (in_valid || `MUT_IS(17)) sum <= after;  // MUT 17: adds blocks without valid
    y <= {minus && !(`MUT_IS(18) && kept == 0), kept[30:0]};  // MUT 18: an underflow loses its sign
    overflow <= inf;
  end
  wire unused = &{1'b0, floor[AW-1:32], kept[31]};
endmodule
