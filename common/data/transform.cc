#include "common/data/transform.h"

#include <absl/functional/function_ref.h>
#include <absl/strings/str_join.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <sstream>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/dataset.h"
#include "common/data/files/remote_file.h"
#include "common/data/input_file.h"
#include "common/data/record_graph.h"
#include "common/data/row_filter.h"
#include "common/data/source_class.h"
#include "common/data/transform_class.h"
#include "common/data/words.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using Transform = v1::ColumnTransform;

std::vector<std::string> InputsOf(const Transform& transform) {
  if (!transform.column().empty()) return {transform.column()};
  return {transform.columns().begin(), transform.columns().end()};
}

std::string NameOf(const Transform& transform) {
  return fmt::format("transform of \"{}\"", OutputOf(transform));
}

absl::Status Complete(Transform* transform) {
  v1::ClassConfig* const config = transform->mutable_transform_class();
  if (config->class_name().empty()) config->set_class_name(DefaultClass(*transform));
  COHORT_ASSIGN_OR_RETURN(*config, CompleteConfig(Transforms(), *config));
  COHORT_RETURN_IF_ERROR(FillColumns(transform));
  if (transform->column().empty() == transform->columns().empty()) {
    return InvalidArgument("give either `column` or `columns`");
  }
  if (OutputOf(*transform).empty()) return InvalidArgument("`columns` needs an `output`: its name");
  if (!transform->dtype().empty() && !DTypeFromName(transform->dtype()).has_value()) {
    return InvalidArgument("dtype: \"{}\" is unknown", transform->dtype());
  }
  return absl::OkStatus();
}

absl::StatusOr<const Column*> FindColumn(const std::string& name, const Table& table) {
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](const Column& c) { return c.name == name; });
  if (found == table.columns.end()) {
    return InvalidArgument(
        "there is no column \"{}\"; there are {}", name,
        absl::StrJoin(table.columns, ", ",
                      [](std::string* out, const Column& c) { out->append(c.name); }));
  }
  if (!found->not_a_number.empty()) return InvalidArgument("{}", found->not_a_number);
  return &*found;
}

// Returns the inputs of the transform.
absl::StatusOr<std::vector<Column>> FindColumns(const Transform& transform, const Table& table) {
  std::vector<Column> inputs;
  for (const std::string& name : InputsOf(transform)) {
    COHORT_ASSIGN_OR_RETURN(const Column* found, FindColumn(name, table));
    inputs.push_back(*found);
  }
  return inputs;
}

const TransformClass& StackClass() { return **Transforms().Find("Stack"); }

absl::StatusOr<RecordTransform> Open(const TransformClass& transform, const v1::ClassConfig& config,
                                     std::span<const FeatureType> inputs) {
  if (!transform.open) {
    return InvalidArgument("column \"{}\" holds numbers, and {} needs words", inputs[0].name,
                           transform.schema.name);
  }
  COHORT_ASSIGN_OR_RETURN(RecordTransform opened, transform.open(Config(config), inputs));
  COHORT_RETURN_IF_ERROR(CheckColumnType(opened.dtype, opened.dims));
  if (opened.apply || opened.conversion || opened.apply_batch) return opened;
  return Internal("{} has no function `apply`", transform.schema.name);
}

std::vector<FeatureType> TypesOf(std::span<const Column> columns) {
  std::vector<FeatureType> types;
  for (const Column& column : columns) types.push_back({column.name, column.dtype, column.dims});
  return types;
}

