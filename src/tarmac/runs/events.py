"""TensorBoard events, where tensorboard is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EventWriter"]


class EventWriter:
    """Writes scalars for TensorBoard, or nothing at all without tensorboard."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    @classmethod
    def open(cls, directory: Path, *, first_step: int) -> EventWriter:
        """Start an event file in ``directory``.

        Args:
            directory: Of the run.
            first_step: TensorBoard drops earlier files' points from this step on.
        """
        try:
            from tensorboard.compat.proto import event_pb2  # noqa: PLC0415 - optional
            from tensorboard.summary.writer.event_file_writer import (  # noqa: PLC0415
                EventFileWriter,
            )
        except ImportError:
            return cls(None)
        writer = EventFileWriter(str(directory))
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        writer.add_event(event_pb2.Event(step=first_step, session_log=start))
        return cls(writer)

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write one point."""
        if self._writer is None:
            return
        import time  # noqa: PLC0415 - beside the import that it serves

        from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415 - optional

        point = summary_pb2.Summary.Value(tag=tag, simple_value=value)
        summary = summary_pb2.Summary(value=[point])
        self._writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Write what is pending."""
        if self._writer is not None:
            self._writer.close()
