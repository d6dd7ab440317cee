// Latency N, valid and ready, around a unit of latency 1 that never stalls: after it N - 1 registers and a
// queue. A beat is let in only when the queue has room for the results of all that were let in before it.
//
// in_*        beats; in_last is 1 with a beat that completes a result
// unit_*      in_valid of the unit, and its outputs one clock later: valid and a word
// out_*       results. The queue's first word, or past an empty queue what leaves the registers
// With out_ready 1 a beat can enter every clock; in_ready and out_valid come from registers.
`ifndef STREAM_SV
`define STREAM_SV
`include "mut.svh"
module stream #(
    parameter int BITS    = 8,
    parameter int LATENCY = 1
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             in_valid,
    input  wire             in_last,
    output wire             in_ready,
    output wire             unit_rst,
    output wire             unit_valid,
    input  wire             unit_done,
    input  wire  [BITS-1:0] unit_word,
    output wire             out_valid,
    input  wire             out_ready,
    output wire  [BITS-1:0] out_word
);
  localparam int ROOM = LATENCY + 1;  // results on their way or in the queue
  localparam int STEPS = `MUT_IS(101) ? LATENCY :  // MUT 101: one clock late
                         `MUT_IS(102) ? LATENCY - 2 :  // MUT 102: one clock early
                         LATENCY - 1;
  logic [31:0] owed;  // results of beats let in, not given yet
  assign in_ready = owed < 32'(ROOM) || `MUT_IS(103);  // MUT 103: in_ready is never 0
  assign unit_valid = in_valid && !rst
                      && (in_ready || `MUT_IS(104));  // MUT 104: a beat that waits enters in each clock
  assign unit_rst = rst && !`MUT_IS(105);  // MUT 105: the unit is not reset: its sum stays
  wire gives = out_valid && out_ready;

  // The registers after the unit.
  localparam int N = STEPS > 0 ? STEPS : 1;
  logic [N-1:0] full;
  logic [N*BITS-1:0] steps;
  always_ff @(posedge clk) begin
    full <= N'({full, unit_done}) & {N{!rst || `MUT_IS(106)}};  // MUT 106: a reset leaves what is on its way
    steps <= (N * BITS)'({steps, unit_word});
  end
  wire leaves = STEPS > 0 ? full[N-1] : unit_done;
  wire [BITS-1:0] leaving = STEPS > 0 ? steps[N*BITS-1-:BITS] : unit_word;

  // The queue: its lowest word goes first.
  logic [31:0] held;
  logic [ROOM*BITS-1:0] words;
  assign out_valid = `MUT_IS(107) ? (held != 0 || leaves) && out_ready :  // MUT 107: out_valid waits for out_ready
                     held != 0 || leaves;
  assign out_word = `MUT_IS(108) && leaves ? leaving :  // MUT 108: a new word shows past the queue
                    `MUT_IS(109) && held > 1 ? words[BITS+:BITS] :  // MUT 109: the second word goes first
                    held != 0 ? words[BITS-1:0] : leaving;
  wire shifts = held != 0 && gives && !(`MUT_IS(110) && leaves);  // MUT 110: a word stays that is given as one comes
  wire puts = leaves && !(held == 0 && gives)
              && !(`MUT_IS(111) && held != 0 && !gives);  // MUT 111: a word is lost where the first one waits
  wire [31:0] place = held - 32'(shifts);  // where a new word goes
  always_ff @(posedge clk) begin
    owed <= rst ? 0 : owed + 32'(unit_valid && in_last)
            - 32'(gives && !(`MUT_IS(112) && owed == 32'(ROOM)));  // MUT 112: a full queue never makes room again
    held <= rst && !`MUT_IS(113) ? 0 : place + 32'(puts);  // MUT 113: a reset leaves what is in the queue
    if (shifts) words <= words >> BITS;
    if (puts) words[place*BITS+:BITS] <= leaving;
  end
endmodule
`endif
