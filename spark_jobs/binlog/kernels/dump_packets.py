"""Packets of the replication protocol, converted to the bytes of a binlog file.

source/binlog_dump.py reads a connection in large pieces, which begin and end anywhere; this loop takes off what is not
the file's: packet heads, and events that the server makes up for the connection.

Put here: packets and the headers of their events. Not here: the connection, errors of the server.
"""

from typing import Any

import numpy as np

from spark_jobs.binlog.kernels.compile import Array, kernel
from spark_jobs.binlog.kernels.event_cells import HEADER, START_ENCRYPTION
from spark_jobs.binlog.kernels.intrinsics import copy_text, load8, load16, load32

# Cells of a dump's state (int64), kept from one piece to the next.
D_POSITION = 0  # file offset of the next byte that is kept
D_STOP = 1  # file offset to end at
D_BOUNDARY = 2  # file offset after the last whole event
D_PACKET = 3  # bytes of the packet under way that have not come yet
D_EVENT = 4  # the same of its event, which may continue in further packets
D_GOES_ON = 5  # whether the next packet continues the event
D_LEFT_OUT = 6  # whether the event under way is not the file's
D_SEQUENCE = 7  # number of the next packet, of one byte
D_FORMATS = 8  # format events so far: one begins every dump
D_EVENTS = 9  # whole events kept
D_BEHIND = 10  # bytes of the packet that was left behind, whole
D_CELLS = 11

# Why the loop over packets stopped.
(
    DUMP_MORE,  # more bytes have to come
    DUMP_FULL,  # the target is full
    DUMP_STOPPED,  # the offset to end at is reached
    # These leave the packet behind them, whole:
    DUMP_END,  # EOF: the server has no more
    DUMP_IDLE,  # a heartbeat: the server waits for something new
    DUMP_ROTATED,  # a made-up ROTATE names the file that comes now
    DUMP_FORMAT,  # the file's FORMAT_DESCRIPTION
    DUMP_REFUSED,  # an error packet
    # These stay before the packet:
    DUMP_SEQUENCE,  # its number is not the next one
    DUMP_HOLE,  # its event ends further on than the bytes so far lead to
    DUMP_AGAIN,  # its event ends before that: it was sent already
    DUMP_STRANGE,  # no packet, or no event, that can stand here
) = range(12)

LONGEST_PACKET = 0xFFFFFF  # one as long as this continues in the next
DUMP_PADDING = 32  # bytes after the source and the target that may be touched
_WHOLE = 1 << 16  # the longest packet of those that are looked at whole
_ARTIFICIAL = np.uint16(0x20)  # LOG_EVENT_ARTIFICIAL_F


@kernel
def _judge_event(header: int, event: int, position: int, formats: int) -> Any:  # noqa: PLR0911 - one a kind
    """Decision of the dump about an event, by its header: DUMP_MORE to keep it, -1 to leave it out, else why."""
    code = load8(header + 4)
    log_pos = np.int64(load32(header + 13))
    made_up = load16(header + 17) & _ARTIFICIAL != 0
    if code == np.uint8(15):
        return DUMP_FORMAT if formats == 0 else DUMP_STRANGE
    if code == np.uint8(27) or code == np.uint8(41):
        return DUMP_IDLE
    if code == np.uint8(4) and (made_up or load32(header) == 0):
        return DUMP_ROTATED
    if made_up:
        return -1
    if formats == 0:
        return DUMP_STRANGE
    if log_pos == 0:  # MariaDB: START_ENCRYPTION repeated for a later start; from 11.4 on, a transaction's events
        return -1 if code == START_ENCRYPTION else DUMP_MORE
    ahead = (log_pos - position - event) & 0xFFFFFFFF
    if ahead == 0:
        return DUMP_MORE
    return DUMP_HOLE if ahead < 0x80000000 else DUMP_AGAIN


