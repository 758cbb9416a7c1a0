#ifndef COHORT_COMMON_DATA_FILES_TEMPORARY_FILE_H_
#define COHORT_COMMON_DATA_FILES_TEMPORARY_FILE_H_

#include <string>

#include "common/base/unique_fd.h"

namespace cohort {

struct TemporaryFile {
  UniqueFd fd;                // none if there can be no file
  std::string directory;      // where it is
  bool is_in_memory = false;  // on a tmpfs
};

// Opens a new file without a name in TMPDIR (/tmp by default), which is gone when it is closed.
TemporaryFile OpenTemporaryFile();

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILES_TEMPORARY_FILE_H_
