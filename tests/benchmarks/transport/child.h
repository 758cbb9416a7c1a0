#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_

#include <sys/types.h>

#include <string>

namespace cohort::bench {

// This program again, in a process of its own, as the server of one way on one address; killed by
// the destructor.
class Child {
 public:
  Child(const std::string& way, const std::string& address, const std::string& sizes);
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
