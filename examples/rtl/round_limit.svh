// round_limit: q = limit(round(y / 2^right) + zero), combinational; what units that end in a limited word share.
//
// y         signed Y bits; right: 0 .. Y-1 of RB bits; zero: signed Y bits
// q         OUT bits, signed where QS is 1; saturated: the limit changed it, or bits were cut
// MODE      0 ties to even, 1 ties away from zero, 2 ties towards +infinity, 3 floor, 4 ceiling, 5 towards zero
// OVERFLOW  0 clips to all codes, 1 to +-the greatest one, 2 keeps the low bits
`ifndef ROUND_LIMIT_SVH
`define ROUND_LIMIT_SVH
// verilator lint_off DECLFILENAME
module round_limit #(
    parameter int Y        = 24,
    parameter int RB       = 5,
    parameter int OUT      = 8,
    parameter int QS       = 1,
    parameter int MODE     = 0,
    parameter int OVERFLOW = 0
) (
    input  wire signed [Y-1:0]   y,
    input  wire        [RB-1:0]  right,
    input  wire signed [Y-1:0]   zero,
    output wire        [OUT-1:0] q,
    output wire                  saturated
);
  localparam int Z = (Y > OUT ? Y : OUT) + 2;  // the rounding's carry and the zero point's
  localparam logic signed [Z-1:0] HI = (Z'(1) << (QS != 0 ? OUT - 1 : OUT)) - Z'(1);
  localparam logic signed [Z-1:0] LO = QS == 0 ? Z'(0) : OVERFLOW == 1 ? -HI : -HI - Z'(1);

  wire signed [Y-1:0] floor = y >>> right;
  wire [Y-1:0] lost = y & ~({Y{1'b1}} << right);
  wire [Y-1:0] half = (Y'(1) << right) >> 1;
  wire any = right != 0;  // of a shift by 0 nothing is lost, and half is 0 too
  wire tie = any && lost == half;
  wire up = MODE == 0 ? lost > half || (tie && floor[0]) :
            MODE == 1 ? lost > half || (tie && !y[Y-1]) :
            MODE == 2 ? any && lost >= half :
            MODE == 3 ? 1'b0 :
            MODE == 4 ? lost != 0 :
            lost != 0 && y[Y-1];
  wire signed [Z-1:0] sum = Z'(floor) + $signed({{(Z - 1) {1'b0}}, up}) + Z'(zero);
  wire over  = sum > HI;
  wire under = sum < LO;
  wire [Z-1:0] kept = OVERFLOW == 2 ? sum : over ? HI : under ? LO : sum;
  assign q = kept[OUT-1:0];
  assign saturated = over || under;
  wire unused = &{1'b0, kept[Z-1:OUT]};
endmodule
// verilator lint_on DECLFILENAME
`endif
