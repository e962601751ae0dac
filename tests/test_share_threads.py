"""NumPy's OpenBLAS on attnmod's threads: the same results, from any thread, and nothing hangs.

Whatever could hang runs in a process of its own, for at most DEADLINE seconds. There `numbers` are
results of BLAS and LAPACK at sizes for which OpenBLAS takes all its threads.
"""

import os
import sys

import numpy as np
import pytest
from helpers import assert_refused, normal, run_python

import attnmod as am
from attnmod import _core

DEADLINE = 120

needs_openblas = pytest.mark.skipif(
    not _core.numpy_blas()[1], reason="NumPy's BLAS can't share threads here"
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# As many as the pool has, and more.
each_blas_threads = pytest.mark.parametrize("blas_threads", [2, 3])


def numbers(dtype="float64"):
    """What NumPy computes through BLAS and LAPACK, by name."""
    real = np.finfo(dtype).dtype
    a, b = normal(220, 200, dtype=real), normal(200, 230, dtype=real)
    if dtype.startswith("complex"):
        a, b = a + 1j * a[::-1], b - 1j * b[::-1]
    square = (a[:200] + 20 * np.eye(200)).astype(dtype)
    gram = (a.conj().T @ a).astype(dtype)
    vector = np.resize(a, 40_000)
    return {
        "matmul": a @ b,
        "transposed": b.T @ a.T,
        "batch": np.matmul(np.stack([a, 2 * a]), b),
        "gram": gram,
        "matrix and vector": np.resize(a, (500, 500)) @ vector[:500],
        "dot": np.dot(vector, vector[::-1]),
        "solve": np.linalg.solve(square, b),
        "inv": np.linalg.inv(square),
        "svd": np.linalg.svd(a, compute_uv=False),
        "eigvalsh": np.linalg.eigvalsh(gram),
        "eigh": np.linalg.eigh(gram).eigenvectors,
        "cholesky": np.linalg.cholesky(gram + np.eye(200)),
        "qr": np.linalg.qr(a).R,
        "lstsq": np.linalg.lstsq(a, a @ b, rcond=None)[0],
    }


def differences(got, want):
    """The names under which two results of `numbers` differ in any bit."""
    return [name for name in want if got[name].tobytes() != want[name].tobytes()]


def attention():
    query, key, value = normal(3, 2, 4, 200, 32)
    return am.scaled_dot_product_attention(query, key, value, is_causal=True)


PREAMBLE = """
import os, signal, threading, time
import numpy as np
import threadpoolctl
import attnmod as am
from test_share_threads import attention, differences, numbers
from test_threads import in_child

a, b = np.random.default_rng(0).standard_normal((2, 500, 500))
product, attended = a @ b, attention()

def product_is_right():
    return (a @ b).tobytes() == product.tobytes()

def attention_is_right():
    return attention().tobytes() == attended.tobytes()

def both_are_right():
    return product_is_right() and attention_is_right()

def start(function, *arguments):
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    return thread

def repeat_until_set(stop, function, wrong):
    while not stop.is_set():
        if not function():
            wrong.append(function.__name__)

def long_attention():
    "Takes most of a second, and on the main thread asks for signals meanwhile."
    x = np.broadcast_to(np.float32(1), (4, 12_000, 64))
    am.scaled_dot_product_attention(x, x, x)

threadpoolctl.threadpool_limits(BLAS_THREADS, user_api="blas")
assert am.share_threads_with_numpy()
"""


def run_shared(code, blas_threads=2):
    preamble = f"BLAS_THREADS = {blas_threads}" + PREAMBLE
    return run_python(preamble + code, timeout=DEADLINE, ATTNMOD_NUM_THREADS="2")


# Results


@needs_openblas
@pytest.mark.parametrize(
    ("blas_threads", "dtypes"),
    [(2, ["float32", "float64", "complex64", "complex128"]), (3, ["float64"])],
    ids=["2", "3"],
)
def test_results_are_the_same_bits_as_on_openblas_own_threads(blas_threads, dtypes):
    code = f"""
for dtype in {dtypes}:
    assert am.share_threads_with_numpy(False) is False
    want = numbers(dtype)
    assert am.share_threads_with_numpy() is True
    for _ in range(3):
        print(*differences(numbers(dtype), want))
"""
    assert run_shared(code, blas_threads) == ""


@needs_openblas
@each_blas_threads
def test_results_are_the_same_from_8_python_threads_beside_attention(blas_threads):
    code = """
want, wrong = numbers(), []

def call_often(turn):
    for repeat in range(4):
        wrong.extend(differences(numbers(), want))
        if (repeat + turn) % 3 == 0 and not attention_is_right():
            wrong.append("attention")

threads = [start(call_often, turn) for turn in range(8)]
for thread in threads:
    thread.join()
print(*wrong)
"""
    assert run_shared(code, blas_threads) == ""


@needs_openblas
@linux
def test_openblas_own_threads_rest_while_numpy_multiplies():
    code = """
def ticks(task):
    with open(f"/proc/self/task/{task}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))

def all_ticks():
    return {task: ticks(task) for task in os.listdir("/proc/self/task")}

before = None
while before != (before := all_ticks()):
    time.sleep(0.3)  # they spin for 0.1 s after they were made
start = ticks(threading.get_native_id())
while ticks(threading.get_native_id()) < start + 50:
    a @ b
print(sum(ticks(task) > before[task] for task in before))
"""
    assert run_shared(code) == "2"  # the caller and one worker


# On and off


@needs_openblas
def test_sharing_can_be_repeated_and_undone():
    code = """
print(am.share_threads_with_numpy(np.True_), am.share_threads_with_numpy(enable=True))
print(am.share_threads_with_numpy(False), am.share_threads_with_numpy(False))
print(both_are_right(), am.share_threads_with_numpy(), both_are_right())
"""
    assert run_shared(code).split() == ["True"] * 2 + ["False"] * 2 + ["True"] * 3


@needs_openblas
def test_sharing_can_be_switched_while_other_threads_multiply():
    code = """
stop, wrong = threading.Event(), []
threads = [start(repeat_until_set, stop, both_are_right, wrong) for _ in range(3)]
for turn in range(200):
    am.share_threads_with_numpy(turn % 2 == 0)
    time.sleep(0.002)
stop.set()
for thread in threads:
    thread.join()
print(*wrong)
"""
    assert run_shared(code) == ""


@pytest.mark.parametrize("enable", [1, 0, None, "yes", np.ones(1, bool)])
def test_other_than_a_bool_is_refused(enable):
    text = f"enable: expected True or False, got {type(enable).__module__}.{type(enable).__name__}"
    text = text.replace("builtins.", "")
    assert_refused(am.share_threads_with_numpy, TypeError, text, {"enable": enable})


SHARE_WITH = """
import resource, threadpoolctl, attnmod as am
threads = {}
threadpoolctl.threadpool_limits(threads, user_api="blas")
"""


@needs_openblas
def test_openblas_with_more_than_half_of_its_threads_can_not_share():
    most = int(_core.numpy_blas()[0].rpartition("MAX_THREADS=")[2])
    code = SHARE_WITH + "print(am.share_threads_with_numpy())"
    assert run_python(code.format(most // 2)) == "True"
    assert run_python(code.format(most // 2 + 1)) == "False"


@needs_openblas
@linux
def test_a_system_without_more_threads_can_not_share():
    code = (
        SHARE_WITH
        + """
with open("/proc/self/statm") as file:
    pages = int(file.read().split()[0])
room = pages * resource.getpagesize() + 2**22  # less than the stacks of 31 threads
resource.setrlimit(resource.RLIMIT_AS, (room, room))
print(am.share_threads_with_numpy())
"""
    )
    assert run_python(code.format(32)) == "False"


# Deadlocks


@needs_openblas
@each_blas_threads
def test_signal_handler_multiplies_within_attention(blas_threads):
    code = """
right = []
signal.signal(signal.SIGALRM, lambda *_: right.append(both_are_right()))
while len(right) < 3:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    long_attention()
print(all(right))
"""
    assert run_shared(code, blas_threads) == "True"


@needs_openblas
def test_signal_handler_multiplies_while_another_thread_wants_to():
    code = """
right, stop, wrong = [], threading.Event(), []
other = start(repeat_until_set, stop, product_is_right, wrong)
signal.signal(signal.SIGALRM, lambda *_: right.append(both_are_right()))
while len(right) < 3:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    long_attention()
stop.set()
other.join()
print(all(right), *wrong)
"""
    assert run_shared(code) == "True"


@needs_openblas
def test_caller_of_openblas_may_keep_the_gil():
    code = """
import ctypes
library = ctypes.PyDLL(np._core._multiarray_umath.__file__)
names = [f"{x}cblas_dgemm{y}" for x in ("", "scipy_") for y in ("", "64_", "_64")]
dgemm = next(getattr(library, name) for name in names if hasattr(library, name))
integer = ctypes.c_int64 if "64" in dgemm.__name__ else ctypes.c_int
size, one, zero = integer(500), ctypes.c_double(1), ctypes.c_double(0)
c = np.empty_like(a)
pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]

def multiply():
    c[...] = np.nan
    dgemm(101, 111, 111, size, size, size, one, pointers[0], size, pointers[1], size, zero,
          pointers[2], size)
    return np.allclose(c, product)

assert multiply()
stop, wrong = threading.Event(), []
other = start(repeat_until_set, stop, multiply, wrong)
for _ in range(3):
    long_attention()
stop.set()
other.join()
print(*wrong)
"""
    assert run_shared(code) == ""


# Fork and the end


@needs_openblas
@forks
@each_blas_threads
def test_child_and_parent_are_both_right(blas_threads):
    code = """
assert in_child(both_are_right)
assert both_are_right()
assert in_child(lambda: both_are_right() and in_child(both_are_right) and both_are_right())
want = numbers()
assert in_child(lambda: not differences(numbers(), want))
"""
    run_shared(code, blas_threads)


@needs_openblas
@forks
@each_blas_threads
def test_child_forked_while_other_threads_multiply_is_right(blas_threads):
    code = """
stop, wrong = threading.Event(), []
threads = [start(repeat_until_set, stop, both_are_right, wrong) for _ in range(2)]
for _ in range(20):
    assert in_child(both_are_right)
stop.set()
for thread in threads:
    thread.join()
print(*wrong)
"""
    assert run_shared(code, blas_threads) == ""


@needs_openblas
@forks
def test_workers_of_multiprocessing_are_right():
    code = """
import multiprocessing
with multiprocessing.get_context("fork").Pool(3) as pool:
    print(all(pool.starmap_async(both_are_right, [()] * 12).get(60)))
"""
    assert run_shared(code) == "True"


@needs_openblas
def test_interpreter_ends_while_daemon_threads_multiply():
    code = """
stop, wrong = threading.Event(), []
for function in (product_is_right, attention_is_right, product_is_right):
    start(repeat_until_set, stop, function, wrong)
time.sleep(0.2)
print("end", *wrong)
"""
    assert run_shared(code) == "end"


# NumPy's own tests


@needs_openblas
def test_tests_of_numpy_pass():
    pytest.importorskip("numpy.linalg.tests")
    code = """
import sys, pytest, attnmod as am
from numpy._core.tests import test_multiarray as tests

assert am.share_threads_with_numpy()
classes = ["TestVdot", "TestDot", "TestMatmul", "TestMatmulOperator", "TestMatmulInplace",
           "TestInner"]
sys.exit(pytest.main(
    ["-q", "-p", "no:cacheprovider", "-k", "not huge", "--pyargs", "numpy.linalg"]
    + [f"{tests.__file__}::{name}" for name in classes]
))
"""
    assert " passed" in run_python(code, timeout=DEADLINE)


@needs_openblas
def test_tests_of_numpy_pass_from_8_python_threads():
    pytest.importorskip("numpy.linalg.tests")
    code = """
import inspect, random, warnings
from numpy._core.tests import test_multiarray
from numpy.linalg.tests import test_linalg

def plain_tests(module):
    "Methods that need neither pytest's parameters nor the process for themselves."
    for group in vars(module).values():
        name = getattr(group, "__name__", "")
        marks = [mark.name for mark in getattr(group, "pytestmark", [])]
        if module is test_multiarray and not name.startswith(("TestMatmul", "TestDot", "TestInner",
                                                              "TestVdot")):
            continue
        for method in dir(group) if name.startswith("Test") else ():
            function = getattr(group, method)
            if method.startswith("test_") and not getattr(function, "pytestmark", marks):
                if list(inspect.signature(function).parameters) == ["self"]:
                    yield group, method

tests = [*plain_tests(test_linalg), *plain_tests(test_multiarray)]
assert len(tests) > 100
warnings.simplefilter("ignore")
failed = set()

def run_all(turn):
    for group, method in random.Random(turn).sample(tests, len(tests)):
        test = group()
        getattr(test, "setup_method", int)()
        try:
            getattr(test, method)()
        except BaseException as error:
            failed.add((group.__name__, method, repr(error)))

threads = [start(run_all, turn) for turn in range(8)]
for thread in threads:
    thread.join()
print(*failed)
"""
    assert run_shared(code) == ""
