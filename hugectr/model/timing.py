# SPDX-License-Identifier: Apache-2.0
"""Where the time of a step goes."""

from __future__ import annotations

from hugectr.base.arguments import check_int
from hugectr.model.graph import Graph
from hugectr.model.pipeline import merge


class Timing:
    """Tells the stages and ops of a model apart by their time."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._logged_stages: dict[str, float] = {}
        self._logged_metrics: dict[str, float] = {}

    def stage_seconds(self) -> dict[str, float]:
        """Seconds that the first device spent in each stage since the last call.

        On a GPU it is the GPU's time. ``idle`` lies between steps, ``plan`` runs beside the step,
        ``wait_for_plan`` is how long train() waited for it. On a GPU, and on several devices,
        tables are updated beside the dense network, and ``exchange_update`` holds what is left to
        wait for.
        """
        seconds = self._graph.session.stage_seconds()
        for name, logged in self._logged_stages.items():
            seconds[name] = seconds.get(name, 0.0) + logged
        self._logged_stages = {}
        return seconds

    def stage_seconds_to_log(self) -> dict[str, float]:
        """The same for a log line: what it returns still counts in the next stage_seconds()."""
        seconds = self._graph.session.stage_seconds()
        for name, value in seconds.items():
            self._logged_stages[name] = self._logged_stages.get(name, 0.0) + value
        return seconds

    def stage_seconds_so_far(self) -> dict[str, float]:
        """What stage_seconds() would return, which still counts there."""
        self.stage_seconds_to_log()
        return dict(self._logged_stages)

    def reader_metrics(self, train: bool = True) -> dict[str, float]:
        """Counters of the training or evaluation reader since the last call.

        Returns
        -------
        dict
            ``batches`` copied to the devices, ``acquired`` by steps, ``bad_samples``,
            ``rows_decoded`` (since the reader was made); ``seconds`` that passed; ``parse_seconds``
            and ``credit_seconds`` (waiting for a free chunk) summed over workers, ``ready_seconds``
            that the copy waited for a parsed chunk, ``acquire_seconds`` that steps waited for a
            batch; ``ready_depth`` and ``credit_depth``, the means of parsed and of free chunks, out
            of ``chunks``; ``ahead_depth``, that of batches waiting on the devices, out of
            ``slots``. Depths are taken whenever a batch leaves the queue.
        """
        metrics = self._graph.session.reader.metrics(train)
        if not train:
            return metrics
        earlier, self._logged_metrics = self._logged_metrics, {}
        return merge(earlier, metrics)

    def reader_metrics_to_log(self) -> dict[str, float]:
        """Those of the training reader since the last log line; they count in reader_metrics()."""
        metrics = self._graph.session.reader.metrics(True)
        self._logged_metrics = merge(self._logged_metrics, metrics)
        return metrics

    def reader_metrics_so_far(self) -> dict[str, float]:
        """What reader_metrics() would return, which still counts there."""
        self.reader_metrics_to_log()
        return dict(self._logged_metrics)

    def profile(self, steps: int = 1, alone: bool = True) -> list[dict[str, str | float]]:
        """Train ``steps`` batches and time every op of the first device.

        Parameters
        ----------
        steps : int
        alone : bool
            True plans the next batch after the step, so that each op has the device to itself (but
            for what several devices do beside the dense network); False lets all overlap, as in
            training.

        Returns
        -------
        list of dict
            ``stream`` ("compute", "plan", "move", "arrive", "exchange" or "staying"), ``layer``,
            ``op``, ``begin_ms`` since the call and ``ms``, in the order of each stream. The ops
            are launched one by one, so that the time of a short one may be that of its launch.
        """
        count = check_int("profile: steps", steps, 1)
        self._graph.session.set_profiling(True, alone)
        try:
            for _ in range(count):
                if not self._graph.session.train():
                    break
            times = self._graph.session.take_op_times()
        finally:
            self._graph.session.set_profiling(False)
        return [
            {
                "stream": stream,
                "layer": layer,
                "op": op,
                "begin_ms": 1e3 * begin,
                "ms": 1e3 * length,
            }
            for stream, layer, op, begin, length in times
        ]
