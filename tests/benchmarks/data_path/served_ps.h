#ifndef COHORT_TESTS_BENCHMARKS_DATA_PATH_SERVED_PS_H_
#define COHORT_TESTS_BENCHMARKS_DATA_PATH_SERVED_PS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/parameter_server.h"

namespace cohort::bench {

// A real parameter server of this process, adopted and given its tablets as a chief would: job
// "benchmark", generation, timeline and term 1. What goes wrong ends the process with a message.
class ServedPs {
 public:
  struct Options {
    std::vector<std::string> listen = {"127.0.0.1:0"};
    uint32_t index = 0;  // among the layout's servers
    int threads = 1;
    v1::Layout layout;
  };
  explicit ServedPs(const Options& options);
  ~ServedPs();

  int port() const { return server_->port(); }
  ParameterServer* server() { return server_.get(); }

 private:
  class Chief;
  std::unique_ptr<Logger> log_ = Logger::Discard();
  std::unique_ptr<ParameterServer> server_;
};

}  // namespace cohort::bench

#endif  // COHORT_TESTS_BENCHMARKS_DATA_PATH_SERVED_PS_H_
