"""What may lie between a client and a memory node on TCP: a proxy that can be cut, fall silent,
and pass bytes on as it likes.

	with Proxy("127.0.0.1", port) as p:
		p.name		tcp://127.0.0.1:PORT, for clients
		p.passes = 3	connections that are passed on from now on; later ones hear nothing
		p.pieces = f	f(data, to_node) gives what is sent in its place, piece by piece
		p.cut()		end all that stand

Everything that passed is kept: p.connections[i].sent, what the client of the i-th one said.
"""
import socket
import threading


class Connection:
    def __init__(self, proxy, client):
        self.proxy, self.client, self.node = proxy, client, None
        self.sent = bytearray()

    def reach_node(self):
        self.node = socket.create_connection(self.proxy.target)
        for end in (self.client, self.node):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pair in ((self.client, self.node), (self.node, self.client)):
            threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, sink):
        to_node = sink is self.node
        try:
            while data := source.recv(65536):
                if to_node:
                    self.sent += data
                for piece in self.proxy.pieces(data, to_node):
                    sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def close(self):
        for end in (self.client, self.node):
            if end:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended already
                end.close()


class Proxy:
    def __init__(self, host, port):
        self.target = (host, port)
        self.connections = []
        self.passes = None
        self.pieces = lambda data, to_node: (data,)
        self.silent = 0  # connections that are not passed on, ever
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.name = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.cut()

    def accept(self):
        while True:
            try:
                connection = Connection(self, self.listener.accept()[0])
            except OSError:
                return
            self.connections.append(connection)
            if self.passes == 0:
                self.silent += 1
                continue
            if self.passes:
                self.passes -= 1
            try:
                connection.reach_node()
            except OSError:
                connection.close()

    def cut(self):
        for connection in list(self.connections):
            connection.close()
