"""Whether the times of video packets can be the times of their pictures: packets go in, pictures come out, perhaps in
another order (B-frames). Positions stand for times: position 0 is the earliest frame of the stream.

Knows no codec and no file.
"""

from __future__ import annotations

from collections import deque

MAX_DELAY = 17  # packets: the 16 pictures that H.264 and H.265 let a decoder hold back, and one


class WrongOrderError(ValueError):
    """The stream has B-frames, and its times are in another order than its pictures."""

    def __init__(self) -> None:
        super().__init__(
            "the stream has B-frames (reordered pictures) and its times follow the order of decoding, so they are not "
            "the times of its pictures. Give each packet the presentation time of its picture, or encode without "
            "B-frames (x264, x265: bframes=0)"
        )


class PictureOrder:
    """The order in which packets were fed and in which their pictures came out.

    Two pictures that come out in the other order than they were fed are reordered. Then their times must follow the
    order in which they come out. Where nothing is reordered, a picture's packet has its time whatever the times are.
    """

    def __init__(self) -> None:
        self._fed: dict[int, int] = {}  # position: how manieth packet
        self._waiting: set[int] = set()
        self._shown = deque[int](maxlen=4 * MAX_DELAY)  # what lies farther back came out before this one was fed
        self._led = 0
        self.last_fed: int | None = None

    @property
    def fed_count(self) -> int:
        return len(self._fed)

    def fed(self, position: int, *, leading: bool = False) -> None:
        """A packet goes into the decoder. leading: it follows a key frame and is shown before it.

        Raises WrongOrderError.
        """
        if not leading:
            self._led = position
        elif position > self._led:
            raise WrongOrderError
        self._fed[position] = len(self._fed)
        self._waiting.add(position)
        self.last_fed = position

    def shown(self, position: int, *, between: bool) -> None:
        """A picture comes out. between: it is made from a picture after it, which must have been fed before it.

        Raises WrongOrderError.
        """
        self._waiting.discard(position)
        fed = self._fed[position]
        if any(self._fed[other] > fed and other > position for other in self._shown):
            raise WrongOrderError
        if between and not any(self._fed[other] < fed for other in self._waiting):
            raise WrongOrderError
        self._shown.append(position)

    def is_settled(self, position: int) -> bool:
        """True unless a packet that was fed before that of `position` and has an earlier time is yet to come out."""
        return not any(other < position and self._fed[other] < self._fed[position] for other in self._waiting)
