#ifndef COHORT_DEPLOY_TOP_TOP_H_
#define COHORT_DEPLOY_TOP_TOP_H_

#include <string>

namespace cohort {

// The arguments of `cohort top`.
struct TopOptions {
  std::string target;  // a run, or the address of a chief's admin port: see JobStatusSource
  bool once = false;   // print one table and end
};

// Runs `cohort top`: shows a table of the job's tasks, refreshed each second on a terminal, until Ctrl-C
// or the end of the chief. Prints one table if stdout is no terminal. Returns the exit code.
int RunTop(const TopOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_TOP_TOP_H_