// Transforms columns in memory as one record that has all their numbers.
absl::StatusOr<Column> TransformNumbers(const TransformClass& transform, uint64_t records,
                                        const v1::ClassConfig& config, std::vector<Column> inputs) {
  for (Column& input : inputs) {
    COHORT_ASSIGN_OR_RETURN(input, NumbersOf(input));
  }
  std::vector<FeatureType> types = TypesOf(inputs);
  COHORT_ASSIGN_OR_RETURN(const RecordTransform opened, Open(transform, config, types));
  if (opened.conversion) {
    Column column = std::move(inputs[0]);
    column.open_dtype = column.open_dtype && opened.dtype == column.dtype;
    column.dtype = opened.dtype;
    column.dims = opened.dims;
    column.scale *= opened.conversion->scale;
    column.offset = column.offset * opened.conversion->scale + opened.conversion->offset;
    return column;
  }
  const bool integers =
      transform.keeps_integers &&
      std::all_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_integer(); });
  const DType widest = integers ? DType::kInt64 : DType::kFloat64;
  std::vector<TableVector<uint8_t>> numbers;
  std::vector<std::span<const std::byte>> bytes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t count = records * static_cast<size_t>(inputs[i].elements());
    TableVector<uint8_t>& values = numbers.emplace_back(count * SizeOf(widest));
    ConvertNumbers(inputs[i].stored, inputs[i].values->data(), widest, values.data(), count,
                   inputs[i].scale, inputs[i].offset);
    bytes.push_back(std::as_bytes(std::span(values)));
    types[i].dtype = widest;
  }
  COHORT_ASSIGN_OR_RETURN(const RecordTransform wide, Open(transform, config, types));
  TableVector<uint8_t> values(records * static_cast<size_t>(NumElements(wide.dims)) *
                              SizeOf(wide.dtype));
  COHORT_RETURN_IF_ERROR(wide.apply({}, bytes, std::as_writable_bytes(std::span(values))));
  const bool open_dtype =
      wide.dtype != opened.dtype &&
      std::any_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.open_dtype; });
  return Column{.dims = wide.dims,
                .stored = wide.dtype,
                .values = std::make_shared<const TableVector<uint8_t>>(std::move(values)),
                .dtype = opened.dtype,
                .open_dtype = open_dtype};
}

absl::StatusOr<Column> StackMemory(uint64_t records, std::vector<Column> inputs) {
  if (!std::all_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_text(); })) {
    return TransformNumbers(StackClass(), records, {}, std::move(inputs));
  }
  std::vector<FeatureType> codes = TypesOf(inputs);
  for (FeatureType& type : codes) type.dtype = DType::kInt32;
  COHORT_ASSIGN_OR_RETURN(const RecordTransform stack, Open(StackClass(), {}, codes));
  return StackWords(inputs, stack.dims);
}

// A vocabulary travels in messages, whose text is UTF-8. Words that are only compared may be other
// bytes. Errors: DataLoss that names the first record with other bytes.
absl::Status CheckVocabulary(const Column& column, const Table& table) {
  const auto bad = std::find_if_not(column.words->begin(), column.words->end(), IsUtf8);
  if (bad == column.words->end()) return absl::OkStatus();
  const auto code = static_cast<uint32_t>(bad - column.words->begin());
  const auto at = std::find(column.codes->begin(), column.codes->end(), code);
  const auto record = static_cast<uint64_t>((at - column.codes->begin()) / column.elements());
  return DataLoss(
      "{}: column \"{}\": \"{}\" is not UTF-8, and the words of a vocabulary are: save the file as "
      "UTF-8",
      table.PlaceOf(record, column.name), PrintableLine(column.name), PrintableLine(*bad));
}

// The error of the first record with a word that the transform refuses.
absl::Status RefusalOf(const TransformClass& transform, const Table& table, const Column& column,
                       const v1::ClassConfig& config, const absl::Status& refused) {
  if (!transform.check_word) return refused;
  for (size_t i = 0; i < column.codes->size(); ++i) {
    const absl::Status status =
        transform.check_word(Config(config), (*column.words)[(*column.codes)[i]]);
    if (status.ok()) continue;
    const uint64_t record = i / static_cast<size_t>(column.elements());
    return Annotate(status, fmt::format("{}: column \"{}\"", table.PlaceOf(record, column.name),
                                        PrintableLine(column.name)));
  }
  return refused;
}

