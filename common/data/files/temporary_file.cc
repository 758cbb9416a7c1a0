#include "common/data/files/temporary_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/os/directory.h"

namespace cohort {

TemporaryFile OpenTemporaryFile() {
  TemporaryFile file;
  std::error_code error;
  file.directory = std::filesystem::temp_directory_path(error);
  if (error) file.directory = "/tmp";
  file.fd = UniqueFd(::open(file.directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.fd.ok()) {
    // Not all file systems have files without a name.
    std::string name = file.directory + "/cohort-XXXXXX";
    file.fd = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file.fd.ok()) return file;
    ::unlink(name.c_str());
  }
  file.is_in_memory = IsInMemory(file.directory);
  return file;
}

}  // namespace cohort
