"""Records the datagrams that the switch of `network_lab` sends to a host, and plays them again, whole or damaged.

The host cannot tell them from those of its peers: they come over its cable, from their addresses.
"""

import ctypes
import os
import select
import socket
import threading

from network_lab import NAMESPACES, PORT

_EVERYTHING = 0x0003
_OUTGOING = 4
_CLONE_NEWNET = 0x40000000
_ETHERNET, _IP, _UDP = 14, 20, 8
HEADERS = _ETHERNET + _IP + _UDP
_FRAME_BYTES = 2048


def within(namespace, make):
    """What `make()` gives in that network namespace: a socket stays where it was made."""
    made = []

    def enter():
        handle = os.open(NAMESPACES / namespace, os.O_RDONLY)
        try:
            # Only this thread goes there, and it ends there.
            if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
            made.append(make())
        finally:
            os.close(handle)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return made[0]


class Tape:
    """What goes to one host. A context manager that records; `play` sends to the same host."""

    def __init__(self, switch, cable):
        self._sock = within(switch, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING)))
        self._sock.bind((cable, 0))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)
        self.frames = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_exception):
        self.stop()
        self._sock.close()

    def stop(self):
        """Record no more: what is played is not recorded again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def play(self, payload_of, frame):
        """Send a frame of the tape with another payload; the same for the same."""
        self._sock.send(with_payload(frame, payload_of(frame[HEADERS:])))

    def _record(self):
        while not self._stopping.is_set():
            if select.select([self._sock], [], [], 0.1)[0]:
                frame, (_, _, kind, *_) = self._sock.recvfrom(_FRAME_BYTES)
                if kind == _OUTGOING and _is_gossip(frame):
                    self.frames.append(frame)


def _is_gossip(frame):
    is_udp = frame[12:14] == b"\x08\x00" and frame[_ETHERNET] == 0x45 and frame[_ETHERNET + 9] == socket.IPPROTO_UDP
    return is_udp and frame[_ETHERNET + _IP + 2 : _ETHERNET + _IP + 4] == PORT.to_bytes(2, "big")


def with_payload(frame, payload):
    """The same datagram with other content, and without a checksum, as IPv4 allows: ours is in the payload."""
    ethernet, ip = frame[:_ETHERNET], bytearray(frame[_ETHERNET : _ETHERNET + _IP])
    ip[2:4] = (_IP + _UDP + len(payload)).to_bytes(2, "big")
    ip[10:12] = bytes(2)
    ip[10:12] = _checksum(ip).to_bytes(2, "big")
    ports = frame[_ETHERNET + _IP : _ETHERNET + _IP + 4]
    return ethernet + ip + ports + (_UDP + len(payload)).to_bytes(2, "big") + bytes(2) + payload


def _checksum(header):
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
