"""JupyterLab's connection between page and kernel, without the wait that holds back small messages."""

from __future__ import annotations

from typing import Any

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection


class Channels(ZMQChannelsWebsocketConnection):
    """The server's own connection, which sends at once.

    Else a small message waits until the page has acknowledged the one before it, which takes a page 40 ms: an explorer
    would follow a drag that much later (Tornado, `WebSocketHandler.set_nodelay`).
    """

    def connect(self) -> Any:
        """Connect as ever, and have messages sent at once."""
        self.websocket_handler.set_nodelay(True)
        return super().connect()
