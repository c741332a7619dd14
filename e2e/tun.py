"""A network device of the kernel on standard input and output.

Creates a TUN device in the network namespace it runs in, with the address and the MTU of its arguments. Packets pass in
both directions with their length before them (u16, big-endian). Ends when standard input ends.
"""

import fcntl
import os
import select
import struct
import subprocess
import sys

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
DEVICE = "tailnet0"


def main(address: str, mtu: str) -> None:
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for command in (
        ["link", "set", "lo", "up"],
        ["address", "add", address, "dev", DEVICE, "nodad"],
        ["link", "set", DEVICE, "mtu", mtu, "txqueuelen", "1000", "up"],
    ):
        subprocess.run(["ip", *command], check=True, stdin=subprocess.DEVNULL)
    print("ready", file=sys.stderr, flush=True)
    pending = b""
    while True:
        readable, _, _ = select.select([tun, 0], [], [])
        if tun in readable:
            packets = []
            try:
                while len(packets) < 256:
                    packet = os.read(tun, 65536)
                    packets.append(struct.pack(">H", len(packet)) + packet)
            except BlockingIOError:
                pass
            write_all(1, b"".join(packets))
        if 0 in readable:
            chunk = os.read(0, 1 << 20)
            if not chunk:
                return
            pending = write_packets(tun, pending + chunk)


def write_packets(tun: int, data: bytes) -> bytes:
    """Writes whole packets to the device and returns the rest."""
    at = 0
    while len(data) - at >= 2:
        (length,) = struct.unpack_from(">H", data, at)
        if len(data) - at - 2 < length:
            break
        try:
            os.write(tun, data[at + 2 : at + 2 + length])
        except OSError:
            pass  # the kernel does not take this packet
        at += 2 + length
    return data[at:]


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


main(*sys.argv[1:])
