"""`python -m servemark` is the command line."""

import signal
import sys

from servemark.errors import ServemarkError, of_the_system, require_address_space


def main() -> None:
    """Run the command line; until it takes Ctrl-C itself, one ends the imports without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored: nohup, a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        require_address_space()
        from servemark import cli, interrupts
    except (ServemarkError, MemoryError, ImportError) as error:
        words = error if isinstance(error, ServemarkError) else of_the_system(error)
        if words is None:
            raise
        sys.stderr.write(f"servemark: {words}\n")
        sys.exit(int(words.exit_code))
    interrupts.end_in_time()
    cli.main()


if __name__ == "__main__":
    main()
