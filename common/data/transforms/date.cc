// Date: dates and times to numbers, in UTC.
#include <absl/time/civil_time.h>
#include <absl/time/time.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// The week of ISO 8601: the first one of a year has its first Thursday.
double WeekOf(absl::CivilDay day) {
  const absl::CivilDay thursday = day - static_cast<int>(absl::GetWeekday(day)) + 3;
  return (absl::GetYearDay(thursday) - 1) / 7 + 1;
}

struct Part {
  const char* name;
  double (*of)(absl::Time time, absl::CivilSecond civil);
};
constexpr Part kParts[] = {
    {"seconds", [](absl::Time time,
                   absl::CivilSecond) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }},
    {"year", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.year()); }},
    {"quarter", [](absl::Time, absl::CivilSecond c) { return (c.month() - 1) / 3 + 1.0; }},
    {"month", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.month()); }},
    {"week", [](absl::Time, absl::CivilSecond c) { return WeekOf(absl::CivilDay(c)); }},
    {"day", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.day()); }},
    {"day_of_year",
     [](absl::Time, absl::CivilSecond c) {
       return static_cast<double>(absl::GetYearDay(absl::CivilDay(c)));
     }},
    {"weekday",
     [](absl::Time, absl::CivilSecond c) {
       return static_cast<double>(absl::GetWeekday(absl::CivilDay(c)));
     }},
    {"hour", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.hour()); }},
    {"minute", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.minute()); }},
    {"second", [](absl::Time, absl::CivilSecond c) { return static_cast<double>(c.second()); }}};

std::vector<std::string> PartNames() {
  std::vector<std::string> names;
  for (const Part& part : kParts) names.emplace_back(part.name);
  return names;
}

struct Unit {
  const char* name;
  double seconds;
};
constexpr Unit kUnits[] = {{"days", 86'400}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};

// What a config asks for.
class Dates {
 public:
  static absl::StatusOr<Dates> Create(const Config& config) {
    Dates dates;
    for (const std::string& name : config.Strings("parts")) {
      const auto found = std::find_if(std::begin(kParts), std::end(kParts),
                                      [&](const Part& part) { return part.name == name; });
      if (found == std::end(kParts)) {
        return InvalidArgument("parts: there is no part \"{}\"; there are {}",
                               PrintableLine(name.substr(0, 60)), fmt::join(PartNames(), ", "));
      }
      dates.parts_.push_back(&*found);
    }
    if (dates.parts_.empty()) return InvalidArgument("parts: names no part of a date");
    if (!config.IsNone("format")) dates.format_ = config.String("format");
    if (!config.IsNone("missing")) dates.missing_ = config.Float("missing");
    if (!config.IsNone("unit")) {
      const std::string& name = config.String("unit");
      dates.unit_ = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& unit) {
                      return unit.name == name;
                    })->seconds;
      if (dates.format_) return InvalidArgument("`format` is for text, and `unit` for numbers");
    }
    return dates;
  }

  size_t parts() const { return parts_.size(); }

  // Writes the parts of a text. Errors: DataLoss.
  absl::Status OfWord(const std::string& word, double* out) const {
    if (word.empty() && missing_) {
      std::fill_n(out, parts_.size(), *missing_);
      return absl::OkStatus();
    }
    if (word.empty()) {
      return DataLoss("the date is missing; `missing` of Date would stand for it");
    }
    if (unit_) {
      double number = 0;
      if (!ParseNumber(word, &number)) return DataLoss("{} is not a number", Quoted(word));
      return OfNumber(number, out);
    }
    absl::Time time;
    std::string why;
    if (format_) {
      if (!absl::ParseTime(*format_, word, &time, &why) || !IsFinite(time)) {
        return DataLoss("{} is no date of the format \"{}\"", Quoted(word), *format_);
      }
    } else if (!ParseIso(word, &time)) {
      return DataLoss(
          "{} is no date such as 2024-01-31 or 2024-01-31T23:59:00Z; `format` of Date "
          "describes others",
          Quoted(word));
    }
    Write(time, out);
    return absl::OkStatus();
  }

  // The same for a number of units since 1970.
  absl::Status OfNumber(double number, double* out) const {
    constexpr double kMost = 1e15;
    const double seconds = number * unit_.value_or(1);
    if (!(std::abs(seconds) < kMost)) {
      if (std::isnan(number) && missing_) {
        std::fill_n(out, parts_.size(), *missing_);
        return absl::OkStatus();
      }
      return DataLoss("{} is no date: seconds since 1970, or those of `unit`, are needed", number);
    }
    Write(absl::UnixEpoch() + absl::Seconds(seconds), out);
    return absl::OkStatus();
  }

 private:
  static std::string Quoted(const std::string& word) {
    return fmt::format("\"{}\"", PrintableLine(word.substr(0, 60)));
  }
  static bool IsFinite(absl::Time time) {
    return time != absl::InfiniteFuture() && time != absl::InfinitePast();
  }

  // ISO 8601, with `T` or a blank before the time. Without a zone it is UTC.
  static bool ParseIso(const std::string& word, absl::Time* time) {
    constexpr size_t kDate = 10;  // 2024-01-31
    std::string format = "%Y-%m-%d";
    if (word.size() > kDate) {
      const std::string_view rest = std::string_view(word).substr(kDate + 1);
      const size_t zone = rest.find_first_of("Zz+-");
      const std::string_view clock = rest.substr(0, zone);
      format += word[kDate] == ' ' ? " %H:%M" : "T%H:%M";
      if (std::count(clock.begin(), clock.end(), ':') > 1) format += ":%E*S";
      if (zone != rest.npos) format += "%Ez";
    }
    std::string why;
    return absl::ParseTime(format, word, time, &why) && IsFinite(*time);
  }

  void Write(absl::Time time, double* out) const {
    const absl::CivilSecond civil = absl::ToCivilSecond(time, absl::UTCTimeZone());
    for (const Part* part : parts_) *out++ = part->of(time, civil);
  }

  std::vector<const Part*> parts_;
  std::optional<std::string> format_;
  std::optional<double> missing_;
  std::optional<double> unit_;  // seconds of it
};