// Transforms columns in memory when the dataset is opened. `config` gets what the class learns.
// `words` gets those that become numbers.
absl::StatusOr<Column> TransformMemory(const TransformClass& transform, const Table& table,
                                       std::vector<Column> inputs, v1::ClassConfig* config,
                                       std::shared_ptr<const std::vector<std::string>>* words) {
  const uint64_t records = table.records;
  if (inputs.size() > 1 && !transform.takes_columns) {
    COHORT_ASSIGN_OR_RETURN(Column stacked, StackMemory(records, std::move(inputs)));
    inputs = {std::move(stacked)};
  }
  const Column& input = inputs[0];
  if (!input.is_text() || !transform.takes_words()) {
    return TransformNumbers(transform, records, *config, std::move(inputs));
  }
  if (transform.map_columns) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                            transform.map_columns(Config(*config), inputs));
    return NumbersColumn(numbers, input.dims, transform.word_dtype);
  }
  if (transform.must_adapt && transform.must_adapt(Config(*config))) {
    COHORT_RETURN_IF_ERROR(CheckVocabulary(input, table));
    COHORT_RETURN_IF_ERROR(
        transform.adapt(*input.codes, *input.words, static_cast<size_t>(input.elements()), config));
  }
  const auto mapped = transform.map_words(Config(*config), *input.words);
  if (!mapped.ok()) return RefusalOf(transform, table, input, *config, mapped.status());
  const std::vector<double>& numbers = *mapped;
  *words = input.words;
  Column column = MapWords(input, numbers, transform.word_dtype, transform.word_dtype);
  if (transform.has_rows && !input.words->empty()) {
    if (!column.dims.empty() && column.dims.back() == 1) column.dims.pop_back();
    column.dims.push_back(static_cast<int64_t>(numbers.size() / input.words->size()));
  }
  return column;
}

// Returns a column that is read record by record as one in memory; another one as it is.
absl::StatusOr<Column> ReadIntoMemory(const Column& column, const Table& table) {
  if (column.is_in_memory()) return column;
  constexpr uint64_t kBlockRecords = 4096;
  const FeatureType type{column.name, column.dtype, column.dims};
  TableVector<uint8_t> values(table.records * type.bytes());
  std::vector<uint64_t> records;
  for (uint64_t at = 0; at < table.records; at += records.size()) {
    records.clear();
    for (uint64_t r = at; r < std::min(at + kBlockRecords, table.records); ++r)
      records.push_back(r);
    const RecordGraph::Output output = {column.node, values.data() + at * type.bytes()};
    COHORT_RETURN_IF_ERROR(table.graph->Gather(records, {&output, 1}, {}));
  }
  return Column{.name = column.name,
                .dims = column.dims,
                .stored = column.dtype,
                .values = std::make_shared<const TableVector<uint8_t>>(std::move(values)),
                .dtype = column.dtype};
}

// Reads the numbers of columns, block by block. Several columns come side by side, as Stack gives
// them.
class BlockReader {
 public:
  static absl::StatusOr<BlockReader> Create(std::vector<Column> inputs, const Table& table) {
    for (Column& input : inputs) {
      COHORT_ASSIGN_OR_RETURN(input, NumbersOf(input));
    }
    BlockReader reader(std::move(inputs), table);
    reader.dims_ = reader.inputs_[0].dims;
    if (reader.inputs_.size() > 1) {
      COHORT_ASSIGN_OR_RETURN(const RecordTransform stack,
                              Open(StackClass(), {}, TypesOf(reader.inputs_)));
      reader.dims_ = stack.dims;
    }
    return reader;
  }

  const Dims& dims() const { return dims_; }

