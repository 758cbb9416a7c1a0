#ifndef COHORT_COMMON_BASE_PREPARE_PROCESS_H_
#define COHORT_COMMON_BASE_PREPARE_PROCESS_H_

namespace cohort {

// The first call of every main(), before there is another thread. `program`: a literal, for errors.
//
// - InstallTerminateHandler (common/base/exit_code.h).
// - FlushDenormals, for all threads.
// - The limit of open files becomes what the system allows at most: a data set may have thousands
//   of files, and a server as many connections.
void PrepareProcess(const char* program);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_PREPARE_PROCESS_H_
