#ifndef COHORT_PS_SERVER_CLOSE_ORDER_H_
#define COHORT_PS_SERVER_CLOSE_ORDER_H_

#include "common/tablet/tablet.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// What SumStep and CloseStep have in common.
template <typename Message>
CloseOrder StepOf(const Message& message) {
  CloseOrder step{.step = message.step(), .step_try = message.step_try()};
  for (const v1::StepMember& member : message.members()) step.members.push_back(member.index());
  return step;
}

// The chief's message as tablets take it.
inline CloseOrder CloseOrderOf(const v1::CloseStep& close) {
  CloseOrder order = StepOf(close);
  order.iteration = close.iteration();
  order.skip = close.skip();
  for (const v1::GradientNorm& norm : close.norms()) {
    order.norms[{norm.optimizer(), norm.variable()}] = norm.norm();
  }
  return order;
}

}  // namespace cohort

#endif  // COHORT_PS_SERVER_CLOSE_ORDER_H_