  // Calls `add` with the numbers of all records.
  absl::Status ForEach(absl::FunctionRef<absl::Status(std::span<const double>)> add) {
    constexpr uint64_t kBlockBytes = 16 << 20;
    constexpr uint64_t kMostRecords = 4096;
    const auto elements = static_cast<uint64_t>(NumElements(dims_));
    const uint64_t block = std::clamp<uint64_t>(
        kBlockBytes / sizeof(double) / std::max<uint64_t>(elements, 1), 1, kMostRecords);
    std::vector<double> numbers, part;
    for (uint64_t first = 0; first < table_.records; first += block) {
      const uint64_t count = std::min(block, table_.records - first);
      numbers.resize(count * elements);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        part.resize(numbers.size() / inputs_.size());
        COHORT_RETURN_IF_ERROR(Read(inputs_[i], first, count, &part));
        for (size_t j = 0; j < part.size(); ++j) numbers[j * inputs_.size() + i] = part[j];
      }
      COHORT_RETURN_IF_ERROR(add(numbers));
    }
    return absl::OkStatus();
  }

 private:
  BlockReader(std::vector<Column> inputs, const Table& table)
      : inputs_(std::move(inputs)), table_(table) {}

  absl::Status Read(const Column& column, uint64_t first, uint64_t count,
                    std::vector<double>* numbers) {
    if (column.is_in_memory()) {
      const size_t at = first * static_cast<size_t>(column.elements()) * SizeOf(column.stored);
      ConvertNumbers(column.stored, column.values->data() + at, DType::kFloat64, numbers->data(),
                     numbers->size(), column.scale, column.offset);
      return absl::OkStatus();
    }
    std::vector<uint64_t> records(count);
    std::iota(records.begin(), records.end(), first);
    bytes_.resize(numbers->size() * SizeOf(column.dtype));
    const RecordGraph::Output output = {column.node, bytes_.data()};
    COHORT_RETURN_IF_ERROR(table_.graph->Gather(records, {&output, 1}, {}));
    ConvertNumbers(column.dtype, bytes_.data(), DType::kFloat64, numbers->data(), numbers->size());
    return absl::OkStatus();
  }

  std::vector<Column> inputs_;
  const Table& table_;
  Dims dims_;
  std::vector<uint8_t> bytes_;
};

// Learns arguments from columns of numbers.
absl::Status LearnFromNumbers(const TransformClass& transform, const Table& table,
                              std::vector<Column> inputs, v1::ClassConfig* config) {
  COHORT_ASSIGN_OR_RETURN(BlockReader reader, BlockReader::Create(std::move(inputs), table));
  const Config given(*config);
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<NumberLearner> learner,
                          transform.learn_numbers(given, reader.dims()));
  COHORT_RETURN_IF_ERROR(
      reader.ForEach([&](std::span<const double> numbers) { return learner->Add(numbers); }));
  return learner->Finish(config);
}

// Transforms each record when it is read: adds nodes to the graph.
class GraphTransform {
 public:
  GraphTransform(const Transform& transform, const TransformClass& its_class, const Table& table)
      : transform_(transform), class_(its_class), table_(table) {}

  absl::StatusOr<Column> Add(const std::vector<Column>& inputs) {
    for (const Column& column : inputs) COHORT_RETURN_IF_ERROR(AddInput(column));
    images_ = types_[0];
    const v1::ClassConfig& config = transform_.transform_class();
    if (nodes_.size() > 1 && !class_.takes_columns) {
      COHORT_RETURN_IF_ERROR(AddNode(Open(StackClass(), {}, types_), /*elementwise=*/true));
    }
    COHORT_RETURN_IF_ERROR(AddNode(Open(class_, config, types_), class_.elementwise));
    images_node_ = nodes_[0];
    const std::string& dtype = transform_.dtype();
    if (!dtype.empty() && *DTypeFromName(dtype) != types_[0].dtype) {
      COHORT_RETURN_IF_ERROR(AddNode(
          RecordTransform{
              .dtype = *DTypeFromName(dtype), .dims = types_[0].dims, .conversion = Conversion{}},
          /*elementwise=*/true));
    }
    return Column{.dims = types_[0].dims, .dtype = types_[0].dtype, .node = nodes_[0]};
  }

  // After Add: the transform of masks or labels that belong to the images.
  absl::StatusOr<Column> AddFollower(const std::function<TransformClass::Open>& open,
                                     const Column& follower) {
    nodes_.clear();
    types_.clear();
    COHORT_RETURN_IF_ERROR(AddInput(follower));
    types_.push_back(images_);
    COHORT_RETURN_IF_ERROR(AddNode(open(Config(transform_.transform_class()), types_),
                                   /*elementwise=*/false, images_node_));
    return Column{
        .name = follower.name, .dims = types_[0].dims, .dtype = types_[0].dtype, .node = nodes_[0]};
  }

