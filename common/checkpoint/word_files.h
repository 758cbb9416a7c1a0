#ifndef COHORT_COMMON_CHECKPOINT_WORD_FILES_H_
#define COHORT_COMMON_CHECKPOINT_WORD_FILES_H_

#include <absl/status/status.h>

#include <string>

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// Long lists of words of a manifest's job, such as the vocabulary that a StringLookup has learned,
// lie in files beside the manifest: words-<hash>.txt, one word per line, in which "\n" stands for a
// line break and "\\" for a backslash. Checkpoints of one run have the same words. So a file is
// written once, and later checkpoints have a hard link to it: each directory can be copied and
// deleted alone, and the last deletion frees the space. Storage without hard links gets a copy.

// Moves the long lists from the job of `manifest` to files in `checkpoint_dir`, which are durable
// when this returns. The caller syncs the directory before it commits the manifest. Errors: those
// of DurableFile.
absl::Status StoreWords(const std::string& checkpoint_dir, v1::Manifest* manifest);

// Reads the lists back into the job; `manifest` still names the files. Errors: DataLoss that names
// the file and what is wrong with it, also if it is missing.
absl::Status LoadWords(const std::string& checkpoint_dir, v1::Manifest* manifest);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_WORD_FILES_H_
