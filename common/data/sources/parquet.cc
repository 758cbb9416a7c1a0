// Parquet files, as pandas and Spark write them.
#include "common/base/status.h"
#include "common/data/file_bytes.h"
#include "common/data/files/file_list.h"
#include "common/data/parquet/parquet_files.h"
#include "common/data/source_class.h"

namespace cohort {
namespace {

struct ParquetListKind {
  ClassSchema schema;
};

const SchemaSet& ParquetListKinds() {
  static const auto& kinds = *[] {
    std::vector<ParquetListKind> classes;
    for (ClassSchema& schema : ListSchemas({})) {
      classes.push_back({std::move(schema)});
    }
    return new ClassRegistry<ParquetListKind>("list kind", SchemaSet::Spelling::kAnyCase, "",
                                              std::move(classes));
  }();
  return kinds;
}

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenParquet(const Config& config,
                                                                const SourceContext& context) {
  COHORT_ASSIGN_OR_RETURN(const auto files, FindInputFiles(config, context.options));
  ParquetOptions options;
  options.columns = config.Strings("columns");
  if (!config.IsNone("missing")) options.missing = config.Float("missing");
  if (!config.IsNone("missing_word")) options.missing_word = config.String("missing_word");
  if (!config.IsNone("lists")) {
    for (const auto& [name, list] : config.Objects("lists")) {
      COHORT_ASSIGN_OR_RETURN(options.lists[name], MakeListField(name, list));
    }
  }
  options.cache_bytes = static_cast<uint64_t>(config.Int("cache_bytes"));
  return OpenParquetFiles(files, options, context.options);
}

// Its row groups are read alone anyway, so the whole file is a block.
absl::StatusOr<FileBlocks> SplitParquet(const Config& config, const SourceContext& context,
                                        const BlockCutter::Options&) {
  COHORT_ASSIGN_OR_RETURN(const auto opened, OpenParquet(config, context));
  COHORT_ASSIGN_OR_RETURN(const auto files, FindInputFiles(config, context.options));
  COHORT_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Open(files[0], context.options));
  FileBlocks blocks;
  if (opened->num_records() > 0) blocks.blocks.push_back({file.size(), opened->num_records()});
  return blocks;
}

}  // namespace

SourceClass ParquetSource() {
  return {
      .schema =
          {.name = "parquet",
           .doc = "Parquet files: a column for each of theirs. Text is words, dates are days since "
                  "1970, timestamps seconds, and lists have the length in `lists`, or else that of "
                  "the first row. "
                  "Row groups are read when they are used. Needs a build with Arrow.",
           .arguments = FileListArguments(
               {Strings("columns", "The columns to read; none: all.").Optional(),
                Float("missing", "Stands for null among numbers; none: null is an error.")
                    .Optional(),
                Objects("lists", ParquetListKinds, "numbers",
                        "The lengths of lists that differ, by column: `clicks: {length: "
                        "50, truncate: true}`, `tags: {words: {length: 3}}`.")
                    .Optional(),
                String("missing_word", "Stands for null among words; none: null is an error.")
                    .Optional(),
                Int("cache_bytes",
                    "The memory for decoded row groups. If all do not fit, shuffling with "
                    "`block_size` near the rows of a group reads each one once.")
                    .Default(int64_t{256} << 20)
                    .AtLeast(0)})},
      .no_record_arguments = {"url", "sha256", "cache_bytes"},
      .check = [](const Config& config) { return PatternsOf(config).status(); },
      .open = OpenParquet,
      .split = SplitParquet};
}

}  // namespace cohort
