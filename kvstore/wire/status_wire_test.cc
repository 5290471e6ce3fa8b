#include "kvstore/wire/status_wire.h"

#include <gtest/gtest.h>

#include "kvstore/base/defaults.h"
#include "kvstore/base/status.h"
#include "kvstore/base/utf8.h"

namespace tilekv {
namespace {

absl::Status ThereAndBack(const absl::Status& status) {
  WireStatus wire = StatusToWire(status);
  return StatusFromWire(wire.code, wire.message, wire.details, "node:1");
}

TEST(StatusWire, EveryReasonArrivesWithItsCodeAndText) {
  for (int i = static_cast<int>(Reason::kInvalidArgument); i <= static_cast<int>(Reason::kInternal);
       ++i) {
    Reason reason = static_cast<Reason>(i);
    absl::Status sent = MakeError(reason, "key 'w' is 3 bytes");
    absl::Status got = ThereAndBack(sent);
    EXPECT_EQ(GetReason(got), reason) << ReasonName(reason);
    EXPECT_EQ(got.code(), sent.code()) << ReasonName(reason);
    EXPECT_EQ(got.message(), sent.message()) << ReasonName(reason);
  }
  EXPECT_TRUE(ThereAndBack(absl::OkStatus()).ok());
}

TEST(StatusWire, TextIsCutToFitTrailersAndStaysUtf8) {
  std::string text;
  while (text.size() < 5000) text += "ä\xff";
  WireStatus wire = StatusToWire(absl::Status(absl::StatusCode::kInternal, text));
  EXPECT_LE(wire.message.size(), kMaxMessageBytes);
  EXPECT_GT(wire.message.size(), kMaxMessageBytes - 8);
  EXPECT_TRUE(IsValidUtf8(wire.message));
}

TEST(StatusWire, AnErrorOfTheCarrierNamesTheNode) {
  absl::Status status = StatusFromWire(14, "Connection refused", "", "10.0.0.7:7070");
  EXPECT_EQ(GetReason(status), Reason::kNodeUnavailable);
  EXPECT_NE(ErrorText(status).find("10.0.0.7:7070"), std::string::npos);
  EXPECT_NE(ErrorText(status).find("Connection refused"), std::string::npos);
}

TEST(StatusWire, TheCarriersNoiseIsLeftOut) {
  auto text = [](std::string_view message) {
    return ErrorText(StatusFromWire(14, message, "", "h:1"));
  };
  std::string http = text(
      "failed to connect to all addresses; last error: UNKNOWN: "
      "ipv4:127.0.0.1:7071: Trying to connect an http1.x server");
  EXPECT_NE(http.find("is it the port of --http?"), std::string::npos) << http;
  std::string name = text("C-ares status is not ARES_SUCCESS qtype=AAAA name=x is_balancer=0");
  EXPECT_NE(name.find("cannot be resolved"), std::string::npos) << name;
  EXPECT_EQ(name.find("ares"), std::string::npos) << name;
  EXPECT_NE(text("something new").find("something new"), std::string::npos);
}

TEST(StatusWire, AMessageTooLargeForTheCarrierIsNotWorthAnotherTry) {
  absl::Status status =
      StatusFromWire(8, "CLIENT: Received message larger than max (5 vs. 4)", "", "n");
  EXPECT_EQ(GetReason(status), Reason::kInvalidArgument);
  EXPECT_EQ(GetReason(StatusFromWire(8, "out of threads", "", "n")), Reason::kOverloaded);
}

TEST(StatusWire, AReasonOfALaterVersionKeepsItsCode) {
  absl::Status status = StatusFromWire(8, "no room", "\x0a\x07NO_MOON", "n");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(ErrorText(status).find("NO_MOON: no room"), std::string::npos);
}

}  // namespace
}  // namespace tilekv
