#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace cohort::bench {

// This program again, with these arguments, in a process of its own: a server on `address`, whose
// port is the first line it prints. Killed by the destructor.
class Child {
 public:
  Child(const std::string& address, const std::vector<std::string>& arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Where it listens, with the port that was chosen.
  const std::string& address() const { return address_; }
  // Processor time of all its threads so far, in seconds.
  double CpuSeconds() const;

 private:
  pid_t pid_ = 0;
  std::string address_;
};

// Processor time of this process so far, in seconds.
double OwnCpuSeconds();

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_
