#!/usr/bin/env python3
"""Makes the hostile checkpoints of tests/corpus/pt: small .pt files, each wrong in one way. Standard library only.

    python3 tests/corpus/make_pt.py

tests/test_pt.c knows for each of them how it must be refused, and starts its random changes from them."""
import os
import struct
import zipfile
import zlib

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pt")

# ---- pickles ----


def text(s):
    b = s.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(b)) + b


def integer(i):
    return b"J" + struct.pack("<i", i) if -2**31 <= i < 2**31 else b"\x8a\x08" + struct.pack("<q", i)


def name(full):
    module, _, last = full.rpartition(".")
    return b"c" + module.encode() + b"\n" + last.encode() + b"\n"


def tup(*items):
    return b"(" + b"".join(items) + b"t"


def ints(*values):
    return tup(*[integer(v) for v in values])


def storage(cls="torch.FloatStorage", key="0", location="cpu", numel=4):
    return tup(text("storage"), name(cls), text(key), text(location), integer(numel)) + b"Q"


NO_HOOKS = name("collections.OrderedDict") + b")R"


def tensor(store=None, offset=integer(0), size=ints(4), stride=ints(1), rest=b"\x89" + NO_HOOKS, function="torch._utils._rebuild_tensor_v2"):
    return name(function) + tup(store or storage(), offset, size, stride, rest) + b"R"


def call(function, *arguments):
    return name(function) + tup(*arguments) + b"R"


FOUR = struct.pack("<4f", 1, 2, 3, 4)

# ---- archives ----


def archive(file, pickle, storages=None, records=None, without=(), deflated=(), folder="archive/", end=b"."):
    storages = [FOUR] if storages is None else storages
    parts = [("data.pkl", b"\x80\x02" + pickle + end), ("byteorder", b"little")] + [("data/%d" % i, s) for i, s in enumerate(storages)] + \
        [("version", b"3\n")]
    parts = [p for p in parts if p[0] not in without] + (records or [])
    path = os.path.join(OUT, file + ".pt")
    with zipfile.ZipFile(path, "w") as z:
        for key, data in parts:
            info = zipfile.ZipInfo(folder + key, (1980, 1, 1, 0, 0, 0))
            z.writestr(info, data, zipfile.ZIP_DEFLATED if key in deflated else zipfile.ZIP_STORED)
    return path


def change(path, old, new, count=1):
    with open(path, "rb") as f:
        data = f.read()
    assert old in data, path
    with open(path, "wb") as f:
        f.write(data.replace(old, new, count))


def raw(file, data):
    with open(os.path.join(OUT, file + ".pt"), "wb") as f:
        f.write(data)


# ---- the files ----


