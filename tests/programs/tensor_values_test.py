"""Numbers of stored tensors against NumPy: `tensor get --as`, `tensor stats`, `model diff --values`.

Types that NumPy lacks (BF16, F8) are worked out here from their definitions, in exact fractions.
"""

import bisect
import json
import math
import os
import random
import time
from fractions import Fraction

import numpy as np

from tilekv_testing import (DIFFERS, NUMPY_DTYPES, USAGE, EmbeddedCase, main, safetensors_file)

SEED = int(os.environ.get("TILEKV_TEST_SEED", time.time_ns() % 2**32))
INTEGERS = ["BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"]


class Small:
    """A floating type of 8 or 16 bits: exponent and mantissa bits, bias, and what stands above its
    largest: "ieee" infinities and NaN, "fn" NaN in one place."""

    def __init__(self, exponent, mantissa, bias, specials):
        self.bits = 1 + exponent + mantissa
        self.ieee = specials == "ieee"
        ones = (1 << (exponent + mantissa)) - 1
        self.largest = ones - (1 << mantissa) if self.ieee else ones - 1
        self.values = []  # of the positive ones, ascending: the place is the bits
        for bits in range(self.largest + 1):
            field, low = bits >> mantissa, bits & ((1 << mantissa) - 1)
            if field:
                low |= 1 << mantissa
            self.values.append(Fraction(low) * Fraction(2) ** (max(field, 1) - bias - mantissa))
        # Where the next value would be: from half-way there on a number is beyond the largest.
        self.next_value = 2 * self.values[-1] - self.values[-2]

    def encode(self, value):
        """Bits of the nearest, ties to even; None for what has no place."""
        sign = 1 << (self.bits - 1) if math.copysign(1, value) < 0 else 0
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return sign | (self.largest + 1) if self.ieee else None
        exact = abs(Fraction(value))
        at = bisect.bisect_left(self.values, exact)
        low = max(at - 1, 0)
        high_value = self.values[at] if at <= self.largest else self.next_value
        if at <= self.largest and self.values[at] == exact:
            return sign | at
        middle = (self.values[low] + high_value) / 2
        high = low + 1
        bits = low if exact < middle or (exact == middle and low % 2 == 0) else high
        if bits > self.largest and not self.ieee:
            return None
        return sign | bits

    def is_nan(self, bits):
        magnitude = bits & ((1 << (self.bits - 1)) - 1)
        return magnitude > self.largest + (1 if self.ieee else 0)


SMALL = {"BF16": Small(8, 7, 127, "ieee"), "F8_E5M2": Small(5, 2, 15, "ieee"),
         "F8_E4M3": Small(4, 3, 7, "fn")}


def float_samples(draw, count):
    """Doubles near everything that matters: small and large, halves, specials."""
    out = [0.0, -0.0, 1.0, 0.5, 1.5, 2.5, -2.5, 448.0, 464.0, 465.0, 57344.0, 61440.0, 65504.0,
           65519.0, 65520.0, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-24, 2.0**-25, 2.0**-126,
           2.0**-149, 3.0e38, 3.4028235e38, 3.5e38]
    while len(out) < count:
        value = draw.choice((-1, 1)) * draw.random() * 2.0 ** draw.randint(-150, 130)
        out.append(value)
        if draw.random() < 0.3:  # few digits: halves between neighbours
            out.append(float(np.float16(draw.uniform(-700, 700))))
    return out[:count]


