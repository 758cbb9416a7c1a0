#ifndef COHORT_COMMON_DATA_TRANSFORM_CLASS_H_
#define COHORT_COMMON_DATA_TRANSFORM_CLASS_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/data/record_source.h"
#include "common/schema/class_registry.h"

namespace cohort {

struct Column;  // common/data/table.h

// x * scale + offset, computed in the dtype of the output.
struct Conversion {
  double scale = 1;
  double offset = 0;
};

// A transform of a dataset's columns that is applied to each record when a batch is gathered.
struct RecordTransform {
  // The output.
  DType dtype = DType::kInvalid;
  Dims dims;
  // Writes the output of one record to `output`, its memory in the batch. `inputs[i]` is the record
  // of input i. All are aligned for their dtypes. The result depends on nothing but the arguments:
  // a random transform takes its numbers from `context.random_key`, if `context.training`. Several
  // threads may call it at the same time. An error ends the job; the caller adds the names of the
  // transform and the record to the message.
  std::function<absl::Status(const RecordContext& context,
                             std::span<const std::span<const std::byte>> inputs,
                             std::span<std::byte> output)>
      apply = nullptr;
  // Instead of `apply`: the output has the numbers of the one input, converted to its own dtype.
  std::optional<Conversion> conversion = std::nullopt;
  // Instead of `apply`, for outputs that depend on other records of the batch: writes those of all
  // its `records`, from the one input. `context.record` is the first record. The result depends on
  // the arguments and on which records make the batch.
  std::function<absl::Status(const RecordContext& context, size_t records,
                             std::span<const std::byte> input, std::span<std::byte> output)>
      apply_batch = nullptr;
};

// Learns arguments of a transform from a column of numbers, which need not fit into memory.
class NumberLearner {
 public:
  virtual ~NumberLearner() = default;
  // Takes the numbers of the next records, which are complete. Errors: InvalidArgument.
  virtual absl::Status Add(std::span<const double> numbers) = 0;
  // Sets the arguments. Errors: InvalidArgument.
  virtual absl::Status Finish(v1::ClassConfig* config) = 0;
};

// A transform: its arguments, and the function that makes it for the columns of a dataset. A job
// file names it as `{column: image, Rescaling: {scale: 0.0039}}`. Each class of this tree has a
// file in common/data/transforms, with the line of transform_list.h that names it. Others are
// registered at the start of every process of the cluster that opens data:
//
//   Transforms().Register({.schema = {.name = "Log", .doc = "The natural logarithm."},
//                          .open = OpenLog});
struct TransformClass {
  using Open = absl::StatusOr<RecordTransform>(const Config& config,
                                               std::span<const FeatureType> inputs);
  // Returns the number of each word.
  using MapWords = absl::StatusOr<std::vector<double>>(const Config& config,
                                                       std::span<const std::string> words);
  using AdaptConfig = absl::Status(std::span<const uint32_t> codes,
                                   std::span<const std::string> words, size_t per_record,
                                   v1::ClassConfig* config);
  using LearnNumbers = absl::StatusOr<std::unique_ptr<NumberLearner>>(const Config& config,
                                                                      const Dims& dims);
  // Returns the number of each record, which depends on all columns; they are words.
  using MapColumns = absl::StatusOr<std::vector<double>>(const Config& config,
                                                         std::span<const Column> columns);
  using AdaptColumns = absl::Status(std::span<const Column> columns, v1::ClassConfig* config);
  using Encode = absl::StatusOr<std::optional<RecordTransform>>(const Config& config,
                                                                const FeatureType& numbers);
  using EncodeWords = absl::StatusOr<std::optional<RecordTransform>>(
      const Config& config, std::span<const std::string> words, const FeatureType& numbers);

  ClassSchema schema;
  // Several `columns` of a job file arrive as they are. False: they are stacked along a new last
  // axis first, so that there is one input.
  bool takes_columns = false;
  // A layer of Keras for images. It runs where the data is read, also if a model has it.
  bool for_images = false;
  // The columns that the arguments name, for a transform that needs no `columns` of the job file.
  std::function<absl::StatusOr<std::vector<std::string>>(const Config& config)> columns_of =
      nullptr;
  // Checks the inputs and returns the transform. Null for a transform of words. Errors:
  // InvalidArgument.
  std::function<Open> open = nullptr;
  // The same for the masks and the labels that belong to images; `inputs` are theirs and then that
  // of the images. The transform has the random numbers of that of the images. Null: masks stay as
  // they are; the class takes no labels.
  std::function<Open> open_masks = nullptr;
  std::function<Open> open_labels = nullptr;

  // True: an output depends on the numbers at its position in the inputs alone. Then many records
  // can be transformed as if they were one, and columns in memory are transformed when the dataset
  // is opened. `open` is called for their dtypes, and once more for float64, as which they come.
  bool elementwise = false;
  // Elementwise only: columns of integers in memory come as int64, so that none is rounded.
  bool keeps_integers = false;
  // The result is 1 for some records and 0 for others. One without a 1 is reported: it is most
  // likely a mistake.
  bool marks_records = false;
  // For a column of words, whose numbers have the dtype `word_dtype`. Null: words are parsed as
  // numbers.
  std::function<MapWords> map_words = nullptr;
  DType word_dtype = DType::kFloat32;
  // Says what is wrong with a word that map_words has refused. The caller adds its place in the
  // files. Null: a refusal does not depend on single words.
  std::function<absl::Status(const Config& config, const std::string& word)> check_word = nullptr;
  // A word has as many numbers as another one, which are a new last axis of the output, or take the
  // place of one of size 1: map_words returns those of each word.
  bool has_rows = false;
  // Instead of map_words, for several columns of words.
  std::function<MapColumns> map_columns = nullptr;
  // Columns of integers count as words, their decimal text. `open` gets those that are read record
  // by record, unless the class learns from words, or another column holds words.
  bool integers_are_words = false;
  // What is done with the numbers of words when a record is read; nothing: they are the output.
  std::function<Encode> encode = nullptr;
  // The same for a class that needs the words: those that map_words has got.
  std::function<EncodeWords> encode_words = nullptr;
  // Learns arguments from the training records, such as a vocabulary. Word `codes[i]` of `words` is
  // at position i of the column, which has `per_record` in each record. Null: it learns nothing.
  std::function<bool(const Config& config)> must_adapt = nullptr;
  std::function<AdaptConfig> adapt = nullptr;
  // The same for a column of numbers, which has the shape `dims` in a record.
  std::function<LearnNumbers> learn_numbers = nullptr;
  // The same for what the columns of map_columns hold: words in memory, or numbers.
  std::function<AdaptColumns> adapt_columns = nullptr;

  bool takes_words() const { return map_words != nullptr || map_columns != nullptr; }
  // True if the masks and the labels of images must follow what training does to the images.
  bool changes_targets() const {
    return (open_masks != nullptr || open_labels != nullptr) && schema.Find("seed") != nullptr;
  }
};

// All transforms. Names ignore case.
ClassRegistry<TransformClass>& Transforms();

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TRANSFORM_CLASS_H_
