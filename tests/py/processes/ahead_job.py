# SPDX-License-Identifier: Apache-2.0
"""A job whose process 1 hangs when it has answered process 0 but not process 2.

So process 0 has gone on to an exchange to which process 2 can not come.
"""

import time

from hugectr import processes

group = processes.current()
others = {0: [1, 2], 1: [], 2: [1]}[group.rank]
if not others:
    time.sleep(60)
pieces = [(rank, memoryview(b"x"), memoryview(bytearray(1))) for rank in others]
group.transfer(pieces, 2.0)
