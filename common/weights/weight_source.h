#ifndef COHORT_COMMON_WEIGHTS_WEIGHT_SOURCE_H_
#define COHORT_COMMON_WEIGHTS_WEIGHT_SOURCE_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint/safetensors.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A tensor that a variable may begin with.
struct SourceTensor {
  // The name of its variable, "dense/kernel", or the layer and the number of the variable in the
  // layer, "dense/0".
  std::string name;
  DType dtype = DType::kInvalid;  // kInvalid: of a type that no variable has
  Dims dims;                      // a table without bounds has those of its variable
  // The bytes of `name` for a nested model, "inner/" of "inner/dense/kernel". What follows them is
  // the name that Keras gave the variable: it may lack or repeat the names of models. 0: `name` is
  // complete.
  size_t model_bytes = 0;
};

// The values of a trained model in a file or a directory. Not thread-safe.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Sorted by name; no two have the same name.
  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  // Where the values are, for texts: the path that was opened, or the checkpoint in it.
  const std::string& path() const { return path_; }
  // False: tensors have the class and the number of their layer instead of its name, "dense_1/0".
  // Numbers are in the order of Keras' `model.layers`, and a nested model has its own:
  // "functional/dense/0".
  virtual bool names_layers() const { return true; }

  // Reads a tensor of tensors() as `dtype`: its own, or the other floating type. Errors:
  // InvalidArgument for another type; those of reading the file.
  absl::StatusOr<Tensor> Read(size_t index, DType dtype);

  // A table without bounds: the number of rows that exist.
  virtual absl::StatusOr<uint64_t> TableSize(const SourceTensor& /*table*/) const { return 0; }
  // Gives its rows to `take`(keys, values), some at a time, ascending by RowOfKey. `dtype`: as for
  // Read; nullopt: only the keys. Errors: those of Read and of `take`; DataLoss for a key that is
  // there twice.
  using RowTaker =
      absl::FunctionRef<absl::Status(std::span<const int64_t>, std::span<const uint8_t>)>;
  absl::Status ReadTable(size_t index, std::optional<DType> dtype, RowTaker take);

 protected:
  explicit WeightSource(std::string path) : path_(std::move(path)) {}
  // Sorts the tensors. Errors: InvalidArgument if two have the same name.
  absl::Status SetTensors(std::vector<SourceTensor> tensors);
  // Reads the tensor in its own type; `out` has its size.
  virtual absl::Status ReadInto(const SourceTensor& tensor, std::span<uint8_t> out) = 0;
  // ReadTable in the table's own type.
  virtual absl::Status ReadTableInto(const SourceTensor& table, bool values, RowTaker take);

 private:
  absl::Status CheckType(const SourceTensor& tensor, DType dtype) const;

  const std::string path_;
  std::vector<SourceTensor> tensors_;
};

// How a file has the tables without bounds: for each the tensor `name`, the rows that exist, and
// before it `name@keys`, the key of each row (int64), ascending by RowOfKey.
std::string KeysNameOf(const std::string& table);

// The tensors of a file for a variable that begins with a tensor of a source: one, or two for a
// table. AppendTo appends their values. Errors: those of WeightSource::Read, and of the writer.
absl::Status AddEntries(const WeightSource& source, size_t index, const std::string& name,
                        DType dtype, std::vector<SafetensorsWriter::Entry>* entries);
absl::Status AppendTo(WeightSource* source, size_t index, DType dtype, SafetensorsWriter* writer);

// Opens a safetensors file, a checkpoint (its directory, or a directory of checkpoints, of which it
// takes the newest valid one), or a file that Keras' save_weights wrote. Errors:
// NotFound; InvalidArgument or DataLoss that names the file and the reason.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& path);

// The three kinds.

// A safetensors file whose tensors have the names of variables. The rows of a table may have any
// order; if it is not that of RowOfKey, they are read one by one. Errors: those of
// SafetensorsReader::Open; DataLoss if a table and its keys do not fit together.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensorsWeights(const std::string& path);

// The values of a checkpoint's variables and tables, without slots. `path`: the checkpoint's
// directory or its manifest, or a directory of checkpoints, of which the newest valid one counts.
// Verifies checksums. Errors: NotFound if there is no checkpoint; those of CheckpointReader::Open.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenCheckpointWeights(const std::string& path);

// A file that model.save_weights() of Keras wrote, or a whole model in the old format. Both are
// HDF5 files without names of variables, so tensors are named by their layer and their number in
// it, "inner/dense/0".
//
//   Keras 3, "x.weights.h5":
//     /layers/sequential/layers/dense/vars/0       the groups are named after classes;
//     /layers/sequential/layers/dense/vars         has the attribute `name` with the layer's name.
//                                                  Keras before 3.6 and tf_keras do not write it:
//                                                  then names_layers() is false
//     /_layer_checkpoint_dependencies/dense/vars/0 the same, by TensorFlow before 2.15
//   tf_keras, and Keras 3 with another name, "x.h5" (the weights may lie below /model_weights):
//     /                                            has the attribute `layer_names`
//     /dense                                       the group of a layer has the attribute
//                                                  `weight_names`, a list of the paths below it
//
// A nested model of the old format has one group. Its tensors are named "inner/dense/kernel", with
// SourceTensor::model_bytes.
//
// Another program, cohort-read-hdf5, reads the file with limits on its memory and its time, and
// hands the tensors over: no damaged file can harm this process. They are in memory afterwards.
//
// Errors: DataLoss that names the file; InvalidArgument if it holds no weights; Unimplemented
// without that program, with what to install.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenKerasWeights(const std::string& path);

// False if this build has no program that reads HDF5 files.
bool ReadsHdf5();

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_WEIGHT_SOURCE_H_
