# SPDX-License-Identifier: Apache-2.0
"""A KeyboardInterrupt where a test wants it."""

import contextlib
import os
import signal
import sys
import threading


@contextlib.contextmanager
def interrupts_come():
    """Also where whoever began these tests had them ignore interrupts, as a shell does with `&`."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def interrupt_in(seconds):
    """SIGINT after a time; what is inside waits for longer."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    with interrupts_come():
        timer.start()
        try:
            yield
        finally:
            timer.join()


def interrupted_at_line(number, call, of="/hugectr/"):
    """Whether a call was interrupted before its so-manieth line in files with this in their path.

    False: it has ended by then.
    """
    left = number

    def trace(frame, event, argument):
        nonlocal left
        if of not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
