// Every default and limit of TileKV, in one place. Documentation is tested against this header; a
// number that appears in a message, a flag's help or a page of docs comes from here. Names end in
// their unit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilekv {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;

// --- objects
// -------------------------------------------------------------------------------------------------------
inline constexpr uint64_t kDefaultMaxObjectBytes = 256 * kMiB;
inline constexpr uint64_t kLeastMaxObjectBytes = 64 * kKiB;
inline constexpr uint64_t kGreatestMaxObjectBytes = 1 * kGiB;
inline constexpr uint64_t kLeafBytes = 64 * kKiB;    // one BLAKE3 leaf of an object's content
inline constexpr uint64_t kBlockBytes = 256 * kKiB;  // one independently coded block of content
inline constexpr uint8_t kMaxLevel = 4;              // 0 blob, 1 to 4 trees
inline constexpr uint32_t kMaxChildren = 65'536;     // of one tree
inline constexpr uint64_t kInlineContentBytes =
    64 * kKiB;  // smaller contents live in RocksDB, others in a payload file

// --- values and names
// ----------------------------------------------------------------------------------------------
inline constexpr size_t kMaxKeyBytes = 1'024;
// Values up to here live in the catalog entry itself: of a cluster's catalog, which every member
// holds in memory, and of one on this machine's disk.
inline constexpr uint64_t kInlineValueBytes = 512;
inline constexpr uint64_t kLocalInlineValueBytes = 4 * kKiB;
inline constexpr uint64_t kSmallValueBytes =
    64 * kKiB;                               // a stat-and-get reply carries contents up to here
inline constexpr size_t kMaxNameBytes = 96;  // of a namespace, a model or a tag
inline constexpr size_t kMaxBatchOperations = 1'024;
inline constexpr uint64_t kMaxBatchBytes = 1 * kMiB;
// Puts of small values by many threads of one client: while so many are on their way, others wait
// and go together. With the records of what they free they fit into one transaction of etcd.
inline constexpr int kPutsAtOnce = 8;
inline constexpr size_t kMaxGroupedPuts = 60;
inline constexpr uint64_t kGroupedPutBytes = 16 * kKiB;
inline constexpr size_t kMaxListPageEntries = 1'000;
inline constexpr size_t kMaxCommitMessageBytes = 8 * kKiB;
inline constexpr size_t kMaxCommitAuthorBytes = 512;
inline constexpr size_t kMaxTagsPerCommit = 64;
inline constexpr size_t kMaxMovedRecords = 100'000;  // versions and tags of a model that is moved

// --- tensors
// -------------------------------------------------------------------------------------------------------
inline constexpr uint64_t kDefaultTileBytes = 8 * kMiB;
inline constexpr uint64_t kLeastTileBytes = 1 * kMiB;    // where a tensor is cut
inline constexpr uint64_t kPackBelowBytes = 256 * kKiB;  // smaller tensors share a pack
inline constexpr uint64_t kMaxPackBytes = 1 * kMiB;
inline constexpr uint64_t kPackAlignBytes = 64;
inline constexpr uint64_t kMinBandRowBytes = 1 * kKiB;
inline constexpr uint64_t kMinBandedBytes = 8 * kMiB;  // smaller tensors are row panels
inline constexpr uint64_t kManifestPageSoftBytes = 64 * kKiB;
inline constexpr uint64_t kManifestPageBytes = 1 * kMiB;
inline constexpr size_t kMaxRank = 64;
inline constexpr size_t kMaxTensorNameBytes = 64 * kKiB;
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;
inline constexpr int kMaxJsonDepth = 8;             // of a header or an index
inline constexpr size_t kMaxMetadataKeys = 65'536;  // of one safetensors file
inline constexpr uint64_t kMaxNpyHeaderBytes = 64 * kKiB;
inline constexpr size_t kMaxOpenSourceFiles = 64;  // of one model while it is read
inline constexpr size_t kMaxSourceFolderFiles = 100'000;
inline constexpr int kMaxSourceFolderDepth = 32;
inline constexpr uint64_t kChunkBytes = 8 * kMiB;  // of a chunked blob, within the object limit
inline constexpr uint64_t kMaxExplicitTiles = 1'048'576;  // of a tensor whose tile shape was given
inline constexpr uint64_t kLeastExplicitTileBytes = 64 * kKiB;  // of such a tile, where it cuts
inline constexpr uint64_t kReadGapBytes = 256 * kKiB;     // read in vain rather than in two ranges
inline constexpr uint64_t kInlineTilesBytes = 32 * kKiB;  // longer tile lists leave the page
inline constexpr uint64_t kInlineMetadataBytes = 16 * kKiB;  // a longer one leaves the root

