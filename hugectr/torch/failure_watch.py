# SPDX-License-Identifier: Apache-2.0
"""Processes that wait in NCCL for one that can not go on are told so.

Who waits for another GPU in a call of NCCL's, or for what such a call left on a stream, hears
nobody: neither the threads that send nor a script in ``item()`` or ``synchronize()``. A thread of
Python's looks every half second at the store by which torch.distributed was begun.
"""

from __future__ import annotations

import secrets
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

import torch.distributed as dist

from hugectr.base.threads import start_thread
from hugectr.processes.agreement import from_root
from hugectr.torch.torch_group import TorchGroup

#: Seconds between two looks.
_PAUSE = 0.5
#: Seconds that the last look may take when the program ends.
_LAST = 5.0
_KEY = "failed"


class FailureWatch:
    """Of a channel's processes. Collective.

    Parameters
    ----------
    group : TorchGroup
        What they agree by while the watch is made.
    heard : callable
        A bound method, which is called with the reason, once, on a thread, where another process
        can not go on. Its object may go before.
    """

    def __init__(self, group: TorchGroup, heard: Callable[[str], None]) -> None:
        number = from_root(group, lambda: secrets.randbits(62))
        store = dist.distributed_c10d._get_default_store()
        self._store = dist.PrefixStore(f"hugectr/{number}", store)
        self._stop = threading.Event()
        look = _Look(self._store, self._stop, weakref.WeakMethod(heard))
        thread = start_thread(look.run, name="hctr-hears", daemon=True)
        #: An interpreter that ends must not find it in a call of the store's.
        self.end = weakref.finalize(self, _end, self._stop, thread)

    def tell(self, reason: str) -> None:
        """Has the other processes hear why this one can not go on; itself hears nothing more."""
        self._stop.set()
        with suppress(RuntimeError):  # nobody is there to hear it
            self._store.set(_KEY, reason.encode())


class _Look:
    """What the thread has: not the watch, which would never go."""

    def __init__(
        self,
        store: dist.Store,
        stop: threading.Event,
        heard: weakref.WeakMethod[Callable[[str], None]],
    ) -> None:
        self._store, self._stop, self._heard = store, stop, heard

    def run(self) -> None:
        """Until somebody can not go on, the watch ends or the store is gone."""
        while not self._stop.wait(_PAUSE):
            try:
                if not self._store.check([_KEY]):
                    continue
                reason = self._store.get(_KEY).decode("utf-8", "replace")
            except RuntimeError:  # its process has ended, as calls of the others will find
                return
            heard = self._heard()
            if heard is not None and not self._stop.is_set():
                heard(reason)
            return


def _end(stop: threading.Event, thread: threading.Thread) -> None:
    stop.set()
    if thread is not threading.current_thread():
        thread.join(_LAST)
