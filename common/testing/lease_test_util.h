#ifndef COHORT_COMMON_TESTING_LEASE_TEST_UTIL_H_
#define COHORT_COMMON_TESTING_LEASE_TEST_UTIL_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

namespace cohort::testing {

// A process that holds a lease on a file, as an NFS server does, until another process wants the
// file.
class LeaseHolder {
 public:
  explicit LeaseHolder(const std::string& path) {
    int fds[2];
    REQUIRE(::pipe(fds) == 0);
    pid_ = ::fork();
    if (pid_ == 0) Hold(path, fds[1]);
    ::close(fds[1]);
    char byte = 0;
    const ssize_t held = ::read(fds[0], &byte, 1);
    ::close(fds[0]);
    REQUIRE(held == 1);
  }
  ~LeaseHolder() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    GaveBack();
  }
  LeaseHolder(const LeaseHolder&) = delete;
  // Waits for the process to end. True if the system asked it for the lease and it gave the lease
  // back.
  bool GaveBack() {
    int status = -1;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  [[noreturn]] static void Hold(const std::string& path, int told) {
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGIO);
    ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
    const int fd = ::open(path.c_str(), O_RDWR);
    if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) ::_exit(1);
    int signal = 0;
    if (::write(told, "h", 1) != 1 || ::sigwait(&wanted, &signal) != 0) ::_exit(2);
    ::_exit(::fcntl(fd, F_SETLEASE, F_UNLCK) == 0 ? 0 : 3);
  }

  pid_t pid_ = -1;
};

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TESTING_LEASE_TEST_UTIL_H_
