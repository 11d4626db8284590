"""Listen for connections of a server."""

import socket


def listen_on(host: str, port: int) -> socket.socket:
    """Return a socket that listens; what it accepts is sent at once.

    asyncio switches off Nagle's algorithm on sockets that are said to be of TCP alone. On others
    the body of an answer waits for the acknowledgement of its header: 40 ms.

    Parameters
    ----------
    host : str
    port : int
        0 picks a free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family)
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=bound.detach())
