"""Connections that servers accept are sent at once."""

import asyncio
import socket

import pytest

from rankwise.core.sockets import listen_on


def test_answers_do_not_wait_for_acknowledgements():
    async def accepted(listener):
        found = asyncio.get_running_loop().create_future()
        server = await asyncio.start_server(
            lambda _, writer: found.set_result(writer), sock=listener
        )
        _, client = await asyncio.open_connection(*listener.getsockname()[:2])
        writer = await found
        option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        for end in (client, writer):
            end.close()
            await end.wait_closed()
        server.close()
        await server.wait_closed()
        return option

    with listen_on("127.0.0.1", 0) as listener:
        assert asyncio.run(accepted(listener)) != 0


def test_a_port_in_use_is_refused():
    with listen_on("127.0.0.1", 0) as listener, pytest.raises(OSError, match="address"):
        listen_on("127.0.0.1", listener.getsockname()[1])
