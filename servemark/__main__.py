"""`python -m servemark` is the command line."""

import signal


def main() -> None:
    """Run the command line; until it takes Ctrl-C itself, one ends the imports without a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # ignored: nohup, a shell's background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from servemark import cli, interrupts

    interrupts.end_in_time()
    cli.main()


if __name__ == "__main__":
    main()
