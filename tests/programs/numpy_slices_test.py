"""A selection of a stored tensor is NumPy's selection of the array, to the shape and the byte.

Cases are drawn from a seed, which is printed. TILEKV_TEST_SEED draws the cases of another run again,
TILEKV_TEST_CASES says how many there are of each kind of store.
"""

import os
import random
import subprocess
import time
import warnings

import numpy as np

import tilekv_testing
from tilekv_testing import EmbeddedCase, ServedCase, main

SEED = int(os.environ.get("TILEKV_TEST_SEED", time.time_ns() % 2**32))
CASES = int(os.environ.get("TILEKV_TEST_CASES", 1800))
DTYPES = list(tilekv_testing.NUMPY_DTYPES)


def random_array(draw, dtype, shape):
    count = int(np.prod(shape, dtype=np.int64))
    numpy_dtype = np.dtype(tilekv_testing.NUMPY_DTYPES[dtype])
    content = draw.randbytes(count * numpy_dtype.itemsize)  # NaNs of every payload among them
    if dtype == "BOOL":
        content = bytes(byte & 1 for byte in content)
    return np.frombuffer(content, numpy_dtype).reshape(shape)


def large_shape(draw, rank, item_bytes):
    """Of some 270 to 420 KB, which is above what is packed and many tiles of 64 KiB."""
    elements = draw.randint(270_000, 420_000) // item_bytes
    if rank == 1:
        return (elements,)
    sizes = [draw.choice((1, 2, 3, 5, 7, 16, 31)) for _ in range(rank)]
    if rank == 2 and draw.random() < 0.5:
        sizes[1] = draw.choice((1024, 2048, 8192)) * draw.choice((1, 2))  # what bands divide
        sizes[1] = min(sizes[1], elements)
        free = 0
    else:
        free = draw.randrange(rank)
    sizes[free] = 1
    sizes[free] = max(1, elements // int(np.prod(sizes)))
    return tuple(sizes)


def small_shape(draw, rank):
    return tuple(draw.choice((0, 1, 1, 2, 3, 4, 6, 9)) for _ in range(rank))


def draw_arrays(draw, ranks, per_rank):
    """Small and large ones, of every dtype in turn: {name: (dtype, array)}."""
    arrays, dtypes = {}, []
    for rank in ranks:
        for i in range(per_rank):
            if not dtypes:
                dtypes = draw.sample(DTYPES, len(DTYPES))
            dtype = dtypes.pop()
            item_bytes = np.dtype(tilekv_testing.NUMPY_DTYPES[dtype]).itemsize
            large = rank > 0 and i % 3 > 0
            shape = large_shape(draw, rank, item_bytes) if large else small_shape(draw, rank)
            arrays[f"rank{rank}.{i}.{dtype}"] = (dtype, random_array(draw, dtype, shape))
    return arrays


# --- questions: a line for the driver, and NumPy's answer

def draw_bound(draw, size):
    kind = draw.random()
    if kind < 0.25:
        return None
    if kind < 0.35:
        return draw.choice((-1, 1)) * draw.randint(size, 3 * size + 5)  # beyond the end
    if kind < 0.37:
        return draw.choice((-1, 1)) * 10**draw.randint(9, 30)
    return draw.randint(-size - 1, size + 1)


def draw_range(draw, size):
    step = draw.choice((None, None, None, 1, 2, -1, -3, -2, 3, draw.randint(1, size + 3)))
    if draw.random() < 0.01:
        step = 0
    return slice(draw_bound(draw, size), draw_bound(draw, size), step)


def draw_items(draw, shape):
    """As between brackets. About one in ten is refused by NumPy."""
    items = []
    for size in shape[:draw.randint(0, len(shape))]:
        if draw.random() < 0.3:
            items.append(draw.randint(-size, size - 1) if size and draw.random() < 0.95
                         else draw.choice((size, -size - 1, size + 7)))
        else:
            items.append(draw_range(draw, size))
    if draw.random() < 0.4:  # from here on the items are for the last dimensions
        at = draw.randint(0, len(items))
        tail = len(items) - at
        items[at:] = [Ellipsis] + [draw_range(draw, size) for size in shape[len(shape) - tail:]]
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        items.insert(draw.randint(0, len(items)), None)
    if draw.random() < 0.02:
        items.insert(draw.randint(0, len(items)), Ellipsis)
    if draw.random() < 0.02:
        items += [draw_range(draw, 3)] * (len(shape) + 1)
    return items


def item_text(draw, item):
    if item is None:
        return draw.choice(("None", "newaxis", "None"))
    if item is Ellipsis:
        return "..."
    if isinstance(item, int):
        return str(item)
    bounds = ["" if bound is None else str(bound) for bound in (item.start, item.stop, item.step)]
    if item.step is None and draw.random() < 0.7:
        bounds.pop()
    return ":".join(bounds)


def items_text(draw, items):
    space = draw.choice(("", "", " "))
    text = f",{space}".join(item_text(draw, item) for item in items)
    if items and draw.random() < 0.1:
        text += ","
    return text


def ask_slice(draw, name, array):
    items = draw_items(draw, array.shape)
    return f"slice\t{name}\t{items_text(draw, items)}", lambda: array[tuple(items)]


def ask_shard(draw, name, array):
    world = draw.choice((1, 2, 3, 4, 7, 8, draw.randint(1, 40)))
    rank = draw.randrange(world)
    axis = draw.randint(-array.ndim, array.ndim - 1) if array.ndim else 0
    if draw.random() < 0.03:
        axis = draw.choice((array.ndim, -array.ndim - 1))
    def expected():
        if not -array.ndim <= axis < array.ndim:
            raise IndexError(axis)
        return np.array_split(array, world, axis)[rank]
    return f"shard\t{name}\t{rank}\t{world}\t{axis}", expected


def ask_rows(draw, name, array):
    size = array.shape[0] if array.ndim else 0
    few = 12 if array.nbytes < 1_000_000 * max(size, 1) else 2
    rows = [draw.randint(-size, size - 1) for _ in range(draw.randint(0, few))] if size else []
    if draw.random() < 0.05:
        rows.insert(draw.randint(0, len(rows)), draw.choice((size, -size - 1)))
    return (f"rows\t{name}\t{','.join(map(str, rows))}",
            lambda: array[np.array(rows, dtype=np.int64)])


def ask_whole(_, name, array):
    return f"whole\t{name}", lambda: array


class Driver:
    """The program that asks the library."""

    def __init__(self, store, model):
        self.process = subprocess.Popen([tilekv_testing.programs["slice-driver"], store, model],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question):
        """(shape, bytes), or a text that begins with the reason."""
        self.process.stdin.write(question.encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode()
        if line.startswith("error "):
            return line[6:].rstrip("\n")
        words = line.split()
        assert words and words[0] == "ok", (question, line)
        return tuple(map(int, words[2:])), self.process.stdout.read(int(words[1]))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(tilekv_testing.PATIENCE_S)


class Selections:
    """Mixed into a kind of store."""

    max_object = "64KiB"  # so that tensors of some hundred KB have many tiles

    def import_arrays(self, model, arrays, layout):
        source = self.write(f"{model}.safetensors", tilekv_testing.safetensors_file(
            {name: (dtype, array.shape, array.tobytes())
             for name, (dtype, array) in arrays.items()}))
        return self.as_json("model", "import", model, source, "--layout", layout)

    def models(self, draw):
        """(name, arrays) of one model a layout, all imported."""
        for layout in ("auto", "rows", "bands"):
            arrays = draw_arrays(draw, range(6), 6)
            self.import_arrays(layout, arrays, layout)
            yield layout, arrays
        for rank in range(1, 6):
            model = f"explicit-{rank}"
            arrays = draw_arrays(draw, [rank], 3)
            self.import_arrays(model, arrays, self.draw_tile_shape(draw, rank))
            yield model, arrays

    @staticmethod
    def draw_tile_shape(draw, rank):
        # At most 64 KiB for 8-byte elements, and not so small that there are a million tiles.
        edge = {1: (1000, 8000), 2: (40, 90), 3: (9, 20), 4: (5, 9), 5: (3, 6)}[rank]
        return "x".join(str(draw.randint(*edge)) for _ in range(rank))

    def check(self, driver, question, expected):
        """Whether NumPy refused it, as the library then did."""
        got = driver.ask(question)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # what NumPy takes, but not for ever
                array = expected()
        except (IndexError, ValueError, DeprecationWarning) as error:
            self.assertIsInstance(got, str, f"{question}: NumPy says {error}")
            self.assertEqual(got.split()[0], "INVALID_ARGUMENT", question)
            return True
        self.assertIsInstance(got, tuple, f"{question}: {got}; NumPy's shape: {array.shape}")
        shape, content = got
        self.assertEqual(shape, array.shape, question)
        self.assertTrue(content == array.tobytes(), f"{question}: other bytes than NumPy's")
        return False

    def test_every_selection_is_numpys(self):
        draw = random.Random(f"{SEED} {type(self).__name__}")
        print(f"TILEKV_TEST_SEED={SEED}", flush=True)
        models = list(self.models(draw))
        refused = 0
        for place, (model, arrays) in enumerate(models):
            driver = Driver(self.env["TILEKV_STORE"], model)
            self.addCleanup(driver.process.wait)
            self.addCleanup(driver.process.kill)
            for name, (_, array) in arrays.items():
                self.check(driver, *ask_whole(draw, name, array))
            for case in range(place, CASES, len(models)):
                ask = draw.choices((ask_slice, ask_shard, ask_rows), (8, 1, 1))[0]
                name = draw.choice(list(arrays))
                with self.subTest(model=model, case=case, seed=SEED):
                    refused += self.check(driver, *ask(draw, name, arrays[name][1]))
            self.assertEqual(driver.close(), 0)
        # The cases are what they are meant to be: some refused, most not.
        self.assertGreater(refused, CASES // 100)
        self.assertLess(refused, CASES // 4)

    def test_tensors_are_cut_as_asked(self):
        """Without many tiles the test above would prove little."""
        draw = random.Random(1)
        array = random_array(draw, "F32", (64, 2048))
        for layout, tile in (("rows", [8, 2048]), ("bands", [64, 256]), ("33x400", [33, 400])):
            self.import_arrays(layout, {"t": ("F32", array)}, layout)
            self.assertEqual(self.as_json("tensor", "ls", layout)[0]["tile_shape"], tile)


class EmbeddedSelections(Selections, EmbeddedCase):
    pass


class ServedSelections(Selections, ServedCase):
    pass


if __name__ == "__main__":
    main(globals(), "slice-driver")
