"""Threads: same bits at any number, from any thread, after fork; their number; Ctrl-C."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers import make_qkv, python_path, run_python, same_bits

import attnmod as am

DEADLINE = 60  # seconds after which something hangs: no call here takes one

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def forks(test):
    test = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")(test)
    return pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")(test)


def large_call(num_threads=None):
    """A call with work enough to wake every thread."""
    query, key, value = make_qkv(2, 4, queries=300, keys=300, features=32)
    return am.scaled_dot_product_attention(
        query, key, value, is_causal=True, num_threads=num_threads
    )


# Same bits


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    ("leading", "kv_heads", "queries", "keys"),
    [((2, 4), 4, 300, 300), ((1, 8), 2, 130, 200), ((1, 8), 1, 1, 5000), ((1,), 1, 500, 700)],
)
def test_number_of_threads_does_not_change_a_bit(dtype, leading, kv_heads, queries, keys):
    arrays = make_qkv(*leading, queries=queries, keys=keys, kv_heads=kv_heads, dtype=dtype)
    options = {"is_causal": True, "q_offset": keys - queries, "enable_gqa": True}
    results = [
        am.scaled_dot_product_attention(
            *arrays, return_weights=True, return_lse=True, num_threads=threads, **options
        )
        for threads in (1, 2, 3, 8)
    ]
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            assert same_bits(one, other)
    query, key, _ = arrays
    for function in (am.attention_scores, am.key_weights):
        scores = [function(query, key, num_threads=n, **options) for n in (1, 2, 3, 8)]
        assert all(same_bits(scores[0], other) for other in scores[1:])


def test_absurd_number_of_threads_does_not_change_a_bit_either():
    code = """
import test_threads
print(test_threads.same_bits(test_threads.large_call(10**6), test_threads.large_call(1)))
"""
    assert run_python(code) == "True"


def test_same_call_twice_gives_the_same_bits():
    assert same_bits(large_call(8), large_call(8))


# Python's threads


def test_python_threads_calling_at_once_are_each_right():
    arrays = [make_qkv(2, 3, queries=n, keys=150, features=32) for n in (100, 130, 170, 200)]
    wanted = [am.scaled_dot_product_attention(*each, num_threads=1) for each in arrays]
    start = threading.Barrier(len(arrays))
    wrong = []

    def call_often(each, want):
        start.wait(DEADLINE)
        for repeat in range(60):
            got = am.scaled_dot_product_attention(*each, num_threads=1 + repeat % 4)
            if not same_bits(got, want):
                wrong.append(repeat)

    threads = [
        threading.Thread(target=call_often, args=each, daemon=True)
        for each in zip(arrays, wanted, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


# Fork


def in_child(function):
    """Runs function in a forked child; its truth is the child's exit status. Never hangs."""
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = 0 if function() else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@forks
def test_child_and_parent_of_a_warm_pool_are_both_right():
    want = large_call(2)
    assert in_child(lambda: same_bits(large_call(2), want))
    assert same_bits(large_call(2), want)


@forks
def test_child_of_a_child_is_right():
    want = large_call(3)
    assert in_child(
        lambda: same_bits(large_call(3), want) and in_child(lambda: same_bits(large_call(3), want))
    )


@forks
def test_child_forked_during_a_call_of_another_thread_is_right():
    want = large_call(2)
    stop = threading.Event()

    def keep_calling():
        while not stop.is_set():
            large_call(2)

    busy = threading.Thread(target=keep_calling, daemon=True)
    busy.start()
    try:
        assert all(in_child(lambda: same_bits(large_call(2), want)) for _ in range(20))
    finally:
        stop.set()
        busy.join(DEADLINE)
    assert not busy.is_alive()


@forks
def test_workers_of_multiprocessing_are_right():
    want = large_call(2)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map_async(large_call, [1, 2, 3, 2]).get(DEADLINE)
    assert all(same_bits(got, want) for got in results)


# A call that takes hours, unless something ends it.
LONG_CALL = """
import os, signal, sys, threading, time
import numpy as np
import attnmod as am

x = np.broadcast_to(np.float32(1), (8, 1_000_000, 64))

def long_call():
    am.scaled_dot_product_attention(x, x, x[..., :1])

def still_right():
    one = np.ones((1, 1))
    return am.scaled_dot_product_attention(one, one, one).item() == 1
"""