def broken_archives():
    raw("empty", b"")
    raw("text", b"hello, this is no checkpoint\n")
    raw("legacy", b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.")
    path = archive("truncated", tensor())
    with open(path, "rb") as f:
        data = f.read()
    raw("truncated", data[:-30])
    archive("no_folder", tensor(), folder="")
    archive("no_version", tensor(), without=("version",))
    archive("bad_version", tensor(), without=("version",), records=[("version", b"three")])
    archive("long_version", tensor(), without=("version",), records=[("version", b"3" * 40)])
    archive("new_version", tensor(), without=("version",), records=[("version", b"99\n")])
    archive("bad_order", tensor(), without=("byteorder",), records=[("byteorder", b"middle")])
    archive("long_order", tensor(), without=("byteorder",), records=[("byteorder", b"x" * 200)])
    archive("no_pickle", tensor(), without=("data.pkl",))
    archive("torchscript", tensor(), records=[("constants.pkl", b"\x80\x02).")])
    change(archive("two_of_one_name", tensor(), records=[("xersion", b"4\n")]), b"archive/xersion", b"archive/version", 2)
    change(archive("damaged_storage", tensor()), FOUR, FOUR[:-1] + b"A")
    change(archive("damaged_pickle", tensor()), b"_rebuild_tensor_v2", b"_rebuild_tensor_vX")
    path = archive("overlap", tensor(), storages=[FOUR, FOUR])
    with open(path, "rb") as f:
        data = f.read()
    first, second = (data.index(b"PK\3\4", data.index(k) - 30) for k in (b"archive/data/0", b"archive/data/1"))
    raw("overlap", data.replace(struct.pack("<I", second) + b"archive/data/1", struct.pack("<I", first) + b"archive/data/1"))
    zeros = b"\0" * (16 << 20)
    archive("bomb_storage", tensor(storage(numel=4 << 20), size=ints(1)), storages=[zeros], deflated=("data/0",))
    archive("bomb_pickle", b"N" * (16 << 20), deflated=("data.pkl",))
    path = archive("lying_size", tensor(storage(numel=2500), size=ints(1)), storages=[b"\1\2\3\4" * 16], deflated=("data/0",))
    packed = zlib.compressobj(-1, zlib.DEFLATED, -15)
    length = len(packed.compress(b"\1\2\3\4" * 16) + packed.flush())
    change(path, struct.pack("<II", length, 64), struct.pack("<II", length, 10000), 2)
    path = archive("impossible_size", tensor(), storages=[b"\1\2\3\4" * 16], deflated=("data/0",))
    change(path, struct.pack("<II", length, 64), struct.pack("<II", length, 1 << 30), 2)


def broken_pickles():
    archive("cut", tensor(), end=b"X\xff\xff\xff\x7fabc")
    archive("no_stop", b"N", end=b"")
    archive("nothing", b"")
    archive("no_mark", b"Nt")
    archive("tuple_of_two", b"N\x86")
    archive("under_mark", b"](N]b", end=b"a.")
    archive("short_set", b"}N", end=b"s.")
    archive("frame", b"\x95" + struct.pack("<Q", 9) + b"N")
    archive("protocol", b"\x80\x04N")
    archive("no_utf8", b"X\2\0\0\0\xff\xfe")
    archive("append_to_dict", b"}Na")
    archive("set_in_list", b"]NNs")
    archive("odd_items", b"}(Nu")
    archive("list_as_key", b"}]Ns")
    archive("large_key", b"}" + tup(*[b"N"] * 300) + b"Ns")
    deep = b")q\0" + b"".join(b"h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60))
    archive("tuple_of_tuples_as_key", deep + b"}h%cNs" % 60)
    archive("memo", b"h\5")
    archive("memo_far", b"Nr\xff\xff\xff\xff")
    archive("many_lists", b"]" * (1 << 20), deflated=("data.pkl",))
    archive("many_marks", b"(" * (2 << 20), deflated=("data.pkl",))
    archive("many_names", name("collections.OrderedDict") + b"q\0" + b")q\1" + b"h\0h\1R" * 100000, deflated=("data.pkl",))
    archive("deep_lists", b"]" * 2000 + b"a" * 1999, deflated=("data.pkl",))
    archive("deep_tuples", b")" + b"\x85" * 100000, deflated=("data.pkl",))
    archive("tensors_without_end", name("torch._utils._rebuild_tensor_v2") + b"q\0" + tup(storage(), integer(0), ints(4), ints(1), b"\x89", NO_HOOKS) +
            b"q\1R" + b"h\0h\1R" * 40000, deflated=("data.pkl",))


def broken_names():
    archive("no_name", b"c\nx\n")
    archive("endless_name", b"c" + b"x" * 300)
    archive("strange_name", b"cos\x1b\nx\n")
    archive("system", call("posix.system", text("echo oh no")))
    archive("os_system", call("os.system", text("echo oh no")))
    archive("eval", call("__builtin__.eval", text("1")))
    archive("module", name("torch.nn.modules.linear.Linear") + b")\x81}b")
    archive("numpy", call("numpy._core.multiarray._reconstruct", ints(0)))
    archive("complex_storage", storage("torch.ComplexFloatStorage"))
    archive("sparse", call("torch._utils._rebuild_sparse_tensor", ints(0)))
    archive("call_of_a_list", b"])R")
    archive("call_with_a_list", name("collections.OrderedDict") + b"]R")
    archive("call_of_a_class", call("torch.Tensor"))
    archive("new_of_a_function", name("collections.OrderedDict") + b")\x81")
    archive("build_of_a_list", b"]}b")
    archive("build_with_a_list", NO_HOOKS + b"]b")


def broken_tensors():
    archive("id", b"]Q")
    archive("id_of_a_module", tup(text("module"), name("torch.FloatStorage"), text("0"), text("cpu"), integer(4)) + b"Q")
    archive("id_with_a_class", tup(text("storage"), name("torch.Tensor"), text("0"), text("cpu"), integer(4)) + b"Q")
    archive("bare_storage", storage())
    archive("hidden_storage", b"}" + text("a") + tup(storage(), b"N") + b"s")
    archive("missing_storage", tensor(storage(key="7")))
    archive("outside", tensor(storage(key="../data.pkl")))
    archive("short_storage", tensor(storage(numel=5)))
    archive("negative_storage", tensor(storage(numel=-4)))
    archive("two_types", tup(tensor(), tensor(storage("torch.LongStorage", numel=2), size=ints(2))))
    archive("too_large", tensor(size=ints(5)))
    archive("offset", tensor(offset=integer(1)))
    archive("negative_offset", tensor(offset=integer(-1)))
    archive("negative_stride", tensor(stride=ints(-1)))
    archive("negative_size", tensor(size=ints(-1)))
    archive("overflow", tensor(size=ints(2**62, 2**62), stride=ints(0, 0)))
    archive("overflowing_stride", tensor(size=ints(3), stride=ints(2**62)))
    archive("expanded", tensor(size=ints(2**61), stride=ints(0)))
    archive("nine_dimensions", tensor(size=ints(*[1] * 9), stride=ints(*[1] * 9)))
    archive("strides_missing", tensor(stride=ints()))
    archive("size_is_a_number", tensor(size=integer(4)))
    archive("size_of_texts", tensor(size=tup(text("4"))))
    archive("tensor_without_size", call("torch._utils._rebuild_tensor_v2", storage(), integer(0)))
    archive("negated", tensor(rest=b"\x89" + NO_HOOKS + b"}" + text("neg") + b"\x88s"))
    archive("v3_other_type", tensor(rest=b"\x89" + NO_HOOKS + name("torch.int64"), function="torch._utils._rebuild_tensor_v3"))
    archive("int_wants_gradient", tensor(storage("torch.LongStorage", numel=2), size=ints(2), rest=b"\x88" + NO_HOOKS))
    archive("parameter_of_nothing", call("torch._utils._rebuild_parameter", b"N", b"\x88", NO_HOOKS))
    archive("subclass", call("torch._tensor._rebuild_from_type_v2", name("torch._utils._rebuild_tensor_v2"), name("collections.OrderedDict"),
                             tup(storage(), integer(0), ints(4), ints(1), b"\x89", NO_HOOKS), b"}"))
    archive("type_loop", call("torch._tensor._rebuild_from_type_v2", name("torch._tensor._rebuild_from_type_v2"), name("torch.Tensor"), b")", b"}"))
    archive("tag", tensor(storage(location="foo")))
    archive("other_place", tensor(storage(location="cuda:7")))


def broken_arguments():
    archive("dict_of_a_number", call("collections.OrderedDict", integer(1)))
    archive("dict_of_triples", call("collections.OrderedDict", b"](NNNte"[:-1] + b"a"))
    archive("counter_of_a_list", call("collections.Counter", b"]"))
    archive("set_of_lists", call("__builtin__.set", b"]]a"))
    archive("set_of_a_number", call("__builtin__.set", integer(1)))
    archive("size_of_a_list", call("torch.Size", b"]"))
    archive("bytes_of_a_snowman", call("_codecs.encode", text("\u2603"), text("latin1")))
    archive("bytes_in_utf16", call("_codecs.encode", text("a"), text("utf-16")))
    archive("complex_of_texts", call("__builtin__.complex", text("1"), text("2")))
    archive("device_without_name", call("torch.device", integer(1)))
    archive("device_unknown", call("torch.device", text("toaster")))


def sound():
    """These load: what is odd about them is allowed."""
    archive("fine", tensor())
    archive("fine_empty_beyond", tensor(size=ints(0), offset=integer(4)))
    archive("fine_dag", b"]q\0" + b"".join(b"](h%ch%ceq%c" % (i, i, i + 1) for i in range(100)))
    archive("fine_circle", b"]q\0h\0a")
    archive("fine_deflated", tensor(), deflated=("data.pkl", "data/0"))
    archive("fine_untyped", tensor(storage("torch.storage.UntypedStorage", numel=16), rest=b"\x89" + NO_HOOKS + name("torch.float32"),
                                   function="torch._utils._rebuild_tensor_v3"))
    archive("fine_old_pairs", call("collections.OrderedDict", b"](" + text("a") + integer(1) + b"ta"))
    change(archive("fine_without_checksums", tensor()), struct.pack("<I", zlib.crc32(FOUR)), b"\0\0\0\0", 2)


def main():
    os.makedirs(OUT, exist_ok=True)
    for old in os.listdir(OUT):
        os.unlink(os.path.join(OUT, old))
    for make in (broken_archives, broken_pickles, broken_names, broken_tensors, broken_arguments, sound):
        make()


main()