// --- memory and transfer
// -------------------------------------------------------------------------------------------
inline constexpr uint64_t kTransferChunkBytes = 1 * kMiB;  // data of one bulk message
inline constexpr uint64_t kMaxReceiveBytes = 4 * kMiB;
inline constexpr uint64_t kDefaultServerMemoryBytes = 1 * kGiB;
inline constexpr uint64_t kClientMemoryShare = 16;  // of the machine's, taken by default
inline constexpr uint64_t kGreatestDefaultClientMemoryBytes = 1 * kGiB;
inline constexpr uint64_t kLeastMemoryBytes = 64 * kMiB;
inline constexpr uint16_t kDefaultPort = 7070;
inline constexpr uint16_t kDefaultHttpPort = 7071;

// --- disk
// ----------------------------------------------------------------------------------------------------------
inline constexpr uint64_t kDirectIoAlignBytes = 4'096;
inline constexpr uint64_t kPayloadHeaderBytes = 4'096;
inline constexpr uint64_t kPayloadFilesPerDirectory = 4'096;
inline constexpr uint64_t kReserveMaxBytes = 2 * kGiB;
inline constexpr uint64_t kReserveMinBytes = 64 * kMiB;
inline constexpr uint64_t kReservePercent = 2;
inline constexpr uint64_t kBallastBytes = 256 * kMiB;
inline constexpr uint64_t kBallastOnDisksOverBytes = 16 * kGiB;
inline constexpr uint32_t kLockStripes = 1'024;

// --- scrubbing
// -----------------------------------------------------------------------------------------------------
inline constexpr int64_t kScrubPeriod_s = 14 * 24 * 3600;        // every object is read within
inline constexpr uint64_t kScrubLeastBytesPerSecond = 1 * kMiB;  // however little is stored

// --- collection
// ----------------------------------------------------------------------------------------------------
inline constexpr int64_t kCollectEvery_s = 3'600;           // a node collects by itself
inline constexpr uint64_t kCollectMemoryBytes = 32 * kMiB;  // of the list of what is in use
// A round of a node is held when what is in use fell by more than both, without an explanation.
inline constexpr uint64_t kCollectHoldPercent = 20;
inline constexpr uint64_t kCollectHoldBytes = 10 * kGiB;
inline constexpr int64_t kCollectorLease_s = 120;        // of the node of a cluster that collects
inline constexpr uint64_t kRoundPartBytes = 256 * kKiB;  // of a round's lists, in one message
inline constexpr size_t kRoundNodes = 4;                 // that a round works with at once

// --- cluster
// -------------------------------------------------------------------------------------------------------
inline constexpr uint32_t kDefaultReplication = 3;
inline constexpr uint32_t kMaxReplication = 7;
inline constexpr uint32_t kDefaultMinCopies = 2;
inline constexpr uint32_t kDefaultPartitionBits = 16;  // fixed when a cluster is made
inline constexpr uint32_t kMaxPartitionBits = 20;
inline constexpr size_t kMaxClusterNodes = 1'000;
inline constexpr size_t kMaxNodeIdBytes = 64;
inline constexpr size_t kMaxNodePlaceBytes = 255;  // a node's host, zone or address
inline constexpr uint32_t kMaxNodeWeight = 1'000;
inline constexpr uint64_t kMaxClusterMapBytes = 1 * kMiB;  // within what etcd takes
inline constexpr int64_t kDefaultOutAfter_s = 600;         // a missing node is marked out
inline constexpr int64_t kGreatestOutAfter_s = 30 * 24 * 3600;
// No node is marked out by itself while more of the map than this (and more than one) is missing or
// out by itself.
inline constexpr uint64_t kAutomaticOutPercent = 30;
inline constexpr uint64_t kDefaultRepairBytesPerSecond = 64 * kMiB;  // that a node pulls
inline constexpr uint64_t kLeastRepairBytesPerSecond = 1 * kMiB;
inline constexpr int64_t kCopyStall_ms = 2'000;  // a copy to or from a node that stands still fails
inline constexpr size_t kMaxRepairBatch = 1'024;         // objects or partitions of one question
inline constexpr int64_t kRepairRoundEvery_s = 300;      // owners compare what they hold
inline constexpr size_t kRepairPullsAtOnce = 4;          // objects that a node pulls at once
inline constexpr size_t kMaxRepairList = 4'096;          // objects that are noted to be pulled
inline constexpr int64_t kDropAnswerCounts_ms = 10'000;  // from when it was asked for
inline constexpr int64_t kHedgeReadAfter_ms = 250;       // then a read is asked of another node too
inline constexpr int64_t kNodeLease_s = 10;  // a node that does not renew it counts as away
inline constexpr int64_t kHeartbeatEvery_ms = 2'500;
inline constexpr int64_t kNodeFiguresEvery_s = 30;  // what a node says of its disk is that old
inline constexpr int64_t kPeerCall_ms = 5'000;      // a question to another node that moves no bulk

