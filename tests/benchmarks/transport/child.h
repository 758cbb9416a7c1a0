#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/os/child_process.h"

namespace cohort::bench {

// Runs this program again, with these arguments, in a separate process. The two exchange lines: Say
// writes to its standard input, Hear reads from its standard output. The destructor kills it.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Say(const std::string& line);
  // Waits for its next line, and returns it without the line end. Ends this process if none comes.
  std::string Hear();
  // Processor time of all its threads so far, in seconds.
  double CpuSeconds() const;

 private:
  FILE* in_ = nullptr;   // what it reads
  FILE* out_ = nullptr;  // what it says
  const std::string name_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_CHILD_H_
