"""Other load generators, to compare with: where each is found, how it is told a load, and what it reports."""

from loadgen.peers.h2load import H2load
from loadgen.peers.http_only import ApacheBench, Hey, Locust, Wrk
from loadgen.peers.peer import Peer, PeerFigures, PeerLoad
from loadgen.peers.perf_analyzer import PerfAnalyzer

__all__ = ["PEERS", "Peer", "PeerFigures", "PeerLoad"]

PEERS: dict[str, Peer] = {peer.name: peer for peer in (PerfAnalyzer(), Wrk(), H2load(), Hey(), ApacheBench(), Locust())}
