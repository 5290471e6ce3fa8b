#include "kvstore/node/live_list.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"

namespace tilekv {
namespace {

constexpr size_t kReadEntries = 4'096;  // of a run or of the list, read at a time
constexpr size_t kMaxRuns = 64;         // then they are merged, which bounds what a merge holds
constexpr char kNamePrefix[] = "live-";

template <typename T>
Bytes AsRaw(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
MutableBytes AsRaw(std::vector<T>& values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(T)};
}

absl::Status ReadExactly(File& file, uint64_t offset, MutableBytes out) {
  TILEKV_ASSIGN_OR_RETURN(uint64_t read, file.Read(offset, out));
  if (read == out.size()) return absl::OkStatus();
  return MakeError(Reason::kInternal, "a scratch file is shorter than what was written to it");
}

// Appends values to a file, a buffer at a time. Scratch is read by the process that wrote it, so
// byte order is the machine's.
template <typename T>
class Appender {
 public:
  explicit Appender(File& file) : file_(file) { buffer_.reserve(kReadEntries); }
  absl::Status Append(const T& value) {
    buffer_.push_back(value);
    ++count_;
    return buffer_.size() < kReadEntries ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    if (buffer_.empty()) return absl::OkStatus();
    TILEKV_RETURN_IF_ERROR(file_.Write(offset_, AsRaw(std::as_const(buffer_))));
    offset_ += buffer_.size() * sizeof(T);
    buffer_.clear();
    return absl::OkStatus();
  }
  uint64_t count() const { return count_; }

 private:
  File& file_;
  std::vector<T> buffer_;
  uint64_t offset_ = 0;
  uint64_t count_ = 0;
};

}  // namespace

// A run's entries in order.
class LiveList::RunReader {
 public:
  explicit RunReader(const Run& run) : run_(run) {}
  // False at the end.
  absl::StatusOr<bool> Next() {
    if (++at_ < buffer_.size()) return true;
    uint64_t count = std::min<uint64_t>(kReadEntries, run_.entries - read_);
    if (count == 0) return false;
    buffer_.resize(count);
    TILEKV_RETURN_IF_ERROR(ReadExactly(*run_.file, read_ * sizeof(Entry), AsRaw(buffer_)));
    read_ += count;
    at_ = 0;
    return true;
  }
  const Entry& entry() const { return buffer_[at_]; }

 private:
  const Run& run_;
  uint64_t read_ = 0;
  size_t at_ = 0;
  std::vector<Entry> buffer_;
};

LiveList::LiveList(ScratchSpace scratch, uint64_t memory_bytes)
    : scratch_(std::move(scratch)),
      max_entries_(scratch_.directory.empty() ? std::numeric_limits<size_t>::max()
                                              : std::max<size_t>(1, memory_bytes / sizeof(Entry))) {
}

absl::Status LiveList::Add(const ObjectRef& ref) {
  entries_.push_back({ref.id.Prefix64(), ref.length});
  if (entries_.size() < max_entries_) return absl::OkStatus();
  // A blob is met as often as trees list it: that alone need not fill a file.
  SortEntries();
  return entries_.size() < max_entries_ / 2 ? absl::OkStatus() : Spill();
}

void LiveList::SortEntries() {
  std::sort(entries_.begin(), entries_.end());
  entries_.erase(std::unique(entries_.begin(), entries_.end()), entries_.end());
}

absl::StatusOr<std::unique_ptr<File>> LiveList::NewFile() {
  FileSystem& fs = *scratch_.file_system;
  if (spilled_files_ == 0) {
    TILEKV_RETURN_IF_ERROR(fs.CreateDirectory(scratch_.directory));
    // Of a process that ended between making a file and taking its name away.
    TILEKV_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(scratch_.directory));
    for (const std::string& name : names) {
      if (name.rfind(kNamePrefix, 0) != 0) continue;
      TILEKV_RETURN_IF_ERROR(fs.Unlink(scratch_.directory + "/" + name));
    }
  }
  std::string path = fmt::format("{}/{}{}", scratch_.directory, kNamePrefix, ++spilled_files_);
  TILEKV_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                          fs.Open(path, FileSystem::OpenMode::kCreateNew));
  // It lives as long as it is open.
  TILEKV_RETURN_IF_ERROR(fs.Unlink(path));
  return file;
}

