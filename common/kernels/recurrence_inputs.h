#ifndef COHORT_COMMON_KERNELS_RECURRENCE_INPUTS_H_
#define COHORT_COMMON_KERNELS_RECURRENCE_INPUTS_H_

#include <cstddef>

#include "common/graph/program.h"

namespace cohort {

// The numbers of the optional inputs of a recurrence; 0: the node has none.
struct RecurrenceInputs {
  size_t cell_grads = 0;  // lstm_grad: the gradient of the cells of all steps
  size_t state = 0;       // before the first step; lstm_grad: the cell
  size_t cell = 0;        // lstm: it follows the state
  size_t mask = 0;
};

inline RecurrenceInputs RecurrenceInputsOf(const Node& node, const Program& program) {
  RecurrenceInputs found;
  const bool is_lstm_grad = node.op == "lstm_grad";
  size_t at = is_lstm_grad || node.op == "gru_grad"              ? 4
              : node.op == "gru" || node.op == "simple_rnn_grad" ? 3
                                                                 : 2;
  size_t end = node.inputs.size();
  if (end > at && program.type(node.inputs[end - 1]).dtype == DType::kBool) found.mask = --end;
  if (is_lstm_grad && at < end && program.type(node.inputs[at]).dims.size() == 3) {
    found.cell_grads = at++;
  }
  if (at < end) found.state = at++;
  if (at < end) found.cell = at;
  return found;
}

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_RECURRENCE_INPUTS_H_
