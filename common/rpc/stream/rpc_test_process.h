#ifndef COHORT_COMMON_RPC_STREAM_RPC_TEST_PROCESS_H_
#define COHORT_COMMON_RPC_STREAM_RPC_TEST_PROCESS_H_

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace cohort {

// A child process that runs rpc_test_peer. The destructor kills it.
class TestPeer {
 public:
  // `tls_dir`: "" for plaintext.
  TestPeer(const char* verb, const std::string& address, const std::string& tls_dir = "") {
    int out[2];
    if (pipe(out) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      close(out[0]);
      close(out[1]);
      execl(COHORT_RPC_TEST_PEER, COHORT_RPC_TEST_PEER, verb, address.c_str(),
            tls_dir.empty() ? nullptr : tls_dir.c_str(), nullptr);
      _exit(127);
    }
    close(out[1]);
    output_ = fdopen(out[0], "r");
  }
  ~TestPeer() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    fclose(output_);
  }
  TestPeer(const TestPeer&) = delete;
  TestPeer& operator=(const TestPeer&) = delete;

  std::string ReadLine() {
    char line[64] = "";
    if (fgets(line, sizeof(line), output_) == nullptr) return "";
    return std::string(line, strcspn(line, "\n"));
  }
  void Signal(int signal) { kill(pid_, signal); }

 private:
  pid_t pid_;
  FILE* output_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_RPC_TEST_PROCESS_H_
