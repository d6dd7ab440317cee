// q = limit(round(x / 2^S) + ZQ): a static shift; MODE and OVERFLOW as in round_limit.svh.
//
// x    W bits, signed where XS is 1
// q    OUT bits, signed where QS is 1; saturated: the limit changed it
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "round_limit.svh"
module shift #(
    parameter int W        = 24,
    parameter int S        = 8,
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
    output logic          out_valid,
    output logic [OUT-1:0] q,
    output logic          saturated
);
  localparam int MOST = W > S ? W : S;
  localparam int Y = (MOST > 25 ? MOST : 25) + 2;  // ZQ has up to 25 bits
  wire signed [Y-1:0] y = {{(Y - W) {XS != 0 && x[W-1]}}, x};
  wire [OUT-1:0] limited;
  wire changed;
  round_limit #(.Y(Y), .RB(6), .OUT(OUT), .QS(QS), .MODE(MODE), .OVERFLOW(OVERFLOW)) last_step (
      .y(y), .right(6'(S)), .zero(Y'(ZQ)), .q(limited), .saturated(changed)
  );

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= limited;
    saturated <= changed;
  end
endmodule
