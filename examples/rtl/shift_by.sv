// q = limit(round(x / 2^n) + ZQ): a run-time shift, right where n > 0, left by -n below; every n is legal.
//
// x    W bits, signed where XS is 1
// n    signed NB bits. Beyond OUT + 1 bits left and W + 1 right it counts as just that
// q    OUT bits, signed where QS is 1; saturated: the limit changed it
// Latency 1: outputs and out_valid follow in_valid by one clock; a word can enter every clock.
`include "round_limit.svh"
module shift_by #(
    parameter int W        = 24,
    parameter int NB       = 6,
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
    input  wire [NB-1:0]  n,
    output logic          out_valid,
    output logic [OUT-1:0] q,
    output logic          saturated
);
  localparam int MOST = W + OUT + 2;
  localparam int Y = MOST > 26 ? MOST : 26;
  wire signed [31:0] d = 32'($signed(n));
  wire [31:0] left  = d >= 0 ? 0 : -d > OUT + 1 ? OUT + 1 : -d;
  wire [31:0] right = d <= 0 ? 0 : d > W + 1 ? W + 1 : d;
  wire signed [Y-1:0] wide = {{(Y - W) {XS != 0 && x[W-1]}}, x};
  wire [OUT-1:0] limited;
  wire changed;
  round_limit #(.Y(Y), .RB(6), .OUT(OUT), .QS(QS), .MODE(MODE), .OVERFLOW(OVERFLOW)) last_step (
      .y(wide <<< left), .right(right[5:0]), .zero(Y'(ZQ)), .q(limited), .saturated(changed)
  );

  always_ff @(posedge clk) begin
    out_valid <= in_valid && !rst;
    q <= limited;
    saturated <= changed;
  end
  wire unused = &{1'b0, right[31:6]};
endmodule