absl::Status LiveList::Spill() {
  if (runs_.size() == kMaxRuns) TILEKV_RETURN_IF_ERROR(MergeRuns());
  Run run;
  TILEKV_ASSIGN_OR_RETURN(run.file, NewFile());
  run.entries = entries_.size();
  TILEKV_RETURN_IF_ERROR(run.file->Write(0, AsRaw(std::as_const(entries_))));
  runs_.push_back(std::move(run));
  entries_.clear();
  return absl::OkStatus();
}

template <typename Take>
absl::Status LiveList::Merge(Take take) {
  std::vector<RunReader> readers;
  readers.reserve(runs_.size());
  auto later = [&readers](size_t a, size_t b) { return readers[a].entry() > readers[b].entry(); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> queue(later);
  for (const Run& run : runs_) {
    readers.emplace_back(run);
    TILEKV_ASSIGN_OR_RETURN(bool any, readers.back().Next());
    if (any) queue.push(readers.size() - 1);
  }
  bool first = true;
  Entry last;
  while (!queue.empty()) {
    size_t least = queue.top();
    queue.pop();
    Entry entry = readers[least].entry();
    if (first || entry != last) TILEKV_RETURN_IF_ERROR(take(entry));
    first = false;
    last = entry;
    TILEKV_ASSIGN_OR_RETURN(bool more, readers[least].Next());
    if (more) queue.push(least);
  }
  return absl::OkStatus();
}

absl::Status LiveList::MergeRuns() {
  Run merged;
  TILEKV_ASSIGN_OR_RETURN(merged.file, NewFile());
  Appender<Entry> out(*merged.file);
  TILEKV_RETURN_IF_ERROR(Merge([&out](const Entry& entry) { return out.Append(entry); }));
  TILEKV_RETURN_IF_ERROR(out.Flush());
  merged.entries = out.count();
  runs_.clear();
  runs_.push_back(std::move(merged));
  return absl::OkStatus();
}

void LiveList::Count(const Entry& entry) {
  ++objects_;
  bytes_ += entry.length;
}

absl::Status LiveList::Finish(const LiveList* except) {
  static const LiveList kNothing({}, 0);
  Cursor left_out(except == nullptr ? kNothing : *except);
  SortEntries();
  if (runs_.empty()) {
    prefixes_.reserve(entries_.size());
    for (const Entry& entry : entries_) {
      TILEKV_ASSIGN_OR_RETURN(bool leave_out, left_out.Contains(entry.prefix));
      if (leave_out) continue;
      Count(entry);
      prefixes_.push_back(entry.prefix);
    }
    std::vector<Entry>().swap(entries_);
    return absl::OkStatus();
  }
  if (!entries_.empty()) TILEKV_RETURN_IF_ERROR(Spill());
  std::vector<Entry>().swap(entries_);
  TILEKV_ASSIGN_OR_RETURN(list_, NewFile());
  Appender<uint64_t> out(*list_);
  TILEKV_RETURN_IF_ERROR(Merge([&](const Entry& entry) -> absl::Status {
    TILEKV_ASSIGN_OR_RETURN(bool leave_out, left_out.Contains(entry.prefix));
    if (leave_out) return absl::OkStatus();
    Count(entry);
    return out.Append(entry.prefix);
  }));
  runs_.clear();
  return out.Flush();
}

absl::Status LiveList::Cursor::Fill() {
  uint64_t count = std::min<uint64_t>(kReadEntries, list_.objects_ - next_);
  buffer_.resize(count);
  at_ = 0;
  if (list_.list_ == nullptr) {
    std::copy_n(list_.prefixes_.begin() + static_cast<std::ptrdiff_t>(next_), count,
                buffer_.begin());
  } else {
    TILEKV_RETURN_IF_ERROR(ReadExactly(*list_.list_, next_ * sizeof(uint64_t), AsRaw(buffer_)));
  }
  next_ += count;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint64_t>> LiveList::Cursor::AtLeast(uint64_t prefix) {
  while (true) {
    if (at_ == buffer_.size()) {
      if (next_ == list_.objects_) return std::nullopt;
      TILEKV_RETURN_IF_ERROR(Fill());
    }
    if (buffer_[at_] >= prefix) return buffer_[at_];
    ++at_;
  }
}

absl::StatusOr<bool> LiveList::Cursor::Contains(uint64_t prefix) {
  TILEKV_ASSIGN_OR_RETURN(std::optional<uint64_t> next, AtLeast(prefix));
  return next == prefix;
}

}  // namespace tilekv
