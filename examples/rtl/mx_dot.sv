// Dot product of two blocks of microscaling formats (OCP MX 1.0): y = float32(2^(sa + sb - 254) * sum of a * b
// over a block), the sum exact, rounded once to float32, ties to even.
//
// a, b      LANES elements of the formats A and B, lane 0 lowest: 0 E4M3, 1 E5M2, 2 E3M2, 3 E2M3, 4 E2M1, 5 INT8
//           (signed codes in units of 2^-6); first and last mark a block, of at most K elements
// sa, sb    the blocks' scales in E8M0, 2^(s - 127), of 255 NaN; read at the last beat
// y         float32 bits. Subnormals are kept; 0 is +0, a negative underflow -0. Beyond float32 y is the
//           infinity of the sum's sign and overflow is set. A scale or an element that is NaN, an infinity times
//           0 and infinities of both signs make 7fc00000; else infinities make one of their sign
// The accumulator has a bit for every place that a sum of K products can reach, and none more. A NaN is kept as
// infinities of both signs.
// Latency 1 from the beat with last: outputs and out_valid follow by a clock; a beat can enter every clock.
`include "mut.svh"
module mx_dot #(
    parameter int LANES = 4,
    parameter int K     = 32,
    parameter int A     = 0,
    parameter int B     = 1,
    // of the formats: bits of exponent and fraction, of a word and of a signed significand, the greatest
    // significand and the most that it is shifted by, -log2 of the least bit
    localparam int EA = A == 0 ? 4 : A == 1 ? 5 : A == 2 ? 3 : A == 5 ? 0 : 2,
    localparam int EB = B == 0 ? 4 : B == 1 ? 5 : B == 2 ? 3 : B == 5 ? 0 : 2,
    localparam int FA = A == 0 || A == 3 ? 3 : A == 4 ? 1 : A == 5 ? 7 : 2,
    localparam int FB = B == 0 || B == 3 ? 3 : B == 4 ? 1 : B == 5 ? 7 : 2,
    localparam int WA = 1 + EA + FA,
    localparam int WB = 1 + EB + FB
) (
    input  wire                clk,
    input  wire                rst,
    input  wire                in_valid,
    input  wire                first,
    input  wire                last,
    input  wire [LANES*WA-1:0] a,
    input  wire [LANES*WB-1:0] b,
    input  wire [7:0]          sa,
    input  wire [7:0]          sb,
    output logic               out_valid,
    output logic [31:0]        y,
    output logic               overflow
);
  localparam int SA = A == 5 ? 8 : FA + 2;
  localparam int SB = B == 5 ? 8 : FB + 2;
  localparam int GA = A == 0 ? 14 : A == 3 ? 15 : A == 4 ? 3 : A == 5 ? 128 : 7;
  localparam int GB = B == 0 ? 14 : B == 3 ? 15 : B == 4 ? 3 : B == 5 ? 128 : 7;
  localparam int MA = A == 5 ? 0 : (1 << EA) - 2 - (A == 1 ? 1 : 0);
  localparam int MB = B == 5 ? 0 : (1 << EB) - 2 - (B == 1 ? 1 : 0);
  localparam int UA = A == 0 ? 9 : A == 1 ? 16 : A == 2 ? 4 : A == 3 ? 3 : A == 4 ? 1 : 6;
  localparam int UB = B == 0 ? 9 : B == 1 ? 16 : B == 2 ? 4 : B == 3 ? 3 : B == 4 ? 1 : 6;
  localparam int PW = SA + SB + MA + MB + 2;               // of a product, of infinities too
  localparam int SW = $clog2(K * GA * GB + 1) + MA + MB;   // of the greatest magnitude of a sum
  localparam int AW = SW + 1;
  localparam int EDGE = 129 + UA + UB;                     // the least subnormal's place, of scales 0
  localparam int MOST = SW + 25;                           // beyond so many places nothing is kept
  localparam bit SPECIAL = A < 2 || B < 2;                 // NaNs or infinities come

  wire [LANES*PW-1:0] products;
  wire [LANES-1:0] nans, positives, negatives;
  for (genvar i = 0; i < LANES; i++) begin : lane
    wire [7:0] word_a = 8'(a[i*WA+:WA]);
    wire [7:0] word_b = 8'(b[i*WB+:WB]);
    wire [7:0] field_a = (word_a >> FA) & 8'((1 << EA) - 1);
    wire [7:0] field_b = (word_b >> FB) & 8'((1 << EB) - 1);
    wire [7:0] part_a = word_a & 8'((1 << FA) - 1);
    wire [7:0] part_b = word_b & 8'((1 << FB) - 1);
    wire [7:0] size_a =
        part_a | (field_a != 0 || `MUT_IS(1) ? 8'(1 << FA) : 8'd0);  // MUT 1: a leading one of subnormals
    wire [7:0] size_b = part_b | (field_b != 0 ? 8'(1 << FB) : 8'd0);
    wire signed [SA-1:0] x = SA'(A == 5 ? word_a : a[i*WA+WA-1] ? -size_a : size_a);
    wire signed [SB-1:0] w = SB'(B == 5 ? word_b : b[i*WB+WB-1] ? -size_b : size_b);
    wire [7:0] place_a = field_a == 0 || `MUT_IS(2) ? field_a : field_a - 1;  // MUT 2: subnormals one place low
    wire [7:0] place_b = field_b == 0 ? 0 : field_b - 1;
    wire signed [SA+SB-1:0] short = (SA + SB)'(x) * (SA + SB)'(w);
    wire signed [PW-1:0] product = PW'(short) <<< (place_a + place_b);
    wire nan_a = (A == 0 && word_a[6:0] == 7'h7f && !`MUT_IS(3))  // MUT 3: the NaN of E4M3 is a number
        || (A == 1 && field_a == 31 && part_a != 0);
    wire nan_b = (B == 0 && word_b[6:0] == 7'h7f) ||
        (B == 1 && field_b == 31 && part_b != 0 && !`MUT_IS(4));  // MUT 4: the NaNs of E5M2 are infinities
    wire infinite = (A == 1 && field_a == 31) ||
        (B == 1 && field_b == 31 && !`MUT_IS(5));  // MUT 5: an infinity is a number
    assign products[i*PW+:PW] = product;
    assign nans[i] = nan_a || nan_b ||
        (infinite && product == 0 && !`MUT_IS(6));  // MUT 6: an infinity times 0 is 0
    assign positives[i] = infinite && (`MUT_IS(7) ? !b[i*WB+WB-1] : product > 0);  // MUT 7: the sign of a ignored
    assign negatives[i] = infinite && (`MUT_IS(7) ? b[i*WB+WB-1] : product < 0);  // MUT 7: the sign of a ignored
    wire unused = &{1'b0, size_a, size_b};
  end

  logic signed [AW-1:0] sum;  // of the beats before this one
  logic plus, minus;          // infinities among them
  logic signed [PW+7:0] dot;
  always_comb begin
    dot = '0;
    for (int i = 0; i < LANES - (`MUT_IS(8) ? 1 : 0); i++)  // MUT 8: last lane dropped
      dot = dot + (PW + 8)'($signed(products[i*PW+:PW]));
  end
  wire held = SPECIAL && (!first || `MUT_IS(9));  // MUT 9: NaNs and infinities not cleared
  wire after_plus = (held && plus) || |positives || |nans;
  wire after_minus = (held && minus) || |negatives || |nans;
  wire signed [AW-1:0] start = first && !`MUT_IS(10) ? '0 : sum;  // MUT 10: the sum not cleared
  wire signed [AW-1:0] added = start + AW'(dot);
  wire signed [AW-1:0] after =
      after_plus || after_minus ? '0 :
      `MUT_IS(11) ? AW'($signed(added[AW-2:0])) :  // MUT 11: an accumulator of one bit less
      added;

  wire negative = after[AW-1];
  wire [SW-1:0] size = SW'(`MUT_IS(12) && negative ? ~after : negative ? -after : after);  // MUT 12: ones' complement
  logic [31:0] top;  // bits of it
  always_comb begin
    top = 0;
    for (int i = 0; i < SW; i++) if (size[i]) top = i + 1;
  end
  wire [8:0] scales = `MUT_IS(13) ? 9'(8'(sa + sb)) :  // MUT 13: the sum of scales wraps
                      `MUT_IS(14) ? 9'(sa) + 9'd127 :  // MUT 14: sb ignored
                      9'(sa) + 9'(sb);
  wire signed [31:0] edge_ = EDGE - 32'(scales);
  // The least bit that float32 keeps, 24 places up: the leading one less 23, or the least subnormal's.
  wire signed [31:0] lsb = $signed(top) > edge_ || `MUT_IS(15) ? $signed(top) : edge_;  // MUT 15: 24 bits of a subnormal
  wire [31:0] right = lsb > MOST ? MOST :
                      `MUT_IS(16) ? 32'(lsb[5:0]) :  // MUT 16: an amount of 6 bits
                      lsb;
  wire [SW+23:0] scaled = {size, 24'd0};
  wire [23:0] floor = 24'(scaled >> right);
  wire [SW+23:0] lost = scaled & ~({SW + 24{1'b1}} << right);
  wire [SW+23:0] rem = `MUT_IS(17) ? lost & ({SW + 24{1'b1}} << (right - 24)) :  // MUT 17: sticky bits beyond 24 lost
                       lost;
  wire [SW+25:0] half = ((SW + 26)'(1) << right) >> 1;
  wire above = {2'b0, rem} > half;
  wire tie = {2'b0, rem} == half;
  wire up = `MUT_IS(18) ? above || (tie && right != 0) :  // MUT 18: tie away from zero
            `MUT_IS(19) ? above || (tie && !negative && right != 0) :  // MUT 19: tie up
            `MUT_IS(20) ? 1'b0 :  // MUT 20: truncated
            above || (tie && floor[0]);
  // Exponent and mantissa as one number: its hidden bit and the rounding's carry step the exponent.
  wire [31:0] steps = size == 0 && !`MUT_IS(21) ? 0 : lsb - edge_;  // MUT 21: a sum of 0 has an exponent
  wire [31:0] code =
      `MUT_IS(22) ? {9'(steps) + 9'(floor[23]), floor[22:0] + 23'(up)} :  // MUT 22: carry dropped
      `MUT_IS(23) && !floor[23] ? 0 :  // MUT 23: subnormals flushed
      (steps << 23) + 32'(floor) + 32'(up);
  wire infinite = code >= 32'h7f800000 && !`MUT_IS(24);  // MUT 24: no infinity
  wire [31:0] kept = infinite ? (`MUT_IS(25) ? 32'h7f7fffff : 32'h7f800000) : code;  // MUT 25: greatest float
  wire bad = (sa == 255 || sb == 255) && !`MUT_IS(26);  // MUT 26: the NaN of a scale is a number
  wire both = after_plus && after_minus && !`MUT_IS(27);  // MUT 27: infinities of both signs are the positive one

  always_ff @(posedge clk) begin
    out_valid <= in_valid && last && !rst;
    if (rst) begin
      sum   <= '0;
      plus  <= 1'b0;
      minus <= 1'b0;
    end else if (in_valid || `MUT_IS(28)) begin  // MUT 28: adds beats without valid
      sum   <= after;
      plus  <= after_plus;
      minus <= after_minus;
    end
    y <= bad || both ? 32'h7fc00000 :
         after_plus ? 32'h7f800000 :
         after_minus ? 32'hff800000 :
         {negative && !(`MUT_IS(29) && kept == 0), kept[30:0]};  // MUT 29: an underflow loses its sign
    overflow <= infinite && (!bad || `MUT_IS(30));  // MUT 30: the flag of a NaN's sum
  end
  wire unused = &{1'b0, kept[31]};
endmodule
