#include "client/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fmt/format.h"
#include "kvstore/base/sizes.h"

namespace tilekv {
namespace {

std::string Bar(double part, int cells, bool utf8) {
  // Eighths of a character where there are such.
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int eighths = static_cast<int>(part * cells * 8);
  int full = eighths / 8;
  std::string bar;
  for (int i = 0; i < full; ++i) bar += utf8 ? "█" : "#";
  int used = full;
  if (utf8 && full < cells && eighths % 8 != 0) {
    bar += kEighths[eighths % 8];
    ++used;
  }
  bar.append(static_cast<size_t>(cells - used), utf8 ? ' ' : '-');
  return utf8 ? "▕" + bar + "▏" : "[" + bar + "]";
}

}  // namespace

std::string FormatDuration(double seconds) {
  auto whole = static_cast<uint64_t>(std::llround(std::max(0.0, std::min(seconds, 1e9))));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string FormatProgress(const std::string& what, uint64_t done_bytes, uint64_t total_bytes,
                           double seconds, int width, bool utf8) {
  double rate = seconds > 0 ? static_cast<double>(done_bytes) / seconds : 0;
  std::string rate_text = fmt::format("{}/s", FormatSize(static_cast<uint64_t>(rate)));
  if (total_bytes == 0) {
    return Shorten(fmt::format("{}  {}  {}", what, FormatSize(done_bytes), rate_text),
                   static_cast<size_t>(width));
  }
  done_bytes = std::min(done_bytes, total_bytes);
  double part = static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  std::string rest = fmt::format("{:3}%  {} of {}  {}", static_cast<int>(part * 100),
                                 FormatSize(done_bytes), FormatSize(total_bytes), rate_text);
  if (rate > 0 && done_bytes < total_bytes) {
    double left = static_cast<double>(total_bytes - done_bytes) / rate;
    rest += fmt::format("  {} left", FormatDuration(left));
  }
  int room = width - static_cast<int>(DisplayWidth(what) + rest.size()) - 6;
  if (room < 8) {
    return Shorten(fmt::format("{}  {}", what, rest), static_cast<size_t>(std::max(4, width)));
  }
  return fmt::format("{}  {}  {}", what, Bar(part, std::min(room, 30), utf8), rest);
}

Progress::Progress(std::string what, bool enabled, const Terminal& terminal, std::FILE* file,
                   Clock* clock)
    : what_(std::move(what)),
      enabled_(enabled),
      terminal_(terminal),
      file_(file),
      clock_(clock),
      start_nanos_(clock->MonotonicNanos()) {}

double Progress::seconds() const {
  return static_cast<double>(clock_->MonotonicNanos() - start_nanos_) / 1e9;
}

void Progress::Update(uint64_t done_bytes, uint64_t total_bytes) {
  if (!enabled_) return;
  MutexLock lock(mutex_);
  int64_t now = clock_->MonotonicNanos();
  // The first line waits too: short work shows nothing.
  int64_t last = drawn_ ? drawn_nanos_ : start_nanos_;
  if (now - last < kRedrawNanos) return;
  drawn_nanos_ = now;
  drawn_ = true;
  std::string line = FormatProgress(what_, done_bytes, total_bytes, seconds(), terminal_.width - 1,
                                    terminal_.utf8);
  std::string text = "\r" + line + "\x1b[K";
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

void Progress::Finish() {
  MutexLock lock(mutex_);
  if (!drawn_) return;
  drawn_ = false;
  std::fputs("\r\x1b[K", file_);
  std::fflush(file_);
}

}  // namespace tilekv
