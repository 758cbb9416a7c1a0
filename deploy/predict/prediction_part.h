#ifndef COHORT_DEPLOY_PREDICT_PREDICTION_PART_H_
#define COHORT_DEPLOY_PREDICT_PREDICTION_PART_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/file.h"
#include "common/tensor/tensor.h"
#include "deploy/predict/prediction_format.h"

namespace cohort {

// Which part of a prediction a process makes: --part INDEX/COUNT.
struct PartNumber {
  int index = 0;  // from 0
  int count = 1;
};

// Parses "2/8". Errors: exit 64.
absl::StatusOr<PartNumber> ParsePartNumber(const std::string& text);

// Records [begin, end) of a prediction: what a part is made of, and by which two parts fit.
struct PartDescription {
  PartNumber number;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t records = 0;    // all parts have as many together
  std::string checkpoint;  // its path
  std::string state;       // what the checkpoint holds, wherever it lies
  std::string data;        // the serialized DataFingerprint of the records
  std::vector<PredictionColumn> columns;
  std::vector<uint64_t> bytes;  // by stream
};

// The folder of the parts of a prediction, OUT.parts. Part 3 has the file 3.0 for the first stream,
// 3.1 for the next, and then 3.json, its description: it exists if the part is whole. 3.log has
// what the process of the part has printed.
class PartFolder {
 public:
  explicit PartFolder(const std::string& out) : path_(out + ".parts") {}

  const std::string& path() const { return path_; }
  std::string Stream(int part, size_t stream) const;
  std::string Description(int part) const;
  std::string Log(int part) const;

  // Creates the folder, unless it exists. Errors: exit code 73; that of a full disk.
  absl::Status Create() const;
  // Removes the files of all parts, and the folder. Errors: AlreadyExists if it has other files.
  absl::Status Remove() const;

 private:
  const std::string path_;
};

// Writes a part. Its description is written last.
class PartWriter {
 public:
  // Errors: those of PredictionFormat::Create, and of opening files.
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(const std::string& out,
                                                            PartDescription part);

  // `batch`: a tensor [records, dims...] for each column.
  absl::Status Append(std::span<const Tensor> batch);
  absl::Status Finish();

 private:
  PartWriter(const std::string& out, PartDescription part, std::unique_ptr<PredictionFormat> format)
      : folder_(out), part_(std::move(part)), format_(std::move(format)) {}
  // Writes the blocks that have this many bytes.
  absl::Status Flush(size_t least);

  const PartFolder folder_;
  PartDescription part_;
  const std::unique_ptr<PredictionFormat> format_;
  std::vector<std::unique_ptr<DurableFile>> files_;  // by stream
  std::vector<std::string> blocks_;                  // what is not written yet, by stream
};

// Makes the file `out` of the parts in its folder, and removes them. Returns the description of the
// first part. Errors: NotFound for a part that is not whole; InvalidArgument for parts that do not
// fit, because they have other counts, checkpoints or data.
absl::StatusOr<PartDescription> JoinParts(const std::string& out);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICTION_PART_H_
