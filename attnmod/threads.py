"""How many threads attnmod uses, and what the machine offers it."""

from __future__ import annotations

import sys
from typing import Any

import attnmod._core as _core


def get_num_threads() -> int:
    """The number of threads that a call uses when it does not say.

    That is what `set_num_threads` set, else ``ATTNMOD_NUM_THREADS``, else ``OMP_NUM_THREADS``, else
    the number of processors that the process may use (its affinity and its cgroup's quota).

    Examples
    --------
    >>> import attnmod as am
    >>> am.get_num_threads() >= 1
    True
    """
    return _core.get_num_threads()


def set_num_threads(n: int) -> None:
    """Set the number of threads that a call uses when it does not say, for the whole process.

    Parameters
    ----------
    n : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        n is not an int, or less than 1.

    Examples
    --------
    >>> import attnmod as am
    >>> before = am.get_num_threads()
    >>> am.set_num_threads(1)
    >>> am.get_num_threads()
    1
    >>> am.set_num_threads(before)
    """
    _core.set_num_threads(n)


def cpu_info() -> dict[str, Any]:
    """What this build and this machine offer.

    Returns
    -------
    dict
        isa: the instruction set in use; compiled, found: those that the build has and that the
        machine runs; threads: `get_num_threads`; compiler: what built the core.
        ``ATTNMOD_ISA=generic|avx2|avx512|neon``, read when the first call is made, hides
        the sets above the one named.

    Examples
    --------
    >>> import attnmod as am
    >>> am.cpu_info()["compiled"][0]
    'generic'
    """
    return _core.cpu_info()


def register_threadpoolctl() -> None:
    """Let `threadpoolctl` see and limit attnmod's threads, as user API "attnmod".

    Happens by itself on import when threadpoolctl was imported before.

    Raises
    ------
    ImportError
        threadpoolctl is not installed.

    Examples
    --------
    >>> import attnmod as am
    >>> import threadpoolctl
    >>> am.register_threadpoolctl()
    >>> with threadpoolctl.threadpool_limits(1, user_api="attnmod"):
    ...     am.get_num_threads()
    1
    """
    import threadpoolctl

    class AttnmodController(threadpoolctl.LibController):  # type: ignore[misc]
        """Finds attnmod._core among the loaded libraries by its exported symbols."""

        user_api = "attnmod"
        internal_api = "attnmod"
        filename_prefixes = ("_core",)
        check_symbols = ("attnmod_get_num_threads", "attnmod_set_num_threads")

        def get_num_threads(self) -> int:
            return self.dynlib.attnmod_get_num_threads()  # type: ignore[no-any-return]

        def set_num_threads(self, num_threads: int) -> None:
            self.dynlib.attnmod_set_num_threads(num_threads)

        def get_version(self) -> str:
            from attnmod import __version__

            return __version__

    threadpoolctl.register(AttnmodController)


def share_threads_with_numpy(enable: bool = True) -> bool:
    """Let NumPy's OpenBLAS run on attnmod's threads, so that one set of threads serves both.

    After each call the threads of OpenBLAS spin for a tenth of a second, and whatever comes next,
    attention after a `numpy.matmul` above all, has their processors only in part. Shared threads go
    from one to the other at once.

    How many threads NumPy uses remains OpenBLAS's choice, and its results are the same bits. Calls
    of NumPy from several Python threads take turns, and wait for attention that is under way. The
    LU decomposition (`numpy.linalg.solve`, `inv`, `det`) keeps OpenBLAS's own threads, and next to
    shared ones takes up to twice as long. A forked child shares as its parent did.

    Whoever raises OpenBLAS's number of threads (by threadpoolctl) does so before: past half of what
    it was built for, threads of both would use the same memory.

    Parameters
    ----------
    enable : bool
        False gives OpenBLAS its own threads back.

    Returns
    -------
    bool
        Whether NumPy runs on attnmod's threads now. False, and nothing is changed, where NumPy has
        another BLAS (Accelerate, MKL), an OpenBLAS before 0.3.29, or one that uses more than half
        of the threads that it was built for, which is more than 32 in NumPy's wheels; and when the
        system has no more threads to give.

    Raises
    ------
    TypeError
        enable is not a bool.

    Examples
    --------
    >>> import attnmod as am
    >>> shares = am.share_threads_with_numpy()
    >>> shares in (True, False)
    True
    >>> am.share_threads_with_numpy(False)
    False
    """
    return _core.share_threads_with_numpy(enable)


if "threadpoolctl" in sys.modules:
    register_threadpoolctl()
