#!/usr/bin/env python3
"""The golden vectors of placement, by a second implementation of docs/formats.md, "Placement".

kvstore/placement/placement_vectors_test.cc reads the same file: C++ and Python are bound to each other and to every cluster that exists.
"""
import json
import pathlib
import unittest

VECTORS = json.loads(pathlib.Path(__file__).with_name("placement_vectors.json").read_text())
MASK = 2**64 - 1


def mix(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK
    return x ^ (x >> 31)


def seed(node_id):
    value = 0xCBF29CE484222325
    for byte in node_id.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return mix(value)


def node_partition_hash(node_id, partition):
    return mix((seed(node_id) + (partition + 1) * 0x9E3779B97F4A7C15) & MASK) | 1


def minus_log2(value):
    exponent = value.bit_length() - 1
    m = value << (63 - exponent)  # units of 2^-63, in [1, 2)
    log2 = exponent
    for _ in range(32):
        square = m * m
        bit = square >> 127
        m = square >> (64 if bit else 63)
        log2 = log2 << 1 | bit
    return (64 << 32) - log2


def cost(node_id, partition, weight_milli):
    return (minus_log2(node_partition_hash(node_id, partition)) << 24) // weight_milli


def order(nodes, partition):
    return sorted(nodes, key=lambda node: (cost(node["id"], partition, node["weight_milli"]), node["id"]))


def owners(nodes, replication, partition):
    """(owners in the order of choice, the pass that chose the last of them: 1 zones, 2 hosts, 3 any, 0 none)."""
    chosen, last_pass = [], 0
    for number, what in enumerate(("zone", "host", "id"), 1):
        for node in order(nodes, partition):
            if len(chosen) == replication:
                break
            if node["state"] == "in" and all(node[what] != owner[what] for owner in chosen):
                chosen.append(node)
                last_pass = number
    return [node["id"] for node in chosen], last_pass


class PlacementVectors(unittest.TestCase):
    def test_hashes_logarithms_and_costs_are_those_of_the_file(self):
        self.assertGreater(len(VECTORS["costs"]), 10)
        for vector in VECTORS["costs"]:
            value = node_partition_hash(vector["node"], vector["partition"])
            self.assertEqual(f"{value:016x}", vector["hash"], vector)
            self.assertEqual(cost(vector["node"], vector["partition"], vector["weight_milli"]), vector["cost"], vector)
        for vector in VECTORS["minus_log2"]:
            self.assertEqual(minus_log2(int(vector["hash"], 16)), vector["value"], vector)

    def test_orders_and_owners_are_those_of_the_file(self):
        self.assertGreater(len(VECTORS["maps"]), 5)
        for placed_map in VECTORS["maps"]:
            for vector in placed_map["partitions"]:
                where = f"{placed_map['name']}, partition {vector['partition']}"
                ranked = order(placed_map["nodes"], vector["partition"])
                self.assertEqual([node["id"] for node in ranked], vector["order"], where)
                chosen, last_pass = owners(placed_map["nodes"], placed_map["replication"], vector["partition"])
                self.assertEqual(chosen, vector["owners"], where)
                self.assertEqual(last_pass, vector["pass"], where)

    def test_a_partition_is_the_top_bits_of_the_id(self):
        for vector in VECTORS["partitions_of_ids"]:
            self.assertEqual(int(vector["id"], 16) >> (256 - vector["partition_bits"]), vector["partition"], vector)


if __name__ == "__main__":
    unittest.main()