 private:
  absl::Status AddInput(const Column& column) {
    COHORT_ASSIGN_OR_RETURN(const Column numbers, NumbersOf(column));
    nodes_.push_back(table_.NodeOf(numbers));
    types_.push_back(table_.graph->type(nodes_.back()));
    types_.back().name = column.name;
    return absl::OkStatus();
  }

  // Replaces the inputs by the transform of them.
  absl::Status AddNode(absl::StatusOr<RecordTransform> transform, bool elementwise,
                       int draws_as = -1) {
    COHORT_RETURN_IF_ERROR(transform.status());
    types_.assign(1, {types_[0].name, transform->dtype, transform->dims});
    nodes_.assign(1, table_.graph->AddTransform(NameOf(transform_), *std::move(transform),
                                                elementwise, nodes_, draws_as));
    return absl::OkStatus();
  }

  const Transform& transform_;
  const TransformClass& class_;
  const Table& table_;
  std::vector<int> nodes_;          // the inputs of the next transform
  std::vector<FeatureType> types_;  // those of nodes_
  FeatureType images_;              // the input of the class, for what follows it
  int images_node_ = -1;            // the class itself
};

// Adds what is done with the numbers of words when a record is read.
absl::StatusOr<Column> Encoded(const TransformClass& its_class, const Transform& transform,
                               const Table& table, std::span<const std::string> words,
                               Column numbers) {
  const FeatureType type{transform.column(), numbers.dtype, numbers.dims};
  const Config config(transform.transform_class());
  std::optional<RecordTransform> encode;
  if (its_class.encode_words) {
    COHORT_ASSIGN_OR_RETURN(encode, its_class.encode_words(config, words, type));
  } else if (its_class.encode) {
    COHORT_ASSIGN_OR_RETURN(encode, its_class.encode(config, type));
  }
  if (!encode.has_value()) return numbers;
  COHORT_RETURN_IF_ERROR(CheckColumnType(encode->dtype, encode->dims));
  Column encoded{.dims = encode->dims, .dtype = encode->dtype};
  encoded.node = table.graph->AddTransform(NameOf(transform), *std::move(encode),
                                           /*elementwise=*/false, {table.NodeOf(numbers)});
  const DType wanted = DTypeFromName(transform.dtype()).value_or(encoded.dtype);
  if (wanted == encoded.dtype) return encoded;
  encoded.dtype = wanted;
  encoded.node = table.graph->AddTransform(
      NameOf(transform),
      RecordTransform{.dtype = wanted, .dims = encoded.dims, .conversion = Conversion{}},
      /*elementwise=*/true, {encoded.node});
  return encoded;
}

// True if the job names the dtype of the result.
bool GivesDType(const TransformClass& its_class, const Transform& transform) {
  const Config config(transform.transform_class());
  return !transform.dtype().empty() ||
         (its_class.schema.Find("dtype") != nullptr && !config.IsNone("dtype"));
}

bool IsAllZero(const Column& column) {
  return std::all_of(column.values->begin(), column.values->end(),
                     [](uint8_t byte) { return byte == 0; });
}

// Adds a column, or replaces that of its name.
void SetColumn(Column column, Table* table) {
  const auto same = std::find_if(table->columns.begin(), table->columns.end(),
                                 [&](const Column& c) { return c.name == column.name; });
  if (same == table->columns.end()) {
    table->columns.push_back(std::move(column));
  } else {
    *same = std::move(column);
  }
}

