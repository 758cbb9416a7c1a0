#include "evaluator/evaluated_list.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<EvaluatedList>> EvaluatedList::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return WithExitCode(Unavailable("cannot write {}: {}", path, std::strerror(errno)),
                        ExitCode::kCantCreate);
  }
  std::unique_ptr<EvaluatedList> list(new EvaluatedList(path, fd));
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) list->names_.insert(line);
  }
  return list;
}

EvaluatedList::~EvaluatedList() { close(fd_); }

absl::Status EvaluatedList::Add(const std::string& name) {
  names_.insert(name);
  const std::string line = name + "\n";
  if (write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return WithExitCode(Unavailable("writing {}: {}", path_, std::strerror(errno)), ExitCode::kIo);
  }
  return absl::OkStatus();
}

}  // namespace cohort