def seconds_of_processor(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[11]) / os.sysconf("SC_CLK_TCK")


@linux
@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_ends_a_long_call_by_keyboard_interrupt(threads):
    code = (
        LONG_CALL
        + """
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    long_call()
except KeyboardInterrupt:
    print("interrupted", still_right(), flush=True)
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": python_path(), "ATTNMOD_NUM_THREADS": threads},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        # Only the call itself takes so much time after "ready".
        start, deadline = seconds_of_processor(process.pid), time.monotonic() + DEADLINE
        while seconds_of_processor(process.pid) < start + 0.3:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=DEADLINE)
        assert rest == "interrupted True\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


IN_A_THREAD = (
    LONG_CALL
    + """
thread = threading.Thread(target=long_call, daemon=True)
thread.start()
clock = time.pthread_getcpuclockid(thread.ident)
while time.clock_gettime(clock) < 0.3:
    pass
"""
)


@linux
def test_other_python_threads_run_during_a_call():
    code = IN_A_THREAD + "print(still_right(), flush=True); os._exit(0)"
    assert run_python(code, timeout=DEADLINE) == "True"


# Taking Python apart takes a while, in which the call goes on and may look for signals.
SLOW_END = """
class Last:
    def __del__(self, clock=time.monotonic):
        end = clock() + 0.3
        while clock() < end:
            pass

sys.last = Last()
print("end")
"""


@linux
@pytest.mark.parametrize("threads", ["1", "2"])
def test_interpreter_ends_while_a_daemon_thread_is_in_a_call(threads):
    code = IN_A_THREAD + SLOW_END
    assert run_python(code, timeout=DEADLINE, ATTNMOD_NUM_THREADS=threads) == "end"


# Their number


def test_number_of_threads_is_at_least_one_and_the_default_of_cpu_info():
    assert am.get_num_threads() >= 1
    assert am.cpu_info()["threads"] == am.get_num_threads()


@pytest.mark.usefixtures("restored_threads")
def test_set_num_threads_is_what_get_num_threads_says():
    for number in (1, 3, 8, np.int64(2)):
        assert am.set_num_threads(number) is None
        assert am.get_num_threads() == number
        large_call()


GET = "import attnmod as am; print(am.get_num_threads())"


def test_environment_says_how_many_threads_and_attnmod_comes_first():
    assert run_python(GET, ATTNMOD_NUM_THREADS="3") == "3"
    assert run_python(GET, OMP_NUM_THREADS="5") == "5"
    assert run_python(GET, OMP_NUM_THREADS="5,2") == "5"
    assert run_python(GET, ATTNMOD_NUM_THREADS="3", OMP_NUM_THREADS="5") == "3"


@pytest.mark.parametrize("nonsense", ["", "0", "-2", "two", "1e3", "3 4"])
def test_nonsense_in_the_environment_is_as_nothing(nonsense):
    assert run_python(GET, ATTNMOD_NUM_THREADS=nonsense) == run_python(GET)
    assert run_python(GET, ATTNMOD_NUM_THREADS=nonsense, OMP_NUM_THREADS="3") == "3"


def test_set_num_threads_comes_before_the_environment():
    code = "import attnmod as am; am.set_num_threads(2); print(am.get_num_threads())"
    assert run_python(code, ATTNMOD_NUM_THREADS="3") == "2"


@linux
def test_affinity_limits_the_default():
    one = f"import os; os.sched_setaffinity(0, [{min(os.sched_getaffinity(0))}]); "
    assert run_python(one + GET) == "1"


@pytest.mark.usefixtures("restored_threads")
def test_threadpoolctl_sees_and_limits_the_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    am.register_threadpoolctl()
    am.set_num_threads(3)
    ours = [x for x in threadpoolctl.threadpool_info() if x["internal_api"] == "attnmod"]
    assert [x["num_threads"] for x in ours] == [3]
    with threadpoolctl.threadpool_limits(limits=1):
        assert am.get_num_threads() == 1
        large_call()
    assert am.get_num_threads() == 3
