#ifndef COHORT_COMMON_COLLECTIVE_LOCAL_GROUP_H_
#define COHORT_COMMON_COLLECTIVE_LOCAL_GROUP_H_

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/collective/collective.h"

namespace cohort {

// The ranks of one process, one thread each. They share memory and send nothing: an owner reads its
// part in the buffers of all ranks in place, sums it in the order of places, and writes its own
// buffer. Then the others read it there. So the sums are those of `direct`, whatever
// `communication` says.
//
// A rank works on its part inside Wait. Wait returns when nobody reads this rank's buffers any more.
class LocalGroup {
 public:
  // The ranks of a group. Each is used by one thread. The last of them destroys the state that
  // they share. `names`: of the tasks or devices, for errors ("cpu:1"). `clock`: null: the
  // machine's.
  static std::vector<std::unique_ptr<Collective>> Create(const std::vector<std::string>& names,
                                                         const Clock* clock = nullptr);

 private:
  class State;
  class Rank;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_LOCAL_GROUP_H_
