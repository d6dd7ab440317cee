// q = limit(round((x * scale + offset) / 2^S) + ZQ): batch norm at inference, scale and offset a channel.
//
// x         W bits, signed where XS is 1; scale: signed B bits; offset: signed OB bits
// q         OUT bits, signed where QS is 1; saturated: the limit changed it
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "round_limit.svh"
module scale_add #(
    parameter int W        = 24,
    parameter int B        = 16,
    parameter int OB       = 40,
    parameter int S        = 16,
    parameter int OUT      = 8,
    parameter int XS       = 1,
    parameter int QS       = 1,
    parameter int ZQ       = 0,
    parameter int MODE     = 0,
    parameter int OVERFLOW = 0
) (
    input  wire           clk,
    input  wire           rst,
    input  wire           in_valid,
    input  wire [W-1:0]   x,
    input  wire [B-1:0]   scale,
    input  wire [OB-1:0]  offset,
    output logic          out_valid,
    output logic [OUT-1:0] q,
    output logic          saturated
);
  localparam int SUM = (W + 1 + B > OB ? W + 1 + B : OB) + 1;
  localparam int MOST = SUM > S + 2 ? SUM : S + 2;
  localparam int Y = MOST > 26 ? MOST : 26;
  wire signed [W:0] a = {XS != 0 && x[W-1], x};
  wire signed [W+B:0] product = (W + 1 + B)'(a) * (W + 1 + B)'($signed(scale));
  wire signed [Y-1:0] acc = Y'(product) + Y'($signed(offset));
  wire [OUT-1:0] limited;
  wire changed;
  round_limit #(.Y(Y), .RB(6), .OUT(OUT), .QS(QS), .MODE(MODE), .OVERFLOW(OVERFLOW)) last_step (
      .y(acc), .right(6'(S)), .zero(Y'(ZQ)), .q(limited), .saturated(changed)
  );

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= limited;
    saturated <= changed;
  end
endmodule