absl::StatusOr<std::vector<double>> DatesOfWords(const Config& config,
                                                 std::span<const std::string> words) {
  COHORT_ASSIGN_OR_RETURN(const Dates dates, Dates::Create(config));
  std::vector<double> numbers(words.size() * dates.parts());
  for (size_t i = 0; i < words.size(); ++i) {
    COHORT_RETURN_IF_ERROR(dates.OfWord(words[i], numbers.data() + i * dates.parts()));
  }
  return numbers;
}

absl::Status CheckDate(const Config& config, const std::string& word) {
  COHORT_ASSIGN_OR_RETURN(const Dates dates, Dates::Create(config));
  std::vector<double> numbers(dates.parts());
  return dates.OfWord(word, numbers.data());
}

absl::StatusOr<RecordTransform> OpenDate(const Config& config,
                                         std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const Dates dates, Dates::Create(config));
  Dims dims = inputs[0].dims;
  if (dates.parts() > 1) {
    if (!dims.empty() && dims.back() == 1) dims.pop_back();
    dims.push_back(static_cast<int64_t>(dates.parts()));
  }
  return RecordTransform{
      DType::kFloat64, dims,
      [dates, from = inputs[0].dtype](const RecordContext&,
                                      std::span<const std::span<const std::byte>> values,
                                      std::span<std::byte> output) {
        std::vector<double> parts(dates.parts());
        const size_t bytes = parts.size() * sizeof(double);
        for (size_t i = 0; i * bytes < output.size(); ++i) {
          double number = 0;
          ConvertNumbers(from, values[0].data() + i * SizeOf(from), DType::kFloat64, &number, 1);
          COHORT_RETURN_IF_ERROR(dates.OfNumber(number, parts.data()));
          std::memcpy(output.data() + i * bytes, parts.data(), bytes);
        }
        return absl::OkStatus();
      }};
}

}  // namespace

TransformClass DateTransform() {
  std::vector<std::string> units;
  for (const Unit& unit : kUnits) units.emplace_back(unit.name);
  return {
      .schema =
          {.name = "Date",
           .doc = "Dates and times to numbers of their parts in UTC, as those of pandas' `dt`; "
                  "float64. Text without a zone is UTC. Columns of numbers, as the timestamps of "
                  "Parquet, are seconds since 1970.",
           .arguments =
               {Strings("parts",
                        "One part, or several along a new last axis: seconds (since 1970), year, "
                        "quarter, month, week, day, day_of_year, weekday (Monday is 0), hour, "
                        "minute, second.")
                    .Default(ConfigOf(std::vector<std::string>{"seconds"})),
                String("format",
                       "Of text, as strptime's: `%d.%m.%Y %H:%M`. None: ISO 8601, as 2024-01-31 "
                       "or 2024-01-31T23:59:00+01:00.")
                    .Optional(),
                String("unit",
                       "Numbers, also as text, count these since 1970. A date of Parquet counts "
                       "days, and pandas' `to_json` writes ms.")
                    .Optional()
                    .OneOf(std::move(units)),
                Float("missing", "Stands for an empty text, and NaN; none: an error.").Optional()}},
      .open = OpenDate,
      .map_words = DatesOfWords,
      .word_dtype = DType::kFloat64,
      .check_word = CheckDate,
      .has_rows = true};
}

}  // namespace cohort
