// q = limit(round(acc * multiplier / 2^(31 + n)) + zero_point): an accumulator to a word, a multiplier a channel.
//
// acc         signed W bits; multiplier: 31 bits, in units of 2^-31; n: signed 6 bits, right where n > 0, left
//             below; beyond LEFT bits left and RIGHT right it counts as just that
// zero_point  OUT bits, of q's sign; q: OUT bits, signed where QS is 1; saturated: the limit changed it
// TWICE 0     one rounding, by MODE: TFLite's single rounding is ties towards +infinity
// TWICE 1     gemmlowp's two: h = round(acc * 2^left * multiplier / 2^31), ties up (its doubling high product),
//             then round(h / 2^right), ties away from zero (MODE 1)
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "round_limit.svh"
module requantize #(
    parameter int W        = 32,
    parameter int LEFT     = 8,
    parameter int RIGHT    = 24,
    parameter int OUT      = 8,
    parameter int TWICE    = 0,
    parameter int QS       = 1,
    parameter int MODE     = 2,
    parameter int OVERFLOW = 0
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire [W-1:0]   acc,
    input  wire [30:0]    multiplier,
    input  wire [5:0]     n,
    input  wire [OUT-1:0] zero_point,
    output logic          out_valid,
    output logic [OUT-1:0] q,
    output logic          saturated
);
  localparam int P = W + LEFT + 31;  // the product
  localparam int Y = P > OUT + 2 ? P : OUT + 2;
  wire signed [31:0] d = 32'($signed(n));
  wire [31:0] left  = d >= 0 ? 0 : -d > LEFT ? LEFT : -d;
  wire [31:0] right = d <= 0 ? 0 : d > RIGHT ? RIGHT : d;
  wire signed [W+LEFT-1:0] scaled = (W + LEFT)'($signed(acc)) <<< left;
  wire signed [P-1:0] full = P'(scaled) * P'($signed({1'b0, multiplier}));
  wire signed [Y-1:0] product = Y'(full);
  wire signed [Y-1:0] high = (product + (Y'(1) << 30)) >>> 31;
  wire [31:0] amount = TWICE != 0 ? right : right + 31;
  wire signed [Y-1:0] y = TWICE != 0 ? high : product;
  wire signed [Y-1:0] zero = {{(Y - OUT) {QS != 0 && zero_point[OUT-1]}}, zero_point};
  wire [OUT-1:0] limited;
  wire changed;
  round_limit #(.Y(Y), .RB(6), .OUT(OUT), .QS(QS), .MODE(TWICE != 0 ? 1 : MODE), .OVERFLOW(OVERFLOW)) last_step (
      .y(y), .right(amount[5:0]), .zero(zero), .q(limited), .saturated(changed)
  );

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= limited;
    saturated <= changed;
  end
  wire unused = &{1'b0, amount[31:6]};
endmodule
