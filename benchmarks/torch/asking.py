# SPDX-License-Identifier: Apache-2.0
"""What a process of several asks owners for: the distinct keys of a batch, timed alone.

Plays one process of some, on one device, with the tables of DLRM. Prints a JSON line for keys of
some bits: median microseconds that the call takes on the host, and until the counts are there.

Run: python benchmarks/torch/asking.py [--device cuda] [--batch 65536] [--bits 20 64]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

import hugectr
from hugectr import _core
from hugectr.torch.table_memory import ListedKeys, memory_of


def main() -> None:
    """Times each number of bits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--tables", type=int, default=26)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--bits", type=int, nargs="+", default=[20, 64], help="of the keys")
    parser.add_argument("--calls", type=int, default=200)
    args = parser.parse_args()
    device = torch.device(args.device)
    rule = hugectr.CreateOptimizer(hugectr.Optimizer_t.SGD, hugectr.Update_t.Local).to_spec()
    core = _core.TableCollection(
        [
            {"name": f"t{t}", "embedding_vec_size": args.dim, "combiner": "sum", "opt_params": rule}
            for t in range(args.tables)
        ],
        device.type,
        seed=1,
    )
    sharing = _core.TableSharing(core, ["by_key"] * args.tables, 0, args.processes)
    offsets = torch.arange(args.batch + 1, dtype=torch.int32, device=device)
    for bits in args.bits:
        drawn = torch.rand(args.tables, args.batch, dtype=torch.float64, device=device)
        keys = (2**20 * drawn**6).long()  # many of few
        if bits > 20:
            keys <<= min(bits, 63) - 20
        batch = ListedKeys([(table, offsets) for table in keys])
        n = args.tables * args.batch
        distinct = torch.empty(n, dtype=torch.int64, device=device)
        room = torch.empty(sharing.room(n, 0), dtype=torch.int32, device=device)
        memory = batch.memory(), memory_of(distinct), memory_of(room)
        host, whole = [], []
        for _ in range(args.calls):
            if device.type == "cuda":
                torch.cuda.synchronize()
            begin = time.perf_counter()
            shared = sharing.ask(*memory, 0, False, batch)
            asked = time.perf_counter()
            sharing.count(shared)
            host.append(asked - begin)
            whole.append(time.perf_counter() - begin)
        found = {
            "bits": bits,
            "keys": n,
            "distinct": sum(shared.wanted),
            "host_us": round(1e6 * statistics.median(host[args.calls // 10 :]), 1),
            "counted_us": round(1e6 * statistics.median(whole[args.calls // 10 :]), 1),
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
