// acc = bias + sum over a vector's beats and LANES of (x - ZX) * (w - ZW); q = limit(round(acc / 2^S) + ZQ).
//
// x, w       LANES codes of A and B bits, lane 0 lowest, signed where XS, WS are 1; first and last mark a vector
// bias       signed ACC bits, read at the last beat
// q          OUT bits, signed where QS is 1; saturated: the limit changed it
// SUMS       what the accumulator does beyond ACC bits, at each beat and with the bias: 0 nothing, as ACC holds
//            all sums; 1 wraps; 2 saturates
// MODE       0 ties to even, 1 ties away from zero, 2 ties towards +infinity, 3 floor, 4 ceiling, 5 towards zero
// OVERFLOW   0 clips to all codes, 1 to +-the greatest one, 2 keeps the low bits
// Latency 1 from the beat with last: outputs and out_valid follow by a clock; a beat can enter every clock.
`include "mut.svh"
module mac_requant #(
    parameter int LANES    = 4,
    parameter int A        = 8,
    parameter int B        = 8,
    parameter int ACC      = 32,
    parameter int S        = 9,
    parameter int OUT      = 8,
    parameter int XS       = 1,
    parameter int WS       = 1,
    parameter int ZX       = 0,
    parameter int ZW       = 0,
    parameter int SUMS     = 0,
    parameter int QS       = 1,
    parameter int ZQ       = 0,
    parameter int MODE     = 0,
    parameter int OVERFLOW = 1
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
  localparam int XW = A + 1 + (ZX == 0 ? 0 : 17 - (A < 17 ? A : 17) + 1);  // of x - ZX, ZX of up to 17 bits
  localparam int WW = B + 1 + (ZW == 0 ? 0 : 17 - (B < 17 ? B : 17) + 1);
  localparam int BEAT = XW + WW + $clog2(LANES + 1);
  localparam int WIDE = (ACC > BEAT ? ACC : BEAT) + 1;  // a sum before it is brought to ACC bits
  localparam int MOST = ACC > S ? ACC : S;
  localparam int Y = (MOST > OUT ? MOST : OUT) + 2 + (ZQ == 0 ? 0 : 26);
  localparam logic signed [Y-1:0] HI = (Y'(1) << (QS != 0 ? OUT - 1 : OUT)) - Y'(1);
  localparam logic signed [Y-1:0] LO = QS == 0 ? Y'(0) : OVERFLOW == 1 ? -HI : -HI - Y'(1);

  logic signed [ACC-1:0] sum;  // of the beats before this one
  logic signed [BEAT-1:0] beat;
  always_comb begin
    beat = '0;
    for (int i = 0; i < LANES - (`MUT_IS(1) ? 1 : 0); i++)  // MUT 1: last lane dropped
      beat = beat + product(x[i*A+:A],
                            `MUT_IS(2) ? w[(LANES-1-i)*B+:B] :  // MUT 2: w's lanes reversed
                            w[i*B+:B]);
  end

  function automatic logic signed [BEAT-1:0] product(input logic [A-1:0] a, input logic [B-1:0] b);
    logic signed [XW-1:0] left;
    logic signed [WW-1:0] right;
    logic signed [XW+WW-1:0] p;
    left = $signed({{(XW - A) {XS != 0 && a[A-1]}}, a}) - XW'(ZX);
    right = $signed({{(WW - B) {WS != 0 && b[B-1] && !`MUT_IS(3)}}, b}) - WW'(ZW);  // MUT 3: w unsigned
    p = (XW + WW)'(left) * (XW + WW)'(right);
    if (`MUT_IS(4)) p = $signed({{(XW + WW - A - B + 1) {p[A+B-2]}}, p[A+B-2:0]});  // MUT 4: product one bit short
    product = BEAT'(p);
  endfunction

  // What the accumulator keeps of a sum: without saturation its low bits.
  localparam logic signed [WIDE-1:0] TOP = (WIDE'(1) << (ACC - 1)) - WIDE'(1);
  function automatic logic signed [ACC-1:0] kept_sum(input logic signed [WIDE-1:0] v);
    kept_sum = ACC'(SUMS == 2 && v > TOP ? TOP : SUMS == 2 && v < -TOP - WIDE'(1) ? -TOP - WIDE'(1) : v);
  endfunction

  wire signed [ACC-1:0] held = first && !`MUT_IS(5) ? '0 : sum;  // MUT 5: not cleared
  wire signed [ACC-1:0] noise = `MUT_IS(7) && !last ? $signed(bias) : '0;  // MUT 7: bias added at every beat
  wire signed [ACC-1:0] after =
      kept_sum(WIDE'(held) + (`MUT_IS(6) && last ? '0 : WIDE'(beat)) + WIDE'(noise));  // MUT 6: last beat not added
  wire signed [ACC-1:0] whole =
      kept_sum(WIDE'(after) + (`MUT_IS(8) ? '0 : WIDE'($signed(bias))));  // MUT 8: bias ignored
  wire signed [ACC-1:0] acc =
      `MUT_IS(9) ? (whole <<< (ACC - A - B)) >>> (ACC - A - B) :  // MUT 9: no bits for the sum
      whole;

  wire signed [Y-1:0] y = Y'(acc);
  wire signed [Y-1:0] floor = `MUT_IS(10) ? y >>> (S + 1) :  // MUT 10: shifts one bit too far
                              `MUT_IS(11) ? $signed({{(Y - ACC) {1'b0}}, $unsigned(acc)} >> S) :  // MUT 11: sign lost on shift
                              y >>> S;
  wire [Y-1:0] lost = y & ~({Y{1'b1}} << S) & {{(Y - 1) {1'b1}}, !`MUT_IS(12)};  // MUT 12: lowest sticky bit lost
  wire [Y-1:0] half = (Y'(1) << S) >> 1;
  wire tie = S != 0 && lost == half;
  wire up = `MUT_IS(13) ? lost >= half :  // MUT 13: tie up
            `MUT_IS(14) ? lost > half || (tie && !acc[ACC-1]) :  // MUT 14: tie away from zero
            `MUT_IS(15) ? 1'b0 :  // MUT 15: floor
            MODE == 0 ? lost > half || (tie && floor[0]) :
            MODE == 1 ? lost > half || (tie && !acc[ACC-1]) :
            MODE == 2 ? S != 0 && lost >= half :
            MODE == 3 ? 1'b0 :
            MODE == 4 ? lost != 0 :
            lost != 0 && acc[ACC-1];
  wire signed [Y-1:0] rounded = floor + $signed({{(Y - 1) {1'b0}}, up}) + Y'(ZQ);
  wire signed [Y-1:0] low = `MUT_IS(16) ? LO - Y'(1) : LO;  // MUT 16: asymmetrical clip
  wire over  = rounded > HI && !`MUT_IS(17);  // MUT 17: wraps at the top
  wire under = rounded < low;
  wire clipped = `MUT_IS(18) ? rounded >= HI || rounded <= LO :  // MUT 18: flag set at the limit itself
                 `MUT_IS(19) ? over :  // MUT 19: only the top is reported
                 `MUT_IS(20) ? floor > HI || under :  // MUT 20: flag before rounding
                 over || under;
  wire [Y-1:0] kept = OVERFLOW == 2 ? rounded : over ? HI : under ? low : rounded;

  always_ff @(posedge clk) begin
    out_valid <= in_valid && last && !rst;
    if (rst) sum <= '0;
    else if (in_valid || `MUT_IS(21)) sum <= after;  // MUT 21: adds beats without valid
    q <= kept[OUT-1:0];
    saturated <= clipped;
  end
  wire unused = &{1'b0, kept[Y-1:OUT]};
endmodule
