"""RAPL, the counters of CPU packages and DRAM (Linux kernel documentation, power/powercap)."""

from pathlib import Path

from servemark.telemetry.energy.meter import Boundary, Meter, UnavailableError

POWERCAP = Path("/sys/class/powercap")


def _read_number(path: Path) -> int:
    try:
        return int(path.read_text())
    except PermissionError as error:
        raise UnavailableError(f"{path} may be read by root only: sudo chmod a+r {path}") from error
    except (OSError, ValueError) as error:
        raise UnavailableError(f"{path}: {error}") from error


def rapl_meter(boundary: Boundary, powercap: Path = POWERCAP) -> Meter:
    """Meter the CPU packages or the DRAM of all sockets. Raises UnavailableError."""
    wanted = {"cpu_package": "package", "dram": "dram"}[boundary]
    zones = []
    # "intel-rapl:" is AMD's name too; "intel-rapl-mmio:" would count the same package twice.
    for zone in sorted(powercap.glob("intel-rapl:*")):
        try:
            if (zone / "name").read_text().strip().split("-")[0] == wanted:
                zones.append(zone)
        except OSError:
            continue
    if not zones:
        raise UnavailableError(
            f"no {wanted} zone in {powercap}: a virtual machine, a container without /sys, or a processor without RAPL"
        )
    ranges_j = [_read_number(zone / "max_energy_range_uj") / 1e6 for zone in zones]

    def read() -> tuple[float, ...]:
        return tuple(_read_number(zone / "energy_uj") / 1e6 for zone in zones)

    read()
    return Meter("rapl", boundary, read, ranges_j=ranges_j)
