// keras/src/callbacks/terminate_on_nan.py
#include "common/model/callbacks/callback.h"

namespace cohort {

CallbackClass TerminateOnNaNCallback() {
  return {
      .schema = {.name = "TerminateOnNaN",
                 .doc = "The job ends with an error when the loss of a batch is NaN or infinite.",
                 .arguments = {}},
      .needs_finite_values = true};
}

}  // namespace cohort