// Transforms the masks and the labels that belong to the images of the transform `images`.
absl::Status Follow(const Transform& transform, const TransformClass& its_class,
                    GraphTransform* images, Table* table) {
  const auto follow = [&](const char* key, const std::string& name,
                          const std::function<TransformClass::Open>& open) -> absl::Status {
    if (name.empty()) return absl::OkStatus();
    COHORT_ASSIGN_OR_RETURN(const Column* found, FindColumn(name, *table));
    if (!open) return absl::OkStatus();
    auto column = images->AddFollower(open, *found);
    if (!column.ok()) return Annotate(column.status(), fmt::format("{}: {}", key, name));
    SetColumn(*std::move(column), table);
    return absl::OkStatus();
  };
  if (!transform.labels().empty() && !its_class.open_labels) {
    return InvalidArgument("{} changes no labels: leave out the key `labels`",
                           its_class.schema.name);
  }
  if (!transform.segmentation_masks().empty() && !its_class.for_images) {
    return InvalidArgument("{} is no transform of images: leave out the key `segmentation_masks`",
                           its_class.schema.name);
  }
  COHORT_RETURN_IF_ERROR(
      follow("segmentation_masks", transform.segmentation_masks(), its_class.open_masks));
  return follow("labels", transform.labels(), its_class.open_labels);
}

absl::Status Apply(Transform* transform, Table* table) {
  COHORT_ASSIGN_OR_RETURN(const TransformClass* its_class,
                          Transforms().Find(transform->transform_class().class_name()));
  COHORT_ASSIGN_OR_RETURN(std::vector<Column> inputs, FindColumns(*transform, *table));
  v1::ClassConfig* const config = transform->mutable_transform_class();
  if (its_class->integers_are_words) {
    const bool learns_words = its_class->adapt && its_class->must_adapt(Config(*config));
    const bool has_words =
        std::any_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_text(); });
    for (Column& input : inputs) {
      if (IsFloating(input.dtype) || !(learns_words || has_words)) continue;
      COHORT_ASSIGN_OR_RETURN(input, ReadIntoMemory(input, *table));
    }
    const auto is_word = [](const Column& c) { return c.is_text() || c.is_integer(); };
    if (std::all_of(inputs.begin(), inputs.end(), is_word)) {
      for (Column& input : inputs) input = WordsOf(input);
    }
  }
  const bool are_words =
      its_class->takes_words() &&
      std::all_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_text(); });
  if (!are_words && its_class->learn_numbers && its_class->must_adapt(Config(*config))) {
    COHORT_RETURN_IF_ERROR(LearnFromNumbers(*its_class, *table, inputs, config));
  }
  if (its_class->adapt_columns && its_class->must_adapt(Config(*config))) {
    COHORT_RETURN_IF_ERROR(its_class->adapt_columns(inputs, config));
  }
  const bool in_memory =
      (its_class->elementwise || (its_class->takes_words() && (are_words || !its_class->open))) &&
      std::all_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_in_memory(); });
  GraphTransform by_record(*transform, *its_class, *table);
  std::shared_ptr<const std::vector<std::string>> words;
  COHORT_ASSIGN_OR_RETURN(
      Column column, in_memory
                         ? TransformMemory(*its_class, *table, std::move(inputs), config, &words)
                         : by_record.Add(inputs));
  if (are_words) {
    const std::span<const std::string> mapped =
        words == nullptr ? std::span<const std::string>() : *words;
    COHORT_ASSIGN_OR_RETURN(column,
                            Encoded(*its_class, *transform, *table, mapped, std::move(column)));
  }
  column.name = OutputOf(*transform);
  if (column.is_in_memory() && !transform->dtype().empty())
    column.dtype = *DTypeFromName(transform->dtype());
  if (GivesDType(*its_class, *transform)) column.open_dtype = false;
  if (column.is_in_memory() && its_class->marks_records && IsAllZero(column)) {
    table->warnings.push_back(
        fmt::format("{} marks none of the {} records with 1: compare the value of {} with the data",
                    NameOf(*transform), table->records, its_class->schema.name));
  }
  SetColumn(std::move(column), table);
  return Follow(*transform, *its_class, &by_record, table);
}

}  // namespace

std::string OutputOf(const v1::ColumnTransform& transform) {
  if (!transform.output().empty()) return transform.output();
  return transform.column();
}

