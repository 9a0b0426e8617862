"""Runs the program on its standard input in this process, closed in; `sandbox` starts it.

Arguments: megabytes of memory, seconds of processor time, modules by commas. Standard library and
pyseccomp only.
"""

import importlib
import linecache
import os
import resource
import signal
import sys
import traceback

# What a Python program needs to compute and to write. Everything else is refused by the kernel:
# opening and changing files, sockets, processes, threads, signals to others, other limits.
_ALLOWED = (
    *("read", "readv", "write", "writev", "close", "lseek", "fstat"),
    *("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "membarrier", "futex"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"),
    *("clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time"),
    *("getrandom", "getpid", "gettid", "getuid", "geteuid", "getgid", "getegid", "sched_yield"),
    *("getrusage", "times", "exit", "exit_group"),
)

_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def _close(memory_mb, seconds):
    """Sets limits and the filter of system calls; neither can be taken back."""
    import ctypes

    import pyseccomp

    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    if os.getppid() == 1:  # it has ended already
        os._exit(1)
    size = memory_mb << 20
    for limit, value in (
        (resource.RLIMIT_AS, size),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 3),
    ):
        _, most = resource.getrlimit(limit)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        resource.setrlimit(limit, (value, value))
    allowed = pyseccomp.SyscallFilter(pyseccomp.ERRNO(1))  # EPERM
    for name in _ALLOWED:
        try:
            allowed.add_rule(pyseccomp.ALLOW, name)
        except (ValueError, OSError):  # another kind of processor does not have it
            continue
    allowed.load()


def main():
    """Reads, imports, closes in, runs; the exit status is 1 where the program raises."""
    program = sys.stdin.buffer.read().decode(errors="replace")
    memory_mb, seconds, modules = sys.argv[1:]
    for name in filter(None, modules.split(",")):
        importlib.import_module(name)
    os.close(0)
    _close(int(memory_mb), int(seconds))
    linecache.getlines = lambda *_: []  # tracebacks find no files
    names = {"__name__": "__main__"}
    try:
        exec(compile(program, "program", "exec"), names)
        sys.stdout.flush()
    except SystemExit as error:
        sys.stdout.flush()
        os._exit(0 if error.code in (None, 0) else 1)
    except BaseException:
        kind, value, trace = sys.exc_info()
        sys.stdout.flush()
        # The first frame is this file.
        traceback.print_exception(kind, value, trace.tb_next if trace else None)
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