// --- catalog in etcd
// -----------------------------------------------------------------------------------------------
inline constexpr int64_t kEtcdTimeout_ms = 5'000;  // a call to the catalog, all its tries
inline constexpr int64_t kEtcdTry_ms = 2'000;      // one try, where there is time for another
// What etcd takes unless it is told otherwise: operations of a transaction, bytes of a request.
inline constexpr size_t kEtcdTxnOperations = 128;
inline constexpr uint64_t kEtcdRequestBytes = 3 * kMiB / 2;
// Transactions that are sent together, and their bytes.
inline constexpr size_t kEtcdGroupTransactions = 100;
inline constexpr uint64_t kEtcdGroupBytes = 1 * kMiB;

// That etcd may use unless it is told otherwise, and how much of it is used up when nodes warn and
// when they refuse new names; they look this often.
inline constexpr uint64_t kEtcdQuotaBytes = 2 * kGiB;
inline constexpr uint64_t kEtcdWarnPercent = 80;
inline constexpr uint64_t kEtcdRefusePercent = 95;
inline constexpr int64_t kEtcdLookEvery_s = 10;

// --- time
// ----------------------------------------------------------------------------------------------------------
inline constexpr int64_t kSessionLease_s = 600;
inline constexpr int64_t kSessionDetachedLease_s = 30;  // a session whose keep-alive call broke
inline constexpr int64_t kSessionMax_s = 24 * 3600;
inline constexpr int64_t kRollingSession_s = 60;
inline constexpr int64_t kCommitRecord_s = 48 * 3600;
inline constexpr int64_t kDeleteGrace_s = 7 * 24 * 3600;
inline constexpr int64_t kVerifiedFor_s =
    7 * 24 * 3600;  // a put that brings an object not verified since re-reads it

// --- overload
// ------------------------------------------------------------------------------------------------------
inline constexpr int64_t kRetryFor_s = 30;         // a client tries again where that is safe
inline constexpr int64_t kOverloadedRetry_s = 1;   // a node that refuses asks to wait so long
inline constexpr int64_t kProgressTimeout_s = 10;  // a transfer of which nothing moves has failed
inline constexpr int64_t kTransferQueue_s = 5;  // a transfer waits at a busy node, then is refused
// While others wait, a transfer keeps its place as long as its client lets so many bytes move
// within so long a time.
inline constexpr uint64_t kLeastTransferBytes = 2 * kMiB;
inline constexpr int64_t kStalledTransfer_s = 10;
inline constexpr int64_t kSlowClientWaits_s = 20;       // whose place was given away: behind others
inline constexpr uint64_t kShortReadBytes = 64 * kKiB;  // reads up to here have places of their own
inline constexpr uint64_t kMaxWaitingReads = 1'024;     // transfers that wait to be read
inline constexpr uint64_t kMaxWaitingCalls =
    1'024;                                          // calls with one request that are queued or run
inline constexpr int64_t kHandshakeTimeout_s = 10;  // of a connection that says nothing
inline constexpr size_t kMaxHttpConnections = 128;
inline constexpr int64_t kHttpTimeout_s = 5;  // of one request of the HTTP port, idle time included

// --- explaining itself
// -------------------------------------------------------------------------------------------
inline constexpr int64_t kSlowCall_ms = 1'000;          // longer calls get a line in the log
inline constexpr int64_t kSlowClient_s = 5;             // and those that stood still for so long
inline constexpr int64_t kSlowCallLinesPerMinute = 30;  // at most
inline constexpr uint64_t kPerfBytes = 256 * kMiB;      // that `tilekv perf` moves, and
inline constexpr int64_t kPerfSeconds_s = 5;            // how long, for each of its figures

// --- text
// ----------------------------------------------------------------------------------------------------------
inline constexpr size_t kMaxNameInMessageBytes = 256;
inline constexpr size_t kMaxMessageBytes = 2'048;

}  // namespace tilekv
