"""Programs that try to leave their process, to stay in it for ever, or to fill the machine."""

import os

_MODES = ("r", "w", "a", "x", "rb", "r+")
_PATHS = (
    "/etc/passwd",
    "/tmp/agentrl_left",
    "/proc/self/mem",
    "/proc/self/environ",
    "/dev/null",
    "/etc/shadow",
)
_LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "


def _files():
    for path in _PATHS:
        for mode in _MODES:
            yield f"open({path!r}, {mode!r}); print('escaped')"
        yield f"import os; os.open({path!r}, os.O_RDWR | os.O_CREAT); print('escaped')"
        yield f"import io; io.FileIO({path!r}, 'w'); print('escaped')"
        yield f"import os; os.stat({path!r}); print('escaped')"
        yield f"import os; os.unlink({path!r}); print('escaped')"
        yield f"import os; os.rename({path!r}, '/tmp/agentrl_left'); print('escaped')"
        yield f"import os; os.chmod({path!r}, 0o777); print('escaped')"
        yield f"import os; os.truncate({path!r}, 1 << 30); print('escaped')"
        yield f"{_LIBC}assert libc.open({path!r}.encode(), 66, 511) >= 0; print('escaped')"
    for name in ("mkdir", "listdir", "chdir", "chroot", "rmdir", "scandir", "mkfifo", "readlink"):
        yield f"import os; os.{name}('/tmp'); print('escaped')"
    yield "import os; os.symlink('/etc', '/tmp/agentrl_left'); print('escaped')"
    yield "import os; os.link('/etc/passwd', '/tmp/agentrl_left'); print('escaped')"
    yield "import os; os.memfd_create('x'); print('escaped')"
    yield "import os; os.dup2(1, 7); print('escaped')"
    yield "import os; os.pipe(); print('escaped')"


def _processes():
    for call in (
        "fork()",
        "forkpty()",
        "posix_spawn('/bin/sh', ['sh'], {})",
        "execv('/bin/sh', [''])",
    ):
        yield f"import os; os.{call}; print('escaped')"
    yield "import os; assert os.system('touch /tmp/agentrl_left') == 0; print('escaped')"
    yield "import os\nwhile True:\n  os.fork()\n  print('escaped')"
    for used in (
        "subprocess; subprocess.run(['true'])",
        "subprocess; subprocess.check_output('id', shell=True)",
        "multiprocessing as m; m.Process(target=print).start()",
        "socket; socket.socket()",
        "socket; socket.create_server(('127.0.0.1', 0))",
        "asyncio; asyncio.run(asyncio.sleep(0))",
        "urllib.request as u; u.urlopen('http://127.0.0.1')",
        "shutil; shutil.rmtree('/tmp/agentrl_left')",
        "tempfile; tempfile.TemporaryFile()",
        "pathlib; pathlib.Path('/tmp/agentrl_left').touch()",
        "sqlite3; sqlite3.connect('/tmp/agentrl_left').execute('create table a(b)')",
        "mmap; mmap.mmap(-1, 10**10)",
        "pty; pty.spawn('sh')",
        "fcntl; fcntl.fcntl(1, 8, 1)",
    ):
        yield f"import {used}; print('escaped')"
    yield "import threading; threading.Thread(target=print).start(); print('escaped')"
    yield "import _thread; _thread.start_new_thread(print, ()); print('escaped')"
    for number in (1, 0, -1, os.getpid()):
        for signal in (0, 9, 15, 19):
            yield f"import os; os.kill({number}, {signal}); print('escaped')"
    for name in ("killpg(0, 9)", "setsid()", "setpgid(0, 0)", "nice(-5)", "setuid(0)", "setgid(0)"):
        yield f"import os; os.{name}; print('escaped')"
    for name in ("fork", "vfork", "daemon", "pause"):
        yield f"{_LIBC}assert libc.{name}(0, 0) == 0; print('escaped')"
    # fork, vfork, execve, kill, ptrace, mount, reboot, init_module, unshare, setns, process_vm_*,
    # keyctl, bpf, io_uring_setup, userfaultfd, perf_event_open, clone3, pidfd_open, fcntl, ioctl
    numbers = (57, 58, 59, 62, 101, 165, 169, 175, 272, 308, 310, 311, 250, 321, 425, 323, 298, 435)
    for number in (*numbers, 434, 72, 16, 41, 42, 49, 53, 86, 133, 161, 155, 167, 157, 160, 302):
        yield f"{_LIBC}assert libc.syscall({number}, 0, 0, 0, 0, 0) >= 0; print('escaped')"
    yield f"{_LIBC}assert libc.prctl(22, 0, 0, 0, 0) == 0; print('escaped')"
    yield f"{_LIBC}assert libc.socket(2, 1, 0) >= 0; print('escaped')"
    yield "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); print('escaped')"
    yield "import signal; signal.alarm(1); signal.setitimer(0, 1); print('escaped')"


def _memory():
    for size in (10**9, 10**10, 10**12):
        yield f"x = bytearray({size}); print('escaped')"
        yield f"x = [0] * {size}; print('escaped')"
        yield f"x = 'a' * {size}; print('escaped')"
    yield "x = []\nwhile True: x.append('x' * 1000000)"
    yield "x = 1 << (1 << 40); print('escaped')"
    yield "x = {}\nfor i in range(10**9): x[i] = str(i)\nprint('escaped')"
    yield "def f(): f()\nf()"
    yield "exec('(' * 100000)"
    yield (
        "import sys; sys.setrecursionlimit(10**9)\nclass A:\n  def __getattr__(self, x): return x\n"
        + ("def f(x): return f((x,))\nprint(hash(f(())))")
    )


def _output():
    yield "while True: print('x' * 1000)"
    yield "import sys\nwhile True: sys.stderr.write('x' * 1000)"
    yield "import os\nwhile True: os.write(1, b'x' * 60000)"
    yield "print('\\udcff' * 100000, flush=True)"
    yield "print('x' * 10**8)"


def _time():
    yield "while True: pass"
    yield "import time; time.sleep(10**6)"
    yield "import re; re.match('(a+)+b', 'a' * 60)"
    yield "10 ** 10 ** 9"
    yield "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass"
    yield "while True:\n  try:\n    while True: pass\n  except BaseException: pass"
    yield "import os; os.close(1); os.close(2)\nwhile True: pass"


PROGRAMS = {
    "files": tuple(_files()),
    "processes": tuple(_processes()),
    "memory": tuple(_memory()),
    "output": tuple(_output()),
    "time": tuple(_time()),
}