class TensorValues(EmbeddedCase):
    max_object = "64KiB"  # so that tensors of some hundred KiB have many tiles

    def setUp(self):
        super().setUp()
        print(f"seed {SEED}")
        self.draw = random.Random(SEED)

    def store(self, name, tensors):
        """{tensor: (dtype, array)}: a version of the model `name`."""
        self.write("in.safetensors", safetensors_file(
            {key: (dtype, array.shape, array.tobytes()) for key, (dtype, array) in tensors.items()}))
        self.tilekv("model", "import", name, self.path("in.safetensors"), "-q")

    def get(self, dtype, *words):
        raw = self.run_raw("tensor", "get", "m", "t", "-", "--as", dtype, *words)
        self.assertEqual(raw.returncode, 0, raw.stderr)
        return raw.stdout

    def test_a_conversion_between_numpys_floats_is_numpys(self):
        values = np.array(float_samples(self.draw, 20_000) + [math.inf, -math.inf, math.nan])
        for source in ("F64", "F32", "F16"):
            with np.errstate(over="ignore"):
                array = values.astype(NUMPY_DTYPES[source])
            self.store("m", {"t": (source, array)})
            for target in ("F64", "F32", "F16"):
                got = np.frombuffer(self.get(target), NUMPY_DTYPES[target])
                with np.errstate(over="ignore"):
                    expected = array.astype(NUMPY_DTYPES[target])
                np.testing.assert_array_equal(got, expected, f"{source} to {target}")
                np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))

    def test_small_floats_are_the_nearest_by_their_definition(self):
        for target, small in SMALL.items():
            values = [value for value in float_samples(self.draw, 3_000)
                      if small.encode(value) is not None] + [math.nan]
            self.store("m", {"t": ("F64", np.array(values))})
            got = np.frombuffer(self.get(target), f"<u{small.bits // 8}").tolist()
            for value, bits in zip(values, got):
                expected = small.encode(value)
                if expected == "nan":
                    self.assertTrue(small.is_nan(bits), (target, bits))
                else:
                    self.assertEqual(bits, expected, (target, value))
            # And back: what they are is exact in F64.
            self.store("m", {"t": (target, np.array(got, f"<u{small.bits // 8}"))})
            back = np.frombuffer(self.get("F64"), "<f8").tolist()
            for bits, value in zip(got, back):
                if small.is_nan(bits):
                    self.assertTrue(math.isnan(value))
                elif not math.isinf(value):
                    magnitude = bits & ((1 << (small.bits - 1)) - 1)
                    self.assertEqual(Fraction(abs(value)), small.values[magnitude])

    def test_integers_and_floats_become_each_other_rounded_to_even(self):
        for source in INTEGERS:
            numpy_type = np.dtype(NUMPY_DTYPES[source])
            array = np.frombuffer(self.draw.randbytes(8_000), numpy_type)
            if source == "BOOL":
                array = np.frombuffer(self.draw.randbytes(8_000), np.uint8) % 2 == 1
            self.store("m", {"t": (source, array)})
            for target in ("F32", "F64", "I64" if source != "U64" else "U64"):
                got = np.frombuffer(self.get(target), NUMPY_DTYPES[target])
                np.testing.assert_array_equal(got, array.astype(NUMPY_DTYPES[target]),
                                              f"{source} to {target}")
        halves = np.arange(-126.5, 127, 0.25)
        self.store("m", {"t": ("F64", halves)})
        np.testing.assert_array_equal(np.frombuffer(self.get("I8"), np.int8), np.rint(halves))

    def test_what_a_type_cannot_hold_is_an_error_and_leaves_no_file(self):
        array = np.zeros(100_000, np.float32)
        array[70_001] = 300
        self.store("m", {"t": ("F32", array)})
        error = self.fails(USAGE, "tensor", "get", "m", "t", self.path("x.npy"), "--as", "I8")
        self.assertIn("element 70001 is 300, which I8 cannot hold", error)
        self.assertFalse(os.path.exists(self.path("x.npy")))
        self.fails(USAGE, "tensor", "get", "m", "t", self.path("x.npy"), "--as", "F4")
        self.fails(USAGE, "tensor", "get", "m", "t", self.path("x.npy"), "--as", "float")
        array[70_001] = 1e30
        self.store("m", {"t": ("F32", array)})
        raw = self.run_raw("tensor", "get", "m", "t", self.path("x.npy"), "--as", "F16")
        self.assertIn(b"1 number beyond F16 became infinite", raw.stderr)
        self.assertTrue(np.isinf(np.load(self.path("x.npy"))[70_001]))

    def test_a_slice_is_converted_as_it_streams_and_says_what_it_read(self):
        array = np.arange(3_000 * 1_000, dtype=np.float32).reshape(3_000, 1_000)  # 12 MB
        self.store("m", {"t": ("F32", array)})
        for text in ("", "100:2900", "::-1, 5:900:3", "7"):
            words = ["--slice", text] if text else []
            report = self.as_json("tensor", "get", "m", "t", self.path("x.npy"), "-y", "--as", "F64",
                                  "--memory", "64MiB", *words)
            expected = eval(f"array[{text or '...'}]").astype(np.float64)  # the text is ours
            np.testing.assert_array_equal(np.load(self.path("x.npy")), expected)
            self.assertEqual(report["bytes"], expected.nbytes)
            self.assertGreaterEqual(report["asked_bytes"], expected.nbytes // 2)
            self.assertGreaterEqual(report["read_bytes"], expected.nbytes // 2)

    def test_statistics_are_numpys(self):
        tensors = {}
        for dtype, numpy_type in NUMPY_DTYPES.items():
            if dtype == "C64":
                continue
            raw = self.draw.randbytes(200_000)
            array = np.frombuffer(raw, numpy_type) if dtype != "BOOL" else np.frombuffer(
                raw, np.uint8) % 2 == 1
            if array.dtype.kind == "f":  # of a size whose squares F64 holds
                array = np.where(np.abs(array) < 1e100, array, array.dtype.type(np.nan))
                array[:50] = 0
                array[50:60] = np.inf
                array[60:70] = np.finfo(array.dtype).tiny / 2
            tensors[dtype] = (dtype, array)
        self.store("m", tensors)
        rows = {row["name"]: row for row in self.as_json("tensor", "stats", "m")}
        for dtype, (_, array) in tensors.items():
            row = rows[dtype]
            wide = array.astype(np.float64)
            finite = wide[np.isfinite(wide)]
            self.assertEqual(row["elements"], array.size)
            self.assertEqual(row["nan"], int(np.isnan(wide).sum()), dtype)
            self.assertEqual(row["inf"], int(np.isinf(wide).sum()), dtype)
            self.assertEqual(row["zeros"], int((wide == 0).sum()), dtype)
            self.assertEqual(row["min"], finite.min(), dtype)
            self.assertEqual(row["max"], finite.max(), dtype)
            np.testing.assert_allclose(row["mean"], finite.mean(), rtol=1e-9,
                                       atol=1e-12 * np.abs(finite).max())
            np.testing.assert_allclose(row["std"], finite.std(), rtol=1e-9)
            if array.dtype.kind == "f":
                tiny = np.finfo(array.dtype).tiny
                subnormal = (np.abs(array) < tiny) & (array != 0)
                self.assertEqual(row["subnormal"], int(subnormal.sum()), dtype)
        self.assertIn("SUBNORMAL", self.tilekv("tensor", "stats", "m", "F32", "I8"))
        self.assertEqual(len(self.as_json("tensor", "stats", "m", "F32", "I8")), 2)

    def test_a_difference_in_values_is_numpys(self):
        before = np.linspace(-3, 3, 400_000, dtype=np.float32).reshape(400, 1000)
        after = before.copy()
        for _ in range(500):
            after[self.draw.randrange(50, 90), self.draw.randrange(1000)] *= 1 + self.draw.random()
        after[60, 5], after[61, 6] = np.nan, np.inf
        same = np.arange(1000, dtype=np.int64)
        self.store("m", {"t": ("F32", before), "same": ("I64", same)})
        self.store("m", {"t": ("F32", after), "same": ("I64", same)})
        diff = self.as_json("model", "diff", "m@1", "m@2", "--values", code=DIFFERS)
        self.assertEqual([row["name"] for row in diff["tensors"]], ["t"])
        values = diff["tensors"][0]["values"]
        wide, then = after.astype(np.float64), before.astype(np.float64)
        finite = np.isfinite(wide)
        distance = np.abs(wide - then)[finite]
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = distance / np.abs(then)[finite]
        self.assertEqual(values["elements"], before.size)
        self.assertEqual(values["changed"], int((after.view("u4") != before.view("u4")).sum()))
        np.testing.assert_allclose(values["largest_absolute"], distance.max(), rtol=1e-12)
        np.testing.assert_allclose(values["largest_relative"],
                                   relative[np.isfinite(relative)].max(), rtol=1e-12)
        self.assertEqual((values["new_nan"], values["new_inf"]), (1, 1))
        self.assertIn("LARGEST", self.tilekv("model", "diff", "m@1", "m@2", "--values",
                                             code=DIFFERS))
        self.assertNotIn("values", json.dumps(
            self.as_json("model", "diff", "m@1", "m@2", code=DIFFERS)))


main(globals())