@kernel
def unpack_dump(source: int, size: int, target: int, room: int, state: Array) -> Any:  # noqa: PLR0911 - one a reason
    """Copies the bytes of events that are the file's; returns (outcome, bytes taken, bytes written).

    source: ``size`` bytes as they came, with the first that was not taken before in front; target: ``room`` bytes.
    Behind both, DUMP_PADDING more may be touched. A format event is written where the dump begins with the file.
    """
    offset = 0
    out = 0
    while True:
        # Bytes of the packet that is open: copied, or skipped where its event is not of the file.
        if state[D_PACKET] > 0:
            count = min(state[D_PACKET], size - offset)
            if not state[D_LEFT_OUT]:
                count = min(count, room - out, state[D_STOP] - state[D_POSITION])
                if count > 0:
                    copy_text(target + out, source + offset, count)
                out += count
                state[D_POSITION] += count
            offset += count
            state[D_PACKET] -= count
            state[D_EVENT] -= count
            if not state[D_LEFT_OUT]:
                if state[D_EVENT] == 0:
                    state[D_BOUNDARY] = state[D_POSITION]
                    state[D_EVENTS] += 1
                if state[D_POSITION] == state[D_STOP]:
                    return DUMP_STOPPED, offset, out
            if state[D_PACKET] > 0:
                return DUMP_FULL if not state[D_LEFT_OUT] and out == room else DUMP_MORE, offset, out
        # A packet's header: three bytes of length, one of sequence. A packet of full length is followed by more of it.
        if size - offset < 4:
            return DUMP_MORE, offset, out
        packet = source + offset
        length = np.int64(load32(packet) & np.uint32(LONGEST_PACKET))
        in_sequence = np.int64(load8(packet + 3)) == state[D_SEQUENCE]
        goes_on = np.int64(length == LONGEST_PACKET)
        if state[D_GOES_ON]:
            if not in_sequence:
                return DUMP_SEQUENCE, offset, out
            if length > state[D_EVENT] or (not goes_on and length != state[D_EVENT]):
                return DUMP_STRANGE, offset, out
            outcome = DUMP_MORE
            offset += 4
        # The first packet of an event has a status byte: error, end of dump, or an event.
        else:
            if length == 0:
                return DUMP_STRANGE, offset, out
            if size - offset < 4 + length and size - offset < 5 + HEADER:
                return DUMP_MORE, offset, out
            status = load8(packet + 4)
            event = np.int64(0)
            if status == np.uint8(0xFF):
                outcome = DUMP_REFUSED
            elif not in_sequence:
                return DUMP_SEQUENCE, offset, out
            elif status == np.uint8(0xFE) and length < 9:
                outcome = DUMP_END
            elif status != np.uint8(0) or length <= HEADER:
                return DUMP_STRANGE, offset, out
            else:
                event = np.int64(load32(packet + 5 + 9))
                if event < length - 1 or (event > length - 1 and not goes_on):
                    return DUMP_STRANGE, offset, out
                outcome = _judge_event(packet + 5, event, state[D_POSITION], state[D_FORMATS])
            if outcome > DUMP_REFUSED:
                return outcome, offset, out
            # Events that Python has to look at are taken only when they are here as a whole.
            if outcome > DUMP_STOPPED:
                if length > _WHOLE:
                    return DUMP_STRANGE, offset, out
                if size - offset < 4 + length:
                    return DUMP_MORE, offset, out
                if outcome == DUMP_FORMAT:
                    count = min(event, state[D_STOP] - state[D_POSITION])
                    if state[D_POSITION] == 4:
                        if count > room - out:
                            return DUMP_FULL, offset, out
                        copy_text(target + out, packet + 5, count)
                        out += count
                        state[D_POSITION] += count
                        if count == event:
                            state[D_BOUNDARY] = state[D_POSITION]
                            state[D_EVENTS] += 1
                    state[D_FORMATS] = 1
                state[D_BEHIND] = length
                state[D_SEQUENCE] = (state[D_SEQUENCE] + 1) & 0xFF
                return outcome, offset + 4 + length, out
            state[D_EVENT] = event
            state[D_LEFT_OUT] = np.int64(outcome < 0)
            length -= 1
            offset += 5
        state[D_PACKET] = length
        state[D_GOES_ON] = goes_on
        state[D_SEQUENCE] = (state[D_SEQUENCE] + 1) & 0xFF
