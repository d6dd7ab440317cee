// acc = bias + sum over a vector's beats and LANES of x * w, exact; q = clip(round(acc / 2^S), -HI, HI),
// HI = 2^(OUT-1) - 1, ties to even.
//
// x, w       LANES signed codes of A and B bits, lane 0 lowest; first and last mark a vector's beats
// bias       signed ACC bits, read at the last beat
// q          signed OUT bits; saturated: the clip changed it
// ACC must hold bias and all sums: A + B + clog2(LANES * beats) bits, and one for the bias. S >= 1.
// Latency 1 from the beat with last: outputs and out_valid follow by a clock; a beat can enter every clock.
`include "mut.svh"
module mac_requant #(
    parameter int LANES = 4,
    parameter int A     = 8,
    parameter int B     = 8,
    parameter int ACC   = 32,
    parameter int S     = 9,
    parameter int OUT   = 8
) (
    input  wire               clk,
    input  wire               rst,
    input  wire               in_valid,
    input  wire               first,
    input  wire               last,
    input  wire [LANES*A-1:0] x,
    input  wire [LANES*B-1:0] w,
    input  wire [ACC-1:0]     bias,
    output logic              out_valid,
    output logic [OUT-1:0]    q,
    output logic              saturated
);
  localparam logic signed [ACC-1:0] HI = (ACC'(1) << (OUT - 1)) - ACC'(1);
  localparam logic [S:0] HALF = (S + 1)'(1) << (S - 1);

  logic signed [ACC-1:0] sum;  // of the beats before this one
  logic signed [ACC-1:0] beat;
  always_comb begin
    beat = '0;
    for (int i = 0; i < LANES - (`MUT_IS(1) ? 1 : 0); i++)  // MUT 1: last lane dropped
      beat = beat + product($signed(x[i*A+:A]),
                            `MUT_IS(2) ? $signed(w[(LANES-1-i)*B+:B]) :  // MUT 2: w's lanes reversed
                            $signed(w[i*B+:B]));
  end

  function automatic logic signed [ACC-1:0] product(input logic signed [A-1:0] a,
                                                    input logic signed [B-1:0] b);
    logic signed [A+B-1:0] p;
    p = (A + B)'(a) * (`MUT_IS(3) ? $signed({{A{1'b0}}, b}) : (A + B)'(b));  // MUT 3: w unsigned
    if (`MUT_IS(4)) p = {p[A+B-2], p[A+B-2:0]};  // MUT 4: product one bit short
    return ACC'(p);
  endfunction

  wire signed [ACC-1:0] held = first && !`MUT_IS(5) ? '0 : sum;  // MUT 5: not cleared
  wire signed [ACC-1:0] after =
      held + (`MUT_IS(6) && last ? '0 : beat)  // MUT 6: last beat not added
           + (`MUT_IS(7) && !last ? $signed(bias) : '0);  // MUT 7: bias added at every beat
  wire signed [ACC-1:0] whole = after + (`MUT_IS(8) ? '0 : $signed(bias));  // MUT 8: bias ignored
  wire signed [ACC-1:0] acc =
      `MUT_IS(9) ? (whole <<< (ACC - A - B)) >>> (ACC - A - B) :  // MUT 9: no bits for the sum
      whole;

  wire signed [ACC-1:0] floor = `MUT_IS(10) ? acc >>> (S + 1) :  // MUT 10: shifts one bit too far
                                `MUT_IS(11) ? $signed($unsigned(acc) >> S) :  // MUT 11: sign lost on shift
                                acc >>> S;
  wire [S:0] rem = {1'b0, acc[S-1:0]} & ~(S + 1)'(`MUT_IS(12));  // MUT 12: lowest sticky bit lost
  wire up = `MUT_IS(13) ? rem >= HALF :  // MUT 13: tie up
            `MUT_IS(14) ? rem > HALF || (rem == HALF && !acc[ACC-1]) :  // MUT 14: tie away from zero
            `MUT_IS(15) ? 1'b0 :  // MUT 15: floor
            rem > HALF || (rem == HALF && floor[0]);
  wire signed [ACC-1:0] rounded = floor + $signed(ACC'(up));
  wire signed [ACC-1:0] low = `MUT_IS(16) ? -HI - ACC'(1) : -HI;  // MUT 16: asymmetrical clip
  wire over  = rounded > HI && !`MUT_IS(17);  // MUT 17: wraps at the top
  wire under = rounded < low;
  wire clipped = `MUT_IS(18) ? rounded >= HI || rounded <= -HI :  // MUT 18: flag set at the limit itself
                 `MUT_IS(19) ? over :  // MUT 19: only the top is reported
                 `MUT_IS(20) ? floor > HI || under :  // MUT 20: flag before rounding
                 over || under;
  wire [ACC-1:0] kept = over ? HI : under ? low : rounded;

  always_ff @(posedge clk) begin
    out_valid <= in_valid && last && !rst;
    if (rst) sum <= '0;
    else if (in_valid || `MUT_IS(21)) sum <= after;  // MUT 21: adds beats without valid
    q <= kept[OUT-1:0];
    saturated <= clipped;
  end
  wire unused = &{1'b0, kept[ACC-1:OUT]};
endmodule