absl::Status FillColumns(v1::ColumnTransform* transform) {
  const v1::ClassConfig& config = transform->transform_class();
  COHORT_ASSIGN_OR_RETURN(const TransformClass* its_class, Transforms().Find(config.class_name()));
  if (!its_class->columns_of) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> named,
                          its_class->columns_of(Config(config)));
  if (InputsOf(*transform).empty()) {
    transform->mutable_columns()->Assign(named.begin(), named.end());
  }
  if (InputsOf(*transform) == named) return absl::OkStatus();
  return InvalidArgument("{} reads {}: leave out `column` and `columns`, and give an `output`",
                         its_class->schema.name, fmt::join(named, ", "));
}

bool HasVocabularyFile(const v1::ClassConfig& config) {
  const auto found = config.config().find("vocabulary");
  return found != config.config().end() && found->second.has_s();
}

absl::Status ReadVocabulary(const DataOptions& options, v1::ClassConfig* config) {
  if (!HasVocabularyFile(*config)) return absl::OkStatus();
  v1::ConfigValue& vocabulary = (*config->mutable_config())["vocabulary"];
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadInputFile({vocabulary.s(), "", ""}, options));
  const std::string path = PublicPath(vocabulary.s());
  const auto found = Transforms().Find(config->class_name());
  const Argument* const argument = found.ok() ? (*found)->schema.Find("vocabulary") : nullptr;
  const bool integers = argument != nullptr && argument->type == ArgumentType::kInts;
  v1::ConfigValue words;
  words.mutable_list();
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    int64_t integer = 0;
    if (integers && !ParseInteger(line, &integer)) {
      return InvalidArgument("{}: line {}: \"{}\" is not an integer", path, number,
                             PrintableLine(line));
    }
    if (!IsUtf8(line)) return InvalidArgument("{}: line {} is not UTF-8", path, number);
    *words.mutable_list()->add_values() = integers ? ConfigOf(integer) : ConfigOf(line);
  }
  vocabulary = std::move(words);
  return absl::OkStatus();
}

std::string DefaultClass(const v1::ColumnTransform& transform) {
  return transform.columns().empty() ? "Cast" : "Stack";
}

absl::Status CompleteDataset(v1::DatasetSpec* spec) {
  if (!spec->has_source_class()) {
    std::vector<std::string> names;
    for (const ClassSchema* schema : Sources().Schemas()) names.push_back(schema->name);
    return InvalidArgument("a dataset needs a source; there are {}", fmt::join(names, ", "));
  }
  COHORT_ASSIGN_OR_RETURN(*spec->mutable_source_class(),
                          CompleteConfig(Sources(), spec->source_class()));
  for (Transform& transform : *spec->mutable_transforms()) {
    COHORT_RETURN_IF_ERROR(Annotate(Complete(&transform), NameOf(transform)));
  }
  return spec->filter().empty() ? absl::OkStatus() : RowFilter::Create(*spec).status();
}

ColumnUse UseOfColumns(const v1::DatasetSpec& spec) {
  ColumnUse use;
  std::set<std::string> made;  // names that no longer stand for a column of the source
  for (const Transform& transform : spec.transforms()) {
    const auto its_class = Transforms().Find(transform.transform_class().class_name());
    const bool words = its_class.ok() && (*its_class)->takes_words();
    for (const std::string& name : InputsOf(transform)) {
      if (!made.contains(name)) (words ? use.text : use.numbers).insert(name);
    }
    for (const std::string& name : {transform.segmentation_masks(), transform.labels()}) {
      if (!name.empty() && !made.contains(name)) use.numbers.insert(name);
    }
    made.insert(OutputOf(transform));
  }
  for (const std::string& target : TargetsOf(spec)) {
    if (!made.contains(target)) use.numbers.insert(target);
  }
  return use;
}

absl::Status ApplyTransform(v1::ColumnTransform* transform, Table* table) {
  return Annotate(Apply(transform, table), NameOf(*transform));
}

}  // namespace cohort
